"""Forms in which programs of others call NumPy and SciPy, which functad refused, or refuses with the line to write."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad.errors import ConversionError, FunctadError
from functad.testing import check_grads

X = np.array([1.5, 2.0, 4.0])


class Holder:
    """An object that NumPy converts by `__array__`, which returns the array that it holds, perhaps a Tensor."""

    def __init__(self, held):
        self.held = held

    def __array__(self, dtype=None, copy=None):
        return self.held


def agrees(f, x=X):
    """Compare a function in all modes, and compiled, with finite differences and with plain NumPy."""
    check_grads(f, [x])
    for found in (functad.vjp(f, x)[0], functad.jit(f)(x), functad.vmap(f)(np.stack([x, x]))[1]):
        np.testing.assert_allclose(found, f(x))


# Objects that hold Tensors

HOLDERS = {
    "asarray": lambda np, t: np.asarray(Holder(t)) ** 2,
    "array": lambda np, t: np.array(Holder(t), float) ** 2,
    "list": lambda np, t: np.array([Holder(t), Holder(2 * t)]) ** 2,
    "sum": lambda np, t: np.sum(Holder(t * t)),
    "ufunc": lambda np, t: np.exp(Holder(t)),
    "two": lambda np, t: np.multiply(Holder(t), Holder(t)),
    "dot": lambda np, t: np.dot(Holder(t), X),
    "stack": lambda np, t: np.stack([[Holder(t)], [Holder(t * t)]]),
    "linalg": lambda np, t: np.linalg.norm(Holder(t)),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_adopted_code_converts_objects_that_hold_tensors(name):
    agrees(lambda t: HOLDERS[name](functad.numpy, t))


def test_an_object_whose_method_returns_no_array_raises_the_error_of_numpy():
    for function in (functad.numpy.asarray, functad.numpy.sum, functad.numpy.exp):
        with pytest.raises(ValueError, match="__array__ method not producing an array"):
            function(Holder("text"))


def test_other_code_says_that_an_object_holds_a_tensor():
    for f in (lambda t: np.sum(np.asarray(Holder(t))), lambda t: np.sum(Holder(t))):
        with pytest.raises(ConversionError, match=r"__array__ .*functad\.adopt"):
            functad.grad(f)(X)


# Arrays of Python objects beside constants

OBJECTS = {
    "append": lambda np, a: np.append(a, np.full(1, None)),
    "concatenate": lambda np, a: np.concatenate([a, np.array(["a", None], object)]),
    "where": lambda np, a: np.where([True, False], a, np.array([None, "b"], object)),
    "multiply": lambda np, a: a * np.array([2, 3], object),
    "radd": lambda np, a: np.array([2, 3], object) + a,
    "maximum": lambda np, a: np.maximum(a, np.array([2, 3], object)),
    "outer": lambda np, a: np.outer(a, np.array([2, 3], object)),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_constants_of_adopted_code_meet_arrays_of_objects(name):
    a = np.array([1.0, 2.0])
    expected = OBJECTS[name](np, a)

    def f(t):
        found = OBJECTS[name](functad.numpy, functad.numpy.array(a))
        np.testing.assert_array_equal(np.asarray(found), expected)
        return np.sum(t)

    np.testing.assert_array_equal(functad.grad(f)(X), np.ones(3))
    np.testing.assert_array_equal(functad.jit(functad.grad(f))(X), np.ones(3))


def test_tensors_that_depend_on_inputs_meet_no_arrays_of_objects():
    for f in OBJECTS.values():

        def written(t, f=f):
            a = functad.numpy.zeros(2)
            a[0] = t[0]
            return f(functad.numpy, a)[0]

        with pytest.raises(ConversionError, match="Python objects"):
            functad.grad(written)(X)


# What has no derivative in this form: the error names one that has


def of_text(t):
    return np.sum(np.array(eval(str([t[0], t[1]]))))


REFUSED = {
    "product": (lambda t: np.sum(np.ones((2, 3)) @ [t, t]), r"A @ np\.stack\(\[t0, t1\]\)", "Or let NumPy"),
    "difference": (lambda t: np.sum(np.ones((4, 3)) - (t[0], t[1], 0)), r"np\.stack\(\[t0, t1\]\) for it", "Or let"),
    "broadcast": (lambda t: np.broadcast(t, np.ones((2, 1))).shape[0] * t[0], r"np\.broadcast_shapes", None),
    "text": (of_text, r"list\(t\)", None),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_error_names_the_form_that_works(name):
    f, fix, absent = REFUSED[name]
    for transform in (functad.grad, functad.jit, lambda f: functad.jvp(f, (X,), (X,)), functad.vmap):
        with pytest.raises(FunctadError, match=fix) as caught:
            transform(f)(np.stack([X, X]) if transform is functad.vmap else X)
        assert absent is None or absent not in str(caught.value)
        assert "test_forms_of_others.py" in str(caught.value)


def test_the_forms_that_the_errors_name_work():
    agrees(lambda t: np.sum((np.ones((2, 3)) @ np.stack([t, t * t]).T) ** 2))
    agrees(lambda t: np.broadcast_shapes(t.shape, (2, 1))[0] * t[0])
    agrees(lambda t: sum(a * b for a, b in zip(*[a.ravel() for a in np.broadcast_arrays(t, np.ones((2, 1)))], strict=True)))


def test_a_name_error_of_the_program_itself_stays():
    with pytest.raises(NameError):
        functad.grad(lambda t: Tensor + t)(1.0)  # noqa: F821
    with pytest.raises(NameError):
        functad.grad(lambda t: t * eval("missing"))(1.0)


def test_routines_of_lapack_name_the_function_that_has_a_rule():
    lapack = pytest.importorskip("scipy.linalg.lapack")
    with pytest.raises(ConversionError, match=r"dgtsv is compiled .*functad\.scipy\.linalg\.solve_banded") as caught:
        functad.grad(lambda t: np.sum(lapack.dgtsv(t[:2], t + 4.0, t[:2], np.ones(3))[3]))(X)
    assert "functad.adopt" not in str(caught.value)
    with pytest.raises(ConversionError, match=r"dlange is compiled .*Use operators"):
        functad.grad(lambda t: lapack.dlange("F", t[:, None]))(X)


# Arrays that a caller passes


def add_flux(target, t):
    target += -0.1 * t


def test_an_array_that_a_caller_passes_is_not_written_into():
    plain = np.ones(3)

    def f(t, target):
        add_flux(target, t)
        return np.sum(target**2)

    for transform in (functad.grad, functad.value_and_grad):
        with pytest.raises(ConversionError, match=r"`target \+= -0\.1 \* t`.*a = a \+ t"):
            transform(f)(X, plain)
    np.testing.assert_array_equal(plain, np.ones(3))
    adopted = functad.adopt(f)
    adopted.__globals__["add_flux"] = functad.adopt(add_flux)
    with pytest.raises(ConversionError, match=r"np\.zeros\(shape, like=t\)"):
        functad.grad(adopted)(X, plain)


def test_arguments_and_arrays_that_take_tensors_are_written_into():
    def f(t, target):
        add_flux(target, t)
        return np.sum(target**2)

    plain = np.ones(3)
    expected = -0.2 * (1 - 0.1 * X)
    np.testing.assert_allclose(functad.grad(f, argnums=(0, 1))(X, plain)[0], expected)
    np.testing.assert_allclose(functad.jit(functad.grad(f))(X, plain), expected)
    np.testing.assert_array_equal(plain, np.ones(3))
    agrees(lambda t: f(t, np.ones(3) + np.zeros_like(t)))
    agrees(lambda t: f(t, np.ones(3) + functad.numpy.zeros(3)))
