"""Reading and writing at every index of NumPy, by functions of the array API that read at integers on one axis.

Places are worked out from the shape, and the values are moved by `take`. The standard has no writing at arrays of integers: it
is a choice, for each element, between its old value and a new one, that is found by sorting the places; sums over repeated ones
are taken in pairs. Arrays of JAX have an attribute `at` for that.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from functad.namespaces.array import NamespaceArray
from functad.namespaces.library import Library

_BASIC = (int, slice, type(None), type(Ellipsis))


def _is_basic(parts: tuple[Any, ...]) -> bool:
    return all(type(part) in _BASIC for part in parts)


def _complete(parts: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return a basic index with a part for each axis, its slices within bounds: the standard asks for that."""
    taken = sum(part is not None and part is not Ellipsis for part in parts)
    whole = (slice(None),) * (len(shape) - taken)
    if Ellipsis in parts:
        place = parts.index(Ellipsis)
        parts = (*parts[:place], *whole, *parts[place + 1 :])
    else:
        parts = (*parts, *whole)
    axes = iter(shape)
    return tuple([part if part is None else _bounded(part, next(axes)) for part in parts])


def _bounded(part: Any, n: int) -> Any:
    if type(part) is not slice:
        if not -n <= part < n:
            raise IndexError(f"index {part} is out of bounds for axis with size {n}")
        return part
    start, stop, step = part.indices(n)
    if len(range(start, stop, step)) == 0:
        return slice(0, 0)
    return slice(start, None if stop < 0 else stop, step)


def _plain(part: Any) -> Any:
    """Return a part of an index with integers of Python's in place of NumPy's, and arrays in place of lists."""
    if isinstance(part, np.integer) or (type(part) is np.ndarray and part.ndim == 0 and part.dtype.kind in "iu"):
        return int(part)
    return np.asarray(part) if type(part) is list else part


def _parts(index: Any) -> tuple[Any, ...]:
    return tuple(map(_plain, index)) if type(index) is tuple else (_plain(index),)


def _places(lib: Library, parts: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """Return where an index with arrays reads, counted in elements, as an array of the library.

    Raises:
        NotImplementedError: a mask of the library stands beside other parts.
    """
    own = [i for i, part in enumerate(parts) if type(part) is NamespaceArray]
    if any(parts[i].dtype.kind == "b" for i in own):
        raise NotImplementedError("a mask beside other parts of an index")
    known = [np.zeros(part.shape, np.intp) if i in own else part for i, part in enumerate(parts)]
    total = lib.array(np.arange(prod(shape)).reshape(shape)[tuple(known)])
    taken = [0 if part is None or part is Ellipsis else getattr(part, "ndim", 1) if _is_mask(part) else 1 for part in parts]
    taken = [len(shape) - sum(taken) if part is Ellipsis else n for part, n in zip(parts, taken, strict=True)]
    for i in own:
        # Which element of the part reads each element of the result follows from shapes alone.
        part, axis = parts[i], sum(taken[:i])
        numbers = np.arange(part.size).reshape((-1,) + (1,) * (len(shape) - axis - 1))
        numbers = np.broadcast_to(numbers, (*shape[:axis], part.size, *shape[axis + 1 :]))
        which = numbers[(*known[:i], np.arange(part.size).reshape(part.shape), *known[i + 1 :])]
        at = _from_front(lib.xp, part.array, shape[axis])
        read = lib.xp.take(lib.xp.reshape(at, (-1,)), lib.array(which.reshape(-1)), axis=0)
        total = total + lib.xp.astype(lib.xp.reshape(read, which.shape), total.dtype) * prod(shape[axis + 1 :])
    return total


def _is_mask(part: Any) -> bool:
    return getattr(part, "dtype", None) == np.bool_


def _from_front(xp: Any, places: Any, n: int) -> Any:
    return xp.where(places < 0, places + n, places)


def _rows(lib: Library, parts: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """Return the places that an index names along the first axis, if it is one array of integers; otherwise `None`."""
    part = parts[0]
    if len(parts) > 1 or not shape or getattr(part, "dtype", np.dtype(bool)).kind not in "iu":
        return None
    n = shape[0]
    if type(part) is NamespaceArray:
        return _from_front(lib.xp, part.array, n)
    if part.size and not (-n <= part.min() and part.max() < n):
        raise IndexError(f"an index is out of bounds for axis 0 with size {n}")
    return lib.array(np.where(part < 0, part + n, part))


def read(lib: Library, array: Any, index: Any) -> Any:
    """Return `array[index]`."""
    xp, parts, shape = lib.xp, _parts(index), tuple(array.shape)
    if _is_basic(parts):
        return array[_complete(parts, shape)]
    if hasattr(array, "at"):  # arrays of JAX know all indices
        return array[_own_index(lib, parts)]
    if len(parts) == 1 and type(parts[0]) is NamespaceArray and parts[0].dtype.kind == "b":
        return array[parts[0].array]
    rows = _rows(lib, parts, shape)
    if rows is not None:
        return xp.reshape(xp.take(array, xp.reshape(rows, (-1,)), axis=0), (*rows.shape, *shape[1:]))
    places = _places(lib, parts, shape)
    return xp.reshape(xp.take(xp.reshape(array, (-1,)), xp.reshape(places, (-1,)), axis=0), places.shape)


def _own_index(lib: Library, parts: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([part.array if type(part) is NamespaceArray else part for part in parts])


def written(lib: Library, array: Any, index: Any, value: Any, adds: bool) -> Any:
    """Return an array, which nothing else looks at, after a write, or with something added."""
    xp, parts, shape = lib.xp, _parts(index), tuple(array.shape)
    v = lib.array(value, lib.known(array.dtype))
    if hasattr(array, "at"):
        place = array.at[_own_index(lib, parts)]
        return place.add(v) if adds else place.set(v)
    mask = len(parts) == 1 and type(parts[0]) is NamespaceArray and parts[0].dtype.kind == "b"
    if mask or (_is_basic(parts) and None not in parts):
        where = parts[0].array if mask else _complete(parts, shape)
        array[where] = array[where] + v if adds else _fitting(xp, v, array[where].shape)
        return array
    rows = _rows(lib, parts, shape)
    if rows is not None:
        rest = shape[1:]
        flat, piece = xp.reshape(array, (shape[0], prod(rest))), _fitting(xp, v, (*rows.shape, *rest))
    else:
        rows, rest = _places(lib, parts, shape), ()
        flat, piece = xp.reshape(array, (-1, 1)), _fitting(xp, v, tuple(rows.shape))
    rows = xp.reshape(rows, (-1,))
    return xp.reshape(_at_rows(lib, flat, rows, xp.reshape(piece, (rows.shape[0], flat.shape[1])), adds), shape)


def _fitting(xp: Any, v: Any, shape: tuple[int, ...]) -> Any:
    """Return a value broadcast to the shape of what is written, without the axes of length 1 in front that NumPy ignores."""
    return xp.broadcast_to(xp.reshape(v, tuple(v.shape)[v.ndim - len(shape) :]) if v.ndim > len(shape) else v, shape)


def _at_rows(lib: Library, table: Any, at: Any, rows: Any, adds: bool) -> Any:
    """Return a table in which rows are replaced, or added to, at given places; of repeated ones the last is written."""
    xp, n, m = lib.xp, table.shape[0], at.shape[0]
    if not m:
        return table
    order = xp.argsort(at, stable=True)
    at, rows = xp.take(at, order, axis=0), xp.take(rows, order, axis=0)
    step = 1
    while adds and step < m and bool(xp.any(again := at[step:] == at[:-step])):  # each the sum up to there of its place
        more = xp.where(again[:, None], rows[:-step, :], xp.zeros_like(rows[:-step, :]))
        rows = xp.concat([rows[:step, :], rows[step:, :] + more])
        step *= 2
    places = lib.array(np.arange(n), lib.known(at.dtype))
    last = xp.searchsorted(at, places, side="right") - 1
    last = xp.where(last < 0, xp.zeros_like(last), last)
    found = (xp.take(at, last, axis=0) == places)[:, None]
    new = xp.take(rows, last, axis=0)
    return xp.where(found, table + new if adds else new, table)
