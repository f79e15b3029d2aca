"""Origin of each value when blocks become loops: a step of a loop, a row of an array, or neither."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.compilation.rolling.labels import Labelled, positions
from functad.compilation.rolling.wiring import Block
from functad.primitives.indexing.index_map import is_basic
from functad.primitives.indexing.read import GETITEM

SHORTEST = 4
"""Shorter segments are read row by row."""


class Origin(NamedTuple):
    """The group of a value, and its position in the group.

    Attributes:
        key: equal for the values of one result in all steps of a loop, and for reads of one array at indices of the same form.
        at: the position in the group: the step, or the integers in the index.
    """

    key: tuple[Any, ...]
    at: tuple[int, ...]


class Segment(NamedTuple):
    """Consecutive values: single values, constants, or an arithmetic sequence of positions in one group.

    Attributes:
        key: the key of the group; `("constant",)` or `("single",)` for other values.
        sources: the values, as in `Labelled.sources`.
        first: the position of the first value in the group.
        last: the position of the last value.
        step: the difference between neighbouring positions.
    """

    key: tuple[Any, ...]
    sources: Sequence[int]
    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    step: tuple[int, ...] = ()


class Places:
    """The loop and the equation that compute each value.

    Attributes:
        blocks: the blocks that become loops, in order.
        before: for each of `blocks`, the numbers of the equations hoisted out of the loop.
        owner: for each slot, the number of its block, or -1.
        makers: for each slot, the number of the equation that computes it.
        same: for each slot, the slot with its value: for loop-invariant results the slot of the first step.
    """

    def __init__(self, labelled: Labelled) -> None:
        self.labelled = labelled
        self.blocks: list[Block] = []
        self.owner = np.full(len(labelled.expressions.specs), -1, np.int64)
        self.makers = np.searchsorted(labelled.first[:-1], np.arange(len(self.owner)), side="right") - 1
        self.same = np.arange(len(self.owner))
        self.before: list[list[int]] = []
        self._numbers: list[set[int]] = []
        self._origins: dict[int, Origin | None] = {}

    def add(self, block: Block) -> None:
        """Add blocks that become a loop; reads of loop-invariant results are redirected to the first step."""
        self.owner[block.base : block.end] = len(self.blocks)
        self.blocks.append(block)
        equations = self.labelled.expressions.equations
        self.before.append([block.start + position for position in block.invariant()])
        self._numbers.append(set(self.before[-1]))
        slots = [slot for number in self.before[-1] for slot in equations[number].outputs]
        for slot in slots:
            self.same[slot : block.end : block.width] = slot
        if slots:
            sources = self.labelled.sources
            known = sources >= 0
            sources[known] = self.same[sources[known]]

    def is_before(self, slot: int) -> bool:
        """Return `True` if a value is hoisted out of its loop."""
        return self.owner[slot] >= 0 and self.makers[slot] in self._numbers[self.owner[slot]]

    def step_of(self, slot: int) -> tuple[Block, int, int]:
        """Return the block that computes a value, the step, and the number of the result."""
        block = self.blocks[self.owner[slot]]
        return block, *divmod(slot - block.base, block.width)

    def maker(self, slot: int) -> int:
        """Return the number of the equation that computes a value."""
        return int(self.makers[slot])

    def row(self, slot: int) -> Origin | None:
        """Return the origin of a row of an array; `None` for other values, and for rows of arrays of the same loop."""
        number = int(self.makers[slot])
        if slot < len(self.labelled.expressions.inputs) or not self.labelled.indices.get(number):
            return None
        equation = self.labelled.expressions.equations[number]
        if equation.primitive is not GETITEM or not is_basic(equation.params["index"]):
            return None
        source = int(self.labelled.sources[self.labelled.offsets[number]])
        if source >= 0 and self.owner[slot] >= 0 and self.owner[source] == self.owner[slot] and not self.is_before(source):
            return None
        index = equation.params["index"]
        at = positions(index, self.labelled.spec_of(source).shape)
        return Origin(("row", source, self.labelled.templates[number]), at)

    def origin(self, source: int) -> Origin | None:
        """Return the origin of a value; `None` if it belongs to no group."""
        if source < 0:
            return Origin(("constant",), ())
        source = int(self.same[source])
        if source not in self._origins:
            found = self.row(source)
            if found is None and self.owner[source] >= 0 and not self.is_before(source):
                block, step, result = self.step_of(source)
                found = Origin(("step", int(self.owner[source]), result), (block.stored(step),))
            self._origins[source] = found
        return self._origins[source]

    def segments(self, sources: Sequence[int]) -> list[Segment]:
        """Split a sequence of values into segments."""
        origins = [self.origin(source) for source in sources]
        found: list[Segment] = []
        start = 0
        while start < len(sources):
            stop, segment = self._segment(sources, origins, start)
            if segment.key == ("single",) and found and found[-1].key == ("single",):
                found[-1] = Segment(("single",), [*found[-1].sources, *segment.sources])
            else:
                found.append(segment)
            start = stop
        return found

    def _segment(self, sources: Sequence[int], origins: Sequence[Origin | None], start: int) -> tuple[int, Segment]:
        first, stop = origins[start], start + 1
        if first is None:
            return stop, Segment(("single",), sources[start:stop])
        step: tuple[int, ...] = ()
        before = first
        while stop < len(sources):
            origin = origins[stop]
            if origin is None or origin.key != first.key:
                break
            difference = tuple([b - a for a, b in zip(before.at, origin.at, strict=True)])
            if stop == start + 1:
                step = difference
            if difference != step or (step and sum(d != 0 for d in step) != 1):
                break
            before, stop = origin, stop + 1
        if first.key != ("constant",) and stop - start < SHORTEST:
            return start + 1, Segment(("single",), sources[start : start + 1])
        return stop, Segment(first.key, sources[start:stop], first.at, before.at, step)


def sliced(index: Any, which: int, rows: slice, ndim: int) -> tuple[Any, int]:
    """Return an index with a slice in place of one of its integers, and the resulting axis of the rows.

    Args:
        index: a basic index.
        which: the number of the integer, among the integers of the index.
        rows: the slice.
        ndim: the number of axes of the array.
    """
    if type(index) is not tuple:
        return rows, 0
    place = [i for i, part in enumerate(index) if type(part) is int][which]
    used = sum(part is not None and part is not Ellipsis for part in index)
    axis = sum(1 if part is not Ellipsis else ndim - used for part in index[:place] if type(part) is not int)
    return (*index[:place], rows, *index[place + 1 :]), axis


class Stretch(NamedTuple):
    """An arithmetic sequence of indices as one index.

    Attributes:
        index: the index with a slice in place of the integer that varies.
        axis: the axis of the rows in the result of the read.
        backward: `True` if the first index of the sequence reads the last row.
    """

    index: Any
    axis: int
    backward: bool


def stretch(ends: Sequence[Any], shape: tuple[int, ...]) -> Stretch:
    """Return an arithmetic sequence of indices as one index, given its first two indices and its last."""
    first = ends[0]
    a, b, c = (positions(index, shape) for index in ends)
    [which] = [i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
    start, stop, step = a[which], c[which], b[which] - a[which]
    rows = rows_of(start, stop, step) if step > 0 else rows_of(stop, start, -step)
    return Stretch(*sliced(first, which, rows, len(shape)), step < 0)


def rows_of(first: int, last: int, step: int) -> slice:
    """Return the slice of an arithmetic sequence of non-negative positions."""
    stop = last + (1 if step > 0 else -1)
    return slice(first, None if stop < 0 else stop, step)
