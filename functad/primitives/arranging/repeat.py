"""Functions that repeat elements of the argument: repeat, tile, resize."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.arranging.reshape import RESHAPE, as_shape, ravel
from functad.primitives.batching import along_axis, by_parameter
from functad.primitives.elementwise.conversion import laid_out
from functad.primitives.indexing.read import get_item
from functad.primitives.kinds import composite, linear


def _repeat_spec(a: Any, *, repeats: int, axis: int) -> ArraySpec:
    own = spec_of(a)
    return ArraySpec((*own.shape[:axis], own.shape[axis] * repeats, *own.shape[axis + 1 :]), own.dtype)


def _repeat_vjp(g: Any, a_shape: tuple[int, ...], repeats: int, axis: int) -> Any:
    """Return the sum of the cotangent over the adjacent copies of each element."""
    return g.reshape((*a_shape[: axis + 1], repeats, *a_shape[axis + 1 :])).sum(axis + 1)


def _number(repeats: Any) -> int:
    return int(repeats) if getattr(repeats, "dtype", None) == np.bool_ else operator.index(repeats)


def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    """Return the result of `np.repeat`. One count per element is computed as a gather."""
    if axis is None or not shape_of(a):
        a, axis = ravel(a), 0
    axis = normalize_axis_index(operator.index(axis), len(shape_of(a)))
    if not np.ndim(repeats):
        return REPEAT(a, repeats=_number(repeats), axis=axis)
    if len(repeats) == 1:
        return REPEAT(a, repeats=_number(repeats[0]), axis=axis)
    index = np.repeat(np.arange(shape_of(a)[axis]), repeats)
    return laid_out(get_item(a, (*(slice(None),) * axis, index)), "C")


REPEAT = linear(
    np.repeat,
    _repeat_vjp,
    compute=lambda a, *, repeats, axis: a.repeat(repeats, axis),
    spec=_repeat_spec,
    samples=lambda array: [
        ((array(3), 2), {}),
        ((array(2, 2), 2), {}),
        ((array(2, 3), 2, 0), {}),
        ((array(2, 3), 2), {"axis": -1}),
        ((array(3), [0, 2, 1]), {}),
        ((array(2, 3), np.array([1, 0, 3]), 1), {}),
        ((array(2, 3), [2], 0), {}),
        ((array(), 3), {}),
        ((array(2), 0), {}),
        ((array(0), 2), {}),
    ],
    doc="linear; the cotangents of the copies are added",
    batch=along_axis,
    ordered=True,
    front=repeat,
    dependence="moved",
)


def _tile_vjp(g: Any, a_shape: tuple[int, ...], reps: tuple[int, ...]) -> Any:
    """Return the sum of the cotangent over the copies of the array: each axis is split into copies and positions."""
    split = tuple([n for pair in zip(reps, a_shape, strict=True) for n in pair])
    return g.reshape(split).sum(tuple(range(0, len(split), 2)))


def tile(A: Any, reps: Any) -> Any:
    """Return the result of `np.tile`. The shorter of the shape and the counts is padded with leading ones."""
    counts = as_shape(reps)
    shape = shape_of(A)
    ndim = max(len(counts), len(shape))
    if ndim > len(shape):
        A = RESHAPE(A, shape=(1,) * (ndim - len(shape)) + shape)
    counts = (1,) * (ndim - len(counts)) + counts
    return TILE(A, reps=counts) if ndim else np.copy(A)


TILE = linear(
    np.tile,
    _tile_vjp,
    compute=lambda a, *, reps: np.tile(a, reps),
    spec=lambda a, *, reps: ArraySpec(tuple([n * count for n, count in zip(shape_of(a), reps, strict=True)]), dtype_of(a)),
    samples=lambda array: [
        ((array(3), 2), {}),
        ((array(2, 2), 2), {}),
        ((array(3), (2, 2)), {}),
        ((array(2, 1, 2), (2, 1)), {}),
        ((array(2, 2), (2, 1, 3)), {}),
        ((array(), 3), {}),
        ((array(2), ()), {}),
        ((array(2), 0), {}),
        ((array(0, 2), (2, 2)), {}),
    ],
    doc="linear; the cotangents of the copies are added",
    front=tile,
    batch=by_parameter("reps", lambda size, reps: (1, *reps)),
    ordered=True,
    dependence="moved",
)


@composite(
    np.resize,
    samples=lambda array: [
        ((array(2, 3), (3, 4)), {}),
        ((array(5), 3), {}),
        ((array(3), (2, 3)), {}),
        ((array(), 4), {}),
        ((array(3), (0, 2)), {}),
        ((array(0), (2,)), {}),
    ],
    doc="the elements in C order, again and again",
)
def _resize(a: Any, new_shape: Any) -> Any:
    shape = as_shape(new_shape)
    if any(n < 0 for n in shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    flat, size = ravel(a), math.prod(shape)
    own = shape_of(flat)[0]
    if not own:
        return np.zeros_like(a, shape=shape)
    return RESHAPE(get_item(tile(flat, -(-size // own)), slice(size)), shape=shape)
