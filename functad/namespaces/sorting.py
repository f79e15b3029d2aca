"""Sorting, searching, and reading along an axis, by the functions of the array API."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.namespaces.arranging import axis_of, moveaxis
from functad.namespaces.array import NamespaceArray, computes
from functad.namespaces.library import Library


def _along(lib: Library, a: Any, axis: int | None) -> tuple[Any, int]:
    x = lib.array(a)
    return (lib.xp.reshape(x, (-1,)), 0) if axis is None else (x, axis)


@computes(np.sort)
def _sort(lib: Library, a: Any, axis: int | None = -1, kind: Any = None, order: None = None, *, stable: Any = None) -> Any:
    x, axis = _along(lib, a, axis)
    return lib.xp.sort(x, axis=axis)


@computes(np.argsort)
def _argsort(lib: Library, a: Any, axis: int | None = -1, kind: Any = None, order: None = None, *, stable: Any = None) -> Any:
    x, axis = _along(lib, a, axis)
    return lib.xp.argsort(x, axis=axis)


@computes(np.partition)
def _partition(lib: Library, a: Any, kth: Any, axis: int | None = -1, kind: Any = None, order: None = None) -> Any:
    return _sort(lib, a, axis)


@computes(np.argpartition)
def _argpartition(lib: Library, a: Any, kth: Any, axis: int | None = -1, kind: Any = None, order: None = None) -> Any:
    return _argsort(lib, a, axis)


@computes(np.searchsorted)
def _searchsorted(lib: Library, a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    dtype = np.result_type(*[x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype for x in (a, v)])
    return lib.xp.searchsorted(lib.array(a, dtype), lib.array(v, dtype), side=side)


@computes(np.nonzero)
def _nonzero(lib: Library, a: Any) -> Any:
    return tuple(lib.xp.nonzero(lib.array(a)))


@computes(np.take)
def _take(lib: Library, a: Any, indices: Any, axis: int | None = None, out: None = None, mode: str = "raise") -> Any:
    x, axis = _along(lib, a, axis)
    if mode != "raise":
        raise NotImplementedError(f"mode={mode!r}")
    at = (slice(None),) * axis_of(axis, x.ndim)
    given = indices if type(indices) is NamespaceArray else np.asarray(indices)
    if not at or type(given) is not NamespaceArray:
        return NamespaceArray(x)[(*at, given)].array
    flat = lib.xp.take(x, lib.xp.reshape(given.array, (-1,)), axis=axis)
    return lib.xp.reshape(flat, (*x.shape[: len(at)], *given.shape, *x.shape[len(at) + 1 :]))


@computes(np.take_along_axis)
def take_along_axis(lib: Library, arr: Any, indices: Any, axis: int | None = -1) -> Any:
    """Read at the places that are given for each line along an axis."""
    x, axis = _along(lib, arr, axis)
    return lib.xp.take_along_axis(x, lib.array(indices), axis=axis)


@computes(np.put_along_axis)
def _put_along_axis(lib: Library, arr: NamespaceArray, indices: Any, values: Any, axis: int) -> None:
    xp, x, at = lib.xp, lib.array(arr), lib.array(indices)
    axis = axis_of(axis, x.ndim)
    n, m = x.shape[axis], at.shape[axis]
    front = moveaxis(lib, at, axis, -1)
    v = lib.array(values, lib.known(x.dtype))
    v = moveaxis(lib, xp.broadcast_to(v, tuple(at.shape)), axis, -1)
    steps = xp.arange(n, dtype=front.dtype, **lib.place)
    if n == m and bool(xp.all(xp.sort(front, axis=-1) == steps)):  # a permutation, which is turned round by its own order
        out = xp.take_along_axis(v, xp.argsort(front, axis=-1), axis=-1)
    else:
        here = front[..., None, :] == steps[:, None]
        numbers = xp.arange(1, m + 1, dtype=front.dtype, **lib.place)
        last = xp.max(xp.where(here, numbers, xp.zeros_like(numbers)), axis=-1)  # of repeated places the last is written
        chosen = xp.take_along_axis(v, xp.where(last > 0, last - 1, last), axis=-1)
        out = xp.where(last > 0, chosen, moveaxis(lib, x, axis, -1))
    arr.array, arr.own = moveaxis(lib, out, -1, axis), False


@computes(np.unique)
def _unique(
    lib: Library,
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    if axis is not None:
        raise NotImplementedError("the array API has no unique rows")
    found = lib.xp.unique_all(lib.array(ar))
    wanted = (True, return_index, return_inverse, return_counts)
    results = tuple([part for part, asked in zip(found, wanted, strict=True) if asked])
    return results if len(results) > 1 else results[0]
