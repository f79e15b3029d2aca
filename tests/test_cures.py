"""Cures that messages name: what they say to write is executed, and gives what the refused call would."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import special

import functad
from functad.errors import AbstractValueError, ConversionError
from tests.differences import numerical_jacobian


def coerced(np: Any, math: Any, x: Any) -> dict[str, Any]:
    """Return functions that make plain values of Tensors, as a module with `np` and `math` has them."""

    def assigned(t: Any) -> Any:
        out = np.zeros(2)
        out[0] = t[1] * t[0]
        return out.sum()

    def filled(t: Any) -> Any:
        return np.full(3, t[0]).sum()

    return {
        "np.array": lambda t: np.array([t[0] * t[1], t[1]]).sum(),
        "np.asarray": lambda t: (np.asarray(t) ** 2).sum(),
        "assignment": assigned,
        "np.full": filled,
        "dot of a plain array": lambda t: np.ones((2, 2)).dot(t).sum(),
        "math.sin": lambda t: math.sin(t[0]) + math.sqrt(t[1]),
    }


X = np.array([0.7, 1.3])


@pytest.mark.parametrize("name", coerced(np, math, X))
def test_refused_coercions_name_adoption_and_it_cures_them(name):
    with pytest.raises(ConversionError, match=r"test_cures.py.*functad\.adopt"):
        functad.grad(coerced(np, math, X)[name])(X)
    plain, cured = coerced(np, math, X)[name], coerced(functad.numpy, functad.math, X)[name]
    expected = numerical_jacobian(plain, X)
    assert np.allclose(functad.grad(cured)(X), expected)


def test_functad_scipy_is_named_once():
    for f in (lambda t: special.polygamma(1, t), lambda t: special.multigammaln(t, 2), lambda t: special.comb(t, 2)):
        with pytest.raises(ConversionError, match=r"functad\.scipy\.special\.\w+, which takes Tensors\. \[conversion\]"):
            functad.grad(lambda t, f=f: np.sum(f(t)))(X)


def test_rounding_to_a_number_is_refused():
    roundings = {"floor": lambda t: math.floor(t[1]), "ceil": lambda t: math.ceil(t[1]), "trunc": lambda t: math.trunc(t[1])}
    for name, f in roundings.items():
        with pytest.raises(ConversionError, match=rf"Use np\.{name}\(t\), whose derivative is zero"):
            functad.grad(f)(X)


def test_what_no_numpy_cures_does_not_name_it():
    for f in (lambda t: math.gamma(t[0]), lambda t: np.vectorize(math.sin)(t).sum(), lambda t: special.logsumexp(t)):
        with pytest.raises(ConversionError) as caught:
            functad.grad(f)(X)
        assert "functad.numpy" not in str(caught.value)


def test_cures_for_what_depends_on_values_within_vmap():
    a = np.array([[[2.0, 1.0], [0.0, 3.0]], [[1.0, 4.0], [1.0, 5.0]]])
    if np.linalg.eigvals(a).dtype.kind == "f":  # from NumPy 2.5 on they are complex, whatever the values are
        with pytest.raises(AbstractValueError, match=r"a\.astype\(complex\)"):
            functad.vmap(np.linalg.eigvals)(a)
    assert np.allclose(functad.vmap(lambda a: np.linalg.eigvals(a.astype(complex)))(a), np.linalg.eigvals(a))
    p = np.array([[1.0, -3.0, 2.0], [1.0, 0.0, -4.0]])
    with pytest.raises(AbstractValueError, match=r"np\.convolve\(a, b\)"):
        functad.vmap(np.polymul)(p, p)
    assert np.allclose(functad.vmap(np.convolve)(p, p), [np.polymul(v, v) for v in p])
    with pytest.raises(AbstractValueError, match=r"what np\.roots gives depends on values.*one by one") as caught:
        functad.vmap(np.roots)(p)
    assert "np.where" not in str(caught.value)


@pytest.mark.parametrize("transform", [functad.grad, functad.jit, lambda f: lambda x: functad.vmap(f)(x[None])])
def test_methods_of_ufuncs_that_are_given_a_list_name_stack(transform):
    """NumPy converts the list before it looks for Tensors."""
    x = np.array([1.0, -2.0])
    calls = {
        "reduce": (lambda x: np.sum(np.add.reduce([x, x])), lambda x: np.sum(np.add.reduce(np.stack([x, x])))),
        "accumulate": (lambda x: np.sum(np.add.accumulate([x, x])), lambda x: np.sum(np.add.accumulate(np.stack([x, x])))),
        "reduceat": (lambda x: np.sum(np.add.reduceat([x, x], [0])), lambda x: np.sum(np.add.reduceat(np.stack([x, x]), [0]))),
    }
    for method, (given, cured) in calls.items():
        with pytest.raises(functad.errors.FunctadError, match=rf"np\.add\.{method}\(np\.stack\(\[t0, t1\]\)"):
            transform(given)(x)
        transform(cured)(x)


def test_a_reduction_of_masks_in_a_list_names_stack_under_jit():
    x = np.array([1.0, -2.0])
    with pytest.raises(functad.errors.AbstractValueError, match=r"Use np\.stack for the list"):
        functad.jit(lambda x: np.logical_or.reduce([x > 0, x < -3]), guards=False)(x)
    assert functad.jit(lambda x: np.logical_or.reduce(np.stack([x > 0, x < -3])))(x).tolist() == [True, False]
