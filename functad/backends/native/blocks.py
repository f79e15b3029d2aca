"""Block loops: repeated statements of unrolled Python loops as one native loop, with their indices and lengths in a table.

A Python loop with slices that grow or shrink, such as `x[i] = b[i] - L[i, :i] @ x[:i]`, is unrolled in an expression list: its
steps have other shapes. The list is cut behind each write into an array. Blocks of equations that differ in integers only are
of one *kind*: bounds of slices, indices, lengths of axes. Nested loops give a few kinds, in any order. A block loop runs the
blocks in the order of the list: a table has the kind of each block and its integers. So forward and backward passes, and
nests of any depth, become native loops whose code does not grow with the number of steps.

A value that another block reads has a place in memory: a cell of an array that holds all values of its class, which is a row of
the array. The table has the numbers of the cells. A write into an array happens in place if no equation reads the array before
the write afterwards. The cells of values that no block reads any more are used again.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.backends.native.lowering import ROWS, Pointwise, Reduction, is_ufunc
from functad.backends.native.pointwise import ufunc_row
from functad.expressions.expressions import Constant, Equation, Expressions, source_spec
from functad.expressions.spec import PYTHON_SCALARS, ArraySpec, is_array, spec_of
from functad.loops.build import KINDS, SIZES
from functad.loops.ir import REALS
from functad.primitives.arranging.flip import FLIP
from functad.primitives.arranging.reshape import BROADCAST_TO, RESHAPE, TRANSPOSE
from functad.primitives.elementwise.elementary import ADD
from functad.primitives.entry import Primitive
from functad.primitives.indexing.index_map import indexed_shape, is_basic
from functad.primitives.indexing.read import GETITEM, SCATTER
from functad.primitives.indexing.write import ADD_TO, WRITE
from functad.primitives.linalg.contractions import contraction_of
from functad.primitives.linalg.einsum import Contraction

FEWEST = 256
"""Minimum number of equations that a block loop replaces."""

LARGE = 16_384
"""Operations on more elements than this, and products of matrices with half as many multiplications, stay in the list: they run
on several threads or call BLAS."""

LEAST = 4
"""Minimum number of blocks of a kind in a list."""

MOST_KINDS = 16
"""Maximum number of kinds in a loop."""

MOST_GUESTS = 64
"""Maximum number of values that are copied to the cells of a loop before it, or to the cells of an earlier loop."""

LONGEST_BLOCK = 200
"""Maximum number of equations in a block."""

SPARE = 2**20
"""Bytes that the cells of a loop may take in addition to one and a half times the results of the replaced equations."""


class Number(NamedTuple):
    """An integer of a block: the number in a column of the table plus `offset`; `offset` alone if the column is -1."""

    column: int
    offset: int


class Cell(NamedTuple):
    """A place for a value: a row of the array of a class."""

    memory: int
    number: Number


class Operand(NamedTuple):
    """An operand of an operation.

    Attributes:
        kind: `here`, the result of the operation `which` of the block; `outer`, the input `which` of the loop; `stored`, a cell
            of an earlier loop, in the input `which`; or `cell`, a cell of this loop.
        which: the number of the operation or of the input.
        cell: the cell.
        lengths: the lengths of the axes.
    """

    kind: str
    which: int
    cell: Cell | None
    lengths: tuple[Number, ...]


class Operation(NamedTuple):
    """An operation of a block.

    Attributes:
        way: a pointwise operation, a reduction, a contraction, or `read` or `write`.
        operands: the operands; for a write the array and the value.
        parts: for a read or write, for each part of the index: a pair of the position and the step of a slice, a position, or
            `None` for a new axis.
        lengths: the lengths of the axes of the result; for a write, of the elements written.
        most: the largest lengths of the axes.
        kind: the type of the elements.
        follows: for each operand, for each axis, whether the axis has the length of the result; else the length is 1.
        cell: the cell of the result.
        copied: for a write, whether the array is copied to the cell of the result first.
        adds: for a write, whether the value is added.
    """

    way: Any
    operands: tuple[Operand, ...]
    parts: tuple[Any, ...]
    lengths: tuple[Number, ...]
    most: tuple[int, ...]
    kind: str
    follows: tuple[tuple[bool, ...], ...] = ()
    cell: Cell | None = None
    copied: bool = False
    adds: bool = False


class Memory(NamedTuple):
    """The array of a class of values: the number of cells, the shape of a cell, and the type of the elements."""

    cells: int
    shape: tuple[int, ...]
    kind: str


class BlockLoop(NamedTuple):
    """A loop over blocks.

    Attributes:
        kinds: the operations of each kind, and the number of its columns.
        steps: the number of blocks.
        memories: the arrays for values.
        preloaded: values copied before the loop: the memory, the number of the cell, the input, and the shape.
        returned: the memories that the loop returns.
    """

    kinds: tuple[tuple[tuple[Operation, ...], int], ...]
    steps: int
    memories: tuple[Memory, ...]
    preloaded: tuple[tuple[int, int, int, tuple[int, ...]], ...]
    returned: tuple[int, ...]


def _never(*arrays: Any, loop: BlockLoop) -> Any:
    raise NotImplementedError("native code computes block loops")


BLOCKS = Primitive(
    _never,
    kind="general",
    names=(),
    compute=_never,
    vjps=(),
    doc="repeated statements of unrolled loops",
    samples=None,
    name="block_loop",
    multiple=True,
    registered=False,
)


class UnevenError(Exception):
    """The blocks cannot become a loop."""


def with_block_loops(expressions: Expressions) -> Expressions:
    """Return an equivalent list with block loops in place of repeated statements, for native code."""
    if len(expressions.equations) < FEWEST or any(not e.outputs for e in expressions.equations):
        return expressions
    own = _accumulated(expressions)
    blocks = _Blocks(own)
    chosen = list(blocks.regions())
    while True:
        loops = blocks.loops(chosen)
        poor = [loop for loop in loops if loop.is_read_often(loops)]
        if not poor:
            break
        starts = {loop.start for loop in poor}
        chosen = [region for region in chosen if blocks.starts[region.start] not in starts]
    return _Written(blocks, loops).expressions() if loops else expressions


def _accumulated(expressions: Expressions) -> Expressions:
    """Return the list with long scatters as additions to elements of an array, each behind the equation that makes its piece."""
    long = [e for e in expressions.equations if e.primitive is SCATTER and len(e.inputs) >= LEAST**2 and _is_plain(e, expressions)]
    if not long:
        return expressions
    maker = {s: n for n, e in enumerate(expressions.equations) for s in e.outputs}
    specs = list(expressions.specs)
    behind: dict[int, list[Equation]] = defaultdict(list)

    def new(spec: ArraySpec) -> int:
        specs.append(spec)
        return len(specs) - 1

    for e in long:
        whole, place = specs[e.outputs[0]], -1
        total: Any = Constant(np.zeros(whole.shape, whole.dtype))
        for number, (piece, index) in enumerate(zip(e.inputs, e.params["indices"], strict=True)):
            place = max(place, maker.get(piece, -1))  # type: ignore[arg-type]
            spec = specs[piece]  # type: ignore[index]
            known, added = new(spec), new(spec)
            after = new(whole) if number + 1 < len(e.inputs) else e.outputs[0]
            behind[place] += [
                Equation(GETITEM, (total,), {"index": index}, (known,)),
                Equation(ADD, (known, piece), {}, (added,)),
                Equation(WRITE, (total, added), {"path": (), "index": index}, (after,)),
            ]
            total = after
    gone = {id(e) for e in long}
    equations = list(behind[-1])
    for number, e in enumerate(expressions.equations):
        equations += [] if id(e) in gone else [e]
        equations += behind.get(number, ())
    return expressions.replace(equations=tuple(equations), specs=tuple(specs))


def _is_plain(equation: Equation, expressions: Expressions) -> bool:
    """Return `True` if the pieces of a scatter have the shapes at their basic indices, and its dtype."""
    whole = expressions.specs[equation.outputs[0]]
    return whole.ndim > 0 and all(
        type(s) is int and is_basic(index) and expressions.specs[s] == ArraySpec(indexed_shape(whole.shape, index), whole.dtype)
        for s, index in zip(equation.inputs, equation.params["indices"], strict=True)
    )


# Labels


def _parts_of(index: Any, shape: tuple[int, ...]) -> tuple[tuple[Any, ...], tuple[int, ...]] | None:
    """Return a basic index without its integers, and the integers: starts of slices and positions; `None` for other indices."""
    if not is_basic(index):
        return None
    parts = index if type(index) is tuple else (index,)
    used = sum(part is not None and part is not Ellipsis for part in parts)
    whole: list[Any] = []
    for part in parts:
        whole += [slice(None)] * (len(shape) - used) if part is Ellipsis else [part]
    whole += [slice(None)] * (len(shape) - sum(part is not None for part in whole))
    form, numbers, axis = list[Any](), list[int](), 0
    for part in whole:
        if part is None:
            form.append(None)
            continue
        if type(part) is int:
            form.append("at")
            numbers.append(part % shape[axis])
        else:
            start, _, step = part.indices(shape[axis])
            form.append(step)
            numbers.append(start)
        axis += 1
    return tuple(form), tuple(numbers)


def _key_of(value: Any) -> Any:
    """Return a hashable key that is equal for equal values."""
    kind = type(value)
    if kind in PYTHON_SCALARS or issubclass(kind, np.generic):
        return kind, repr(value)
    if kind is np.ndarray:
        return "array", value.dtype, value.shape, value.tobytes() if value.nbytes <= 4_096 else id(value)
    if kind in (tuple, list):
        return kind, tuple(map(_key_of, value))
    if kind is slice:
        return kind, value.start, value.stop, value.step
    return ("object", id(value)) if is_array(value) else value


class _Blocks:
    """A list, cut into blocks.

    Attributes:
        list: the expression list.
        maker: the number of the equation that computes each slot.
        readers: the numbers of the equations that read each slot.
        after: the slots that the list returns.
        forms: by equation number, the form of the index of a read or write.
        numbers: by equation number, its integers.
        words: by block, the number of its kind.
        starts: the first equation of each block, and the number of equations.
        owner: for values in cells that equations behind a loop read, the loop.
    """

    def __init__(self, own: Expressions) -> None:
        self.list = own
        self.maker: dict[int, int] = {}
        self.readers: dict[int, list[int]] = defaultdict(list)
        for number, e in enumerate(own.equations):
            self.maker.update(dict.fromkeys(e.outputs, number))
            for s in e.inputs:
                if type(s) is int:
                    self.readers[s].append(number)
        self.after = {s for s in own.outputs if type(s) is int}
        self.forms: dict[int, tuple[Any, ...]] = {}
        self.numbers: dict[int, tuple[int, ...]] = {}
        self._roots: dict[int, Any] = {}
        self._known: dict[Any, int] = {}
        self.labels = [self._label(number, e) for number, e in enumerate(own.equations)]
        self._cut()
        self.owner: dict[int, _Loop] = {}
        self._within = np.zeros(len(own.equations) + 1, bool)

    def loops(self, chosen: Sequence[range]) -> list[_Loop]:
        """Return the loops of those ranges of blocks that can become loops."""
        self.owner = {}
        self._within[:] = False
        for region in chosen:
            self._within[self.starts[region.start] : self.starts[region.stop]] = True
        found, loops = [_Loop(self, region) for region in chosen], []
        for number, loop in enumerate(found):
            try:
                loop.complete(found[number + 1 :])
            except UnevenError:
                continue
            loops.append(loop)
            self.owner.update(dict.fromkeys(loop.kept, loop))
        return loops

    def is_read_again(self, source: Any) -> bool:
        """Return `True` for an element or a part of an array that no loop changes: blocks read it again, and do not store it."""
        number = self.maker.get(source, -1) if type(source) is int else -1
        if number < 0 or number not in self.forms or self.list.equations[number].primitive is not GETITEM:
            return False
        base = self.list.equations[number].inputs[0]
        return type(base) is int and not self._within[self.maker.get(base, -1)]

    def _label(self, number: int, e: Equation) -> int:
        """Return a number that is equal for equations that differ in integers only."""
        specs = self.list.specs
        given: list[Any] = [
            (specs[s].ndim, specs[s].dtype, specs[s].weak) if type(s) is int else ("constant", _key_of(s.value)) for s in e.inputs
        ]
        made = [(specs[s].ndim, specs[s].dtype, specs[s].weak) for s in e.outputs]
        params: Any = tuple([(name, _key_of(value)) for name, value in e.params.items() if name != "shape"])
        if e.primitive in (GETITEM, WRITE, ADD_TO):
            index = e.params["index"]
            path = e.params.get("path", ())
            if len(path) == 1 and path[0].primitive is GETITEM and path[0].number is None and index is Ellipsis:
                path, index = (), path[0].params["index"]
            found = _parts_of(index, source_spec(e.inputs[0], specs).shape) if not path else None
            if found is None:
                return self._new(object())
            self.forms[number], self.numbers[number] = found
            params = found[0]
            root = self._root(e.inputs[0])
            given[0] = (*given[0], root) if type(e.inputs[0]) is int else ("constant", root)
        label = self._new((e.primitive, tuple(given), tuple(made), params))
        if e.primitive is WRITE or e.primitive is ADD_TO:
            self._roots[e.outputs[0]] = self._root(e.inputs[0])
        else:
            self._roots.update({s: ("made", label) for s in e.outputs})
        return label

    def _root(self, source: Any) -> Any:
        """Return a key for the array that a slot is a later state of."""
        if type(source) is int:
            return self._roots.get(source, ("input", source))
        return _key_of(source.value)

    def _new(self, key: Any) -> int:
        try:
            return self._known.setdefault(key, len(self._known))
        except TypeError:
            return self._known.setdefault(object(), len(self._known))

    def _cut(self) -> None:
        """Cut the list behind each repeated write; join blocks that always follow each other."""
        counts = Counter(self.labels)
        starts = [0]
        for number, e in enumerate(self.list.equations):
            if e.primitive in (WRITE, ADD_TO) and counts[self.labels[number]] >= LEAST:
                starts.append(number + 1)
        if starts[-1] != len(self.labels):
            starts.append(len(self.labels))
        known: dict[Any, int] = {}
        words = [
            known.setdefault(tuple(self.labels[a:b]), len(known)) for a, b in zip(starts, starts[1:], strict=False)
        ]
        often = Counter(words)
        good = [often[word] >= LEAST for word in words]
        pieces = [[i] for i in range(len(words))]
        while True:
            joined = self._join(words, good, pieces, starts)
            if joined is None:
                break
            words, good, pieces = joined
        self.words = words
        self.good = good
        self.starts = [*[starts[piece[0]] for piece in pieces], starts[-1]]

    def _join(self, words: list[int], good: list[bool], pieces: list[list[int]], starts: list[int]) -> Any:
        """Join each block of one kind with the block that follows it; return `None` if there is no such kind.

        The kind is one that nearly always comes before the kinds that follow it.
        """
        before: dict[int, Counter[int]] = defaultdict(Counter)
        follows: dict[int, Counter[int]] = defaultdict(Counter)
        length: dict[int, int] = {}
        for i, word in enumerate(words):
            length[word] = starts[pieces[i][-1] + 1] - starts[pieces[i][0]]
            if i and good[i] and good[i - 1]:
                before[word][words[i - 1]] += 1
                follows[words[i - 1]][word] += 1
        counts = Counter(words)
        for a, following in follows.items():
            often = [b for b, n in following.items() if n > 1]
            if not often or len(often) > 3 or a in often or sum(following[b] for b in often) < counts[a] - 2:
                continue
            if all(before[b][a] >= counts[b] - max(1, counts[b] // 8) and length[a] + length[b] <= LONGEST_BLOCK for b in often):
                chosen = set(often)
                break
        else:
            return None
        fresh = {b: max(words) + 1 + i for i, b in enumerate(often)}
        new_words, new_good, new_pieces, i = list[int](), list[bool](), list[list[int]](), 0
        while i < len(words):
            pair = words[i] == a and i + 1 < len(words) and words[i + 1] in chosen and good[i] and good[i + 1]
            new_words.append(fresh[words[i + 1]] if pair else words[i])
            new_good.append(good[i])
            new_pieces.append(pieces[i] + pieces[i + 1] if pair else pieces[i])
            i += 2 if pair else 1
        return new_words, new_good, new_pieces

    def regions(self) -> Iterator[range]:
        """Yield ranges of blocks that may become loops."""
        start = 0
        while start < len(self.words):
            if not self.good[start]:
                start += 1
                continue
            stop = start
            while stop < len(self.words) and self.good[stop]:
                stop += 1
            region = self._trimmed(start, stop)
            size = self.starts[region.stop] - self.starts[region.start] if region else 0
            kinds = set(self.words[region.start : region.stop])
            code = sum(len(self.labels_of(kind, region)) for kind in kinds) if region else 0
            if size >= FEWEST and len(kinds) <= MOST_KINDS and size >= 4 * code:
                yield region
            start = stop

    def labels_of(self, kind: int, region: range) -> list[int]:
        """Return the labels of the equations of a kind."""
        i = self.words.index(kind, region.start)
        return self.labels[self.starts[i] : self.starts[i + 1]]

    def _trimmed(self, start: int, stop: int) -> range:
        """Return a region without blocks of rare kinds at its ends."""
        counts = Counter(self.words[start:stop])
        while start < stop and counts[self.words[start]] < LEAST:
            start += 1
        while start < stop and counts[self.words[stop - 1]] < LEAST:
            stop -= 1
        return range(start, stop)


# Loops


class _Column:
    """The sources of an input of an equation of a kind, one for each block of the kind."""

    def __init__(self, kind: str, sources: list[Any], which: int = -1) -> None:
        self.kind, self.sources, self.which = kind, sources, which


class _Kind:
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


class _Sets:
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


class _Loop:
    """One region of a list as a block loop.

    Args:
        blocks: the list.
        region: the blocks.

    Attributes:
        start, stop: the equations that the loop replaces.
    """

    def __init__(self, blocks: _Blocks, region: range) -> None:
        self.blocks, self.list = blocks, blocks.list
        self.start, self.stop = blocks.starts[region.start], blocks.starts[region.stop]
        self.kinds: dict[int, _Kind] = {}
        self.order: list[tuple[int, int]] = []
        self.step_of: dict[int, int] = {}
        self.kind_of: dict[int, tuple[int, int]] = {}
        for step, block in enumerate(region):
            word, first, stop = blocks.words[block], blocks.starts[block], blocks.starts[block + 1]
            kind = self.kinds.setdefault(word, _Kind(stop - first))
            self.order.append((word, len(kind.starts)))
            kind.starts.append(first)
            kind.steps.append(step)
            for number in range(first, stop):
                self.step_of[number] = step
                self.kind_of[number] = word, number - first
        self.inputs: list[Any] = []
        self._input_numbers: dict[Any, int] = {}
        self.cells = _Sets()
        self.classes = _Sets()
        self.heads: dict[Any, Any] = {}
        self.guests: list[tuple[_Loop, int, int, Any]] = []
        self.stored: set[Any] = set()
        self.columns: dict[tuple[int, int, int], _Column] = {}
        self.modes: dict[tuple[int, int], str] = {}
        self._read_after = {
            s
            for number in range(self.start, self.stop)
            for s in self.list.equations[number].outputs
            if (s in blocks.after or any(n >= self.stop for n in blocks.readers[s])) and not blocks.is_read_again(s)
        }
        self.added: dict[tuple[int, int], int] = {}
        self.kept = self._read_after

    def complete(self, later: Sequence[_Loop]) -> None:
        """Find the cells and the operations.

        Args:
            later: the later loops. Values that one of their operands reads are in one class.

        Raises:
            UnevenError: the blocks cannot become a loop.
        """
        self._classify()
        for other in later:
            for sources in other.operands():
                own = [s for s in sources if self._inside(s) and s in self.kept]
                for s in own[1:]:
                    self.classes.join(own[0], s)
        self._allocate()
        self.operations = {word: self._operations(word, kind) for word, kind in self.kinds.items()}
        self.preloaded = []
        for key, source in self.heads.items():
            spec = source_spec(source, self.list.specs)
            if key in self.cell_of and spec.size:
                self.preloaded.append((*self.cell_of[key], self._input(source), spec.shape))
        given = [s for s in self.inputs if type(s) is not tuple]
        specs = [source_spec(s, self.list.specs) for s in given]
        if any(spec.dtype not in KINDS or not spec.size for spec in specs):
            raise UnevenError
        if any(type(s) is Constant and (s.value is None or type(s.value) is int and abs(s.value) >= 2**31) for s in given):
            raise UnevenError

    def is_read_often(self, loops: Sequence[_Loop]) -> bool:
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
                yield from map(list, zip(*[e.inputs for e in self._equations(kind, position)], strict=True))

    # Values

    def _inside(self, source: Any) -> bool:
        return type(source) is int and self.start <= self.blocks.maker.get(source, -1) < self.stop

    def _equations(self, kind: _Kind, position: int) -> list[Equation]:
        return [self.list.equations[start + position] for start in kind.starts]

    def _classify(self) -> None:
        """Find how each operand is read, and which values need cells."""
        for word, kind in self.kinds.items():
            for position in range(kind.period):
                equations = self._equations(kind, position)
                writes = equations[0].primitive in (WRITE, ADD_TO)
                if len(equations[0].outputs) != 1:
                    raise UnevenError
                for place in range(len(equations[0].inputs)):
                    if writes and place == 0 and self._writes_in_place(word, kind, position, equations):
                        continue
                    self.columns[word, position, place] = self._column(kind, position, [e.inputs[place] for e in equations])
                if writes:
                    self.stored.update([e.outputs[0] for e in equations])
        for column in self.columns.values():
            if column.kind == "cell":
                keys = [self._key(s) for s in column.sources]
                self.stored.update(keys)
                for key in keys[1:]:
                    self.classes.join(keys[0], key)
        self.stored.update(self._read_after)
        for kind in self.kinds.values():
            for position in range(kind.period):
                results = [e.outputs[0] for e in self._equations(kind, position)]
                if not self.stored.isdisjoint(results):
                    self.stored.update(results)
                    for s in results[1:]:
                        self.classes.join(results[0], s)

    def _key(self, source: Any) -> Any:
        """Return the key of a value that is read from a cell."""
        if self._inside(source):
            return source
        key = "first", source if type(source) is int else id(source)
        self.heads.setdefault(key, source)
        return key

    def _writes_in_place(self, word: int, kind: _Kind, position: int, equations: Sequence[Equation]) -> bool:
        """Return `True` if writes change their array in place; then the cells of the arrays are those of the results."""
        known = [e for e in equations if self._inside(e.inputs[0])]
        alone = all(self._is_last(e, start + position) for e, start in zip(equations, kind.starts, strict=True))
        if not known or not alone:
            self.modes[word, position] = "copied"
            return False
        self.modes[word, position] = "in place"
        for e in equations:
            [slot], base = e.outputs, e.inputs[0]
            if not self._inside(base):
                self.heads["head", slot], base = base, ("head", slot)
            self.stored.add(base)
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
        return max(self.blocks.readers[base]) == number and self.list.specs[base].dtype == self.list.specs[equation.outputs[0]].dtype  # type: ignore[index]

    def _column(self, kind: _Kind, position: int, sources: list[Any]) -> _Column:
        """Return how a kind reads an operand."""
        first = sources[0]
        if type(first) is not int:
            return _Column("outer", sources, self._input(first))
        made = [self.blocks.maker.get(s, -1) for s in sources]
        distance = {n - start for n, start in zip(made, kind.starts, strict=True)}
        if len(distance) == 1 and 0 <= min(distance) < position:
            return _Column("here", sources, distance.pop())
        if not self._inside(first) and all(s == first for s in sources):
            return _Column("outer", sources, self._input(first))
        if all(map(self.blocks.is_read_again, sources)):
            bases = {self.list.equations[n].inputs[0] for n in made}
            if len(bases) == 1 and len({self.blocks.labels[n] for n in made}) == 1:
                return _Column("again", sources, self._input(bases.pop()))
        return self._stored_earlier(sources) or _Column("cell", sources)

    def _stored_earlier(self, sources: list[Any]) -> _Column | None:
        """Return how a kind reads values that an earlier loop has stored, and a few others, which are added to them."""
        owners = [self.blocks.owner.get(s) for s in sources]
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
        return _Column("stored", sources, self._input((owner, memory)))

    def _input(self, source: Any) -> int:
        """Return the number of an input of the loop."""
        key = ("constant", _key_of(source.value)) if type(source) is Constant else source
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

    # Operations

    def _lengths(self, kind: _Kind, sources: Sequence[Any]) -> tuple[tuple[Number, ...], tuple[int, ...]]:
        """Return the lengths of the axes of values, and the largest lengths."""
        shapes = [source_spec(s, self.list.specs).shape for s in sources]
        return tuple([kind.number(n) for n in zip(*shapes, strict=True)]), tuple([max(n) for n in zip(*shapes, strict=True)])

    def _cell(self, kind: _Kind, keys: Sequence[Any]) -> Cell:
        found = [self.cell_of[key] for key in keys]
        return Cell(found[0][0], kind.number([cell for _, cell in found]))

    def _operations(self, word: int, kind: _Kind) -> tuple[Operation, ...]:
        """Return the operations of a kind."""
        found: list[Operation] = []
        here: dict[int, int] = {}
        again: dict[Any, int] = {}
        for position in range(kind.period):
            equations = self._equations(kind, position)
            operands = []
            for place in range(len(equations[0].inputs)):
                column = self.columns.get((word, position, place))
                if column is None:
                    keys = [e.outputs[0] for e in equations]
                    operands.append(Operand("cell", -1, self._cell(kind, keys), self._lengths(kind, keys)[0]))
                    continue
                lengths, _ = self._lengths(kind, column.sources)
                if column.kind == "here":
                    operands.append(Operand("here", here[column.which], None, lengths))
                elif column.kind == "outer":
                    operands.append(Operand("outer", column.which, None, lengths))
                elif column.kind == "stored":
                    owner, memory = self.inputs[column.which]
                    cells = [owner.cell_in(s, memory) for s in column.sources]
                    operands.append(Operand("stored", column.which, Cell(-1, kind.number(cells)), lengths))
                elif column.kind == "again":
                    key = tuple(column.sources)
                    if key not in again:
                        again[key] = len(found)
                        made = [self.blocks.maker[s] for s in column.sources]
                        base = Operand("outer", column.which, None, self._lengths(kind, [self.list.equations[made[0]].inputs[0]])[0])
                        found.append(self._read(kind, made, base, column.sources))
                    operands.append(Operand("here", again[key], None, lengths))
                else:
                    operands.append(Operand("cell", -1, self._cell(kind, list(map(self._key, column.sources))), lengths))
            here[position] = len(found)
            found.append(self._operation(word, kind, position, equations, operands))
        return tuple(found)

    def _places(self, kind: _Kind, numbers: Sequence[int]) -> tuple[Any, ...]:
        form = self.blocks.forms[numbers[0]]
        rest = iter([kind.number(n) for n in zip(*[self.blocks.numbers[n] for n in numbers], strict=True)])
        return tuple([None if part is None else next(rest) if part == "at" else (next(rest), part) for part in form])

    def _read(self, kind: _Kind, numbers: Sequence[int], base: Operand, results: Sequence[Any]) -> Operation:
        lengths, most = self._lengths(kind, results)
        parts = self._places(kind, numbers)
        return Operation("read", (base,), parts, lengths, most, KINDS[self.list.specs[results[0]].dtype])

    def _operation(
        self, word: int, kind: _Kind, position: int, equations: Sequence[Equation], operands: list[Operand]
    ) -> Operation:
        primitive, specs = equations[0].primitive, self.list.specs
        numbers = [start + position for start in kind.starts]
        results = [e.outputs[0] for e in equations]
        lengths, most = self._lengths(kind, results)
        given = [source_spec(s, specs) for s in equations[0].inputs]
        every = [[source_spec(e.inputs[i], specs).shape for e in equations] for i in range(len(given))]
        if any(spec.dtype not in KINDS for spec in (*given, specs[results[0]])) or (math.prod(most) > LARGE and primitive not in (WRITE, ADD_TO)):
            raise UnevenError
        cell = self._cell(kind, results) if results[0] in self.stored else None
        own = KINDS[specs[results[0]].dtype]
        if primitive is GETITEM:
            return self._read(kind, numbers, operands[0], results)._replace(cell=cell)
        if primitive in (WRITE, ADD_TO):
            parts = self._places(kind, numbers)
            regions = [_shape_at(self.blocks.forms[n], e, specs) for n, e in zip(numbers, equations, strict=True)]
            size = tuple([kind.number(n) for n in zip(*regions, strict=True)])
            largest = tuple([max(n) for n in zip(*regions, strict=True)])
            follows = (_follows(every[1], regions),)
            copied = self.modes[word, position] == "copied"
            return Operation(
                "write", tuple(operands), parts, size, largest, own, follows, cell, copied=copied, adds=primitive is ADD_TO
            )
        if primitive in (RESHAPE, FLIP, TRANSPOSE):
            return self._view(kind, equations, operands, Operation("read", tuple(operands), (), lengths, most, own, (), cell))
        contraction = contraction_of(primitive, equations[0].params, [spec.ndim for spec in given])
        if contraction is not None:
            way: Any = self._contraction(contraction, given, every, own)
            sizes = contraction.sizes([tuple(map(max, zip(*shapes, strict=True))) for shapes in every])
            roles = [contraction.length(role, sizes) for role in ("row", "column", "depth")]
            if min(roles) > 1 and math.prod(sizes.values()) > LARGE // 2:
                raise UnevenError
            shapes = [_by_letters(contraction, [e[i] for e in every], contraction.result) for i in range(len(results))]
            wanted = [[_by_letters(contraction, [e[i] for e in every], term) for i in range(len(results))] for term in contraction.terms]
            if shapes != [specs[s].shape for s in results]:
                raise UnevenError
            follows = tuple([_follows(one, other) for one, other in zip(every, wanted, strict=True)])
            return Operation(way, tuple(operands), (), lengths, most, own, follows, cell)
        if primitive is BROADCAST_TO:
            shapes = [specs[s].shape for s in results]
            way = Pointwise([own], own, lambda code, x: x, 0.0)
            return Operation(way, tuple(operands), (), lengths, most, own, (_follows(every[0], shapes),), cell)
        way = _way(equations[0], [_largest(spec, shapes) for spec, shapes in zip(given, every, strict=True)], _largest(specs[results[0]], [most]))
        if isinstance(way, Pointwise):
            shapes = [specs[s].shape for s in results]
            follows = tuple([_follows(one, shapes) for one in every])
        elif isinstance(way, Reduction) and not way.ordered and own == way.kind:
            if way.start != 0 and any(0 in shape for shape in every[0]):
                raise UnevenError
            follows = ()
        else:
            raise UnevenError(primitive)
        return Operation(way, tuple(operands), (), lengths, most, own, follows, cell)

    def _view(self, kind: _Kind, equations: Sequence[Equation], operands: Sequence[Operand], like: Operation) -> Operation:
        """Return a reshape that only adds or removes axes of length 1, a flip or a transposition."""
        specs, [e, *_] = self.list.specs, equations
        before = list(zip(*[source_spec(e.inputs[0], specs).shape for e in equations], strict=True))
        after = list(zip(*[specs[e.outputs[0]].shape for e in equations], strict=True))
        whole = (Number(-1, 0), 1)
        if e.primitive is TRANSPOSE:
            axes = e.params["axes"]
            return like._replace(way="transposed", parts=tuple(range(len(before))[::-1] if axes is None else axes))
        if e.primitive is FLIP:
            flipped = e.params["axis"]
            parts = [(kind.number([n - 1 for n in lengths]), -1) if i in flipped else whole for i, lengths in enumerate(before)]
            return like._replace(parts=tuple(parts))
        if e.params.get("order", "C") != "C":
            raise UnevenError
        parts = []
        while before or after:
            if before and after and before[0] == after[0]:
                parts.append(whole)
                del before[0], after[0]
            elif after and set(after[0]) == {1}:
                parts.append(None)  # type: ignore[arg-type]
                del after[0]
            elif before and set(before[0]) == {1}:
                parts.append(Number(-1, 0))  # type: ignore[arg-type]
                del before[0]
            else:
                raise UnevenError
        return like._replace(parts=tuple(parts))

    def _contraction(self, found: Contraction, given: Sequence[ArraySpec], every: Any, kind: str) -> Contraction:
        if len(given) != 2 or found.has_diagonals or kind not in REALS or any(KINDS[spec.dtype] not in REALS for spec in given):
            raise UnevenError
        return found

    def loop(self) -> tuple[BlockLoop, np.ndarray[Any, Any]]:
        """Return the loop and its table."""
        words, rows = list(self.kinds), list[int]()
        columns = {word: np.array(kind.columns, np.int64).T.tolist() for word, kind in self.kinds.items()}
        for word, number in self.order:
            rows += [words.index(word), *(columns[word][number] if columns[word] else ())]
        kinds = tuple([(self.operations[word], len(self.kinds[word].columns)) for word in words])
        returned = tuple(sorted({self.cell_of[s][0] for s in self.kept}))
        return BlockLoop(kinds, len(self.order), tuple(self.memories), tuple(self.preloaded), returned), np.array(rows, np.int64)


class _Written:
    """Writes a list with block loops."""

    def __init__(self, blocks: _Blocks, loops: Sequence[_Loop]) -> None:
        self.blocks, self.loops = blocks, loops
        self.specs = list(blocks.list.specs)
        self.equations: list[Equation] = []
        self.made: set[int] = set()
        self.memories: dict[tuple[_Loop, int], int] = {}
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
        owner = self.blocks.owner[source]
        memory, cell = owner.cell_of[source]
        index = (cell, *[slice(n) for n in self.specs[source].shape])
        self.equations.append(Equation(GETITEM, (self.memories[owner, memory],), {"index": index}, (source,)))
        return source

    def _loop(self, own: _Loop) -> None:
        """Write the equation of a loop."""
        for owner, memory, cell, source in own.guests:
            self._needed(source)
            index = (cell, *[slice(n) for n in self.specs[source].shape])
            whole = self.memories[owner, memory]
            self.memories[owner, memory] = self._new(self.specs[whole])
            written = Equation(WRITE, (whole, source), {"path": (), "index": index}, (self.memories[owner, memory],))
            self.equations.append(written)
        loop, table = own.loop()
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


def _way(equation: Equation, given: Sequence[ArraySpec], result: ArraySpec) -> Any:
    """Return the method of an equation for arrays of the given shapes; `None` if native code has none."""
    made = ROWS.find(equation.primitive)
    if made is None and is_ufunc(equation.primitive):
        made = ufunc_row
    if made is None or any(type(s) is Constant and s.value is None for s in equation.inputs):
        return None
    if result.weak and result.dtype.kind == "i":
        return None
    return made(equation, given, [result])


def _largest(spec: ArraySpec, shapes: Sequence[tuple[int, ...]]) -> ArraySpec:
    """Return a spec with the largest lengths."""
    shape = tuple([max(1, *n) for n in zip(*shapes, strict=True)]) if spec.ndim else ()
    return ArraySpec(shape, spec.dtype, spec.weak)


def _shape_at(form: Sequence[Any], equation: Equation, specs: Sequence[ArraySpec]) -> tuple[int, ...]:
    """Return the shape of the elements that a write changes."""
    path, index = equation.params["path"], equation.params["index"]
    if path:
        index = path[0].params["index"]
    return indexed_shape(source_spec(equation.inputs[0], specs).shape, index)


def _follows(given: Sequence[tuple[int, ...]], whole: Sequence[tuple[int, ...]]) -> tuple[bool, ...]:
    """Return, for each axis of an operand, whether it has the length of the result in all blocks, or the length 1."""
    found = []
    ndim, more = len(given[0]), len(whole[0]) - len(given[0])
    if more < 0:
        raise UnevenError
    for axis in range(ndim):
        if all(a[axis] == b[more + axis] for a, b in zip(given, whole, strict=True)):
            found.append(True)
        elif all(a[axis] == 1 for a in given):
            found.append(False)
        else:
            raise UnevenError
    return tuple(found)


def _by_letters(found: Contraction, shapes: Sequence[tuple[int, ...]], term: str) -> tuple[int, ...]:
    sizes: dict[str, int] = {}
    for letters, shape in zip(found.terms, shapes, strict=True):
        for letter, n in zip(letters, shape, strict=True):
            sizes[letter] = n if sizes.get(letter, 1) == 1 else sizes[letter]
    return tuple([sizes[letter] for letter in term])
