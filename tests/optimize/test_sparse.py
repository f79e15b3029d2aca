"""Sparse Jacobians and Hessians on their way to SciPy."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from scipy import optimize as scipy_optimize
from scipy import sparse as scipy_sparse

import functad
from functad.optimize import least_squares, minimize

N = 30
START = {"u": np.full(N - 1, -1.0), "v": -1.0}


def residuals(p):
    """Broyden's tridiagonal function: More, Garbow and Hillstrom (1981), number 30, shifted to have zeros."""
    x = np.concatenate([p["u"], np.stack([p["v"]])])
    left, right = np.concatenate([[0.0], x[:-1]]), np.concatenate([x[1:], [0.0]])
    return (3.0 - 2.0 * x) * x - left - 2.0 * right + 1.0


def cost(p):
    return 0.5 * np.sum(residuals(p) ** 2)


@pytest.fixture
def asked(monkeypatch):
    """What is asked of the sparse transforms: which, and with what pattern."""
    calls = []

    def watch(module, name):
        own = getattr(importlib.import_module("functad.sparse.derivatives"), f"{name}_function")

        def transform(selection, sparsity=None):
            calls.append((name, sparsity))
            return own(selection, sparsity=sparsity)

        monkeypatch.setattr(importlib.import_module(f"functad.optimize.{module}"), f"{name}_function", transform)

    watch("least_squares", "sparse_jacobian")
    watch("minimize", "sparse_hessian")
    return calls


PATTERN = scipy_sparse.diags_array([1.0] * 3, offsets=[-1, 0, 1], shape=(N, N))


@pytest.mark.parametrize("sparse", [True, PATTERN], ids=["found", "given"])
@pytest.mark.parametrize("method", ["trf", "dogbox"])
def test_least_squares(asked, sparse, method):
    result = least_squares(residuals, START, method=method, sparse=sparse)
    assert scipy_sparse.issparse(result.jac)
    assert result.cost < 1e-16
    assert asked == [("sparse_jacobian", None if sparse is True else PATTERN)]


@pytest.mark.parametrize("method", ["Newton-CG", "trust-constr"])
def test_minimize(asked, method):
    result = minimize(cost, START, method=method, sparse=True)
    assert result.fun < 1e-8
    assert asked == [("sparse_hessian", None)]


def test_with_functads_own():
    result = least_squares(residuals, START, sparse=True)
    assert scipy_sparse.issparse(result.jac)
    assert result.jac.nnz <= 3 * N
    assert result.cost < 1e-16
    assert minimize(cost, START, method="trust-constr", sparse=True).fun < 1e-8
    flat, unravel = functad.ravel(START)
    reference = scipy_optimize.least_squares(lambda x: residuals(unravel(x)), flat)
    np.testing.assert_allclose(functad.ravel(result.x)[0], reference.x, atol=1e-6)
