"""Functions that write into their first argument: `np.copyto`, `np.put`, `np.fill_diagonal`, `ufunc.at` and others.

Each function computes an index and the values, and the Tensor records the write. A Tensor cannot be written into a plain
array.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from functad.errors import ConversionError, UnsupportedError
from functad.expressions.spec import dtype_of, shape_of, spec_of
from functad.places import here
from functad.primitives.arranging.reshape import Calls
from functad.primitives.elementwise.conversion import astype
from functad.primitives.indexing.index_map import plain_index
from functad.primitives.kinds import composite
from functad.primitives.operands import as_operand, concrete, is_number, is_traced


def write(a: Any, index: Any, v: Any, name: str, *, adds: bool = False) -> None:
    """Write `v` to `a[index]` of a Tensor, or add it if `adds`.

    Raises:
        ConversionError: `a` is a plain array.
    """
    if not is_traced(a):
        raise ConversionError(
            f"np.{name} of a Tensor into a plain array, at {here()}, would lose its derivative. "
            f"Make the array with np.zeros_like(t) or np.zeros(shape, like=t), or use functad.numpy for NumPy."
        )
    type(a).__functad_write__(a, index, v, adds=adds)


_enter = functools.partial(
    composite, doc="linear in what is written; the cotangent of what was overwritten is zero", in_place=True
)


def _copyto_samples(array: Any) -> Calls:
    mask = np.array([[True, False, True], [False, False, True]])
    return [
        ((array(2, 3), array(3)), {}),
        ((array(2, 3), array(2, 3)), {"where": mask}),
        ((array(2, 3), array()), {"where": mask}),
        ((array(3), 1.5), {}),
    ]


@_enter(np.copyto, samples=_copyto_samples)
def _copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    src = as_operand(src)
    given = spec_of(src)
    number = given.dtype.type(0)  # np.copyto below raises TypeError for invalid casts; Python numbers are weak
    np.copyto(np.empty((), dtype_of(dst)), number.item() if given.weak else number, casting)
    write(dst, Ellipsis, src if where is True else np.where(where, src, dst), "copyto")


def _repeated(values: Any, count: int) -> Any:
    """Return the first `count` values as a flat array; the values repeat cyclically if they are fewer."""
    flat = np.ravel(as_operand(values))
    size = shape_of(flat)[0]
    return flat if size == count else flat[np.arange(count) % size]


def _put_samples(array: Any) -> Calls:
    return [
        ((array(2, 3), np.array([0, 4]), array(2)), {}),
        ((array(4), [3, -1, 0], array(3)), {}),
        ((array(2, 2), [[1, 2], [0, 2]], array(2)), {}),
        ((array(3), [4, -5], array()), {"mode": "wrap"}),
        ((array(3), [4, -5], array(3)), {"mode": "clip"}),
    ]


@_enter(np.put, samples=_put_samples)
def _put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    places = np.asarray(concrete(as_operand(ind), "np.put")).ravel().astype(np.intp, casting="same_kind")
    size = int(np.prod(shape_of(a)))
    if places.size and is_number(a):
        raise UnsupportedError(f"np.put into a number, at {here()}, would be lost: NumPy writes into a copy of it.")
    if mode == "wrap":
        places = places % size
    elif mode == "clip":
        places = places.clip(0, size - 1)
    elif places.size and (places.min() < -size or places.max() >= size):
        raise IndexError(f"index {places.max()} is out of bounds for axis 0 with size {size}")
    if places.size and np.prod(shape_of(as_operand(v))) and shape_of(a) == ():
        write(a, (), _repeated(v, places.size)[-1], "put")
    elif places.size and np.prod(shape_of(as_operand(v))):
        write(a, np.unravel_index(places % size, shape_of(a)), _repeated(v, places.size), "put")


def _mask_samples(array: Any) -> Calls:
    mask = np.array([[True, False, True], [False, True, True]])
    return [((array(2, 3), mask, array(4)), {}), ((array(2, 3), mask, array(2)), {}), ((array(2, 3), mask, array(1)), {})]


def _mask(mask: Any, a: Any, name: str) -> Any:
    mask = np.asarray(concrete(as_operand(mask), f"np.{name}")).astype(bool)
    if mask.size != np.prod(shape_of(a)):
        raise ValueError(f"{name}: mask and data must be the same size")
    return mask.reshape(shape_of(a))


@_enter(np.place, samples=_mask_samples)
def _place(arr: Any, mask: Any, vals: Any) -> None:
    mask = _mask(mask, arr, "place")
    count = int(np.count_nonzero(mask))
    if count and not np.prod(shape_of(as_operand(vals))):
        raise ValueError("Cannot insert from an empty array!")
    if count:
        write(arr, mask, _repeated(vals, count), "place")


@_enter(np.putmask, samples=_mask_samples)
def _putmask(a: Any, /, mask: Any, values: Any) -> None:
    mask = _mask(mask, a, "putmask")
    flat = np.ravel(as_operand(values))
    if shape_of(flat)[0]:
        write(a, mask, flat[np.flatnonzero(mask) % shape_of(flat)[0]], "putmask")


def _along_axis_samples(array: Any) -> Calls:
    return [
        ((array(2, 3), np.array([[2], [0]]), array(2, 1), 1), {}),
        ((array(2, 3), np.array([[1, 0, 1]]), array(3), 0), {}),
        ((array(4), np.array([3, 0]), array(), None), {}),
    ]


@_enter(np.put_along_axis, samples=_along_axis_samples)
def _put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None = -1) -> None:
    indices = np.asarray(concrete(as_operand(indices), "np.put_along_axis"))
    shape = shape_of(arr)
    if axis is None:
        if indices.ndim != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
        size = int(np.prod(shape))
        write(arr, np.unravel_index(np.arange(size)[indices], shape), values, "put_along_axis")
        return
    axis = normalize_axis_index(axis, len(shape))
    if indices.ndim != len(shape):
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    others = np.ogrid[tuple([slice(n) for n in shape])]
    index = tuple([indices if i == axis else other for i, other in enumerate(others)])
    write(arr, index, values, "put_along_axis")


def _diagonal_samples(array: Any) -> Calls:
    return [
        ((array(3, 3), array()), {}),
        ((array(2, 3), array(2)), {}),
        ((array(5, 2), array()), {"wrap": True}),
        ((array(5, 2), array(3)), {}),
        ((array(2, 2, 2), array()), {}),
    ]


@_enter(np.fill_diagonal, samples=_diagonal_samples)
def _fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    shape = shape_of(a)
    if len(shape) < 2:
        raise ValueError("array must be at least 2-d")
    size = int(np.prod(shape))
    if len(shape) == 2:
        step, stop = shape[1] + 1, size if wrap else shape[1] * shape[1]
    elif len(set(shape)) == 1:
        step, stop = 1 + int(np.cumprod(shape[:-1]).sum()), size
    else:
        raise ValueError("All dimensions of input must be of equal length")
    places = np.arange(size)[:stop:step]
    write(a, np.unravel_index(places, shape), _repeated(val, places.size), "fill_diagonal")


# ufunc.at


def at(ufunc: np.ufunc, a: Any, indices: Any, b: Any = None, /) -> None:
    """Apply `ufunc.at`: a ufunc on elements in place, repeatedly for repeated indices."""
    if b is None and ufunc.nin == 2:
        raise ValueError("second operand needed for ufunc")
    if ufunc is np.add or ufunc is np.subtract:
        write(a, indices, b if ufunc is np.add else _negated(as_operand(b), a), f"{ufunc.__name__}.at", adds=True)
        return
    name = f"{ufunc.__name__}.at"
    shape = shape_of(a)
    places = np.arange(int(np.prod(shape))).reshape(shape)[concrete(plain_index(indices), f"np.{name}")]
    operands = () if b is None else (np.ravel(np.broadcast_to(as_operand(b), places.shape)),)
    places = np.ravel(places)
    turns = _turns(places)
    for turn in range(turns.max(initial=-1) + 1):
        now = np.flatnonzero(turns == turn)
        index = np.unravel_index(places[now], shape)
        write(a, index, ufunc(a[index], *[operand[now] for operand in operands]), name)


def _negated(b: Any, a: Any) -> Any:
    """Return `-b`, for `np.subtract.at(a, indices, b)`.

    Unsigned integers and booleans have no negative in their own dtype. They are first cast to the dtype of NumPy's subtraction.
    """
    dtype = np.dtype(bool) if type(b) is bool else dtype_of(b)
    if dtype.kind not in "bu":
        return np.negative(b)
    computed = np.subtract.resolve_dtypes((dtype_of(a), dtype, None))[1]
    if computed.kind == "f" and dtype_of(a).kind in "iu":
        computed = np.dtype(np.int64)
    return np.negative(astype(np.asarray(b) if type(b) is bool else b, computed))


def _turns(places: Any) -> Any:
    """Return the number of earlier occurrences of each place."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])[: places.size]
    count = np.arange(places.size)
    turns = np.empty(places.size, np.intp)
    turns[order] = count - np.maximum.accumulate(np.where(first, count, 0))
    return turns
