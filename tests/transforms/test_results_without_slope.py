"""Functions that return integers or truth values have no derivative: to ask for one raises, unless zeros are asked for."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad.errors import NonScalarError, OutputError

X = np.array([1.0, 2.0])
NUMBERS = {
    "argmax": np.argmax,
    "truth value": lambda x: np.allclose(x, 1.0),
    "Python's integer": lambda x: 3,
    "Python's truth value": lambda x: True,
    "cast": lambda x: np.sum(x).astype(int),
    "unsigned": lambda x: np.uint8(3),
}
ARRAYS = {
    "comparison": lambda x: x > 1,
    "order": np.argsort,
    "constant": lambda x: np.arange(2),
    "cast": lambda x: x.astype(int),
}


@pytest.mark.parametrize("f", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize(
    "derivative",
    [
        functad.grad,
        functad.value_and_grad,
        functad.hessian,
        functad.value_grad_and_hessian,
        functad.hessian_diagonal,
        functad.laplacian,
        functad.sparse_hessian,
        lambda f: lambda x: functad.hvp(f, (x,), (x,)),
        lambda f: functad.grad(lambda x: functad.grad(f)(x)[0]),
    ],
)
def test_gradients_of_what_jumps_raise(derivative, f):
    with pytest.raises(NonScalarError, match=r"one real number, .* returned (bool|u?int\d*)\[\].*functad\.explain") as caught:
        derivative(f)(X)
    assert __file__ in str(caught.value)


@pytest.mark.parametrize("f", ARRAYS.values(), ids=ARRAYS)
@pytest.mark.parametrize(
    "derivative",
    [
        functad.jacobian,
        functad.jacfwd,
        functad.jacrev,
        functad.value_and_jacobian,
        functad.elementwise_grad,
        functad.divergence,
        functad.sparse_jacobian,
    ],
)
def test_jacobians_of_what_jumps_raise(derivative, f):
    with pytest.raises(OutputError, match=r"result is (bool|int64)\[2\]\. Integers and booleans") as caught:
        derivative(f)(X)
    assert __file__ in str(caught.value)


def test_place_in_a_tree_is_named():
    with pytest.raises(OutputError, match=r"result\['places'\] is int64\[2\]"):
        functad.jacobian(lambda x: {"sorted": np.sort(x), "places": np.argsort(x)})(X)


@pytest.mark.parametrize("f", NUMBERS.values(), ids=NUMBERS)
def test_allow_int_gives_zeros(f):
    assert functad.grad(f, allow_int=True)(X).tolist() == [0.0, 0.0]
    value, gradient = functad.value_and_grad(f, allow_int=True)(X)
    assert (value, gradient.tolist()) == (f(X), [0.0, 0.0])
    for derivative in (functad.jacobian, functad.jacfwd, functad.jacrev):
        assert derivative(f, allow_int=True)(X).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("f", [NUMBERS["argmax"], NUMBERS["cast"], ARRAYS["comparison"]])
def test_explain_and_products_take_them(f):
    assert "zero, cut by" in str(functad.explain(f, X))
    value, pullback = functad.vjp(f, X)
    assert pullback(value)[0].tolist() == [0.0, 0.0]
    assert np.all(functad.jvp(f, (X,), (X,))[1] == 0)
    with functad.GradientTape() as tape:
        x = functad.constant(X)
        tape.watch(x)
        y = f(x)
    if isinstance(y, functad.Tensor):
        assert tape.gradient(y, x) is None
