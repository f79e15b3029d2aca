"""Lowering of reads, writes and additions at index arrays, which are known at compile time or only at run time.

NumPy raises an error for an index out of bounds. Native code reads another element instead and calls `Code.refuse`: its results
are discarded, and NumPy computes the whole list and raises the error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.backends.native.arranging.pieces import FEW, clear, few, totals, write_pieces
from functad.backends.native.arrays import Array, Formula, Memory, aligned
from functad.backends.native.lowering import Lowered, Own, Pointwise, View, row
from functad.backends.native.plan import TINY
from functad.backends.native.views import Part, broadcast
from functad.expressions.expressions import Constant, Equation
from functad.expressions.spec import ArraySpec
from functad.loops.build import KINDS, Code, Index
from functad.loops.values import Value, where
from functad.primitives.elementwise.selection import CHOOSE
from functad.primitives.indexing.index_parts import is_basic
from functad.primitives.indexing.place import PLACE, PLACE_ADD
from functad.primitives.indexing.read import ADD_PIECE, GATHER, GETITEM
from functad.primitives.indexing.sort import PICKED, PLACED, REORDERED, RESTORED
from functad.primitives.indexing.write import ADD_TO, WRITE, part
from functad.primitives.linalg.einsum import SPREAD

Shape = tuple[int, ...]


class Way(NamedTuple):
    """The position along one axis of an indexed array: an affine function of the result's index, or an index array.

    Attributes:
        start: the constant term of the function.
        steps: the factors of the function, by axis of the result.
        array: the number of the index array that gives the position; `None` for the function.
        known: `True` if the index array is known and within bounds.
    """

    start: int
    steps: dict[int, int]
    array: int | None = None
    known: bool = False


class Places:
    """The positions of the elements that an index with arrays selects.

    Attributes:
        whole: the shape of the indexed array.
        shape: the shape of the result.
        ways: the positions along each axis of the indexed array.
        first: the first axis of the result that the index arrays produce.
        count: the number of axes that the index arrays produce.
    """

    def __init__(self, whole: Shape, shape: Shape, ways: Sequence[Way], first: int, count: int) -> None:
        self.whole, self.shape, self.ways, self.first, self.count = whole, shape, ways, first, count

    def at(self, code: Code, index: Sequence[Index], arrays: Sequence[Array]) -> list[Index]:
        """Return the index in the indexed array of the element at `index` of the result."""
        found: list[Index] = []
        for n, way in zip(self.whole, self.ways, strict=True):
            if way.array is None:
                found.append(code.linear([index[axis] for axis in way.steps], list(way.steps.values()), way.start))
                continue
            array = arrays[way.array]
            own = aligned(index[self.first : self.first + self.count], array.shape)
            found.append(_within(code, code.cast(array.at(code, own), "i64"), n, way.known))
        return found

    def of(self, array: Array, arrays: Sequence[Array]) -> Array:
        """Return the selected elements of an array, as a view if strides describe them."""
        if isinstance(array, Memory) and all(way.array is None for way in self.ways):
            strides = [0] * len(self.shape)
            for way, stride in zip(self.ways, array.strides, strict=True):
                for axis, step in way.steps.items():
                    strides[axis] += step * stride
            shift = sum(way.start * stride for way, stride in zip(self.ways, array.strides, strict=True))
            return array.view(self.shape, strides, shift)
        return Formula(self.shape, array.kind, lambda code, index: array.at(code, self.at(code, index, arrays)))

    def write(self, writer: Any, piece: Array, arrays: Sequence[Array], target: Memory) -> None:
        """Write a piece to the selected elements of `target`, one element after the other."""
        code = Code(fused=writer.code.fused, outer=writer.code)
        piece = broadcast(_trimmed(piece, len(self.shape)), self.shape)

        def level(index: list[Index]) -> None:
            if len(index) == len(self.shape):
                target.put(code, self.at(code, index, arrays), piece.at(code, index))
            elif self.shape[len(index)] == 1:
                level([*index, 0])
            else:
                with code.loop(0, self.shape[len(index)]) as i:
                    level([*index, i])

        level([])
        writer.module.call(writer.code, code)


def _within(code: Code, place: Value, n: int, known: bool) -> Value:
    """Return a nonnegative index; an index out of bounds is refused and becomes 0."""
    place = where(place < 0, place + n, place)
    if known:
        return place
    beyond = (place < 0) | (place >= n)
    code.refuse(beyond)
    return where(beyond, place.like(0), place)


def _trimmed(array: Array, ndim: int) -> Array:
    """Return an array without the leading axes of length 1 in excess of `ndim`."""
    extra = len(array.shape) - ndim
    return array.reshaped(array.shape[extra:]) if extra > 0 else array


def places_of(whole: Shape, template: Any, arrays: Sequence[ArraySpec | np.ndarray[Any, Any]]) -> Places | None:
    """Return the places of an index; `None` if it is out of bounds.

    Args:
        whole: the shape of the indexed array.
        template: the index, with `"i"` for each index array.
        arrays: the index arrays that are known, and the specs of the others.
    """
    parts = _parts(template, len(whole))
    dims: list[int] = []
    ways: list[Any] = []
    numbers: list[int] = []
    place, lengths = 0, iter(whole)
    for number, (kind, part_) in enumerate(parts):
        if kind == "new":
            dims.append(1)
        elif kind == "slice":
            n = next(lengths)
            start, stop, step = part_.indices(n)
            ways.append((start, len(dims), step))
            dims.append(len(range(start, stop, step)))
        elif kind in ("at", "array"):
            place = place if numbers else len(dims)
            numbers.append(number)
            n = next(lengths)
            ways.append((kind, part_ % n if kind == "at" else part_))
    if numbers and numbers[-1] - numbers[0] >= len(numbers):
        place = 0
    read = np.broadcast_shapes(*[a.shape for a in arrays])
    found = []
    for n, way in zip(whole, ways, strict=True):
        if len(way) == 3:
            start, axis, step = way
            found.append(Way(start, {axis if axis < place else axis + len(read): step}))
        elif way[0] == "at":
            found.append(Way(way[1], {}))
        else:
            made = _way(way[1], arrays[way[1]], n, place, len(read))
            if made is None:
                return None
            found.append(made)
    return Places(whole, (*dims[:place], *read, *dims[place:]), found, place, len(read))


def _parts(template: Any, ndim: int) -> list[tuple[str, Any]]:
    """Return the parts of an index with their types, and a full slice for each missing axis."""
    parts: list[tuple[str, Any]] = []
    count = 0
    for part_ in template:
        if part_ is None:
            parts.append(("new", None))
        elif part_ == "i":
            parts.append(("array", count))
            count += 1
        elif part_ == "...":
            parts.append(("rest", None))
        elif isinstance(part_, str):
            parts.append(("slice", slice(*[int(bound) if bound else None for bound in part_.split(":")])))
        else:
            parts.append(("at", int(part_)))
    taken = sum(kind in ("array", "slice", "at") for kind, _ in parts)
    whole: list[tuple[str, Any]] = [("slice", slice(None))] * (ndim - taken)
    place = next((i for i, (kind, _) in enumerate(parts) if kind == "rest"), len(parts))
    parts[place : place + 1] = whole or [("rest", None)]
    return parts


def _way(number: int, array: Any, n: int, first: int, count: int) -> Way | None:
    """Return the positions of index array `number` along an axis of length `n`; `None` if it is out of bounds."""
    if isinstance(array, ArraySpec):
        return Way(0, {}, number)
    if array.min() < -n or array.max() >= n:
        return None
    values = np.where(array < 0, array + n, array)
    start = int(values.ravel()[0])
    steps = {}
    line = np.full(values.shape, start)
    for axis, length in enumerate(values.shape):
        if length > 1:
            step = int(values[tuple([int(i == axis) for i in range(values.ndim)])]) - start
            line = line + step * np.arange(length).reshape((-1,) + (1,) * (values.ndim - axis - 1))
            steps[first + count - values.ndim + axis] = step
    if np.array_equal(line, values):
        return Way(start, steps)
    return Way(0, {}, number, known=True)


# Reading


def _known(sources: Sequence[Any], given: Sequence[ArraySpec]) -> list[Any]:
    """Return the value of each constant index array, and the spec of each other one."""
    return [np.asarray(s.value) if isinstance(s, Constant) else g for s, g in zip(sources, given, strict=True)]


@row(GETITEM)
def _getitem(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    index = equation.params["index"]
    if not is_basic(index):
        return few(equation, given, results[0]) if results[0].size <= FEW else None
    taken = Part(given[0].shape, index)
    return View(lambda arrays: taken.of(arrays[0])) if taken.shape == results[0].shape else None


@row(GATHER)
def _gather(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    places = places_of(given[0].shape, equation.params["template"], _known(equation.inputs[1:], given[1:]))
    return None if places is None else _read(places)


def _read(places: Places) -> View:
    cost = 2.0 * sum(way.array is not None for way in places.ways)
    return View(lambda arrays: places.of(arrays[0], arrays[1:]), cost=cost)


def _rows_of(equation: Equation, given: Sequence[ArraySpec], whole: Shape, axis: int) -> Places | None:
    """Return the places of an index array as in `np.take_along_axis`; `None` if it is out of bounds or broadcasts."""
    [indices] = _known(equation.inputs[1:2], given[1:2])
    shape, ndim = given[1].shape, len(whole)
    axis %= ndim
    along = _way(0, indices, whole[axis], 0, ndim)
    if along is None or len(shape) != ndim:
        return None
    ways = [along if i == axis else Way(0, {i: 1} if n > 1 else {}) for i, n in enumerate(whole)]
    return Places(whole, shape, ways, 0, ndim)


@row(PICKED, REORDERED)
def _picked(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    places = _rows_of(equation, given, given[0].shape, equation.params.get("axis", -1))
    return None if places is None else _read(places)


# Adding to zeros


def _added(places: Places | None, given: Sequence[ArraySpec]) -> Lowered | None:
    """Lower the addition of a piece to zeros."""
    if places is None or math.prod(places.shape) != given[0].size:
        return None

    def write(writer: Any, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
        [out] = outs
        clear(writer, out)
        places.write(writer, operands[0], operands[1:], totals(out))

    return Own(write, stored=[given[0].size > TINY, *[False] * (len(given) - 1)])


@row(ADD_PIECE)
def _add_piece(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    arrays = _known(equation.inputs[1:], given[1:])
    return _added(places_of(results[0].shape, equation.params["template"], arrays), given)


@row(PLACED)
def _placed(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    return _added(_rows_of(equation, given, results[0].shape, -1), given)


@row(RESTORED)
def _restored(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    places = _rows_of(equation, given, results[0].shape, equation.params["axis"])
    if places is None:
        return None
    return Own(lambda writer, operands, outs: places.write(writer, operands[0], operands[1:], outs[0]))


@row(SPREAD)
def _spread(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    model = np.empty(results[0].shape, np.int8)
    target = _strided(np.einsum(equation.params["subscripts"], model), model)
    if target is None or target.shape != given[0].shape:
        return None

    def write(writer: Any, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
        clear(writer, outs[0])
        writer.copy(operands[0], target.of(outs[0]))

    return Own(write, stored=given[0].size > TINY, gaps=True)


# Writing and adding to elements


def _view_in(shape: Shape, path: Any, index: Any = ...) -> Strided | None:
    """Return the part of an array that a path of views and a basic index select; `None` if it is a copy."""
    model = np.empty(shape, np.int8)
    own = index if type(index) is tuple else (index,)
    own = own if any(entry is ... for entry in own) else (*own, ...)  # an element is a view of shape `()` too
    return _strided(part(model, path)[own], model)


def _strided(view: Any, model: Any) -> Strided | None:
    """Return the strides of a view in a model array of bytes; `None` if it is a copy."""
    if not np.may_share_memory(view, model):
        return None
    return Strided(view.shape, view.strides, view.__array_interface__["data"][0] - model.__array_interface__["data"][0])


class Strided(NamedTuple):
    """A strided part of a contiguous array.

    Attributes:
        shape: the shape of the part.
        strides: the strides in elements.
        shift: the position of the first element.
    """

    shape: Shape
    strides: tuple[int, ...]
    shift: int

    def of(self, array: Memory) -> Memory:
        """Return the part of an array."""
        return array.view(self.shape, self.strides, self.shift)


@row(WRITE, ADD_TO)
def _write(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    path, index, adds = equation.params["path"], equation.params["index"], equation.primitive is ADD_TO
    if not adds and results[0].size <= FEW:
        return few(equation, given, results[0])
    target = _view_in(given[0].shape, path, index) if is_basic(index) else None
    if target is None:
        return None

    def write(writer: Any, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
        [out] = outs
        if operands[0] is not out:
            write_pieces(writer, [(equation.inputs[0], out)])
        into = target.of(totals(out) if adds else out)
        writer.copy(broadcast(_trimmed(operands[1], len(target.shape)), target.shape), into)

    return Own(write, stored=[False, given[1].size > TINY], updates=True)


@row(PLACE, PLACE_ADD)
def _place(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    path, adds = equation.params["path"], equation.primitive is PLACE_ADD
    view = _view_in(given[0].shape, path)
    if view is None:
        return None
    places = places_of(view.shape, equation.params["template"], _known(equation.inputs[2:], given[2:]))
    if places is None:
        return None

    def write(writer: Any, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
        [out] = outs
        write_pieces(writer, [(equation.inputs[0], out)])
        places.write(writer, operands[1], operands[2:], view.of(totals(out) if adds else out))

    return Own(write, stored=[False, given[1].size > TINY, *[False] * (len(given) - 2)])


# Choosing


@row(CHOOSE)
def _choose(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    kind, mode, count = KINDS[results[0].dtype], equation.params["mode"], len(given) - 1

    def formula(code: Code, place: Value, *choices: Value) -> Value:
        if mode == "raise":
            code.refuse((place < 0) | (place >= count))
        elif mode == "wrap":
            rest = code.emit("rem", "i64", place, place.like(count))
            place = where(rest < 0, rest + count, rest)
        found = choices[0]
        for i in range(1, count):
            chosen = place >= i if i == count - 1 else place.equals(i)
            found = where(chosen, choices[i], found)
        return found

    return Pointwise(["i64", *[kind] * count], kind, formula, 2.0 + count)
