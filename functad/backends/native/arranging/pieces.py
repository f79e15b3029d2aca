"""Lowering of results that consist of pieces: joins, stacks, padding, repeats, rolls, and pieces added to zeros.

The loops that compute the pieces write them directly into the result. Pieces of equal shape share a loop.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from functad.backends.native.arrays import Array, Formula, Held, Memory, Summands, Totals, c_strides
from functad.backends.native.kernel import Nest
from functad.backends.native.lowering import Lowered, Own, View, row
from functad.backends.native.plan import FEW, Loops
from functad.expressions.expressions import Constant, Equation
from functad.expressions.spec import ArraySpec
from functad.loops.build import KINDS, SIZES, Code, Index
from functad.loops.values import Value
from functad.primitives.arranging.flip import ROLL
from functad.primitives.arranging.join import CONCATENATE, STACK
from functad.primitives.arranging.pad import PAD
from functad.primitives.arranging.repeat import REPEAT, TILE
from functad.primitives.indexing.index_map import IndexMap, are_disjoint
from functad.primitives.indexing.read import SCATTER

TOGETHER = 16
"""Maximum number of pieces per loop."""

Piece = tuple[int | Constant, Memory]
"""A source and its target memory."""


def write_pieces(writer: Any, pieces: Iterable[Piece]) -> None:
    """Write pieces that do not overlap; pieces of equal shape share a loop.

    Args:
        writer: the writer of the enclosing function.
        pieces: the pieces, in any order.
    """
    groups: list[tuple[Any, dict[int, Memory]]] = []
    for source, target in pieces:
        if isinstance(source, Constant) or math.prod(target.shape) <= writer.plan.most:
            writer.copy(writer.array(source), target)
            continue
        domain = tuple([n for n in target.shape if n != 1])
        found = next((g for own, g in groups if own == domain and source not in g and len(g) < TOGETHER), None)
        if found is None:
            groups.append((domain, found := {}))
        found[source] = target
    for domain, out in groups:
        _write_group(writer, domain, out)


def _write_group(writer: Any, domain: tuple[int, ...], out: dict[int, Memory]) -> None:
    """Write pieces in one loop."""
    code = Code(fused=writer.code.fused, outer=writer.code)
    nest = Nest(writer, Loops(0, domain, stored=list(out)), out, code)
    nest.write()
    writer.module.call(writer.code, code)


def clear(writer: Any, out: Memory) -> None:
    """Fill an array with zeros."""
    if not out.is_contiguous:
        writer.copy(Formula(out.shape, out.kind, lambda code, index: code.constant(0, out.kind)), out)
        return
    code: Code = writer.code
    size = math.prod(out.shape) * SIZES[out.kind]
    place = code.place(code.own(out.pointer), out.offset, out.kind)
    code.run("@llvm.memset.p0.i64", place, ("i8", "0"), ("i64", str(size)), ("i1", "0"))


# A few elements


def few(equation: Equation, given: Sequence[ArraySpec], result: ArraySpec) -> View:
    """Lower a result of a few elements, each an element of an operand or zero, to a view.

    The primitive is applied to element numbers, to find the origin of each element.
    """
    starts = [1, *itertools.accumulate([spec.size for spec in given], initial=1)][1:]
    numbers = [np.arange(n, n + s.size).reshape(s.shape) for n, s in zip(starts, given, strict=False)]
    origins = equation.primitive.compute(*numbers, **equation.params).ravel().tolist()
    found = [[_origin(n, starts, given)] if n else [] for n in origins]
    return View(lambda arrays: _gathered(arrays, found, result))


Origin = tuple[int, tuple[int, ...]]
"""The number of an operand, and the index of one of its elements."""


def _origin(number: int, starts: Sequence[int], given: Sequence[ArraySpec]) -> Origin:
    operand = bisect_right(starts, number, hi=len(given)) - 1
    return operand, tuple([int(i) for i in np.unravel_index(number - starts[operand], given[operand].shape)])


def _gathered(arrays: Sequence[Array], found: Sequence[Sequence[Origin]], result: ArraySpec, *, adds: bool = False) -> Array:
    """Return an array of a few elements: each is the first of its origins, or with `adds` the sum of them; zero without any."""
    shape, kind, strides = result.shape, KINDS[result.dtype], c_strides(result.shape)

    def sum_of(code: Code, origins: Sequence[Origin]) -> Value:
        values = [code.cast(arrays[operand].at(code, own), kind) for operand, own in origins]
        if values and not adds:
            return values[0]
        total = code.constant(0, kind)
        for value in values:
            total = total | value if kind == "i1" else total + value
        return total

    def element(code: Code, index: Sequence[Index]) -> Value:
        place = code.linear(index, strides)
        if not isinstance(place, Value):
            return sum_of(code, found[place])
        return Held((len(found),), kind, [sum_of(code, each) for each in found]).at(code, [place])

    return Formula(shape, kind, element)


# Joining


@row(CONCATENATE, STACK)
def _joined(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    if results[0].size <= FEW:
        return few(equation, given, results[0])
    shape, axis = results[0].shape, equation.params["axis"] % results[0].ndim
    parts, start = [], 0
    for spec in given:
        end = start + (1 if equation.primitive is STACK else spec.shape[axis])
        own = start if equation.primitive is STACK else slice(start, end)
        parts.append(IndexMap.of(shape, (*(slice(None),) * axis, own)))
        start = end

    def write(writer: Any, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
        pieces = [pair for pair in zip(equation.inputs, parts, strict=True) if not is_there(writer, *pair)]
        write_pieces(writer, [(source, outs[0].part(part)) for source, part in pieces])

    return Own(write, stored=False, parts=parts, gaps=True)


def is_there(writer: Any, source: Any, part: IndexMap) -> bool:
    """Return `True` if a piece was written into the result when it was computed."""
    return type(source) is int and writer.placed.get(source, (None, None))[1] is part


def around(part: IndexMap) -> list[IndexMap]:
    """Return maps of all elements of an array outside a part, which consists of neighbouring elements along each axis."""
    found: list[IndexMap] = []
    inside: list[slice] = []
    for axis, n in zip(part.axes, part.whole, strict=True):
        first = axis.offset
        stop = first + math.prod([part.shape[j] for j in axis.steps])
        slabs = [slice(0, first), slice(stop, n)]
        found += [IndexMap.of(part.whole, (*inside, slab)) for slab in slabs if slab.start < slab.stop]
        inside.append(slice(first, stop))
    return found


# Adding pieces to zeros


@row(PAD)
def _pad(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    if results[0].size <= FEW:
        return few(equation, given, results[0])
    widths = equation.params["widths"]
    index = tuple([slice(before, before + n) for n, (before, _) in zip(given[0].shape, widths, strict=True)])
    part = IndexMap.of(results[0].shape, index)

    def write(writer: Any, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
        clear(writer, outs[0])
        write_pieces(writer, [(equation.inputs[0], outs[0].part(part))])

    return Own(write, stored=False, gaps=True)


@row(SCATTER)
def _scatter(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    parts = [IndexMap.of(results[0].shape, index) for index in equation.params["indices"]]
    if any(part.shape != spec.shape for part, spec in zip(parts, given, strict=True)):
        return None
    if results[0].size <= FEW:
        found: list[list[Origin]] = [[] for _ in range(results[0].size)]
        for operand, part in enumerate(parts):
            for own, place in zip(np.ndindex(part.shape), part.positions().flat, strict=True):
                found[place].append((operand, own))
        return View(lambda arrays: _gathered(arrays, found, results[0], adds=True))
    if not all(part.is_affine for part in parts):
        return None
    overlap, gaps = not are_disjoint(parts), sum(part.size for part in parts) < results[0].size

    def write(writer: Any, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
        [out] = outs
        if gaps or overlap:
            clear(writer, out)
        whole = totals(out) if overlap else Summands(out.shape, out.kind, out.pointer, out.strides, out.offset)
        pieces = [(source, whole.part(part)) for source, part in zip(equation.inputs, parts, strict=True)]
        for some in [[piece] for piece in pieces] if overlap else [pieces]:
            write_pieces(writer, some)

    return Own(write, stored=False, gaps=True)


def totals(out: Memory) -> Memory:
    """Return the same memory in a form that adds written values to its elements."""
    return Totals(out.shape, out.kind, out.pointer, out.strides, out.offset)


# Repeating


def _copied(split: tuple[int, ...], ones: tuple[int, ...]) -> Own:
    """Lower repeated copies of an array: the array, reshaped to `ones`, is broadcast to the result, reshaped to `split`.

    Args:
        split: the shape of the result, with separate axes for the copies.
        ones: the shape of the array, with axes of length 1 for the copies.
    """

    def write(writer: Any, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
        target = outs[0].reshaped(split)
        assert isinstance(target, Memory)
        writer.copy(operands[0].reshaped(ones).broadcast(split), target)

    return Own(write)


@row(TILE)
def _tile(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    shape, reps = given[0].shape, equation.params["reps"]
    if results[0].size <= FEW:
        return few(equation, given, results[0])
    pairs = list(zip(reps, shape, strict=True))
    return _copied(tuple([n for pair in pairs for n in pair]), tuple([n for _, own in pairs for n in (1, own)]))


@row(REPEAT)
def _repeat(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    shape, axis, repeats = given[0].shape, equation.params["axis"], equation.params["repeats"]
    if results[0].size <= FEW:
        return few(equation, given, results[0])
    head, tail = shape[: axis + 1], shape[axis + 1 :]
    return _copied((*head, repeats, *tail), (*head, 1, *tail))


@row(ROLL)
def _roll(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    shape = given[0].shape
    shifts = dict(zip(equation.params["axis"], equation.params["shift"], strict=True))
    shifts = {axis: shift % shape[axis] for axis, shift in shifts.items()}
    if results[0].size <= FEW:
        return few(equation, given, results[0])
    ways = []
    for axis, n in enumerate(shape):
        shift = shifts.get(axis, 0)
        both = [(slice(0, n - shift), slice(shift, n)), (slice(n - shift, n), slice(0, shift))]
        ways.append(both if shift else both[:1])
    moves = [[IndexMap.of(shape, index) for index in zip(*way, strict=True)] for way in itertools.product(*ways)]

    def write(writer: Any, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
        for source, target in moves:
            writer.copy(operands[0].selected(source), outs[0].part(target))

    return Own(write)
