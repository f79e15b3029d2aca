"""Replace unrolled loops of an expression list by `scan` equations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from functad.compilation.rolling.elements import elements_read
from functad.compilation.rolling.labels import Labelled
from functad.compilation.rolling.loop import Loop, added, moved
from functad.compilation.rolling.places import Places
from functad.compilation.rolling.runs import Run, runs
from functad.compilation.rolling.sums import Part, Sum, parts_of
from functad.compilation.rolling.wiring import LEAST, Block, NotRegularError, wired
from functad.compilation.rolling.writer import Source, Writer
from functad.expressions.expressions import Expressions
from functad.primitives.arranging.join import STACK
from functad.primitives.indexing.read import SCATTER
from functad.transforms.lists import extract

FEWEST = 256
"""Minimum number of equations that a loop replaces."""

LONGEST_FORMULA = 4_000
"""Up to so many elementwise equations on large arrays are no loop, because fused native loops keep their results in registers.

A `scan` writes every result that its derivative needs to memory. The gradient of 16 steps of 240 equations on 3e5 elements
takes 1.5 s as scans and 0.18 s as formulas."""

LARGE = 4_096
"""Minimum number of elements of a large array."""


def rolled(expressions: Expressions, fused: bool = False) -> Expressions:
    """Return an equivalent expression list with `scan` equations in place of repeated equations.

    Args:
        expressions: the list.
        fused: `True` if the backend fuses elementwise equations.
    """
    if len(expressions.equations) < FEWEST or any(not e.outputs for e in expressions.equations):
        return expressions
    own = elements_read(expressions)
    if own is not expressions or not _in_order(own):
        own = extract(own)
    labelled = Labelled(own)
    candidates = [run for run in runs(labelled.labels, LEAST) if run.stop - run.start >= FEWEST]
    refused: set[int] = set()
    while candidates:
        places = Places(labelled)
        for block in _chosen(labelled, candidates, refused, fused):
            fitting = _fitting(places, Block(labelled, block.start, block.period, block.count))
            if fitting is not None:
                places.add(fitting)
        if not places.blocks:
            break
        try:
            found = extract(_Rolling(places).written())
        except NotRegularError as error:
            refused.add(error.block.start)
            continue
        return found.replace(input_structure=expressions.input_structure, output_structure=expressions.output_structure)
    return expressions


def _in_order(expressions: Expressions) -> bool:
    """Return `True` if the slots are numbered in the order of the equations, which holds without dead code."""
    slots = [slot for equation in expressions.equations for slot in equation.outputs]
    return slots == list(range(len(expressions.inputs), len(expressions.specs)))


def _chosen(labelled: Labelled, candidates: list[Run], refused: set[int], fused: bool) -> list[Block]:
    """Return blocks that do not overlap, in the order of the list; longer runs are chosen first."""
    taken = np.zeros(len(labelled.labels) + 1, bool)
    found: list[Block] = []
    waiting = list(candidates)
    while waiting:
        run = waiting.pop(0)
        free = _free(taken, run)
        if free is None:
            continue
        block = wired(labelled, free)
        if block is None or block.count * block.period < FEWEST or _only_rows(block):
            continue
        if any(block.start <= start < block.stop for start in refused) or (fused and _is_formula(block)):
            continue
        taken[block.start : block.stop] = True
        found.append(block)
        waiting += [Run(free.start, block.start, run.period), Run(block.stop, free.stop, run.period)]
    return sorted(found, key=lambda block: block.start)


def _is_formula(block: Block) -> bool:
    """Return `True` if a block has few enough equations, which are all elementwise on large arrays."""
    if block.period * block.count > LONGEST_FORMULA:
        return False
    own = block.labelled.expressions
    equations = own.equations[block.start : block.start + block.period]
    sizes = {own.specs[slot].size for e in equations for slot in e.outputs}
    elementwise = all(e.primitive.kind == "elementwise" or e.primitive.ufunc is not None for e in equations)
    return elementwise and max(sizes) >= LARGE and len(sizes - {1}) == 1


def _free(taken: Any, run: Run) -> Run | None:
    """Return the longest free part of a run, or `None` if it is too short."""
    own = taken[run.start : run.stop]
    edges = np.flatnonzero(np.diff(np.concatenate(([1], own.view(np.int8), [1]))))
    if not len(edges):
        return None
    sizes = edges[1::2] - edges[::2]
    at = int(np.argmax(sizes))
    if sizes[at] < max(FEWEST, LEAST * run.period):
        return None
    return Run(run.start + int(edges[2 * at]), run.start + int(edges[2 * at + 1]), run.period)


def _only_rows(block: Block) -> bool:
    return len(block.indexed()) == block.period


def _fitting(places: Places, block: Block) -> Block | None:
    """Return the part of the blocks that reads consecutive steps of earlier loops, in one direction."""
    start, stop = 0, block.count
    middle = block.count // 2
    votes = 0
    for column in np.flatnonzero((block.lags < 0) & ~block.fixed).tolist():
        sources = block.sources[:, column]
        slot, origin = int(sources[middle]), places.origin(int(sources[middle]))
        if slot < 0 or origin is None:
            continue
        votes += _direction(origin.at, places.origin(int(sources[middle + 1])))
        if origin.key[0] == "row":
            continue
        difference = int(sources[middle + 1]) - slot
        good = sources - slot == difference * (np.arange(block.count) - middle)
        good &= places.owner[sources] == places.owner[slot]
        bad = np.flatnonzero(~good)
        begin, end = int(bad[bad < middle].max(initial=-1)) + 1, int(bad[bad > middle].min(initial=block.count))
        if end - begin >= block.count - 3 - start:
            start, stop = max(start, begin), min(stop, end)
    for _, indices in block.indexed():
        votes += int(np.sign((indices[1] - indices[0]).sum()))
    found = block if stop - start == block.count else block.part(start, stop - start)
    found.backward = votes < 0
    return found if found.count >= LEAST else None


def _direction(at: tuple[int, ...], following: Any) -> int:
    if following is None or len(following.at) != len(at):
        return 0
    return int(np.sign(sum(following.at) - sum(at)))


class _Rolling:
    """Write an expression list with loops in place of the blocks."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.list = places.labelled.expressions
        self.parts: dict[int, list[Part]] = {}
        self.totals: dict[int, int] = {}
        self.writer = Writer(places)
        self.loops = [Loop(places, block) for block in places.blocks]
        self._plan()

    def _plan(self) -> None:
        """Find the values of each loop that are read outside it."""
        places, labelled = self.places, self.places.labelled
        reads = labelled.sources.copy()
        numbers = np.repeat(np.arange(len(self.list.equations)), np.diff(labelled.offsets))
        extra: list[int] = [s for s in self.list.outputs if type(s) is int]
        for number, equation in enumerate(self.list.equations):
            if equation.primitive is SCATTER and len(equation.inputs) >= LEAST and places.owner[equation.outputs[0]] < 0:
                parts = parts_of(places, equation)
                if parts is None:
                    continue
                self.parts[number] = parts
                reads[labelled.offsets[number] : labelled.offsets[number + 1]] = -1
                for part in parts:
                    extra += _read(part)
                    if isinstance(part.what, Sum):
                        self.loops[places.blocks.index(part.what.block)].add(part.what)
        for loop in self.loops:
            extra += loop.written()
        for loop in self.loops:
            block = loop.block
            outside = (numbers < block.start) | (numbers >= block.stop)
            own = reads[outside & (reads >= block.base) & (reads < block.end)]
            slots = {*own.tolist(), *[int(places.same[s]) for s in extra if block.base <= s < block.end]}
            steps: dict[int, list[int]] = {}
            for slot in slots:
                if places.row(slot) is None and not places.is_before(slot):
                    step, result = divmod(slot - block.base, block.width)
                    steps.setdefault(result, []).append(step)
            loop.read(steps)

    def written(self) -> Expressions:
        """Return the expression list."""
        number = 0
        starts = {loop.block.start: i for i, loop in enumerate(self.loops)}
        while number < len(self.list.equations):
            if number in starts:
                loop = self.loops[starts[number]]
                totals = loop.write(self.writer, starts[number])
                self.totals.update(zip(map(id, loop.sums), totals, strict=True))
                number = loop.block.stop
            else:
                self._equation(number)
                number += 1
        outputs = [self.writer.value(s) if type(s) is int else s for s in self.list.outputs]
        return self.list.replace(equations=tuple(self.writer.equations), specs=tuple(self.writer.specs), outputs=tuple(outputs))

    def _equation(self, number: int) -> None:
        equation = self.list.equations[number]
        writer = self.writer
        if number in self.parts:
            writer.values[equation.outputs[0]] = self._scattered(number)
        elif equation.primitive is STACK and len(equation.inputs) >= LEAST and self._one_spec(number):
            labelled = self.places.labelled
            sources = labelled.sources[labelled.offsets[number] : labelled.offsets[number + 1]].tolist()
            found = writer.gathered(sources, labelled.spec_of(sources[0]))
            writer.values[equation.outputs[0]] = moved(writer, found, equation.params["axis"])
        else:
            writer.again(number)

    def _one_spec(self, number: int) -> bool:
        labelled = self.places.labelled
        sources = labelled.sources[labelled.offsets[number] : labelled.offsets[number + 1]].tolist()
        first = labelled.spec_of(sources[0])
        return not first.weak and all(labelled.spec_of(s) == first for s in sources)

    def _scattered(self, number: int) -> int:
        """Write a `scatter` from its parts."""
        pieces: list[Source] = []
        indices = []
        for part in self.parts[number]:
            if isinstance(part.what, Sum):
                pieces.append(added(self.writer, self.totals[id(part.what)], part.what.after))
                indices.append(part.index)
            elif isinstance(part.what, list):
                index, axis = part.index
                spec = self.list.specs[part.what[0]]
                pieces.append(moved(self.writer, self.writer.gathered(part.what, spec), axis))
                indices.append(index)
            else:
                pieces.append(self.writer.value(part.what))
                indices.append(part.index)
        params = {**self.list.equations[number].params, "indices": tuple(indices)}
        return self.writer.emit(SCATTER, pieces, params)[0]


def _read(part: Part) -> Iterable[int]:
    if isinstance(part.what, Sum):
        return (*part.what.before, *part.what.after)
    return part.what if isinstance(part.what, list) else [part.what]
