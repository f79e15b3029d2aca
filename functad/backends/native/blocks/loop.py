"""One block loop: how its blocks read their operands, and the cells of the values that they share."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from functad.backends.native.blocks.cut import Blocks, key_of
from functad.backends.native.blocks.table import BlockLoop, Memory, Number, Operation, UnevenError
from functad.expressions.expressions import Constant, Equation, source_spec
from functad.loops.build import KINDS
from functad.primitives.indexing.write import ADD_TO, WRITE

MOST_GUESTS = 64
"""Maximum number of values that are copied to the cells of a loop before it, or to the cells of an earlier loop."""

SPARE = 2**20
"""Bytes that the cells of a loop may take in addition to one and a half times the results of the replaced equations."""


class Column:
    """The sources of an input of an equation of a kind, one for each block of the kind."""

    def __init__(self, kind: str, sources: list[Any], which: int = -1) -> None:
        self.kind, self.sources, self.which = kind, sources, which


class Kind:
    """The blocks of one kind.

    Attributes:
        starts: the first equation of each block.
        steps: the number of each block in the loop.
        period: the number of equations.
        columns: the columns of the table.
    """

    def __init__(self, period: int) -> None:
        self.starts: list[int] = []
        self.steps: list[int] = []
        self.period = period
        self.columns: list[Any] = []
        self._known: dict[bytes, int] = {}

    def number(self, values: Sequence[int]) -> Number:
        """Return the integers of all blocks as a number."""
        own = np.asarray(values, np.int64)
        rest = own - own[0]
        if not rest.any():
            return Number(-1, int(own[0]))
        column = self._known.setdefault(rest.tobytes(), len(self.columns))
        if column == len(self.columns):
            self.columns.append(rest)
        return Number(column, int(own[0]))


class Sets:
    """Disjoint sets of keys."""

    def __init__(self) -> None:
        self._up: dict[Any, Any] = {}

    def find(self, key: Any) -> Any:
        """Return the representative of the set of a key."""
        root = key
        while (up := self._up.get(root, root)) != root:
            root = up
        while key != root:
            self._up[key], key = root, self._up.get(key, key)
        return root

    def join(self, a: Any, b: Any) -> None:
        """Join the sets of two keys."""
        self._up[self.find(a)] = self.find(b)


class Loop:
    """One region of a list as a block loop.

    Args:
        blocks: the list.
        region: the blocks.

    Attributes:
        start, stop: the equations that the loop replaces.
    """

    def __init__(self, blocks: Blocks, region: range) -> None:
        self.blocks, self.list = blocks, blocks.list
        self.start, self.stop = blocks.starts[region.start], blocks.starts[region.stop]
        self.kinds: dict[int, Kind] = {}
        self.order: list[tuple[int, int]] = []
        self.step_of: dict[int, int] = {}
        self.kind_of: dict[int, tuple[int, int]] = {}
        for step, block in enumerate(region):
            word, first, stop = blocks.words[block], blocks.starts[block], blocks.starts[block + 1]
            kind = self.kinds.setdefault(word, Kind(stop - first))
            self.order.append((word, len(kind.starts)))
            kind.starts.append(first)
            kind.steps.append(step)
            for number in range(first, stop):
                self.step_of[number] = step
                self.kind_of[number] = word, number - first
        self.inputs: list[Any] = []
        self._input_numbers: dict[Any, int] = {}
        self.cells = Sets()
        self.classes = Sets()
        self.heads: dict[Any, Any] = {}
        self.guests: list[tuple[Loop, int, int, Any]] = []
        self.stored: dict[Any, None] = {}
        self.columns: dict[tuple[int, int, int], Column] = {}
        self.modes: dict[tuple[int, int], str] = {}
        self._read_after = {
            s
            for number in range(self.start, self.stop)
            for s in self.list.equations[number].outputs
            if (s in blocks.after or any(n >= self.stop for n in blocks.readers[s])) and not blocks.is_read_again(s)
        }
        self.added: dict[tuple[int, int], int] = {}
        self.kept = self._read_after
        self.owners: Mapping[int, Loop] = {}
        self.operations: dict[int, tuple[Operation, ...]] = {}
        self.preloaded: list[tuple[int, int, int, tuple[int, ...]]] = []

    def complete(self, later: Sequence[Loop], owners: Mapping[int, Loop]) -> None:
        """Find the cells of values.

        Args:
            owners: for the values that earlier loops keep, the loop.
            later: the later loops. Values that one of their operands reads are in one class.

        Raises:
            UnevenError: the blocks cannot become a loop.
        """
        self.owners = owners
        self._classify()
        for other in later:
            for sources in other.operands():
                own = [s for s in sources if self._inside(s) and s in self.kept]
                for s in own[1:]:
                    self.classes.join(own[0], s)
        self._allocate()

    def check_inputs(self) -> None:
        """Find the values that are copied to cells before the loop.

        Raises:
            UnevenError: native code cannot read an input.
        """
        for key, source in self.heads.items():
            spec = source_spec(source, self.list.specs)
            if key in self.cell_of and spec.size:
                self.preloaded.append((*self.cell_of[key], self._input(source), spec.shape))
        given = [s for s in self.inputs if type(s) is not tuple]
        specs = [source_spec(s, self.list.specs) for s in given]
        if any(spec.dtype not in KINDS or not spec.size for spec in specs):
            raise UnevenError
        if any(type(s) is Constant and (s.value is None or (type(s.value) is int and abs(s.value) >= 2**31)) for s in given):
            raise UnevenError

    def is_read_often(self, loops: Sequence[Loop]) -> bool:
        """Return `True` if equations outside all loops read many values of this loop."""
        spans = [range(loop.start, loop.stop) for loop in loops]
        outside = {
            s for s in self.kept if any(n >= self.stop and not any(n in span for span in spans) for n in self.blocks.readers[s])
        }
        return len(outside) > MOST_GUESTS

    def operands(self) -> Iterator[list[Any]]:
        """Yield the sources of each operand of each kind."""
        for kind in self.kinds.values():
            for position in range(kind.period):
                yield from map(list, zip(*[e.inputs for e in self.equations(kind, position)], strict=True))

    # Values

    def _inside(self, source: Any) -> bool:
        return type(source) is int and self.start <= self.blocks.maker.get(source, -1) < self.stop

    def equations(self, kind: Kind, position: int) -> list[Equation]:
        """Return the equations at a position of all blocks of a kind."""
        return [self.list.equations[start + position] for start in kind.starts]

    def _classify(self) -> None:
        """Find how each operand is read, and which values need cells."""
        for word, kind in self.kinds.items():
            for position in range(kind.period):
                equations = self.equations(kind, position)
                writes = equations[0].primitive in (WRITE, ADD_TO)
                if len(equations[0].outputs) != 1:
                    raise UnevenError
                for place in range(len(equations[0].inputs)):
                    if writes and place == 0 and self._writes_in_place(word, kind, position, equations):
                        continue
                    self.columns[word, position, place] = self._column(kind, position, [e.inputs[place] for e in equations])
                if writes:
                    self.stored.update(dict.fromkeys([e.outputs[0] for e in equations]))
        for column in self.columns.values():
            if column.kind == "cell":
                keys = [self.key(s) for s in column.sources]
                self.stored.update(dict.fromkeys(keys))
                for key in keys[1:]:
                    self.classes.join(keys[0], key)
        self.stored.update(dict.fromkeys(sorted(self._read_after)))
        for kind in self.kinds.values():
            for position in range(kind.period):
                results = [e.outputs[0] for e in self.equations(kind, position)]
                if any(s in self.stored for s in results):
                    self.stored.update(dict.fromkeys(results))
                    for s in results[1:]:
                        self.classes.join(results[0], s)

    def key(self, source: Any) -> Any:
        """Return the key of a value that is read from a cell."""
        if self._inside(source):
            return source
        key = "first", source if type(source) is int else id(source)
        self.heads.setdefault(key, source)
        return key

    def _writes_in_place(self, word: int, kind: Kind, position: int, equations: Sequence[Equation]) -> bool:
        """Return `True` if writes change their array in place; then the cells of the arrays are those of the results."""
        known = [e for e in equations if self._inside(e.inputs[0])]
        alone = all(self._is_last(e, start + position) for e, start in zip(equations, kind.starts, strict=True))
        if not known or not alone:
            self.modes[word, position] = "copied"
            return False
        self.modes[word, position] = "in place"
        for e in equations:
            [slot] = e.outputs
            base: Any = e.inputs[0]
            if not self._inside(base):
                self.heads["head", slot], base = base, ("head", slot)
            self.stored[base] = None
            self.cells.join(slot, base)
            self.classes.join(slot, base)
        for e in equations[1:]:
            self.classes.join(e.outputs[0], equations[0].outputs[0])
        return True

    def _is_last(self, equation: Equation, number: int) -> bool:
        """Return `True` if no equation reads the array of a write after the write."""
        base = equation.inputs[0]
        if not self._inside(base):
            return True
        if base in self._read_after or equation.inputs.count(base) != 1:
            return False
        return max(self.blocks.readers[base]) == number  # type: ignore[index]

    def _column(self, kind: Kind, position: int, sources: list[Any]) -> Column:
        """Return how a kind reads an operand."""
        first = sources[0]
        if type(first) is not int:
            return Column("outer", sources, self._input(first))
        made = [self.blocks.maker.get(s, -1) for s in sources]
        distance = {n - start for n, start in zip(made, kind.starts, strict=True)}
        if len(distance) == 1 and 0 <= min(distance) < position:
            return Column("here", sources, distance.pop())
        if not self._inside(first) and all(s == first for s in sources):
            return Column("outer", sources, self._input(first))
        if all(map(self.blocks.is_read_again, sources)):
            bases = {self.list.equations[n].inputs[0] for n in made}
            if len(bases) == 1 and len({self.blocks.labels[n] for n in made}) == 1:
                return Column("again", sources, self._input(bases.pop()))
        return self._stored_earlier(sources) or Column("cell", sources)

    def _stored_earlier(self, sources: list[Any]) -> Column | None:
        """Return how a kind reads values that an earlier loop has stored, and a few others, which are added to them."""
        owners = [self.owners.get(s) for s in sources]
        places = {(owner, owner.cell_of[s][0]) for owner, s in zip(owners, sources, strict=True) if owner is not None}
        if len(places) != 1 or any(map(self._inside, sources)):
            return None
        [(owner, memory)] = places
        others = dict.fromkeys([s for own, s in zip(owners, sources, strict=True) if own is None])
        for s in others:
            spec = self.list.specs[s]
            if not spec.size or (s, memory) in owner.added:
                continue
            cells, shape, kind = owner.memories[memory]
            if len(owner.added) >= MOST_GUESTS or spec.ndim != len(shape) or KINDS.get(spec.dtype) != kind:
                return None
            owner.added[s, memory] = cells
            owner.memories[memory] = Memory(cells + 1, tuple(map(max, shape, spec.shape)), kind)
            self.guests.append((owner, memory, cells, s))
        return Column("stored", sources, self._input((owner, memory)))

    def _input(self, source: Any) -> int:
        """Return the number of an input of the loop."""
        key: Any = ("constant", key_of(source.value)) if type(source) is Constant else source
        if key not in self._input_numbers:
            self._input_numbers[key] = len(self.inputs)
            self.inputs.append(source)
        return self._input_numbers[key]

    # Cells

    def _allocate(self) -> None:
        """Give each stored value a cell."""
        specs, members = self.list.specs, defaultdict(list)
        for key in self.stored:
            members[self.cells.find(key)].append(key)
        groups: dict[Any, list[Any]] = defaultdict(list)
        last = len(self.order)
        for root, keys in members.items():
            birth, death = last, -1
            for key in keys:
                slot = self.heads[key] if type(key) is tuple else key
                if type(key) is tuple:
                    birth = -1
                else:
                    birth = min(birth, self.step_of[self.blocks.maker[key]])
                    death = last if key in self._read_after else max(death, self.step_of[self.blocks.maker[key]])
                if type(slot) is int and (type(key) is not tuple or key[0] == "first"):
                    steps = [self.step_of[n] for n in self.blocks.readers[slot] if self.start <= n < self.stop]
                    death = max([death, *steps])
            groups[self.classes.find(root)].append((birth, death, root, keys))
        self.memories: list[Memory] = []
        self.cell_of: dict[Any, tuple[int, int]] = {}
        room = 0
        for each in groups.values():
            every = [source_spec(self.heads[key] if type(key) is tuple else key, specs) for *_, keys in each for key in keys]
            if len({(spec.ndim, spec.dtype) for spec in every}) != 1 or every[0].dtype not in KINDS:
                raise UnevenError
            shape = tuple(map(max, zip(*[spec.shape for spec in every], strict=True))) if every[0].ndim else ()
            free: list[tuple[int, int]] = []
            count = 0
            for birth, death, _, keys in sorted(each, key=lambda own: own[:2]):
                if free and free[0][0] < birth:
                    cell = heapq.heappop(free)[1]
                else:
                    cell, count = count, count + 1
                heapq.heappush(free, (death, cell))
                self.cell_of.update({key: (len(self.memories), cell) for key in keys})
            self.memories.append(Memory(count, shape, KINDS[every[0].dtype]))
            room += count * math.prod(shape) * every[0].dtype.itemsize
        made = [s for n in range(self.start, self.stop) for s in self.list.equations[n].outputs]
        whole = sum(specs[s].size * specs[s].dtype.itemsize for s in made)
        if room > whole * 1.5 + SPARE or any(specs[s].weak for s in self._read_after) or len(self.heads) > MOST_GUESTS:
            raise UnevenError
        if any(0 in m.shape for m in self.memories):
            raise UnevenError

    def cell_in(self, source: int, memory: int) -> int:
        """Return the cell of a value that a later loop reads; any cell for an array without elements."""
        if source in self.kept:
            return self.cell_of[source][1]
        return self.added.get((source, memory), 0)

    def finished(self) -> tuple[BlockLoop, np.ndarray[Any, Any]]:
        """Return the loop and its table."""
        words, rows = list(self.kinds), list[int]()
        columns = {word: np.array(kind.columns, np.int64).T.tolist() for word, kind in self.kinds.items()}
        for word, number in self.order:
            rows += [words.index(word), *(columns[word][number] if columns[word] else ())]
        kinds = tuple([(self.operations[word], len(self.kinds[word].columns)) for word in words])
        returned = tuple(sorted({self.cell_of[s][0] for s in self.kept}))
        return BlockLoop(kinds, len(self.order), tuple(self.memories), tuple(self.preloaded), returned), np.array(
            rows, np.int64
        )
