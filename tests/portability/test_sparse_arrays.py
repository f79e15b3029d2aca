"""Arrays of the package `sparse` as constants and inputs: they follow the protocols of NumPy, and refuse to become dense."""

import numpy as np
import pytest

import functad

sparse = pytest.importorskip("sparse", reason="sparse is not in the extra `test`: it brings Numba")

RNG = np.random.default_rng(0)
W = RNG.normal(size=3)
DENSE = RNG.normal(size=(6, 3)) * (RNG.random((6, 3)) > 0.5)
X = sparse.COO.from_numpy(DENSE)

LOSSES = {
    "product": lambda w, X: np.sum(np.tanh(w @ X.T)),
    "elementwise": lambda w, X: np.sum((X * w) ** 2),
    "reflected": lambda w, X: np.sum((w * X) ** 3),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("argnum", [0, 1])
def test_gradients_by_parameters_and_by_entries(name, argnum):
    found = functad.grad(LOSSES[name], argnum)(W, X)
    expected = functad.grad(LOSSES[name], argnum)(W, DENSE)
    np.testing.assert_allclose(found.todense() if hasattr(found, "todense") else found, expected, rtol=1e-12)


def test_a_constant_on_the_left_is_named_with_the_cure():
    with pytest.raises(functad.errors.ConversionError, match=r"array of sparse.*functad\.constant\(X\) @ t"):
        functad.grad(lambda w: np.sum(X @ w))(W)
    found = functad.grad(lambda w: np.sum((functad.constant(X) @ w) ** 2))(W)
    np.testing.assert_allclose(found, functad.grad(lambda w: np.sum((DENSE @ w) ** 2))(W), rtol=1e-12)
