"""Reading by index, and its transpose: adding pieces at places of an array of zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.primitives.kinds import linear

_ndarray = np.ndarray


def add_at(target: Any, index: Any, piece: Any) -> None:
    """Add a piece to the elements of `target` at an index, in place; repeated elements are added to repeatedly."""
    if is_basic(index):
        target[index] += piece
    else:
        np.add.at(target, index, piece)


def is_basic(index: Any) -> bool:
    """Say whether an index is made of integers, slices, `newaxis` and `Ellipsis`, and so names each element once."""
    kind = type(index)
    if kind is int or kind is slice:
        return True
    if kind is tuple:
        return all(map(is_basic, index))
    return index is None or index is Ellipsis or isinstance(index, (int, np.integer)) and not isinstance(index, bool)


def get_item(x: Any, index: Any) -> Any:
    """`x[index]` for a Tensor."""
    return GETITEM(x, index=index)


def _getitem(a: Any, *, index: Any) -> Any:
    return a[index]


def _getitem_samples(array: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    return [((array(3),), {"index": 1})]


GETITEM = linear(
    get_item,
    lambda g, index, a_shape, a_dtype: scatter(g, indices=(index,), shape=a_shape, dtype=a_dtype),
    compute=_getitem,
    samples=_getitem_samples,
    name="getitem",
    gather=True,
    internal=True,
    doc="d(x[i]) = dx[i]",
)


def scatter(*pieces: Any, indices: tuple[Any, ...], shape: tuple[int, ...], dtype: Any) -> Any:
    """Return zeros of a shape and dtype to which each piece has been added at its index."""
    return SCATTER(*pieces, indices=indices, shape=shape, dtype=dtype)


def _scatter(*pieces: Any, indices: tuple[Any, ...], shape: tuple[int, ...], dtype: Any) -> Any:
    total = np.zeros(shape, dtype, like=pieces[0]) if isinstance(pieces[0], _ndarray) else np.zeros(shape, dtype)
    for index, piece in zip(indices, pieces, strict=True):
        add_at(total, index, piece)
    return total


SCATTER = linear(
    scatter,
    lambda g, indices: [g[index] for index in indices],
    compute=_scatter,
    samples=lambda array: [((array(), array(2)), {"indices": (0, slice(1, 3)), "shape": (3,), "dtype": array().dtype})],
    internal=True,
    doc="zeros to which pieces are added; the transpose of reading by index",
)
