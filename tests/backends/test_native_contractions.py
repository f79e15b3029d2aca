"""Products that sum over axes, as native code computes them: `matmul` and its relatives, `einsum`, and their gradients."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad

pytest.importorskip("llvmlite")

Shapes = tuple[tuple[int, ...], tuple[int, ...]]

PAIRS: list[Shapes] = [
    ((3,), (3,)),
    ((2000,), (2000,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((40, 30), (30,)),
    ((30,), (30, 40)),
    ((2, 3), (3, 4)),
    ((1, 3), (3, 9)),
    ((9, 1), (1, 9)),
    ((7, 100), (100, 5)),
    ((100, 7), (7, 100)),
    ((37, 3), (3, 3)),
    ((11, 70), (70, 13)),
    ((33, 40), (40, 37)),
    ((5, 6, 7), (7, 8)),
    ((5, 6, 7), (5, 7, 8)),
    ((5, 1, 6, 7), (3, 7, 8)),
    ((2, 30, 31), (2, 31, 32)),
    ((20, 3, 3), (20, 3, 3)),
    ((7,), (5, 7, 3)),
    ((5, 7, 3), (3,)),
]


def arrays(dtype: Any, *shapes: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    """Return arrays of normal random numbers."""
    rng = np.random.default_rng(sum(map(len, shapes)))
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


def check(f: Callable[..., Any], *args: Any, native: bool = True) -> None:
    """Compare a compiled function with the function, and see that NumPy computes no product in it."""
    compiled = functad.jit(f, backend="llvm")
    found, expected = compiled(*args), f(*args)
    for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (found, expected)], strict=True):
        assert np.shape(a) == np.shape(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        size = np.max(np.abs(b), initial=0.0)
        eps = np.finfo(b.dtype).eps if b.dtype.kind == "f" else 0.0
        np.testing.assert_allclose(a, b, rtol=100 * eps, atol=100 * eps * size)
    if native:
        source = compiled.lower(*args).source()
        assert not re.search("= np[.](matmul|dot|einsum|vecdot)|= .* @ |compute[(]", source), source


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shapes", PAIRS, ids=str)
def test_matmul_and_its_gradient(shapes: Shapes, dtype: Any) -> None:
    def value_and_gradients(a: Any, b: Any) -> tuple[Any, ...]:
        out, (da, db) = functad.value_and_grad(lambda a, b: 0.5 * np.sum((a @ b) ** 2), (0, 1))(a, b)
        return out, da, db, np.matmul(a, b)

    check(value_and_gradients, *arrays(dtype, *shapes))


@pytest.mark.parametrize("shapes", [((3, 2), (4, 3)), ((60, 30), (50, 60)), ((2, 40, 20), (2, 30, 40))], ids=str)
def test_transposed_and_computed_operands(shapes: Shapes) -> None:
    a, b = arrays(np.float64, *shapes)
    check(lambda a, b: a.mT @ b.mT, a, b)
    check(lambda a, b: (a * a).mT @ np.exp(b).mT, a, b)
    check(lambda a, b: a.mT[..., ::2, :] @ b.mT[..., 1:], a, b)
    check(lambda a, b: a.mT @ np.broadcast_to(b.mT[..., :1], (*b.shape[:-2], b.shape[-1], 9)), a, b)


def test_arrays_with_gaps() -> None:
    a, b = arrays(np.float64, (20, 60), (60, 100))
    check(np.matmul, a[:, ::2], b[1::2, ::3])
    check(np.matmul, a.T[::2], b.T[::2, :20].T)
    check(np.matmul, a[::-1], b[:, ::-1])


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,kj->", ((3, 4), (3, 4))),
        ("ij,jk->ki", ((30, 40), (40, 50))),
        ("ii,ij->j", ((12, 12), (12, 13))),
        ("bi,bj->bij", ((30, 4), (30, 5))),
        ("abc,cb->a", ((4, 5, 6), (6, 5))),
        ("ab,cd->acbd", ((3, 4), (5, 6))),
        ("abij,abjk->aibk", ((2, 3, 20, 30), (2, 3, 30, 25))),
        ("abij,ckij->abck", ((4, 9, 5, 6), (7, 3, 5, 6))),
        ("zijk,zjl->kl", ((2, 5, 6, 40), (2, 6, 40))),
        ("bi,jb->ij", ((3000, 3), (4, 3000))),
    ],
)
def test_einsum(subscripts: str, shapes: Shapes) -> None:
    check(lambda a, b: np.einsum(subscripts, a, b), *arrays(np.float64, *shapes))


def test_relatives_of_matmul() -> None:
    a, b, c, d = arrays(np.float64, (4, 5), (3, 5, 6), (40,), (30,))
    check(np.dot, a, b)
    check(lambda a: np.dot(a, a[0, 0]), a)
    check(np.inner, a, a)
    check(np.outer, c, d)
    check(np.vdot, c, c)
    check(lambda a, b: np.tensordot(a, b, ([1], [1])), a, b)
    check(np.vecdot, a, a)
    check(np.kron, a, b[0])
    check(np.trace, a @ a.T, native=False)


@pytest.mark.parametrize("shapes", [((3,), (3,)), ((30, 3), (3,)), ((4, 1, 3), (5, 3)), ((3,), (50, 3))], ids=str)
def test_cross(shapes: Shapes) -> None:
    a, b = arrays(np.float64, *shapes)
    check(np.cross, a, b)
    check(lambda a, b: functad.grad(lambda a, b: np.sum(np.cross(np.tanh(a), b) ** 2), (0, 1))(a, b), a, b)
    check(np.cross, np.arange(12).reshape(4, 3), np.arange(12, dtype=np.int32).reshape(4, 3))


@pytest.mark.parametrize("axis", [None, 0, (0, 1)])
def test_norm(axis: Any) -> None:
    a = arrays(np.float32, (40, 30))[0]
    check(lambda a: (np.linalg.vector_norm(a, axis=axis), np.linalg.vector_norm(a, axis=axis, keepdims=True)), a)


@pytest.mark.parametrize("subscripts", ["ij->ji", "ij->j", "ii->i", "ii->", "iji->j", "iji->ij", "abc->ca", "abc->b"])
def test_einsum_of_one(subscripts: str) -> None:
    sizes = {"i": 5, "j": 9, "a": 4, "b": 6, "c": 7}
    a = arrays(np.float64, tuple(sizes[letter] for letter in subscripts.partition("->")[0]))[0]
    check(lambda a: (np.einsum(subscripts, a), np.einsum(subscripts, np.exp(a))), a)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk,kl,l->i", ((14, 15), (15, 16), (16, 17), (17,))),
        ("i,j,k->ijk", ((4,), (5,), (6,))),
        ("ii,ij,j->i", ((5, 5), (5, 6), (6,))),
        ("i,i,i->", ((4,), (4,), (4,))),
        ("bij,bjk,bkl->bil", ((2, 3, 4), (2, 4, 5), (2, 5, 6))),
    ],
)
def test_einsum_of_several(subscripts: str, shapes: Any) -> None:
    check(lambda *operands: np.einsum(subscripts, *operands), *arrays(np.float64, *shapes))


def test_whole_numbers_and_mixed_types() -> None:
    whole = np.arange(12).reshape(3, 4)
    check(np.matmul, whole, whole.reshape(4, 3).astype(np.int32))
    check(np.matmul, whole.astype(np.int32), whole.reshape(4, 3).astype(np.int32))
    check(np.matmul, np.arange(900).reshape(30, 30), np.arange(900).reshape(30, 30))
    check(np.matmul, whole, arrays(np.float32, (4, 9))[0])
    check(np.matmul, whole > 3, whole.reshape(4, 3) > 5, native=False)


def test_products_of_float16() -> None:
    """NumPy sums products of float16 in float32: a product beyond float16 may cancel, and products below it add up."""
    large = np.tile(np.array([300.0, -300.0], np.float16), 40)
    small = np.full(100, 1e-4, np.float16)
    check(lambda a, b: (a @ b, np.einsum("i,i->", a, b), np.tile(a, (5, 1)) @ b), large, np.abs(large), native=False)
    check(lambda a: np.einsum("i,i,i->", a, a, 1.0 / a), np.full(9, 300.0, np.float16), native=False)
    check(np.linalg.norm, small, native=False)


def test_infinities_and_nan_spread_as_in_numpy() -> None:
    a, b = arrays(np.float64, (6, 5), (5, 9))
    a[1, 2], a[3, 0], b[4, 4] = np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        expected = a @ b
    np.testing.assert_array_equal(np.isnan(functad.jit(np.matmul, backend="llvm")(a, b)), np.isnan(expected))


def test_products_in_a_loop_stay_native() -> None:
    """A recurrent network in a scan, where a product is computed in each step."""
    w, h, x = arrays(np.float32, (20, 20), (30, 20), (5, 30, 20))

    def last(w: Any, h: Any, x: Any) -> Any:
        return functad.scan(lambda h, x: (np.tanh(h @ w + x), None), h, x)[0]

    check(lambda w, h, x: functad.grad(lambda w: np.sum(last(w, h, x)))(w), w, h, x, native=False)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "columns"), [(3, 1), (5, 4), (40, 7)])
def test_systems_with_cholesky_factors(n: int, columns: int, dtype: Any) -> None:
    """They are solved by substitution, without looking for zeros on the diagonal."""
    x, b = arrays(dtype, (n, n), (n, columns))
    a = (x @ x.T + n * np.eye(n)).astype(dtype)

    def solved(a: Any, b: Any) -> tuple[Any, ...]:
        factor = np.linalg.cholesky(a)
        return np.linalg.solve(np.tril(factor), b), np.linalg.solve(factor.T, np.sin(b))

    def gradients(a: Any, b: Any) -> Any:
        return functad.grad(lambda a, b: np.sum(np.sin(solved(a, b)[0])), (0, 1))(a, b)

    for f in (solved, gradients):
        check(f, a, b)
        assert "linalg.solve" not in functad.jit(f, backend="llvm").lower(a, b).source()


def test_stacks_of_systems() -> None:
    x, b = arrays(np.float64, (4, 5, 5), (4, 5, 3))
    a = x @ x.mT + 5 * np.eye(5)
    check(lambda a, b: np.linalg.solve(np.linalg.cholesky(a), b), a, b)
    check(lambda a, b: np.linalg.solve(np.linalg.cholesky(a).mT, b), a, b[0])
    check(lambda a, b: np.linalg.solve(np.linalg.cholesky(a), b), a[0], b)


def test_other_singular_systems_raise() -> None:
    with pytest.raises(np.linalg.LinAlgError):
        functad.jit(lambda a, b: np.linalg.solve(np.tril(a), b), backend="llvm")(np.zeros((3, 3)), np.ones((3, 1)))


@pytest.mark.parametrize("k", [-1, 0, 2])
def test_triangles(k: int) -> None:
    a = arrays(np.float64, (2, 4, 5))[0]
    a[0, 0, 4], a[1, 3, 0] = np.nan, np.inf
    compiled = functad.jit(lambda a: (np.tril(a, k), np.triu(a, k)), backend="llvm")
    np.testing.assert_array_equal(compiled(a), (np.tril(a, k), np.triu(a, k)))
    np.testing.assert_array_equal(compiled(a[:, :2, :2]), (np.tril(a[:, :2, :2], k), np.triu(a[:, :2, :2], k)))
    whole = np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(compiled(whole), (np.tril(whole, k), np.triu(whole, k)))


@pytest.mark.parametrize("columns", [(3, 4), (10, 11)])
def test_windows_have_axes_of_equal_strides(columns: tuple[int, int]) -> None:
    def f(x: Any, y: Any) -> Any:
        windows = [np.lib.stride_tricks.sliding_window_view(a, 3, axis=0) for a in (x, y)]
        return np.einsum("irj,icj->rc", *windows), np.einsum("irj,jc->rc", windows[0], y[:3])

    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(5, n)) for n in columns)
    for found, expected in zip(functad.jit(f, backend="llvm")(x, y), f(x, y), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
