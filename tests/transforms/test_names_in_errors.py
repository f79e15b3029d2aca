"""Errors name the transform that was called, whatever it is made of, and never one that it uses inside."""

import re

import numpy as np
import pytest

import functad
from functad import optimize
from functad.errors import ConstantError, EscapedTensorError, InputError, NonScalarError, OutputError, StructureError
from functad.testing import check_grads

X = np.array([0.5, 1.5, -1.0])


def applied(name):
    """Return how a transform that returns a function is called."""
    return lambda f, x, **options: getattr(functad, name)(f, **options)(x)


def along(name):
    """Return how a transform that takes a direction is called."""
    return lambda f, x, **options: getattr(functad, name)(f, (x,), (np.ones_like(x),), **options)


SCALAR = {
    **{name: applied(name) for name in ("grad", "hessian", "hessian_diagonal", "laplacian", "sparse_hessian")},
    **{name: applied(name) for name in ("value_and_grad", "value_grad_and_hessian")},
    "hvp": along("hvp"),
}
VECTOR = {
    **{name: applied(name) for name in ("divergence", "elementwise_grad", "jacfwd", "jacobian", "jacrev", "sparse_jacobian")},
    "value_and_jacobian": applied("value_and_jacobian"),
    "gauss_newton_product": along("gauss_newton_product"),
    "jvp": along("jvp"),
    "linearize": lambda f, x, **options: functad.linearize(f, x, **options)[1](np.ones_like(x)),
    "taylor": lambda f, x, **options: functad.taylor(f, (x,), ([np.ones_like(x)],), **options),
    "vjp": lambda f, x, **options: functad.vjp(f, x, **options)[1](x),
}
ONE_NUMBER = {"deriv": lambda f, x, **options: functad.deriv(f, 2, **options)(x if np.ndim(x) == 0 else x[0])}
EVERY = {**SCALAR, **VECTOR, **ONE_NUMBER}
OTHERS = {"vmap", "make_expressions", "eval_shape", "checkpoint", "linear_transpose", "jacobian_sparsity", "hessian_sparsity"}
SUBJECT = re.compile(rf"\b({'|'.join(sorted({*EVERY, *OTHERS}, key=len, reverse=True))})(?= of \S+(?: with|,)| needs | with )")


def result_for(name):
    """Return a function with a result that a transform takes."""
    return (lambda x: np.sum(x**2)) if name in SCALAR else (lambda x: x**2 * 1.0)


def named(f):
    f.__name__ = f.__qualname__ = "users_function"
    return f


def refused(name, error, f, x=X, **options):
    """Return the message with which a transform refuses; it must name the transform, and no other."""
    with pytest.raises(error) as caught:
        EVERY[name](named(f), x, **options)
    message = str(caught.value)
    assert set(SUBJECT.findall(message)) == {name}, message
    return message


def test_the_pattern_sees_names():
    assert SUBJECT.findall("grad of f, called at a.py:1: args[0] is int. Use jacobian or vjp.") == ["grad"]
    assert SUBJECT.findall("value_and_grad needs a function; jacobian of f with has_aux=True") == ["value_and_grad", "jacobian"]


@pytest.mark.parametrize("name", EVERY)
def test_arguments_that_cannot_be_differentiated(name):
    message = refused(name, InputError, result_for(name), np.arange(3))
    assert "users_function" in message or "pattern" in message
    assert "int" in message or "no array of real floats" in message
    # A cure that is offered can be taken.
    assert ("allow_int=True" in message) == (
        name in ("grad", "value_and_grad", "jacobian", "jacfwd", "jacrev", "value_and_jacobian")
    )


@pytest.mark.parametrize("name", [name for name in EVERY if EVERY[name].__code__ is applied("").__code__])
def test_arguments_that_are_not_there(name):
    with pytest.raises(InputError, match=rf"^{name} of users_function should differentiate argument 0"):
        getattr(functad, name)(named(result_for(name)))()
    with pytest.raises(InputError, match=rf"^{name} of users_function should differentiate argument 'y'"):
        getattr(functad, name)(named(result_for(name)), argnames="y")(X)


@pytest.mark.parametrize("name", SCALAR)
@pytest.mark.parametrize(
    "f", [lambda x: x * 2.0, lambda x: [x.sum()], lambda x: np.sum(x) * 1j], ids=["array", "list", "complex"]
)
def test_results_that_are_not_one_number(name, f):
    error = InputError if name == "sparse_hessian" and f(X) is complex else NonScalarError
    assert "users_function" in refused(name, error, f)


@pytest.mark.parametrize("name", [*VECTOR, *ONE_NUMBER])
def test_results_that_are_no_arrays(name):
    assert "users_function" in refused(name, (OutputError, InputError), lambda x: "text")


@pytest.mark.parametrize("name", EVERY)
def test_results_that_are_no_pairs(name):
    message = refused(name, OutputError, result_for(name), has_aux=True)
    assert "users_function with has_aux=True" in message


@pytest.mark.parametrize("name", EVERY)
def test_tensors_that_escape(name):
    kept = []

    def f(x):
        kept.append(x)
        return np.sum(x**2) if name in SCALAR else x**2 * 1.0

    EVERY[name](named(f), X)
    with pytest.raises(EscapedTensorError) as caught:
        np.sin(kept[-1])
    assert f"escaped from {name} of users_function" in str(caught.value)


UNHURT = {"deriv", "gauss_newton_product", "linearize", "sparse_hessian", "sparse_jacobian", "taylor", "vjp"}
"""They keep copies of constants, or compute all that reads them at once, or have run the function for its pattern before."""


@pytest.mark.parametrize("name", sorted(EVERY.keys() - UNHURT))
def test_constants_that_are_overwritten(name):
    scale = np.linspace(0.0, 1.0, 100_000)
    view = scale[:]

    def f(x):
        out = np.sum(scale * x[0])
        view[:] = 0.0
        return out + (np.sum(x**2) if name in SCALAR else x**2)

    assert "was overwritten" in refused(name, ConstantError, f)


@pytest.mark.parametrize("name", ["hvp", "gauss_newton_product", "jvp"])
def test_directions(name):
    transform, f = getattr(functad, name), named(result_for(name))
    with pytest.raises(InputError, match=rf"^{name} of users_function, called at .*write {name}\(f, \(x,\), \(t,\)\)"):
        transform(f, X, X)
    with pytest.raises(StructureError, match=rf"^{name} of users_function, called at .*1 primals but 2 tangents"):
        transform(f, (X,), (X, X))


def test_losses_of_a_gauss_newton_product():
    with pytest.raises(NonScalarError, match=r"^gauss_newton_product needs a function that returns one number, but .*loss"):
        functad.gauss_newton_product(lambda x: x**2, (X,), (X,), loss=named_loss)


def named_loss(r):
    return r * 2.0


@pytest.mark.parametrize("name", ["hessian", "jacobian", "jacfwd", "jacrev", "value_and_jacobian", "value_grad_and_hessian"])
@pytest.mark.parametrize("size", [0, -1, 2.0])
def test_options_of_jacobians(name, size):
    with pytest.raises(InputError, match=rf"^{name} of \S+, at .*chunk_size is {size}; it must be an integer, at least 1"):
        getattr(functad, name)(np.sum, chunk_size=size)


@pytest.mark.parametrize("name", ["hessian_diagonal", "laplacian", "divergence", "vmap"])
def test_options_of_what_goes_in_chunks(name):
    with pytest.raises(InputError, match=rf"^{name} of \S+, at .*chunk_size is 0; it must be an integer, at least 1"):
        getattr(functad, name)(np.sum, chunk_size=0)


@pytest.mark.parametrize("n", [-1, 1.5])
def test_orders_are_integers(n):
    with pytest.raises(InputError, match=rf"^deriv of \S+, at .*the order is {n}; it must be an integer, and not negative"):
        functad.deriv(np.sin, n)
    with pytest.raises(InputError, match=rf"^taylor of \S+, called at .*the order is {n}; it must be an integer, at least 1"):
        functad.taylor(np.sin, (0.0,), ([1.0],), order=n)


CHOOSING = [*[name for name in EVERY if EVERY[name].__code__ is applied("").__code__], "deriv"]


def product(x, y):
    return x * np.sum(y)


@pytest.mark.parametrize("name", CHOOSING)
@pytest.mark.parametrize("wrong", [1.5, "x", (0, "x"), None], ids=repr)
def test_positions_that_are_none(name, wrong):
    with pytest.raises(InputError, match=rf"^{name} of product, at .*argnums is .*it is the position of an argument"):
        getattr(functad, name)(product, argnums=wrong)


@pytest.mark.parametrize("name", CHOOSING)
@pytest.mark.parametrize("wrong", [1, ("x", 0)], ids=repr)
def test_names_that_are_none(name, wrong):
    with pytest.raises(InputError, match=rf"^{name} of product, at .*argnames is .*it is the name of an argument"):
        getattr(functad, name)(product, argnames=wrong)


@pytest.mark.parametrize("name", [name for name in CHOOSING if name != "deriv"])
def test_arguments_selected_twice(name):
    """One of the two would have all of the derivative, and the other zero."""
    transform = getattr(functad, name)
    for options in ({"argnums": (0, 0)}, {"argnums": (1, 0, 1)}, {"argnames": ["y", "y"]}):
        with pytest.raises(InputError, match=rf"^{name} of product, at .*argument .* is selected twice"):
            transform(product, **options)
    for options in ({"argnums": (0, -2)}, {"argnums": (1,), "argnames": "y"}):
        with pytest.raises(InputError, match=rf"^{name} of product, at .*argument .* is selected twice"):
            transform(product, **options)(1.0, 2.0)


def test_positions_that_numpy_counted():
    for argnums in (np.int64(1), np.array([1])[0], np.arange(1, 2)):
        found = functad.grad(product, argnums=argnums)(3.0, 2.0)
        assert found == (3.0 if np.ndim(argnums) == 0 else (3.0,))


def test_transforms_of_users_keep_their_names():
    """What the user nests is named as the user wrote it: the inner transform where it refuses."""

    def f(x):
        return functad.grad(named(lambda y: y * 1.0))(x)

    with pytest.raises(NonScalarError, match=r"^grad needs a function that returns one number, but users_function"):
        functad.hessian(lambda x: np.sum(f(x)))(X)


def test_patterns_and_transposes():
    with pytest.raises(InputError, match=r"^jacobian_sparsity of users_function"):
        functad.jacobian_sparsity(named(lambda x: x), np.arange(3))
    with pytest.raises(NonScalarError, match=r"^hessian_sparsity needs a function"):
        functad.hessian_sparsity(named(lambda x: x), X)
    with pytest.raises(InputError, match=r"^linear_transpose of users_function"):
        functad.linear_transpose(named(lambda x: x), "text")


def test_objectives_of_argmin():
    solver = functad.argmin(named(lambda x, p: (x - p) ** 2))(lambda x, p: p)
    with pytest.raises(NonScalarError, match=r"^argmin needs a function that returns one number, but users_function"):
        functad.grad(lambda p: np.sum(solver(X, p)))(X)


def test_optimisers():
    """Whatever runs inside, an escaped Tensor belongs to what the user called."""
    for name, call in {
        "minimize": lambda f: optimize.minimize(lambda x: np.sum(f(x) ** 2), X),
        "least_squares": lambda f: optimize.least_squares(f, X),
        "root": lambda f: optimize.root(f, X),
        "root_scalar": lambda f: optimize.root_scalar(f, x0=1.0, method="newton"),
        "scipy_bundle": lambda f: optimize.scipy_bundle(lambda x: np.sum(f(x)), X).hess(X),
    }.items():
        kept = []

        def f(x, kept=kept):
            if isinstance(x, functad.Tensor):
                kept.append(x)
            return x - 0.25

        call(f)
        for tensor in kept:
            with pytest.raises(EscapedTensorError, match=rf"escaped from {name} of "):
                np.sin(tensor)


def test_implicit_functions_equations_and_checks():
    """What the user's function is given inside belongs to what the user called too."""
    kept = []

    def followed(x):
        kept.extend(part for part in (x,) if isinstance(part, functad.Tensor))
        return x

    def residual(x, p):
        return followed(x) ** 2 - p

    solver = functad.custom_root(residual)(lambda x, p: np.sqrt(p))
    calls = {
        "custom_root": lambda: functad.grad(lambda p: np.sum(solver(np.ones(2), p)))(np.array([2.0, 3.0])),
        "odeint": lambda: functad.grad(
            lambda k: functad.odeint(named(lambda y, t, k: -k * followed(y)), np.ones(1), np.linspace(0, 1, 3), k)[-1, 0]
        )(1.0),
        "check_grads": lambda: check_grads(named(lambda x: followed(x) ** 2), [X]),
    }
    for name, call in calls.items():
        kept.clear()
        call()
        assert kept
        for tensor in kept:
            with pytest.raises(EscapedTensorError, match=rf"escaped from {name} of (\S+\.)?(users_function|residual),"):
                np.sin(tensor)
