"""Read functions: `take`, `take_along_axis`, `compress`, `extract`. Each computes an index and reads with it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from functad.expressions.spec import dtype_of, shape_of
from functad.primitives.arranging.reshape import Calls
from functad.primitives.elementwise.conversion import COPY, laid_out
from functad.primitives.indexing.read import get_item
from functad.primitives.kinds import composite
from functad.primitives.operands import as_operand, is_traced, refuse_out

_DOC = "the cotangents of an element that is read repeatedly add up"


def _take_samples(array: Any) -> Calls:
    repeated = np.array([[1, -1], [1, 0]])
    return [
        ((array(3), 1), {}),
        ((array(2, 3), repeated), {}),
        ((array(2, 3), [1, 0, 1], 1), {}),
        ((array(2, 3), repeated, -2), {}),
        ((array(2, 3), np.array([4, -5, 0])), {"axis": 1, "mode": "wrap"}),
        ((array(3), [7, -4, 1]), {"mode": "clip"}),
        ((array(), [0, 0]), {}),
        ((array(3), []), {}),
    ]


@composite(np.take, samples=_take_samples, doc=_DOC)
def _take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Any:
    refuse_out(out, "take")
    a, indices = as_operand(a), as_operand(indices)
    if axis is None or (not shape_of(a) and axis in (0, -1)):
        a, axis = a if len(shape_of(a)) == 1 else np.reshape(a, -1), 0
    axis = normalize_axis_index(axis, len(shape_of(a)))
    length = shape_of(a)[axis]
    if _is_read_anew(indices):
        places: Any = indices.astype(np.intp) if getattr(indices, "size", 1) == 0 else indices
        read: Any = np.take
        indices, mode = read(np.arange(length), places, mode=mode), "raise"
    if mode == "wrap":
        indices = (indices if type(indices) is int else indices.astype(np.intp)) % length
    elif mode == "clip":
        indices = np.clip(indices, 0, length - 1)
    elif mode != "raise":
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    found = get_item(a, (*[slice(None)] * axis, indices))
    return laid_out(found, "C") if shape_of(indices) else COPY(found)  # unlike a[i], NumPy returns no view here


def _is_read_anew(indices: Any) -> bool:
    """Return `True` if `np.take` must convert `indices` itself: for example a range, or a mask, which it reads as 0 and 1."""
    kind = type(indices)
    if kind is int or is_traced(indices):
        return False
    if issubclass(kind, (np.ndarray, np.generic)):
        return dtype_of(indices).kind not in "iu"
    return not hasattr(kind, "__array_function__")


def _take_along_axis_samples(array: Any) -> Calls:
    return [
        ((array(2, 3), np.array([[2, 0, 2], [1, 1, -1]]), 1), {}),
        ((array(2, 3), np.array([[1, 0, 1]])), {"axis": -2}),
        ((array(1, 3), np.array([[2], [0]]), -1), {}),
        ((array(2, 2), np.array([3, 3, 0]), None), {}),
    ]


@composite(np.take_along_axis, samples=_take_along_axis_samples, doc=_DOC)
def _take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    arr, indices = as_operand(arr), as_operand(indices)
    if dtype_of(indices).kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if axis is None:
        arr, axis = arr.reshape(-1), 0
    shape = shape_of(arr)
    if len(shape) != len(shape_of(indices)):
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    axis = normalize_axis_index(axis, len(shape))
    index: list[Any] = [np.arange(n).reshape((1,) * i + (-1,) + (1,) * (len(shape) - i - 1)) for i, n in enumerate(shape)]
    index[axis] = indices
    return get_item(arr, tuple(index))


def _compress_samples(array: Any) -> Calls:
    return [
        (([True, False, True], array(3)), {}),
        (([0, 1], array(2, 3), 0), {}),
        ((np.array([False, True]), array(2, 3)), {"axis": -1}),
        (([True, False, True, True], array(2, 3)), {}),
    ]


@composite(np.compress, samples=_compress_samples, doc="linear; what is left out gets zero")
def _compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Any:
    refuse_out(out, "compress")
    condition = as_operand(condition)
    if len(shape_of(condition)) != 1:
        raise ValueError("condition must be a 1-d array")
    return _take(a, np.flatnonzero(condition), axis)


def _extract_samples(array: Any) -> Calls:
    return [
        ((np.array([[True, False, True], [False, False, True]]), array(2, 3)), {}),
        (([1, 0], array(2)), {}),
    ]


@composite(np.extract, samples=_extract_samples, doc="linear; what is left out gets zero")
def _extract(condition: Any, arr: Any) -> Any:
    return _take(as_operand(arr), np.flatnonzero(as_operand(condition)))
