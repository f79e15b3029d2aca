"""Index parsing, shapes of indexed reads, and in-place addition at an index. This module uses no primitive."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.errors import AbstractValueError, ConversionError
from functad.expressions.spec import ArraySpec, dtype_of, shape_of, stand_in
from functad.places import here
from functad.primitives.operands import as_operand, has_array_api_alone, innermost, is_traced, numpy_values

Shape = tuple[int, ...]

_ndarray = np.ndarray
_PLAIN = (int, type(None), type(Ellipsis))
_WHOLE = slice(None)
_INVALID = (
    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid indices"
)


class FloatIndexError(ConversionError, IndexError):
    """A Tensor of floats was used as an index of another."""


# The parts of an index


def plain_index(index: Any, array: Any = None) -> Any:
    """Return the index normalised to Python integers, booleans and slices, `None`, `Ellipsis`, arrays and integer Tensors.

    Args:
        index: the index.
        array: the indexed array. It is needed for a mask without a value whose number of elements a trace knows.

    Raises:
        AbstractValueError: a mask is an abstract Tensor, so the shape of the result is unknown.
        FloatIndexError: a Tensor of floats cannot be an index.
        IndexError: a mask without a value does not fit the array.
    """
    if type(index) is tuple:
        for part in index:
            if type(part) is not int:
                parts = [_plain_part(part, array) for part in index]
                return tuple(parts) if _Places not in map(type, parts) else _with_places(parts, shape_of(array))
        return index
    if issubclass(type(index), tuple):
        return plain_index(tuple(index), array)  # a named tuple
    part = _plain_part(index, array)
    return part if type(part) is not _Places else _with_places([part], shape_of(array))


class _Places:
    """The index arrays that a mask without a value becomes, one for each axis, with the shape of the mask."""

    def __init__(self, arrays: tuple[Any, ...], shape: Shape) -> None:
        self.arrays = arrays
        self.shape = shape


def _with_places(parts: Sequence[Any], shape: Shape) -> tuple[Any, ...]:
    """Return an index with the index arrays of masks, after NumPy has checked that the masks fit the shape."""
    masks = [np.zeros(part.shape, np.bool_) if type(part) is _Places else part for part in parts]
    for i, part in enumerate(parts):
        if type(part) is _Places:  # the mask alone: other index arrays must broadcast with its places, not with this stand-in
            others = [_stand_in(other) if j != i else other for j, other in enumerate(masks)]
            np.broadcast_to(False, shape)[tuple(others)]
    return tuple([own for part in parts for own in (part.arrays if type(part) is _Places else (part,))])


def _stand_in(part: Any) -> Any:
    """Return a mask, an array or a Tensor in an index as an index that takes the same axes without a check of its elements."""
    if not hasattr(part, "dtype"):
        return part
    return np.zeros(np.shape(part), np.bool_) if dtype_of(part).kind == "b" else slice(None)


def _plain_part(part: Any, array: Any = None) -> Any:
    kind = type(part)
    if kind is slice:
        start, stop, step = part.start, part.stop, part.step
        if type(start) in _PLAIN and type(stop) in _PLAIN and type(step) in _PLAIN:
            return part
        try:
            return slice(*[bound if bound is None else operator.index(bound) for bound in (start, stop, step)])
        except AbstractValueError:
            raise AbstractValueError(
                f"a slice whose bounds are Tensors without known values, at {here()}: so its length is not known either. "
                f"x[i + np.arange(n)] reads, or is written to at, n places from i on."
            ) from None
    if kind in _PLAIN or kind is bool:
        return part
    if kind is _ndarray:
        return bool(part) if part.ndim == 0 and part.dtype == np.bool_ else part
    if issubclass(type(part), (np.integer, np.bool_)):
        return part.item()
    if kind is list or kind is tuple:
        if {*map(type, part)} == {int}:
            return np.array(part)
        part = as_operand(part)
        if part.size == 0 and part.dtype.kind == "f":
            return part.astype(np.intp)  # NumPy treats an empty list as integers
    if is_traced(part):
        return _tensor_part(part, array)
    if has_array_api_alone(kind):
        return _plain_part(numpy_values(part, "indexing"))
    if hasattr(part, "dtype") and hasattr(part, "__array_function__"):
        return part  # an array of another library; the indexed array is one too
    if hasattr(part, "__index__") and not hasattr(part, "__array__"):
        return operator.index(part)
    return _places_in(part)


def _places_in(part: Any) -> Any:
    """Return any other index, such as a range or a pandas index, converted to a NumPy array."""
    try:
        places = np.asarray(part)
    except (TypeError, ValueError):
        raise IndexError(_INVALID) from None
    if places.size == 0 and places.ndim and places.dtype.kind == "f":
        return places.astype(np.intp)
    if places.dtype.kind not in "biu":
        raise IndexError(_INVALID)
    return _plain_part(places)


def _tensor_part(part: Any, array: Any = None) -> Any:
    """Return a Tensor of integers unchanged, and the value of a mask, which has no derivative, or its places.

    Raises:
        AbstractValueError: the value of the mask is unknown.
        FloatIndexError: `part` is a Tensor of floats.
    """
    kind = part.dtype.kind
    if kind == "b" and not isinstance(inner := innermost(part), ArraySpec):
        return _plain_part(inner)
    if kind == "b":
        if array is not None and (found := _places_of(part)) is not None:
            return found
        raise AbstractValueError(
            f"indexing with a boolean Tensor of which only {part.spec} is known, at {here()}: an abstract trace has no values, "
            f"and the shape of the result depends on them. Use np.where(mask, x, 0), which keeps the shape."
        )
    if kind not in "iu":
        raise FloatIndexError(
            f"{_INVALID}, and a Tensor of {part.dtype} is none, at {here()}: an index has no derivative. "
            f"Use functad.stop_gradient(t).astype(int), or np.interp to read between places."
        )
    return part


def _places_of(mask: Any) -> Any:
    """Return the places of a mask in a trace that knows their number, or a mask of shape `()` as a boolean; else `None`."""
    from functad.primitives.indexing.sort import places_of  # noqa: PLC0415 - few programs compile masks

    try:
        if not mask.shape:
            return bool(mask)
        return _Places(places_of(mask), mask.shape)
    except AbstractValueError:
        return None


PART, PLACES, WIDENS, OTHER = "part", "places", "widens", "other"


def way_of_reading(index: Any) -> str:
    """Return the kind of an index.

    `PART` has integers and slices, `PLACES` has arrays, `WIDENS` reads all elements and only adds axes. `OTHER` is any other
    index; `plain_index` may turn it into a simpler one.
    """
    if type(index) is not tuple:
        return OTHER
    found = WIDENS
    for part in index:
        if part is None:
            continue
        kind = type(part)
        if kind is slice:
            if part.start is None and part.stop is None and part.step is None:
                continue
            if type(part.start) not in _PLAIN or type(part.stop) not in _PLAIN or type(part.step) not in _PLAIN:
                return OTHER
            found = PART if found is WIDENS else found
        elif kind is int:
            found = PART if found is WIDENS else found
        elif kind is _ndarray and part.ndim:
            found = PLACES
        elif part is not Ellipsis:
            return OTHER
    return found


def holds_tensors(index: Any) -> bool:
    """Return `True` if an index returned by `plain_index` contains Tensors."""
    if type(index) is tuple:
        return any(map(is_traced, index))
    return is_traced(index)


def is_basic(index: Any) -> bool:
    """Return `True` if the index has only integers, slices, `newaxis` and `Ellipsis`, so it reads a view or an element."""
    for part in index if type(index) is tuple else (index,):
        kind = type(part)
        if kind is not int and kind is not slice and part is not None and part is not Ellipsis:
            return False
    return True


def never_repeats(index: Any) -> bool:
    """Return `True` if all arrays in the index are boolean masks, so it selects each element at most once."""
    for part in index if type(index) is tuple else (index,):
        kind = type(part)
        if kind is int or kind is slice or part is None or part is Ellipsis or kind is bool:
            continue
        if getattr(part, "dtype", None) != np.bool_:
            return False
    return True


# Shapes of indexed reads


def shape_widened(shape: Shape, index: tuple[Any, ...]) -> Shape | None:
    """Return the shape of `a[index]` if the index only adds axes, like `a[:, None]`; otherwise `None`."""
    dims: list[int] = []
    axis = 0
    for number, part in enumerate(index):
        if part is None:
            dims.append(1)
            continue
        if part is Ellipsis:
            later = index[number + 1 :]
            if any(other is Ellipsis for other in later):
                return None  # NumPy raises the error
            stop = len(shape) - sum(type(other) is slice for other in later)
        elif type(part) is slice and part == _WHOLE:
            stop = axis + 1
        else:
            return None
        dims.extend(shape[axis:stop])
        axis = stop
    if axis > len(shape):
        return None  # too many indices: NumPy raises the error
    return (*dims, *shape[axis:])


def indexed_shape(shape: Shape, index: Any) -> Shape:
    """Return the shape of `a[index]` for an array of the given shape, without allocation. Arrays in the index may be specs.

    As in NumPy, the axes of the index arrays come first if the arrays are not adjacent in the index.
    """
    if is_basic(index):
        return np.shape(stand_in(ArraySpec(shape, np.dtype(np.bool_)))[index])
    dims: list[int] = []
    read: list[tuple[Any, int]] = []
    places: list[int] = []
    place = axis = 0
    for number, part in enumerate(_complete(index, len(shape))):
        if part is None:
            dims.append(1)
        elif type(part) is slice:
            dims.append(len(range(*part.indices(shape[axis]))))
        elif part is not Ellipsis:
            place = place if places else len(dims)
            places.append(number)
            read.append((part, axis))
        axis += _axes_taken(part)
    if places[-1] - places[0] >= len(places):
        place = 0
    found = np.broadcast_shapes(*[_shape_read(part) for part, _ in read])
    for part, axis in read:
        if 0 not in found or dtype_of(part).kind == "b" or np.ndim(part) == 0:  # NumPy ignores bounds if nothing is read
            _check_bounds(part, shape, axis)
    dims[place:place] = found
    return tuple(dims)


def _complete(index: Any, ndim: int) -> list[Any]:
    """Return the parts of an index, with a slice for each axis that an ellipsis covers or the index leaves out."""
    parts = list(index) if isinstance(index, tuple) else [index]
    taken = sum(map(_axes_taken, parts))
    if taken > ndim:
        raise IndexError(f"too many indices for array: array is {ndim}-dimensional, but {taken} were indexed")
    whole: list[Any] = [slice(None)] * (ndim - taken)
    dots = [i for i, part in enumerate(parts) if part is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    place = dots[0] if dots else len(parts)
    parts[place : place + 1] = whole or [Ellipsis]  # an ellipsis for no axis still separates index arrays
    return parts


def _axes_taken(part: Any) -> int:
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    return len(part.shape) if hasattr(part, "dtype") and part.dtype == np.bool_ else 1


def _shape_read(part: Any) -> Shape:
    """Return the shape of the result axes of an integer, a boolean or an array in an index."""
    if isinstance(part, bool):
        return (int(part),)
    if isinstance(part, ArraySpec):
        return part.shape
    if dtype_of(part).kind not in "biu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    return (int(np.count_nonzero(part)),) if dtype_of(part).kind == "b" else np.shape(part)


def _check_bounds(part: Any, shape: Shape, axis: int) -> None:
    """Raise NumPy's error if part of an index is out of bounds."""
    if isinstance(part, (bool, ArraySpec)):
        return
    if dtype_of(part).kind == "b":
        for i, (n, m) in enumerate(zip(shape[axis:], part.shape, strict=False), axis):
            if m not in (n, 0):
                raise IndexError(
                    f"boolean index did not match indexed array along axis {i}; size of axis is {n} but size of "
                    f"corresponding boolean axis is {m}"
                )
        return
    if not np.size(part):
        return
    least, most = np.min(part), np.max(part)
    n = shape[axis]
    if least < -n or most >= n:
        raise IndexError(f"index {most if most >= n else least} is out of bounds for axis {axis} with size {n}")


def array_axes(index: Any, ndim: int) -> tuple[int, int, bool]:
    """Return the position of the axes of the index arrays in the result of indexing an array with `ndim` axes.

    Returns:
        The first of these axes, their number, and `True` if they come first because the index arrays are not adjacent.
    """
    place = before = 0
    places: list[int] = []
    shapes: list[Shape] = []
    for number, part in enumerate(_complete(index, ndim)):
        if part is None or type(part) is slice:
            before += 1
        elif part is not Ellipsis:
            place = place if places else before
            places.append(number)
            shapes.append((1,) * len(_shape_read(part)))
    separate = bool(places) and places[-1] - places[0] >= len(places)
    return 0 if separate else place, max(map(len, shapes), default=0), separate


# Addition at an index


def add_at(target: Any, index: Any, piece: Any) -> None:
    """Add `piece` to `target[index]` in place. Repeated indices accumulate."""
    if type(index) is int or is_basic(index):
        view = target[index]
        if type(view) is _ndarray:
            view += piece  # `target[index] += piece` would also copy the view onto itself
        else:
            target[index] = view + piece
    elif never_repeats(index):
        target[index] += piece
    else:
        _add_repeatedly(target, index, piece)


_MANY = 1024
"""The minimum number of elements for which `_add_repeatedly` computes flat positions."""


def _add_repeatedly(target: Any, index: Any, piece: Any) -> None:
    """Add `piece` with `np.add.at`, converted to the fast path of `np.add.at` if `piece` is large.

    The fast path is a single integer array on a single axis: 4 ns per element instead of 10 to 25. The conversion takes 20 us
    and is skipped if computing the flat positions costs more than it saves.
    """
    parts = index if type(index) is tuple else (index,)
    if type(target) is not _ndarray:
        np.add.at(target, index, piece)
        return
    if np.size(piece) >= _MANY and target.ndim > 1 and target.flags.c_contiguous:
        places = _places(target, parts, np.size(piece))
        if places is not None:
            if np.shape(piece) != places.shape:
                piece = np.broadcast_to(piece, places.shape)
            np.add.at(target.reshape(-1), places.reshape(-1), piece.reshape(-1))
            return
    one = len(parts) == 1
    shape = (*parts[0].shape, *target.shape[1:]) if one and parts[0].dtype.kind in "iu" else target[index].shape
    # NumPy 2.4 reads out of bounds if it broadcasts a piece along a vector: np.add.at(np.zeros(3), [[0], [1]], [1.0])
    if np.shape(piece) != shape and np.ndim(piece) <= len(shape):
        piece = np.broadcast_to(piece, shape)
    np.add.at(target, parts[0] if one else index, piece)


def _places(target: Any, parts: tuple[Any, ...], size: int) -> Any:
    """Return the flat positions that an index reads from a C-contiguous array.

    `None` if computing them is slow, or if an index is out of bounds.
    """
    places: Any = 0
    for part, n in zip(parts, target.shape, strict=False):
        if type(part) is not int and (type(part) is not _ndarray or part.dtype.kind not in "iu"):
            if target.size <= 4 * size:
                return np.arange(target.size).reshape(target.shape)[parts]
            return None
        each = np.asarray(part)
        if each.size and not -n <= each.min() <= each.max() < n:
            return None  # `np.add.at` raises
        if type(part) is _ndarray:
            part = part.astype(np.intp)
            part[part < 0] += n
        places = places * n + (part if type(part) is _ndarray or part >= 0 else part + n)
    rest = target.shape[len(parts) :]
    if not rest:
        return places
    row = math.prod(rest)
    return (places[..., None] * row + np.arange(row)).reshape((*np.shape(places), *rest))
