"""Derivatives of Cholesky factors without products of whole matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad

RNG = np.random.default_rng(0)
A = RNG.normal(size=(9, 6))
A = A.T @ A + np.eye(6)
B = RNG.normal(size=6)


def log_det(a: Any, b: Any) -> Any:
    return np.sum(np.log(np.diagonal(np.linalg.cholesky(a))))


def quadratic(a: Any, b: Any) -> Any:
    whitened = np.linalg.solve(np.tril(np.linalg.cholesky(a)), b)
    return -0.5 * whitened @ whitened


def likelihood(a: Any, b: Any) -> Any:
    return quadratic(a, b) - log_det(a, b) - quadratic(a, np.sin(b))


def several(a: Any, b: Any) -> Any:
    """Two right sides, whose outer products are added."""
    sides = np.stack([b, np.cos(b)], axis=1)
    return np.sum(np.linalg.solve(np.linalg.cholesky(a), sides) ** 2) + log_det(a, b)


def whole(a: Any, b: Any) -> Any:
    """The cotangent of the factor has no structure."""
    return log_det(a, b) + np.sum(np.sin(np.linalg.cholesky(a)))


def column(a: Any, b: Any) -> Any:
    return np.sum(np.linalg.cholesky(a)[:, 2] ** 2) + np.sum(np.linalg.cholesky(a) @ b)


def shifted(a: Any, b: Any) -> Any:
    """The cotangent of the factor is an outer product and a number or a row, which are broadcast."""
    factor, outer = np.linalg.cholesky(a), b[:, None] @ b[None, :]
    return np.sum(factor * (outer - np.sin(b[0]))) + np.sum(np.linalg.cholesky(2.0 * a) * (np.cos(b) + outer))


@pytest.mark.parametrize("f", [log_det, quadratic, likelihood, several, whole, column, shifted], ids=lambda f: f.__name__)
@pytest.mark.parametrize("transform", [functad.grad, functad.hessian], ids=["gradient", "hessian"])
def test_derivatives_agree(f: Callable[..., Any], transform: Any) -> None:
    expected = transform(f)(A, B)
    found = functad.jit(transform(f), backend="numpy")(A, B)
    assert np.allclose(found, expected, rtol=1e-11, atol=1e-13 * np.max(np.abs(expected)))


def products(f: Callable[..., Any], exact: bool = False) -> list[Any]:
    """Return the products of two square matrices."""
    own = functad.jit(functad.grad(f), backend="numpy", exact=exact).lower(A, B).expressions.after
    made = [e for e in own.equations if e.primitive.name == "matmul"]
    return [e for e in made if all(type(s) is int and own.specs[s].shape == (6, 6) for s in e.inputs)]


def test_no_whole_matrices_are_multiplied_where_structure_is_known() -> None:
    assert not products(likelihood)
    assert not products(several)
    assert products(likelihood, exact=True)
    assert products(whole)
