"""Matrices in native code: the results and errors of LAPACK, and no call of NumPy."""

from __future__ import annotations

import threading
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


LARGE: dict[str, Callable[..., Any]] = {
    **FUNCTIONS,
    "inverse of the transpose": lambda a, s, b: np.linalg.inv(a.mT) @ np.linalg.solve(a, b),
    "gradient of det": functad.grad(lambda a, s, b: np.sum(np.linalg.det(a))),
    "gradient of slogdet": functad.grad(lambda a, s, b: np.sum(np.linalg.slogdet(a)[1])),
    "gradient of cholesky": functad.grad(lambda a, s, b: np.sum(np.sin(np.linalg.cholesky(s))), argnums=1),
    "gradient of inv": functad.grad(lambda a, s, b: np.sum(np.sin(np.linalg.inv(s))), argnums=1),
    "gradients of solve": functad.value_and_grad(lambda a, s, b: np.sum(np.sin(np.linalg.solve(a, b))), argnums=(0, 2)),
    "second derivatives": lambda a, s, b: functad.hessian(lambda x: np.sum(np.linalg.solve(s + x[0] * s @ s, b) ** 2))(
        s[0, :1]
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_matrices_are_one_native_function(name: str) -> None:
    f = LARGE[name]
    for n, batch, dtype in ((9, (), np.float64), (12, (3,), np.float64), (20, (), np.float32), (10, (2, 2), np.float64)):
        if name == "second derivatives" and batch:
            continue
        given = matrices(n, batch, dtype)
        compiled = functad.jit(f, backend="llvm")
        assert largest_error(compiled(*given), f(*given)) < (1e-9 if dtype is np.float64 else 3e-3)
        source = compiled.lower(*given).source()
        assert "np.linalg" not in source
        assert "native_2" not in source


def test_a_matrix_is_factorised_once() -> None:
    def density(a: Any, b: Any) -> Any:
        return np.sum(np.linalg.solve(a, b) * b) + np.linalg.slogdet(a)[1] + np.sum(np.linalg.inv(a.T))

    a, _, b = matrices(30, (), np.float64)
    compiled = functad.jit(functad.value_and_grad(density, argnums=(0, 1)), backend="llvm")
    loops = compiled.lower(a, b).dump("loops")
    assert loops.count("dgetrf(") == 1
    assert loops.count("dgetrs(") == 4
    a, _, b = matrices(130, (), np.float64)
    source = functad.jit(functad.value_and_grad(density), backend="numpy").lower(a, b).source()
    assert source.count("= lu_factor(") == 1


def test_systems_with_triangular_matrices_are_solved_by_substitution() -> None:
    def f(a: Any, s: Any, b: Any) -> Any:
        factor = np.linalg.cholesky(s)
        x = np.linalg.solve(factor.mT, np.linalg.solve(factor, b))
        return x + np.linalg.solve(np.tril(s), b) + np.linalg.solve(np.triu(s), b) + np.linalg.solve(np.linalg.qr(s).R, b)

    for batch in ((), (2, 3)):
        given = matrices(12, batch, np.float64)
        compiled = functad.jit(f, backend="llvm")
        assert largest_error(compiled(*given), f(*given)) < 1e-10
        loops = compiled.lower(*given).dump("loops")
        assert "dgetrf" not in loops
        assert loops.count("dtrsm(") == 5


def large_matrices() -> dict[str, Any]:
    """Return matrices of 12 rows that are singular, not definite, not finite, not contiguous, or badly scaled."""
    a, s, _ = matrices(12, (), np.float64)
    zeros, nan, infinite = a.copy(), s.copy(), a.copy()
    zeros[:, 3], nan[5, 5], infinite[1, 1] = 0.0, np.nan, np.inf
    return {
        "a column of zeros": zeros, "ones": np.ones((12, 12)), "negative": -s, "semidefinite": a[:, :4] @ a[:, :4].T,
        "nan": nan, "infinite": infinite, "tiny": 1e-170 * s, "huge": 1e40 * s, "columns": np.asfortranarray(s),
        "reversed": s[::-1, ::-1], "strided": np.repeat(s, 2, 0)[::2],
    }  # fmt: skip


@pytest.mark.parametrize("name", large_matrices())
@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_odd_large_matrices_give_what_numpy_gives(name: str, backend: str) -> None:
    def outcome(f: Callable[[Any], Any]) -> Any:
        try:
            with np.errstate(all="ignore"):
                return f(large_matrices()[name])
        except (np.linalg.LinAlgError, functad.errors.DegenerateError) as error:
            return str(error).split(", at ")[0]

    for f in (lambda a: np.linalg.solve(a, a[:, :2] + 1), np.linalg.inv, np.linalg.det, np.linalg.cholesky,
              lambda a: tuple(np.linalg.slogdet(a)), functad.grad(np.linalg.det),
              functad.grad(lambda a: np.linalg.slogdet(a)[1]), functad.grad(lambda a: np.sum(np.linalg.cholesky(a))),
              lambda a: (np.linalg.inv(a), np.ones(3))[1]):  # fmt: skip
        found, expected = outcome(functad.jit(f, backend=backend)), outcome(f)
        if isinstance(expected, str):
            assert found == expected
        else:
            for x, y in zip(functad.tree_leaves(found), functad.tree_leaves(expected), strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-12 * np.max(np.abs(y), initial=0, where=np.isfinite(y)))


@pytest.mark.parametrize("shape", [(0, 0), (0, 12, 12), (3, 0, 0)], ids=str)
def test_empty_matrices(shape: tuple[int, ...]) -> None:
    a = np.zeros(shape)
    for f in (lambda a: np.linalg.solve(a, a), np.linalg.inv, np.linalg.det, np.linalg.cholesky):
        found, expected = functad.jit(f, backend="llvm")(a), f(a)
        assert found.shape == expected.shape
        assert np.all(found == expected)


def test_several_threads_factorise() -> None:
    f = functad.jit(functad.value_and_grad(lambda a, b: np.sum(np.linalg.solve(a, b) ** 2) + np.linalg.slogdet(a)[1]))
    given = [(matrices(20 + i % 2, (), np.float64)[1] + i, np.ones((20 + i % 2, 2))) for i in range(4)]
    expected, wrong = [f(*each) for each in given], []

    def work(i: int) -> None:
        for _ in range(20):
            value, slope = f(*given[i])
            if value != expected[i][0] or not np.array_equal(slope, expected[i][1]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


@pytest.mark.parametrize("name", ["solve", "cholesky", "substitution", "slogdet"])
def test_without_lapack(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("systems", "triangles", "expand"):
        monkeypatch.setattr(f"functad.backends.native.{module}.routines", lambda: None)
    given = matrices(11, (2,), np.float64)
    f = FUNCTIONS[name]
    assert largest_error(functad.jit(lambda *given: f(*given), backend="llvm")(*given), f(*given)) < 1e-10
