"""Batching rules with integers and booleans that differ from example to example, which the generated checks leave alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import LoopWarning

R = np.random.default_rng(0)
SIZE = 4
VECTORS, MATRICES = R.normal(size=(SIZE, 3)), R.normal(size=(SIZE, 2, 3))
SORTED, INTEGERS = np.sort(R.normal(size=(SIZE, 6)), 1), R.integers(0, 3, (SIZE, 5))
MASKS, WEIGHTS = R.random((SIZE, 6)) < 0.5, R.random((SIZE, 3))
WITH_NAN = np.concatenate([SORTED[:, :-1], np.full((SIZE, 1), np.nan)], 1)
NAN_MATRICES = np.where(np.arange(3) == 0, np.nan, MATRICES)
BINS = np.round(np.where(np.arange(SIZE)[:, None] % 2, SORTED, SORTED[:, ::-1]), 1)
ROUNDED = np.round(MATRICES, 1)

CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "packbits": (np.packbits, (MASKS,)),
    "packbits along an axis": (lambda m: np.packbits(m.reshape(2, 3), axis=0), (MASKS,)),
    "unpackbits": (np.unpackbits, (R.integers(0, 255, (SIZE, 3)).astype(np.uint8),)),
    "ravel_multi_index": (lambda i, j: np.ravel_multi_index((i, j), (3, 3)), (INTEGERS, INTEGERS[:, ::-1])),
    "unravel_index": (lambda i: np.unravel_index(i, (3, 3)), (INTEGERS,)),
    "choose": (lambda i, a, b: np.choose(i, [a, b, 0.0]), (INTEGERS, R.normal(size=(SIZE, 5)), R.normal(size=SIZE))),
    "where": (lambda m, x: np.where(m, x, 0), (MASKS, SORTED)),
    "count_nonzero": (np.count_nonzero, (MASKS,)),
    "searchsorted": (np.searchsorted, (SORTED, MATRICES)),
    "searchsorted left": (np.searchsorted, (np.round(SORTED), np.round(MATRICES))),
    "searchsorted right": (lambda s, v: np.searchsorted(s, v, "right"), (np.round(SORTED), np.round(MATRICES))),
    "searchsorted of a number": (np.searchsorted, (SORTED, VECTORS[:, 0])),
    "searchsorted by a sorter": (lambda s, v, p: np.searchsorted(s, v, sorter=p), (VECTORS, MATRICES, np.argsort(VECTORS, 1))),
    "searchsorted with NaN": (np.searchsorted, (WITH_NAN, NAN_MATRICES)),
    "searchsorted with NaN, right": (lambda s, v: np.searchsorted(s, v, "right"), (WITH_NAN, NAN_MATRICES)),
    "digitize": (lambda bins, x: np.digitize(x, bins), (BINS, ROUNDED)),
    "digitize right": (lambda bins, x: np.digitize(x, bins, True), (BINS, ROUNDED)),
    "digitize without bins": (lambda bins, x: np.digitize(x, bins), (BINS[:, :0], ROUNDED)),
    "isin": (np.isin, (INTEGERS, INTEGERS[:, :2])),
    "isin, inverted": (lambda a, b: np.isin(a, b, invert=True), (INTEGERS, INTEGERS[:, :2])),
    "isin with NaN": (np.isin, (WITH_NAN, WITH_NAN[:, ::-1])),
    "isin of nothing": (np.isin, (SORTED, SORTED[:, :0])),
    "lexsort": (lambda a: np.lexsort((a, np.round(a))), (VECTORS,)),
    "argsort of all": (lambda a: np.argsort(a, axis=None), (MATRICES,)),
    "argmax of all": (np.argmax, (MATRICES,)),
    "argmax of all, axes kept": (lambda a: np.argmax(a, keepdims=True), (MATRICES,)),
    "array_equal": (np.array_equal, (INTEGERS, np.where(np.arange(SIZE)[:, None] == 1, 7, INTEGERS))),
    "array_equal with NaN": (lambda a, b: np.array_equal(a, b, equal_nan=True), (WITH_NAN, WITH_NAN)),
    "array_equal of other shapes": (np.array_equal, (INTEGERS, INTEGERS[:, :2])),
    "array_equiv": (np.array_equiv, (INTEGERS * 0, INTEGERS[:, :1])),
    "array_equiv of other shapes": (np.array_equiv, (INTEGERS, INTEGERS[:, :2])),
    "allclose": (lambda a, b: np.allclose(a, b, 1e-3), (VECTORS, VECTORS * (1 + 1e-3 * np.arange(SIZE)[:, None]))),
    "take_along_axis": (lambda a, i: np.take_along_axis(a, i, 0), (VECTORS, INTEGERS)),
    "take": (np.take, (MATRICES, INTEGERS)),
    "quantile": (np.quantile, (VECTORS, R.random((SIZE, 2)))),
    "weighted quantile": (
        lambda a, q, w: np.quantile(a, q, weights=w, method="inverted_cdf"), (VECTORS, R.random((SIZE, 2)), WEIGHTS),
    ),
    "matrix_rank": (np.linalg.matrix_rank, (R.normal(size=(SIZE, 3, 3)), np.array([1e-3, 10, 0.5, 1.0]))),
    "unwrap": (lambda p, q: np.unwrap(p, period=q), (5 * SORTED, WEIGHTS[:, 0] + 1)),
    "unwrap integers": (lambda p, q: np.unwrap(p, period=q), (R.integers(0, 9, (SIZE, 5)), np.array([2, 3, 4, 5]))),
    "lstsq": (lambda a, b: np.linalg.lstsq(a, b, None)[0], (R.normal(size=(SIZE, 4, 2)), R.normal(size=(SIZE, 4)))),
    "lstsq of a low rank": (lambda a, b: np.linalg.lstsq(a, b, None)[0], (np.ones((SIZE, 2, 4)), R.normal(size=(SIZE, 2)))),
    "lstsq in single precision": (
        lambda a, b: np.linalg.lstsq(a, b, None)[0], (np.float32(MATRICES), np.float32(VECTORS[:, :2])),
    ),
    "convolve": (lambda a, v: np.convolve(a, v, "same"), (SORTED, VECTORS)),
    "eig of complex matrices": (np.linalg.eigvals, (MATRICES[:, :, :2] + 1j * MATRICES[:, :, 1:],)),
}  # fmt: skip
ONLY_FIRST = {"matrix_rank", "take", "unwrap", "unwrap integers"}
"""NumPy does not look for Tensors in the other arguments."""


@pytest.mark.parametrize("name", CALLS)
def test_against_a_loop(name: str) -> None:
    function, arrays = CALLS[name]
    chosen = [(0,) * len(arrays)]
    alone = range(len(arrays) if name not in ONLY_FIRST else 1)
    chosen += [tuple([0 if i == one else None for i in range(len(arrays))]) for one in alone]
    for axes in chosen:
        if name == "searchsorted by a sorter" and 0 in (axes[0], axes[2]) and axes[0] != axes[2]:
            continue  # the order of one array is none of another
        given = [a if axis == 0 else a[0] for a, axis in zip(arrays, axes, strict=True)]
        with warnings.catch_warnings():
            warnings.simplefilter("error", LoopWarning)
            found = functad.vmap(function, axes)(*given)
        for i in range(SIZE):
            expected = function(*[a[i] if axis == 0 else a for a, axis in zip(given, axes, strict=True)])
            pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
            for whole, one in pairs:
                assert whole.dtype == np.asarray(one).dtype
                assert whole[i].shape == np.shape(one)
                np.testing.assert_allclose(whole[i], one, rtol=1e-6 if whole.dtype == np.float32 else 1e-12, atol=1e-14)


def test_bins_out_of_order() -> None:
    with pytest.raises(ValueError, match="bins must be monotonically"):
        functad.vmap(lambda bins: np.digitize(0.5, bins))(np.array([[0.0, 1.0, 2.0], [0.0, 2.0, 1.0]]))


def test_rank_that_is_too_low_for_one_example() -> None:
    matrices = R.normal(size=(SIZE, 4, 2))
    matrices[2, :, 1] = matrices[2, :, 0]
    with pytest.raises(np.linalg.LinAlgError, match="rank 1, but 2 columns"):
        functad.vmap(lambda a: np.linalg.lstsq(a, np.ones(4), None)[2])(matrices)


def test_broadcast_pieces_are_added_where_they_belong() -> None:
    """NumPy's `np.add.at` reads beyond the end of a piece that it broadcasts along a vector."""
    places = np.array([[0, 1], [3, 4], [6, 7]])

    def f(x: Any, v: Any) -> Any:
        t = x * 1.0
        np.add.at(t, places, v)
        return t

    expected = np.array([1.0, 2, 0, 1, 2, 0, 1, 2])
    for _ in range(5):
        np.testing.assert_array_equal(functad.vjp(f, np.zeros(8), np.array([1.0, 2.0]))[0], expected)
        np.testing.assert_array_equal(functad.vmap(f)(np.zeros((2, 8)), np.array([[1.0, 2.0]] * 2)), [expected] * 2)
