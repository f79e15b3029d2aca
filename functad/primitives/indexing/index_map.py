"""Indices: normalised parts, the map from elements of a result to elements of an array, and in-place addition at an index.

Shape rules, batching, chunks and compiled code ask `IndexMap` about shapes, views, gathers and disjoint writes. This module
uses no primitive.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.errors import AbstractValueError, ConversionError
from functad.expressions.spec import ArraySpec, dtype_of, shape_of
from functad.places import here
from functad.primitives.operands import as_operand, has_array_api_alone, innermost, is_traced, numpy_values

Shape = tuple[int, ...]

_ndarray = np.ndarray
_PLAIN = (int, type(None), type(Ellipsis))
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
        array: the indexed array. Only a mask of a trace without values needs it: `jit` guards the number of its elements.

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


# The map from elements of a result to elements of an array


class AxisMap(NamedTuple):
    """The position along one axis of an indexed array: an affine function of the index of the result, or an index array.

    Attributes:
        offset: the constant term of the function.
        steps: the factors of the function, by axis of the result.
        array: the number of the index array that gives the position; `None` for the function.
    """

    offset: int
    steps: dict[int, int]
    array: int | None = None


class IndexMap(NamedTuple):
    """The map from the elements of a result to the elements of the array that they are read from, or written to.

    Attributes:
        whole: the shape of the array.
        shape: the shape of the result.
        axes: the position along each axis of the array.
        arrays: the index arrays. They broadcast, and may be specs.
        first: the first axis of the result that the index arrays give.
        array_ndim: the number of axes that the index arrays give.
    """

    whole: Shape
    shape: Shape
    axes: tuple[AxisMap, ...]
    arrays: tuple[Any, ...] = ()
    first: int = 0
    array_ndim: int = 0

    @classmethod
    def of(cls, whole: Shape, index: Any) -> IndexMap:
        """Return the map of `a[index]` for an array of shape `whole`. Arrays in the index may be specs.

        As in NumPy, the axes of the index arrays come first if the arrays are not adjacent in the index.

        Raises:
            IndexError: the index does not fit the shape, or a known index is out of bounds.
        """
        dims: list[int] = []
        axes: list[AxisMap] = []
        arrays: list[Any] = []
        places: list[int] = []
        first = 0
        for place, part in enumerate(_complete(index, len(whole))):
            if part is None:
                dims.append(1)
            elif type(part) is slice:
                start, stop, step = part.indices(whole[len(axes)])
                axes.append(AxisMap(start, {len(dims): step}))
                dims.append(len(range(start, stop, step)))
            elif part is not Ellipsis:
                first = first if places else len(dims)
                places.append(place)
                if type(part) is int:
                    if not -whole[len(axes)] <= part < whole[len(axes)]:
                        _check_bounds(part, whole[len(axes)], len(axes))
                    axes.append(AxisMap(part % whole[len(axes)], {}))
                    continue
                own = _index_arrays(part, whole, len(axes))
                axes += [AxisMap(0, {}, len(arrays) + i) for i in range(_axes_taken(part))]
                arrays += own
        if places and places[-1] - places[0] >= len(places):
            first = 0
        if not arrays:
            return cls(whole, tuple(dims), tuple(axes))
        found = np.broadcast_shapes(*[a.shape for a in arrays])
        for axis, own in enumerate(axes):
            if own.array is not None and (0 not in found or not arrays[own.array].shape):  # no bounds if nothing is read
                _check_bounds(arrays[own.array], whole[axis], axis)
        behind = len(found)
        moved = [own._replace(steps={j + behind * (j >= first): n for j, n in own.steps.items()}) for own in axes]
        return cls(whole, (*dims[:first], *found, *dims[first:]), tuple(moved), tuple(arrays), first, behind)

    @classmethod
    def by_axes(cls, whole: Shape, shape: Shape, axes: Sequence[int | None]) -> IndexMap:
        """Return the map of a transpose, a broadcast or a diagonal.

        Args:
            whole: the shape of the array.
            shape: the shape of the result.
            axes: for each axis of the array, the axis of the result with the same index; `None` for index 0.
        """
        return cls(tuple(whole), tuple(shape), tuple([AxisMap(0, {} if axis is None else {axis: 1}) for axis in axes]))

    @classmethod
    def reshape(cls, whole: Shape, shape: Shape) -> IndexMap | None:
        """Return the map of a reshape in C order that only adds or removes axes of length 1, else `None`."""
        if [n for n in whole if n != 1] != [n for n in shape if n != 1]:
            return None
        long = iter([j for j, n in enumerate(shape) if n != 1])
        return cls.by_axes(whole, shape, [None if n == 1 else next(long) for n in whole])

    @classmethod
    def along_axis(cls, whole: Shape, indices: Any, axis: int) -> IndexMap:
        """Return the map of `np.take_along_axis(a, indices, axis)`, for equal lengths of all other axes.

        Raises:
            IndexError: a known index is out of bounds.
        """
        _check_bounds(indices, whole[axis], axis)
        found = cls.by_axes(whole, indices.shape, range(len(whole)))
        axes = (*found.axes[:axis], AxisMap(0, {}, 0), *found.axes[axis + 1 :])
        return found._replace(axes=axes, arrays=(indices,), array_ndim=len(whole))

    @property
    def size(self) -> int:
        """The number of elements of the result."""
        return math.prod(self.shape)

    @property
    def is_affine(self) -> bool:
        """`True` if no axis has an index array, so that the result is a view."""
        return all(axis.array is None for axis in self.axes)

    def affine(self) -> IndexMap:
        """Return the map without the known index arrays that are arithmetic sequences along each of their axes."""
        return self._replace(axes=tuple([self._affine(*pair) for pair in zip(self.axes, self.whole, strict=True)]))

    def _affine(self, axis: AxisMap, n: int) -> AxisMap:
        values = None if axis.array is None else self.arrays[axis.array]
        if type(values) is not _ndarray or not values.size:
            return axis
        values = values.astype(np.int64)
        values[values < 0] += n
        start = values.ravel()[0]
        line, steps = start, {}
        for i, length in enumerate(values.shape):
            if length > 1:
                step = values[tuple([int(i == j) for j in range(values.ndim)])] - start
                line = line + step * np.arange(length).reshape((-1,) + (1,) * (values.ndim - i - 1))
                if step:
                    steps[self.first + self.array_ndim - values.ndim + i] = int(step)
        return AxisMap(int(start), steps) if (line == values).all() else axis

    def layout(self, strides: Sequence[int]) -> tuple[int, list[int]]:
        """Return the offset and the strides of the view, given the strides of the array. The map must be affine."""
        found = [0] * len(self.shape)
        for axis, stride in zip(self.axes, strides, strict=True):
            for j, step in axis.steps.items():
                found[j] += step * stride
        return sum(axis.offset * stride for axis, stride in zip(self.axes, strides, strict=True)), found

    def index_arrays(self) -> list[Any]:
        """Return an array of integers for each axis: an index whose result broadcasts to the result of the map.

        All index arrays must be known.
        """
        found = []
        for axis, n in zip(self.axes, self.whole, strict=True):
            if axis.array is None:
                own: Any = np.full((1,) * len(self.shape), axis.offset, np.intp)
                for j, step in axis.steps.items():
                    own = own + step * np.arange(self.shape[j]).reshape((-1,) + (1,) * (len(self.shape) - j - 1))
            else:
                own = self.arrays[axis.array]
                own = np.where(own < 0, own + n, own)
                own = own.reshape(own.shape + (1,) * (len(self.shape) - self.first - self.array_ndim))
            found.append(own)
        return found

    def positions(self) -> Any:
        """Return the positions, in C order, of the elements in the array. All index arrays must be known."""
        total: Any = np.zeros((), np.intp)
        for own, n in zip(self.index_arrays(), self.whole, strict=True):
            total = total * n + own
        return np.broadcast_to(total, self.shape)

    def along(self, axis: int) -> int | None:
        """Return the axis of the result that runs over a whole axis of the array in order; `None` if there is none."""
        own = self.axes[axis]
        [(j, step), *rest] = own.steps.items() or ((0, 0),)
        return None if own.offset or step != 1 or rest or self.shape[j] != self.whole[axis] else j

    @property
    def is_identity(self) -> bool:
        """`True` if the result is the whole array."""
        return self.shape == self.whole and all(self.along(axis) == axis for axis in range(len(self.whole)))

    @property
    def is_injective(self) -> bool:
        """`True` if the map is known to read no element twice: by its steps, and by one index array without repetitions."""
        free = {j for j, n in enumerate(self.shape) if n > 1}
        free -= {j for axis in self.axes if len(axis.steps) == 1 for j in axis.steps}
        pairs = zip(self.axes, self.whole, strict=True)
        return not free or (
            free <= {*range(self.first, self.first + self.array_ndim)} and any(itertools.starmap(self._is_distinct, pairs))
        )

    def _is_distinct(self, axis: AxisMap, n: int) -> bool:
        """Return `True` if the index array of an axis is known to differ for all indices of the result's array axes."""
        array = None if axis.array is None else self.arrays[axis.array]
        if type(array) is not _ndarray or array.shape != self.shape[self.first : self.first + self.array_ndim]:
            return False
        return len(np.unique(np.where(array < 0, array + n, array))) == array.size

    def is_disjoint(self, other: IndexMap) -> bool:
        """Return `True` if two maps into one array are known to read no common element: along one axis they never meet."""
        if not self.size or not other.size:
            return True
        return any(map(_never_meet, self._ranges(), other._ranges()))

    def _ranges(self) -> Iterator[range | None]:
        """Yield the positions along each axis; `None` for an index array or several steps."""
        for axis in self.axes:
            [(j, step), *rest] = axis.steps.items() or ((0, 0),)
            stop = axis.offset + step * self.shape[j] if step else axis.offset + 1
            yield None if rest or axis.array is not None else range(axis.offset, stop, step or 1)


def _never_meet(a: range | None, b: range | None) -> bool:
    """Return `True` if two arithmetic sequences that are not empty are known to have no common number."""
    if a is None or b is None:
        return False
    apart = max(a[0], a[-1]) < min(b[0], b[-1]) or max(b[0], b[-1]) < min(a[0], a[-1])
    return apart or (a[0] - b[0]) % math.gcd(a.step, b.step) != 0


def are_disjoint(maps: Sequence[IndexMap]) -> bool:
    """Return `True` if maps into one array are known to read no common element.

    Each map is compared with the maps that begin before it and reach its first position, along the axis with most beginnings.
    """
    maps = [m for m in maps if m.size]
    ranges = [[(0, 0), *[None if r is None else (min(r[0], r[-1]), max(r[0], r[-1])) for r in m._ranges()]] for m in maps]
    ends: Any = max([own for own in zip(*ranges, strict=True) if None not in own], key=lambda own: len(set(own)), default=())
    open_: list[tuple[int, IndexMap]] = []
    for (low, high), own in sorted(zip(ends, maps, strict=True), key=lambda pair: pair[0]):
        open_ = [pair for pair in open_ if pair[0] >= low]
        if not all(own.is_disjoint(other) for _, other in open_):
            return False
        open_.append((high, own))
    return True


def stacked(maps: Sequence[IndexMap], axis: int) -> IndexMap | None:
    """Return the map of a stack, along a new axis, of the results of two or more affine maps into one array.

    The result is `None` if no affine map reads the stack: the maps must differ by a constant step from one to the next.
    """
    first = maps[0]
    steps = [b.offset - a.offset for a, b in zip(first.axes, maps[1].axes, strict=True)]
    for i, own in enumerate(maps):
        moved = [place._replace(offset=place.offset + i * step) for place, step in zip(first.axes, steps, strict=True)]
        if own != first._replace(axes=tuple(moved)):
            return None
    axes = [
        AxisMap(place.offset, {j + (j >= axis): n for j, n in place.steps.items()} | ({axis: step} if step else {}))
        for place, step in zip(first.axes, steps, strict=True)
    ]
    return IndexMap(first.whole, (*first.shape[:axis], len(maps), *first.shape[axis:]), tuple(axes))


def indexed_shape(shape: Shape, index: Any) -> Shape:
    """Return the shape of `a[index]` for an array of the given shape. Arrays in the index may be specs."""
    return IndexMap.of(shape, index).shape


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


def _index_arrays(part: Any, whole: Shape, axis: int) -> Sequence[Any]:
    """Return the integer arrays for an array in an index: for a mask, one for each of its axes, which begin at `axis`."""
    kind = "b" if isinstance(part, bool) else part.dtype.kind
    if kind in "iu":
        return [part]
    if kind != "b":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    if not np.ndim(part):
        return [np.zeros(int(part), np.intp)]  # it takes no axis, and adds one to the result
    for i, (n, m) in enumerate(zip(whole[axis:], part.shape, strict=False), axis):
        if m not in (n, 0):
            raise IndexError(
                f"boolean index did not match indexed array along axis {i}; size of axis is {n} but size of "
                f"corresponding boolean axis is {m}"
            )
    return part.nonzero()  # type: ignore[no-any-return]


def _check_bounds(part: Any, n: int, axis: int) -> None:
    """Raise NumPy's error if an integer or an index array is out of bounds for an axis of length `n`."""
    if isinstance(part, ArraySpec) or not np.size(part):
        return
    least, most = np.min(part), np.max(part)
    if least < -n or most >= n:
        raise IndexError(f"index {most if most >= n else least} is out of bounds for axis {axis} with size {n}")


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
        places = IndexMap.of(target.shape, index).positions()
        np.add.at(target.reshape(-1), places.reshape(-1), np.broadcast_to(piece, places.shape).reshape(-1))
        return
    one = len(parts) == 1
    shape = (*parts[0].shape, *target.shape[1:]) if one and parts[0].dtype.kind in "iu" else target[index].shape
    # NumPy 2.4 reads out of bounds if it broadcasts a piece along a vector: np.add.at(np.zeros(3), [[0], [1]], [1.0])
    if np.shape(piece) != shape and np.ndim(piece) <= len(shape):
        piece = np.broadcast_to(piece, shape)
    np.add.at(target, parts[0] if one else index, piece)
