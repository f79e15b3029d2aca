"""Wiring of the blocks of a run: the inputs of each equation, for all blocks at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.compilation.rolling.labels import Labelled, positions
from functad.compilation.rolling.runs import Run
from functad.primitives.indexing.index_map import is_basic
from functad.primitives.indexing.read import GETITEM
from functad.primitives.indexing.write import WRITE

LEAST = 16
"""Minimum number of steps of a loop."""
FARTHEST = 4
"""Maximum lag: a step reads results of at most this many steps back."""


class NotRegularError(Exception):
    """The blocks cannot become a loop.

    Attributes:
        block: the blocks.
    """

    def __init__(self, block: Block) -> None:
        super().__init__(block)
        self.block = block


class Block:
    """Consecutive blocks of equations with equal wiring.

    A *column* is one input of one equation of the block; it has a source in each block.

    Attributes:
        start: the number of the first equation.
        period: the number of equations in a block.
        count: the number of blocks.
        base: the slot of the first result.
        width: the number of results of a block.
        columns: for each column, the position of its equation in the block.
        sources: the sources of the columns: a row for each block, as in `Labelled.sources`.
        lags: for each column, the distance in blocks to the block that computes its source; -1 if no block does.
        results: for each column with a lag, the number of the result that it reads.
        fixed: for each column, `True` if it reads the same source in all blocks.
        backward: `True` if the results are stored in reverse order of the steps.
    """

    def __init__(self, labelled: Labelled, start: int, period: int, count: int) -> None:
        self.labelled = labelled
        self.start, self.period, self.count = start, period, count
        self.stop = start + period * count
        self.base = int(labelled.first[start])
        self.width = int(labelled.first[start + period]) - self.base
        self.end = self.base + self.width * count
        offsets = labelled.offsets
        arity = int(offsets[start + period] - offsets[start])
        self.sources = labelled.sources[offsets[start] : offsets[start] + arity * count].reshape(count, arity)
        self.columns = np.repeat(np.arange(period), np.diff(offsets[start : start + period + 1]))
        self.backward = False
        self._find_classes()

    def stored(self, step: int) -> int:
        """Return the row that holds the results of a step."""
        return self.count - 1 - step if self.backward else step

    def _find_classes(self) -> None:
        """Classify each column by the source that most of its blocks read."""
        bases = self.base + self.width * np.arange(self.count)[:, None]
        self.relative = self.sources - bases
        usual, share = _usual(self.relative)
        lags = -(usual // self.width)
        near = (share > self.count // 2) & (lags <= FARTHEST)
        self.lags = np.where(near, lags, -1)
        self.results = usual % self.width
        self.usual_relative = usual
        self.usual, share = _usual(self.sources)
        changes = np.count_nonzero(np.diff(self.sources, axis=0), axis=0)  # a value selected in each step has many changes
        self.fixed = ~near & (share > self.count // 2) & (changes <= FARTHEST)

    def part(self, start: int, count: int, shift: int = 0) -> Block:
        """Return `count` blocks from block `start`, with their boundaries `shift` equations later."""
        return Block(self.labelled, self.start + start * self.period + shift, self.period, count)

    def longest(self) -> tuple[int, int]:
        """Return start and stop of the longest sequence of blocks with regular reads in all columns."""
        blocks = np.arange(self.count)
        of_fixed = (self.usual[self.fixed] - self.base) // self.width
        inside = (self.usual[self.fixed] >= self.base) & (self.usual[self.fixed] < self.end)
        first = int(of_fixed[inside].max(initial=-1)) + 1  # a block that all steps read comes before the loop
        bad = np.where(self.lags >= 0, self.relative != self.usual_relative, self.fixed & (self.sources != self.usual))
        bad |= (self.lags < 0) & ~self.fixed & (self.sources >= self.base + first * self.width)
        good = ~(bad.any(1) | self._bad_indices()) & (blocks >= first)
        if not good.any():
            return 0, 0
        edges = np.flatnonzero(np.diff(np.concatenate(([0], good.view(np.int8), [0]))))
        at = int(np.argmax(edges[1::2] - edges[::2]))
        start, stop = int(edges[2 * at]), int(edges[2 * at + 1])
        for before in range(1, FARTHEST + 1):  # the first steps read initial values
            begin = start - before
            if begin < first or self._bad_indices()[begin] or not self._starts(bad, begin, start):
                break
        else:
            before = FARTHEST + 1
        return start - before + 1, stop

    def _starts(self, bad: Any, begin: int, start: int) -> bool:
        """Return `True` if all irregular reads of the first blocks are initial values of carries."""
        for block in range(begin, start):
            if (bad[block] & (self.lags <= block - begin)).any():
                return False
            if (bad[block] & (self.sources[block] >= self.base + begin * self.width)).any():
                return False
        return True

    def _bad_indices(self) -> Any:
        """Return, for each block, whether one of its indices breaks the usual arithmetic sequence."""
        bad = np.zeros(self.count, bool)
        for _, indices in self.indexed():
            steps = np.diff(indices, axis=0)
            usual, _ = _usual(steps)
            middle = self.count // 2
            expected = indices[middle] + (np.arange(self.count) - middle)[:, None] * usual
            bad |= (indices != expected).any(1)
        return bad

    def indexed(self) -> list[tuple[int, Any]]:
        """Return the positions of equations with an index that varies, and its integers: a row for each block."""
        found = []
        for position in range(self.period):
            if self.labelled.indices.get(self.start + position):
                numbers = range(self.start + position, self.stop, self.period)
                indices = np.array([self.labelled.indices[number] for number in numbers])
                if (indices != indices[0]).any():
                    found.append((position, indices))
        return found

    def makers(self) -> Any:
        """Return, for each result of a block, the position of its equation."""
        return np.repeat(np.arange(self.period), np.diff(self.labelled.first[self.start : self.start + self.period + 1]))

    def first_column(self, position: int) -> int:
        """Return the first column of the equation at a position."""
        return int(np.searchsorted(self.columns, position))

    def chains(self, writers: list[int]) -> list[list[int]]:
        """Return chains of positions: equations that write to the same array in turn, from one step to the next.

        Args:
            writers: all positions of equations that write.
        """
        first = self.labelled.first
        results = {int(first[self.start + position]) - self.base: position for position in writers}
        following: dict[tuple[int, int], list[int]] = {}
        for column in np.flatnonzero(self.lags >= 0).tolist():
            maker = results.get(int(self.results[column]))
            if maker is not None:
                following.setdefault((maker, int(self.lags[column])), []).append(column)
        found = []
        for last in writers:
            chain, at = [], (last, 1)
            while len(readers := following.pop(at, [])) == 1:
                position = int(self.columns[readers[0]])
                if position not in writers or readers[0] != self.first_column(position):
                    return []
                chain.append(position)
                at = position, 0
            if chain and chain[-1] == last:
                found.append(chain)
        return found if not following else []

    def invariant(self) -> list[int]:
        """Return the positions of loop-invariant equations."""
        same: set[int] = set()
        skipped = {position for position, _ in self.indexed()}
        makers = self.makers().tolist()
        inputs: list[list[int]] = [[] for _ in range(self.period)]
        for column, position in enumerate(self.columns.tolist()):
            inputs[position].append(column)
        for position, own in enumerate(inputs):
            if position not in skipped and all(
                self.fixed[c] or (self.lags[c] == 0 and makers[self.results[c]] in same) for c in own
            ):
                same.add(position)
        return sorted(same)

    def crossings(self) -> Any:
        """Return, for each position in the block, the bytes carried between steps if a step begins there."""
        specs, makers = self.labelled.expressions.specs, self.makers()
        reach: dict[int, int] = {}
        for column in np.flatnonzero(self.lags >= 0).tolist():
            result = int(self.results[column])
            reader = int(self.columns[column] + self.lags[column] * self.period)
            reach[result] = max(reach.get(result, 0), reader)
        cost = np.zeros(self.period * (FARTHEST + 2) + 1, np.int64)
        for result, reader in reach.items():
            spec = specs[self.base + result]
            size = spec.size * spec.dtype.itemsize + 8
            cost[makers[result] + 1] += size
            cost[reader + 1] -= size
        return np.cumsum(cost)[:-1].reshape(-1, self.period).sum(0)


def _usual(values: Any) -> tuple[Any, Any]:
    """Return, for each column, the median (the majority value if one exists) and its number of rows."""
    ordered = np.sort(values, axis=0)
    usual = ordered[len(values) // 2]
    return usual, (values == usual).sum(0)


def wired(labelled: Labelled, run: Run) -> Block | None:
    """Return the blocks of a run with equal wiring and the fewest carried bytes; `None` if there are too few.

    A block may span up to four periods, since equal computations may have alternating wiring.
    """
    best: Block | None = None
    for times in (1, 2, 3, 4):
        period = run.period * times
        count = (run.stop - run.start) // period
        if count < LEAST:
            break
        found = _longest(Block(labelled, run.start, period, count), run.stop)
        if found is not None and (best is None or found.count * found.period > 1.5 * best.count * best.period):
            best = found
        if best is not None and best.count * best.period * 2 > run.stop - run.start:
            break
    return best


def _longest(whole: Block, end: int) -> Block | None:
    start, stop = whole.longest()
    if stop - start < LEAST:
        return None
    block = whole.part(start, stop - start)
    free = (end - whole.stop) if stop == whole.count else 0
    cost = block.crossings()
    shift = int(np.argmin(cost[: free + 1]))
    if cost.min() < 0.7 * cost[shift]:
        shift = int(np.argmin(cost))
    if shift:
        block = block.part(0, block.count - (shift > free), shift)
        start, stop = block.longest()
        if stop - start < LEAST:
            return None
        block = block.part(start, stop - start)
    return block if _regular(block) else None


def _regular(block: Block) -> bool:
    """Return `True` if each index that varies between blocks reads a loop input or fills an array."""
    writers = []
    makers, same = block.makers(), set(block.invariant())
    for position, indices in block.indexed():
        column = block.first_column(position)
        equation = block.labelled.expressions.equations[block.start + position]
        if (indices[0] != indices[1]).sum() != 1 or not is_basic(equation.params["index"]):
            return False
        if equation.primitive is WRITE and not equation.params["path"]:
            writers.append(position)
        elif equation.primitive is not GETITEM or not (
            block.fixed[column] or (block.lags[column] == 0 and int(makers[block.results[column]]) in same)
        ):
            return False
    chains = block.chains(writers)
    return sorted(position for chain in chains for position in chain) == writers and all(
        _apart(block, chain) for chain in chains
    )


def _apart(block: Block, chain: list[int]) -> bool:
    """Return `True` if no two steps write to the same element."""
    labelled = block.labelled
    numbers = [block.start + position for position in chain]
    if any(labelled.templates[number] != labelled.templates[numbers[0]] for number in numbers):
        return False
    shape = labelled.expressions.specs[int(labelled.first[numbers[0]])].shape
    steps: dict[Any, int] = {}
    for number in numbers:
        for step in range(block.count):
            index = labelled.expressions.equations[number + step * block.period].params["index"]
            if steps.setdefault(positions(index, shape), step) != step:
                return False
    return True
