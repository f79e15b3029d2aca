"""`check=True` of sparse derivatives finds what is wrong, and takes roundings and tolerances of solvers for what they are."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad.errors import SparsityError

X = np.linspace(0.5, 1.5, 6)
MIX = np.random.default_rng(0).normal(size=(6, 6))
BACK = np.linalg.inv(MIX)
COUPLED = -2.0 * np.eye(6) + np.eye(6, k=1) + np.eye(6, k=-1)


def solved(x):
    return functad.odeint(lambda y, t: COUPLED @ y - y**3, x, np.array([0.0, 0.1, 0.5]))[-1]


ROUGH = {
    "a solver within": solved,
    "a diagonal that cancels": lambda x: x * 0.1 + x * 0.2 - x * 0.3,
    "one entry that cancels": lambda x: np.stack([x[0] * (0.1 + 0.2) - x[0] * 0.3, x[1] * 1.0]),
    "all that cancel": lambda x: BACK @ (MIX @ x) - x,
    "nearly the identity": lambda x: BACK @ (MIX @ x),
}


@pytest.mark.parametrize("mode", ["column", "row"])
@pytest.mark.parametrize("f", ROUGH.values(), ids=ROUGH)
def test_roundings_are_no_error(f, mode):
    found = functad.sparse_jacobian(f, mode=mode, check=True)(X)
    assert np.allclose(found.toarray(), functad.jacobian(f)(X), rtol=1e-6, atol=1e-13)


@pytest.mark.parametrize("f", [lambda x: np.sum((BACK @ (MIX @ x)) ** 2) - np.sum(x**2), lambda x: np.sum(solved(x))])
def test_roundings_of_second_derivatives_are_no_error(f):
    functad.sparse_hessian(f, check=True)(X)


@pytest.mark.parametrize("mode", ["column", "row"])
@pytest.mark.parametrize("size", [1.0, 1e-6])
def test_small_entry_that_lacks_is_found_beside_a_solver(mode, size):
    pattern = functad.jacobian_sparsity(lambda x: x, X)
    for f in (lambda x: np.sin(x) + size * np.roll(x, 1), lambda x: solved(x) + size * np.roll(x, 1)):
        with pytest.raises(SparsityError, match="no place for"):
            functad.sparse_jacobian(f, sparsity=pattern, mode=mode, check=True)(X)
