"""Arrays in native code: elements in memory, elements in registers, elements computed at each use."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.expressions.spec import PYTHON_SCALARS, ArraySpec
from functad.loops.build import Code, Index
from functad.loops.values import Value, where
from functad.places import here
from functad.primitives.indexing.index_map import IndexMap

Shape = tuple[int, ...]


class Array:
    """An array of known shape with elements that are read by index.

    Attributes:
        shape: the shape.
        kind: the LLVM type of the elements.
    """

    def __init__(self, shape: Shape, kind: str) -> None:
        self.shape = shape
        self.kind = kind

    def at(self, code: Code, index: Sequence[Index]) -> Value:
        """Return the element at `index`, as a value of the function `code`."""
        raise NotImplementedError

    def reshaped(self, shape: Shape) -> Array:
        """Return the array with another shape of the same size, in C order."""
        chosen = IndexMap.reshape(self.shape, shape)
        if chosen is not None:
            return self.selected(chosen)
        old, new = c_strides(self.shape), c_strides(shape)
        return Formula(
            shape, self.kind, lambda code, index: self.at(code, unravel(code, code.linear(index, new), self.shape, old))
        )

    def selected(self, chosen: IndexMap, arrays: Sequence[Array] = ()) -> Array:
        """Return the elements that a map selects, as a view if possible.

        Args:
            chosen: the map.
            arrays: the index arrays of the map.
        """
        return Formula(chosen.shape, self.kind, lambda code, index: self.at(code, place_of(code, index, chosen, arrays)))

    def broadcast(self, shape: Shape) -> Array:
        """Return the array broadcast to a shape."""
        new = len(shape) - len(self.shape)
        axes = [None if n == 1 != shape[new + i] else new + i for i, n in enumerate(self.shape)]
        return self.selected(IndexMap.by_axes(self.shape, shape, axes))

    def elements(self, code: Code) -> list[Value]:
        """Return all elements, in C order."""
        return [self.at(code, index) for index in itertools.product(*map(range, self.shape))]


class Memory(Array):
    """An array in memory.

    Attributes:
        pointer: the address, a value of the current function or of an enclosing one.
        strides: the strides, in elements.
        offset: the position of the first element.
    """

    def __init__(
        self, shape: Shape, kind: str, pointer: Value, strides: Sequence[int] | None = None, offset: Index = 0
    ) -> None:
        super().__init__(shape, kind)
        self.pointer = pointer
        self.strides = c_strides(shape) if strides is None else tuple(strides)
        self.offset = offset

    def place(self, code: Code, index: Sequence[Index]) -> Index:
        """Return the position of an element in memory."""
        return code.linear(index, self.strides, self.offset)

    def at(self, code: Code, index: Sequence[Index]) -> Value:
        """Return an element."""
        position = self.place(code, index)
        pointer = self.pointer
        own = position.name if isinstance(position, Value) else position
        key = pointer.name, id(pointer.body), code.changes.get(pointer.name, 0), own
        known = code.remembered.get(key)
        if known is None:
            known = code.remember(key, code.load(code.own(pointer), position, self.kind))
        return known  # type: ignore[no-any-return]

    def put(self, code: Code, index: Sequence[Index], value: Value) -> None:
        """Write an element."""
        code.store(code.own(self.pointer), self.place(code, index), code.cast(value, self.kind))

    @property
    def is_contiguous(self) -> bool:
        """Return `True` if the array is C-contiguous."""
        own = [(n, s) for n, s in zip(self.shape, self.strides, strict=True) if n != 1]
        return all(s == t for (_, s), t in zip(own, c_strides(tuple([n for n, _ in own])), strict=True))

    def reshaped(self, shape: Shape) -> Array:
        """Return the array with another shape: a view if this one is contiguous."""
        if self.is_contiguous:
            return self.view(shape, c_strides(shape))
        return super().reshaped(shape)

    def selected(self, chosen: IndexMap, arrays: Sequence[Array] = ()) -> Array:
        """Return the elements that a map selects: a view without index arrays."""
        return self.part(chosen) if chosen.is_affine else super().selected(chosen, arrays)

    def part(self, chosen: IndexMap) -> Memory:
        """Return the view of the elements that an affine map selects."""
        offset, strides = chosen.layout(self.strides)
        return self.view(chosen.shape, strides, offset)

    def view(self, shape: Shape, strides: Sequence[int], shift: int = 0) -> Memory:
        """Return a view of the same memory that begins `shift` elements further."""
        offset = self.offset + shift if isinstance(self.offset, int) or shift else self.offset
        return type(self)(shape, self.kind, self.pointer, strides, offset)


class Summands(Memory):
    """Memory of zeros: `put` writes `value + 0.0`, like an addition to zero, so that no element becomes -0.0."""

    def put(self, code: Code, index: Sequence[Index], value: Value) -> None:
        """Write an element."""
        value = code.cast(value, self.kind)
        super().put(code, index, value + 0.0 if value.is_real else value)


class Totals(Memory):
    """Memory that accumulates: `put` adds to the element."""

    def put(self, code: Code, index: Sequence[Index], value: Value) -> None:
        """Add to an element."""
        place, pointer = self.place(code, index), code.own(self.pointer)
        value, known = code.cast(value, self.kind), code.load(pointer, place, self.kind)
        code.store(pointer, place, known | value if self.kind == "i1" else known + value)


class Held(Array):
    """An array of a few elements that are values of the function, in C order."""

    def __init__(self, shape: Shape, kind: str, values: Sequence[Value]) -> None:
        super().__init__(shape, kind)
        self.values = list(values)

    def at(self, code: Code, index: Sequence[Index]) -> Value:
        """Return an element: a chain of selections if the index is not known."""
        if len(self.values) == 1:
            return code.own(self.values[0])
        position = code.linear(index, c_strides(self.shape))
        if not isinstance(position, Value):
            return code.own(self.values[position])
        found = code.own(self.values[-1])
        for i in range(len(self.values) - 2, -1, -1):
            found = where(position.equals(i), code.own(self.values[i]), found)
        return found

    def reshaped(self, shape: Shape) -> Array:
        """Return the array with another shape."""
        return Held(shape, self.kind, self.values)


class Formula(Array):
    """An array with elements that are computed at each use.

    Args:
        shape: the shape.
        kind: the LLVM type of the elements.
        element: maps the function and an index to the element.
    """

    def __init__(self, shape: Shape, kind: str, element: Callable[[Code, Sequence[Index]], Value]) -> None:
        super().__init__(shape, kind)
        self.element = element

    def at(self, code: Code, index: Sequence[Index]) -> Value:
        """Return an element."""
        return remembered(self, code, index)


def remembered(formula: Any, code: Code, index: Sequence[Index]) -> Value:
    """Return `formula.element(code, index)`, which `code` computes once."""
    key = formula, *[i.name if isinstance(i, Value) else i for i in index]
    known = code.remembered.get(key)
    return code.remember(key, formula.element(code, index)) if known is None else known  # type: ignore[no-any-return]


def plain_array(value: Any) -> Any:
    """Return an array or number as a NumPy array that native code can read.

    Raises:
        TypeError: the value is an array of another library. functad does not convert such arrays silently.
    """
    kind = type(value)
    if kind not in PYTHON_SCALARS and not issubclass(kind, (np.ndarray, np.generic)):
        raise TypeError(
            f"compiled code reads arrays of NumPy, and was given one of {kind.__module__}.{kind.__qualname__}, at {here()}. "
            f'Convert it; or leave jit out, or take jit(f, backend="numpy"), which calls NumPy\'s functions.'
        )
    return np.asarray(value)


def c_strides(shape: Shape) -> Shape:
    """Return the strides, in elements, of a C-contiguous array."""
    strides = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def aligned(index: Sequence[Index], shape: Shape) -> list[Index]:
    """Return the index into an operand of shape `shape` for the index `index` of the broadcast result."""
    return [0 if n == 1 else i for i, n in zip(index[len(index) - len(shape) :], shape, strict=True)]


def place_of(code: Code, index: Sequence[Index], chosen: IndexMap, arrays: Sequence[Array]) -> list[Index]:
    """Return the index in the array of the element at `index` of the elements that a map selects.

    An index array out of bounds is refused, and its position becomes 0.
    """
    found: list[Index] = []
    for n, axis in zip(chosen.whole, chosen.axes, strict=True):
        if axis.array is None:
            found.append(code.linear([index[i] for i in axis.steps], list(axis.steps.values()), axis.offset))
            continue
        array = arrays[axis.array]
        own = aligned(index[chosen.first : chosen.first + chosen.array_ndim], array.shape)
        place = code.cast(array.at(code, own), "i64")
        place = where(place < 0, place + n, place)
        if isinstance(chosen.arrays[axis.array], ArraySpec):  # known arrays are within bounds
            beyond = (place < 0) | (place >= n)
            code.refuse(beyond)
            place = where(beyond, place.like(0), place)
        found.append(place)
    return found


def unravel(code: Code, position: Index, shape: Shape, strides: Shape) -> list[Index]:
    """Return the multi-dimensional index of a position in C order."""
    found: list[Index] = []
    for axis, (n, stride) in enumerate(zip(shape, strides, strict=True)):
        if n == 1:
            found.append(0)
        elif not isinstance(position, Value):
            found.append(position // stride % n)
        else:
            quotient = position if stride == 1 else code.emit("udiv", "i64", position, position.like(stride))
            whole = math.prod(shape[:axis]) == 1
            found.append(quotient if whole else code.emit("urem", "i64", quotient, quotient.like(n)))
    return found
