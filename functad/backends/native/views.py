"""Lowering of views: reshape, transpose, broadcast, basic indices. They are free for operands in memory."""

from __future__ import annotations

from collections.abc import Sequence

from functad.backends.native.arrays import Array, Formula, Memory, Shape, aligned
from functad.backends.native.lowering import Lowered, View, row
from functad.expressions.expressions import Equation
from functad.expressions.spec import ArraySpec
from functad.loops.build import KINDS, Code, Index
from functad.loops.values import where
from functad.primitives.arranging.flip import FLIP
from functad.primitives.arranging.reshape import BROADCAST_TO, RESHAPE, TRANSPOSE
from functad.primitives.elementwise.complex_numbers import IMAG, REAL
from functad.primitives.indexing.index_map import IndexMap
from functad.primitives.linalg.einsum import einsum_of, terms_of


def selected(array: Array, chosen: IndexMap, arrays: Sequence[Array] = ()) -> Array:
    """Return the elements of an array that a map selects, as a view if possible.

    Args:
        array: the array.
        chosen: the map.
        arrays: the index arrays of the map.
    """
    if isinstance(array, Memory) and chosen.is_affine:
        offset, strides = chosen.layout(array.strides)
        return array.view(chosen.shape, strides, offset)
    return Formula(chosen.shape, array.kind, lambda code, index: array.at(code, place_of(code, index, chosen, arrays)))


def within(part: IndexMap, whole: Memory) -> Memory:
    """Return a part of an array in memory."""
    found = selected(whole, part)
    assert isinstance(found, Memory)
    return found


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


def broadcast(array: Array, shape: Shape) -> Array:
    """Return an array broadcast to a shape."""
    new = len(shape) - len(array.shape)
    axes = [None if n == 1 != shape[new + i] else new + i for i, n in enumerate(array.shape)]
    return selected(array, IndexMap.by_axes(array.shape, shape, axes))


@row(BROADCAST_TO)
def _broadcast_to(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    return View(lambda arrays: broadcast(arrays[0], results[0].shape), same=given[0].shape == results[0].shape)


@row(RESHAPE)
def _reshape(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    if equation.params.get("order", "C") != "C":
        return None
    return View(lambda arrays: arrays[0].reshaped(results[0].shape), same=True)


@row(TRANSPOSE)
def _transpose(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    axes = equation.params["axes"]
    axes = range(given[0].ndim)[::-1] if axes is None else axes
    chosen = IndexMap.by_axes(given[0].shape, results[0].shape, [axes.index(i) for i in range(len(axes))])
    return View(lambda arrays: selected(arrays[0], chosen))


@row(einsum_of(1))
def _diagonal(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    """Lower an `einsum` of one operand that only reads diagonals and transposes."""
    chosen = axes_of(equation.params["subscripts"], given[0].shape)
    return None if chosen is None else View(lambda arrays: selected(arrays[0], chosen))


def axes_of(subscripts: str, shape: Shape) -> IndexMap | None:
    """Return the map of an `einsum` of one operand of the given shape; `None` if it sums."""
    [term], result = terms_of(subscripts)
    if not set(term) <= set(result):
        return None
    lengths = dict(sorted(zip(term, shape, strict=True), key=lambda pair: pair[1]))
    axes = [None if n == 1 else result.index(letter) for letter, n in zip(term, shape, strict=True)]
    return IndexMap.by_axes(shape, tuple([lengths[letter] for letter in result]), axes)


@row(FLIP)
def _flip(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    axes, shape = equation.params["axis"], given[0].shape
    chosen = IndexMap.of(shape, tuple([slice(None, None, -1 if i in axes else 1) for i in range(len(shape))]))
    return View(lambda arrays: selected(arrays[0], chosen))


@row(REAL, IMAG)
def _part_of_real(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    if equation.primitive is REAL:
        return View(lambda arrays: arrays[0], same=True)
    kind = KINDS[results[0].dtype]
    return View(lambda arrays: Formula(results[0].shape, kind, lambda code, index: code.constant(0, kind)))
