"""Triangular systems: the same solutions by BLAS, by SciPy's BLAS and by NumPy, and their derivatives."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import functad
from functad.primitives.linalg import lapack
from functad.primitives.linalg.solve import TRIANGULAR_SOLVE, solve_by_substitution

RNG = np.random.default_rng(0)


def system(n: int, columns: int, batch: tuple[int, ...], dtype: Any) -> tuple[Any, Any]:
    """Return matrices and right-hand sides."""
    a, b = RNG.normal(size=(*batch, n, n)) / n + 3 * np.eye(n), RNG.normal(size=(*batch, n, columns))
    if np.dtype(dtype).kind == "c":
        a, b = a + 0.1j * RNG.normal(size=a.shape), b + 1j * RNG.normal(size=b.shape)
    return a.astype(dtype), b.astype(dtype)


def expected(a: Any, b: Any, lower: bool) -> Any:
    """Return the solution by elimination."""
    return np.linalg.solve((np.tril if lower else np.triu)(a), b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128, np.int64])
@pytest.mark.parametrize("lower", [True, False])
def test_one_triangle_is_read(dtype: Any, lower: bool) -> None:
    for n, columns, batch in ((1, 1, ()), (3, 2, ()), (12, 5, (2,)), (4, 2, (3,)), (12, 12, (2, 3))):
        a, b = system(n, columns, batch, dtype)
        tolerance = 1e-4 if np.dtype(dtype).itemsize == (8 if np.dtype(dtype).kind == "c" else 4) else 1e-11
        for matrix in (a, np.ascontiguousarray(a.mT).mT, np.repeat(a, 2, -1)[..., ::2]):
            found = TRIANGULAR_SOLVE(matrix, b, lower=lower)
            assert found.dtype == expected(a, b, lower).dtype
            np.testing.assert_allclose(found, expected(a, b, lower), rtol=tolerance, atol=tolerance)


def test_stacks_broadcast() -> None:
    a, b = system(12, 2, (2, 1), np.float64)
    for matrices, sides in ((a, b[0, 0]), (a[0, 0], b), (a, np.stack([b[0, 0], b[1, 0]])), (a[0], b[0, 0])):
        np.testing.assert_allclose(TRIANGULAR_SOLVE(matrices, sides, lower=True), expected(matrices, sides, True))


SINGULAR = [np.zeros((2, 2)), np.zeros((12, 12)), np.stack([np.eye(12), np.zeros((12, 12))])]


@pytest.mark.parametrize("matrix", SINGULAR, ids=np.shape)
def test_a_zero_on_the_diagonal_raises(matrix: Any) -> None:
    def f(a: Any, b: Any) -> Any:
        return solve_by_substitution(a, b, lower=True)

    for solve in (f, functad.jit(f)):
        with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
            solve(matrix, np.ones((matrix.shape[-1], 1)))


@pytest.mark.parametrize("way", ["without BLAS", "by SciPy", "without SciPy"])
def test_other_libraries(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found: Any = None
    if way == "by SciPy":
        pytest.importorskip("scipy.linalg")
        found = lapack.of_scipy()
        if found is None:
            pytest.skip("this SciPy has integers of an unknown type")
    if way == "without SciPy":
        for name in ("scipy", "scipy.linalg"):
            monkeypatch.setitem(sys.modules, name, None)
        assert lapack.of_scipy() is None
    lapack.solver_of.cache_clear()
    monkeypatch.setattr(lapack, "routines", lambda: found)
    try:
        for dtype in (np.float64, np.complex128):
            a, b = system(12, 3, (2,), dtype)
            np.testing.assert_allclose(TRIANGULAR_SOLVE(a, b, lower=False), expected(a, b, False))
    finally:
        lapack.solver_of.cache_clear()


def test_factors_from_python() -> None:
    found = lapack.routines()
    if found is None:
        pytest.skip("NumPy's LAPACK is not found")
    for dtype in (np.float32, np.float64, np.complex64, np.complex128):
        a, b = system(12, 3, (2,), dtype)
        factors = lapack.lu_factor(a, integer=found.integer)
        tolerance = 1e-4 if np.finfo(dtype).bits == 32 else 1e-11
        for turned, matrix in ((False, a), (True, a.mT)):
            x = lapack.lu_solve(*factors, b, turned=turned)
            np.testing.assert_allclose(x, np.linalg.solve(matrix, b), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["cholesky", "qr"])
def test_derivatives_of_factors_use_no_lu_factors(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> Any:
        raise AssertionError("np.linalg.solve is called")

    def f(a: Any) -> Any:
        factor = np.linalg.cholesky(a @ a.T + np.eye(12)) if name == "cholesky" else np.linalg.qr(a).R
        return np.sum(np.sin(factor))

    a = system(12, 1, (), np.float64)[0]
    monkeypatch.setattr(np.linalg, "solve", refuse)
    slope = functad.grad(f)(a)
    change = (f(a + 1e-6 * slope) - f(a - 1e-6 * slope)) / 2e-6
    np.testing.assert_allclose(change, np.sum(slope**2), rtol=1e-6)
