"""Small matrices in native code: what LAPACK gives, its errors, and no call of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad

pytest.importorskip("llvmlite")


def matrices(n: int, batch: tuple[int, ...], dtype: Any) -> tuple[Any, Any, Any]:
    """Return matrices, positive definite ones, and right sides."""
    rng = np.random.default_rng(n)
    a = rng.normal(size=(*batch, n, n)).astype(dtype)
    return a, (a @ a.mT + np.eye(n)).astype(dtype), rng.normal(size=(n, 2)).astype(dtype)


FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "solve": lambda a, s, b: np.linalg.solve(a, b) + np.linalg.solve(s.mT, b),
    "inv": lambda a, s, b: np.linalg.inv(s),
    "det": lambda a, s, b: np.linalg.det(a),
    "slogdet": lambda a, s, b: tuple(np.linalg.slogdet(a)),
    "cholesky": lambda a, s, b: np.linalg.cholesky(s),
    "substitution": lambda a, s, b: np.linalg.solve(np.linalg.cholesky(s), b),
}


def largest_error(found: Any, expected: Any) -> float:
    """Return the largest relative difference, of results with the same dtypes and shapes."""
    errors = []
    for x, y in zip(functad.tree_leaves(found), functad.tree_leaves(expected), strict=True):
        assert (x.dtype, x.shape, type(x)) == (y.dtype, y.shape, type(y))
        errors.append(float(np.max(np.abs(x - y)) / np.max(np.abs(y))))
    return max(errors)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_small_matrices_are_written_out(name: str) -> None:
    f = FUNCTIONS[name]
    for n, batch, dtype in ((1, (), np.float64), (3, (4,), np.float64), (2, (2, 3), np.float32), (5, (2,), np.float64)):
        given = matrices(n, batch, dtype)
        compiled = functad.jit(f, backend="llvm")
        assert largest_error(compiled(*given), f(*given)) < (1e-11 if dtype is np.float64 else 1e-3)
        assert "np.linalg" not in compiled.lower(*given).source()


def test_gradients_of_a_density_for_many_covariances_are_one_native_function() -> None:
    def density(mean: Any, a: Any, x: Any) -> Any:
        covariance, d = a @ a.T + np.eye(3), x - mean
        return -0.5 * d @ np.linalg.solve(covariance, d) - 0.5 * np.linalg.slogdet(covariance)[1]

    def by_factor(mean: Any, a: Any, x: Any) -> Any:
        factor = np.linalg.cholesky(a @ a.T + np.eye(3))
        z = np.linalg.solve(factor, x - mean)
        return -0.5 * z @ z - np.sum(np.log(np.diagonal(factor)))

    rng = np.random.default_rng(0)
    given = rng.normal(size=(6, 3)), rng.normal(size=(6, 3, 3)), rng.normal(size=(6, 3))
    each = [functad.vmap(functad.value_and_grad(f, argnums=(0, 1))) for f in (density, by_factor)]
    compiled = [functad.jit(f, backend="llvm") for f in each]
    expected = each[0](*given)
    for f in compiled:
        assert largest_error(f(*given), expected) < 1e-12
        assert "np.linalg" not in f.lower(*given).source()
        assert "native_2" not in f.lower(*given).source()


@pytest.mark.parametrize("f", [np.linalg.det, lambda a: np.linalg.slogdet(a)[1], lambda a: np.sum(np.sin(np.linalg.inv(a)))])
def test_second_derivatives(f: Any) -> None:
    a = matrices(3, (), np.float64)[0]
    assert largest_error(functad.jit(functad.hessian(f), backend="llvm")(a), functad.hessian(f)(a)) < 1e-10


ODD = [[[1.0, 1.0], [3.0, 3.0]], [[0.0, 0.0], [0.0, 0.0]], [[np.nan, 1.0], [1.0, 2.0]], [[-1.0, 0.0], [0.0, 1e-20]],
       [[1e-200, 0.0], [0.0, 1e-200]]]  # fmt: skip


@pytest.mark.parametrize("matrix", ODD, ids=str)
def test_odd_matrices_give_what_numpy_gives(matrix: list[list[float]]) -> None:
    def outcome(f: Callable[[Any], Any]) -> str:
        try:
            with np.errstate(all="ignore"):
                return repr(f(np.array(matrix)))
        except np.linalg.LinAlgError as error:
            return str(error)

    for f in (lambda a: np.linalg.solve(a, a[:, :1] + 1), np.linalg.inv, np.linalg.det, np.linalg.cholesky,
              lambda a: tuple(np.linalg.slogdet(a)), functad.grad(np.linalg.det)):  # fmt: skip
        assert outcome(functad.jit(f, backend="llvm")) == outcome(f)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_an_exact_zero_wins_where_native_code_refuses_a_matrix(backend: str) -> None:
    """The inverse of an infinite pivot is left to NumPy. Its result, zero, wins over the infinite argument."""

    def logarithm(x: Any) -> Any:
        return np.linalg.slogdet(np.reshape(x * x, (1, 1)))[1]

    x = np.array([np.inf])
    with np.errstate(all="ignore"):
        expected = functad.grad(lambda x: np.sum(logarithm(x)))(x)
        found = functad.jit(functad.grad(lambda x: np.sum(logarithm(x))), backend=backend)(x)
    assert expected == found == 0
