"""Replace repeated statements of an expression list by block loops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from functad.backends.native.blocks.cut import FEWEST, LEAST, Blocks
from functad.backends.native.blocks.loop import Loop
from functad.backends.native.blocks.operations import Operations
from functad.backends.native.blocks.table import BLOCKS, UnevenError
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import ArraySpec
from functad.loops.build import KINDS
from functad.primitives.elementwise.elementary import ADD
from functad.primitives.indexing.index_map import indexed_shape, is_basic
from functad.primitives.indexing.read import GETITEM, SCATTER
from functad.primitives.indexing.write import WRITE


def with_block_loops(expressions: Expressions) -> Expressions:
    """Return an equivalent list with block loops in place of repeated statements, for native code."""
    if len(expressions.equations) < FEWEST or any(not e.outputs for e in expressions.equations):
        return expressions
    left: set[int] = set()
    while True:
        own, totals = _accumulated(expressions, left)
        blocks = Blocks(own)
        loops = _best_loops(blocks)
        outside = {e for e, slots in totals.items() if sum(_is_in(blocks, loops, s) for s in slots) < len(slots) // 2}
        if not loops:
            return expressions
        if not outside:
            return _Written(blocks, loops).expressions()
        left |= outside


def _accumulated(expressions: Expressions, left: Collection[int]) -> tuple[Expressions, dict[int, list[int]]]:
    """Return the list with long scatters as additions to elements of an array, each behind the equation that makes its piece.

    Args:
        expressions: the list.
        left: the numbers of equations that are not changed.

    Returns:
        The list, and the sums after each addition by the number of the equation.
    """
    numbered = [(n, e) for n, e in enumerate(expressions.equations) if e.primitive is SCATTER and n not in left]
    long = {n: e for n, e in numbered if len(e.inputs) >= LEAST**2 and _is_plain(e, expressions)}
    if not long:
        return expressions, {}
    maker = {s: n for n, e in enumerate(expressions.equations) for s in e.outputs}
    specs = list(expressions.specs)
    behind: dict[int, list[Equation]] = defaultdict(list)
    totals: dict[int, list[int]] = {}

    def new(spec: ArraySpec) -> int:
        specs.append(spec)
        return len(specs) - 1

    for number, e in long.items():
        whole, place = specs[e.outputs[0]], -1
        total: Any = Constant(np.zeros(whole.shape, whole.dtype))
        sums = [*[new(whole) for _ in e.inputs[1:]], e.outputs[0]]
        for piece, index, after in zip(e.inputs, e.params["indices"], sums, strict=True):
            place = max(place, maker.get(piece, -1))  # type: ignore[arg-type]
            spec = specs[piece]  # type: ignore[index]
            known, added = new(spec), new(spec)
            behind[place] += [
                Equation(GETITEM, (total,), {"index": index}, (known,)),
                Equation(ADD, (known, piece), {}, (added,)),
                Equation(WRITE, (total, added), {"path": (), "index": index}, (after,)),
            ]
            total = after
        totals[number] = sums
    equations = list(behind[-1])
    for number, e in enumerate(expressions.equations):
        equations += [] if number in long else [e]
        equations += behind.get(number, ())
    return expressions.replace(equations=tuple(equations), specs=tuple(specs)), totals


def _is_plain(equation: Equation, expressions: Expressions) -> bool:
    """Return `True` if the pieces of a scatter have the shapes at their basic indices, and its dtype."""
    whole = expressions.specs[equation.outputs[0]]
    return whole.ndim > 0 and all(
        type(s) is int and is_basic(index) and expressions.specs[s] == ArraySpec(indexed_shape(whole.shape, index), whole.dtype)
        for s, index in zip(equation.inputs, equation.params["indices"], strict=True)
    )


def _best_loops(blocks: Blocks) -> list[Loop]:
    """Return the loops that other equations read few values of."""
    chosen = list(blocks.regions())
    while True:
        loops = _loops(blocks, chosen)
        poor = {loop.start for loop in loops if loop.is_read_often(loops)}
        if not poor:
            return loops
        chosen = [region for region in chosen if blocks.starts[region.start] not in poor]


def _loops(blocks: Blocks, chosen: Sequence[range]) -> list[Loop]:
    """Return the loops of those ranges of blocks that can become loops."""
    blocks.choose(chosen)
    found, loops, owners = [Loop(blocks, region) for region in chosen], list[Loop](), dict[int, Loop]()
    for number, loop in enumerate(found):
        try:
            loop.complete(found[number + 1 :], owners)
            loop.operations = {word: Operations(loop).of_kind(word, kind) for word, kind in loop.kinds.items()}
            loop.check_inputs()
        except UnevenError:
            continue
        loops.append(loop)
        owners.update(dict.fromkeys(loop.kept, loop))
    return loops


def _is_in(blocks: Blocks, loops: Sequence[Loop], slot: int) -> bool:
    """Return `True` if a loop computes a slot."""
    return any(loop.start <= blocks.maker[slot] < loop.stop for loop in loops)


class _Written:
    """Writes a list with block loops."""

    def __init__(self, blocks: Blocks, loops: Sequence[Loop]) -> None:
        self.blocks, self.loops = blocks, loops
        self.owners = {s: loop for loop in loops for s in loop.kept}
        self.specs = list(blocks.list.specs)
        self.equations: list[Equation] = []
        self.made: set[int] = set()
        self.memories: dict[tuple[Loop, int], int] = {}
        self._replaced = np.zeros(len(blocks.list.equations) + 1, bool)
        for loop in loops:
            self._replaced[loop.start : loop.stop] = True

    def expressions(self) -> Expressions:
        """Return the list."""
        own, start = self.blocks.list, 0
        for loop in (*self.loops, None):
            for e in own.equations[start : None if loop is None else loop.start]:
                for s in e.inputs:
                    self._needed(s)
                self.equations.append(e)
            if loop is not None:
                self._loop(loop)
                start = loop.stop
        for s in own.outputs:
            self._needed(s)
        return own.replace(equations=tuple(self.equations), specs=tuple(self.specs))

    def _needed(self, source: Any) -> Any:
        """Write the equation that reads a value of a loop, if it is not there yet."""
        number = self.blocks.maker.get(source, -1) if type(source) is int else -1
        if source in self.made or number < 0 or not self._replaced[number]:
            return source
        self.made.add(source)
        if self.blocks.is_read_again(source):
            self.equations.append(self.blocks.list.equations[number])
            return source
        owner = self.owners[source]
        memory, cell = owner.cell_of[source]
        index = (cell, *[slice(n) for n in self.specs[source].shape])
        self.equations.append(Equation(GETITEM, (self.memories[owner, memory],), {"index": index}, (source,)))
        return source

    def _loop(self, own: Loop) -> None:
        """Write the equation of a loop."""
        for owner, memory, cell, source in own.guests:
            self._needed(source)
            index = (cell, *[slice(n) for n in self.specs[source].shape])
            whole = self.memories[owner, memory]
            self.memories[owner, memory] = self._new(self.specs[whole])
            written = Equation(WRITE, (whole, source), {"path": (), "index": index}, (self.memories[owner, memory],))
            self.equations.append(written)
        loop, table = own.finished()
        inputs = [self.memories[s] if type(s) is tuple else self._needed(s) for s in own.inputs]
        dtypes = {kind: dtype for dtype, kind in KINDS.items()}
        for memory in loop.returned:
            cells, shape, kind = loop.memories[memory]
            self.memories[own, memory] = self._new(ArraySpec((cells, *shape), dtypes[kind]))
        outputs = tuple([self.memories[own, memory] for memory in loop.returned])
        self.equations.append(Equation(BLOCKS, (Constant(table), *inputs), {"loop": loop}, outputs))

    def _new(self, spec: ArraySpec) -> int:
        self.specs.append(spec)
        return len(self.specs) - 1
