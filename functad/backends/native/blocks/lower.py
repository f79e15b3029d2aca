"""Lowering of block loops: one branch for each kind of block. A table holds the bounds of the loops in a branch.

Numbers are computed at once. Arrays are views of memory, or formulas that the loop of a write, a reduction or a product
computes. A formula is stored if it is read twice, or if a write is about to change an array that it reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from functad.backends.native.arrays import Array, remembered
from functad.backends.native.arrays import Memory as Placed
from functad.backends.native.blocks.table import BLOCKS, BlockLoop, Cell, Memory, Number, Operand, Operation
from functad.backends.native.control.loops import steps
from functad.backends.native.lowering import Lowered, Own, Pointwise, Reduction, row
from functad.backends.native.writer import Writer
from functad.expressions.expressions import Equation
from functad.expressions.spec import ArraySpec
from functad.loops.build import Code, Index
from functad.loops.ir import REALS
from functad.loops.reductions import combined, start_of
from functad.loops.values import Value, where
from functad.primitives.linalg.einsum import Contraction

CHEAP = 3.0
"""Formulas of up to this cost, in additions, are computed again at each use."""

BLOCK = 256
"""The number of elements summed without error compensation."""

Lengths = tuple[Number, ...]


@row(BLOCKS)
def _blocks(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    loop: BlockLoop = equation.params["loop"]

    def write(writer: Writer, operands: Sequence[Array], outs: Sequence[Placed]) -> None:
        _Loop(writer, loop, operands, outs).write()

    return Own(write, cost=100.0 * loop.steps)


class Item:
    """A value in a block.

    Attributes:
        kind: the type of the elements.
        lengths: the lengths of the axes.
        most: the largest lengths.
        element: maps a function and an index to the element.
        memory: the memory of a view; `None` for a formula or a number.
        reads: the memories of the loop that the elements are read from. For each, the place if each element of the item is read
            from the same element there, else `None`.
        cost: the cost of an element, in additions.
    """

    def __init__(
        self,
        kind: str,
        lengths: Lengths,
        most: Sequence[int],
        element: Callable[[Code, Sequence[Index]], Value],
        memory: Placed | None = None,
        reads: dict[int, Any] | None = None,
        cost: float = 1.0,
    ) -> None:
        self.kind, self.lengths, self.most = kind, lengths, tuple(most)
        self.element, self.memory, self.reads, self.cost = element, memory, reads or {}, cost

    def at(self, code: Code, index: Sequence[Index]) -> Value:
        """Return an element."""
        return remembered(self, code, index)


def _number(value: Value) -> Item:
    return Item(value.kind, (), (), lambda code, index: code.own(value))


def _of_memory(memory: Placed, lengths: Lengths, most: Sequence[int], reads: dict[int, Any]) -> Item:
    """Return the item of a view."""
    return Item(memory.kind, lengths, most, lambda code, index: _load(code, memory, index), memory, reads)


def _place(code: Code, memory: Placed, index: Sequence[Index]) -> Index:
    own = [code.own(i) if isinstance(i, Value) else i for i in index]
    return code.linear(own, memory.strides, memory.offset)


def _load(code: Code, memory: Placed, index: Sequence[Index]) -> Value:
    return code.load(code.own(memory.pointer), _place(code, memory, index), memory.kind)


def _store(code: Code, memory: Placed, index: Sequence[Index], value: Value) -> None:
    code.store(code.own(memory.pointer), _place(code, memory, index), code.cast(value, memory.kind))


class _Loop:
    """Writes a block loop."""

    def __init__(self, writer: Writer, loop: BlockLoop, operands: Sequence[Array], outs: Sequence[Placed]) -> None:
        self.writer, self.loop, self.code = writer, loop, writer.code
        self.table, *self.inputs = operands
        self.inputs = [array if isinstance(array, Placed) or not array.shape else self._stored(array) for array in self.inputs]
        self.memories = [self._memory(number, memory, outs) for number, memory in enumerate(loop.memories)]

    def _memory(self, number: int, memory: Memory, outs: Sequence[Placed]) -> Placed:
        if number in self.loop.returned:
            return outs[self.loop.returned.index(number)]
        return self.writer.buffer((memory.cells, *memory.shape), memory.kind)

    def _stored(self, array: Array) -> Placed:
        found = self.writer.buffer(array.shape, array.kind)
        self.writer.copy(array, found)
        return found

    def write(self) -> None:
        """Write the loop."""
        code, loop = self.code, self.loop
        for number, cell, source, shape in loop.preloaded:
            memory, array = self.memories[number], self.inputs[source]
            target = Placed(shape, memory.kind, memory.pointer, memory.strides[1:], cell * memory.strides[0] + memory.offset)
            self.writer.copy(array, target)
        place = code.allocate("i64", 1)
        code.store(place, 0, code.constant(0, "i64"))
        assert isinstance(self.table, Placed)
        operations = sum(len(kind) for kind, _ in loop.kinds) / len(loop.kinds)
        size = max((math.prod(op.most) for kind, _ in loop.kinds for op in kind), default=1)
        with steps(self.writer, loop.steps, operations * size):
            start = code.load(place, 0, "i64")
            chosen = _load(code, self.table, [start])
            for number, (kind, columns) in enumerate(loop.kinds):
                with ExitStack() as stack:
                    if len(loop.kinds) > 1:
                        stack.enter_context(code.when(chosen.equals(number)))
                    row = [_load(code, self.table, [start + (1 + i)]) for i in range(columns)]
                    _Block(self, kind, row).write()
                    code.store(place, 0, start + (1 + columns))
        for memory in self.memories:
            code.forget(memory.pointer)


class _Block:
    """Writes the code of one kind of blocks."""

    def __init__(self, loop: _Loop, operations: Sequence[Operation], row: Sequence[Value]) -> None:
        self.loop, self.writer, self.code = loop, loop.writer, loop.code
        self.operations, self.row = operations, row
        self.items: list[Item] = []
        self.last: dict[int, int] = {}
        self.uses = [0] * len(operations)
        for number, operation in enumerate(operations):
            for operand in operation.operands:
                if operand.kind == "here":
                    self.last[operand.which] = number
                    self.uses[operand.which] += 1

    def number(self, number: Number) -> Index:
        """Return an integer of the block."""
        if number.column < 0:
            return number.offset
        own = self.row[number.column]
        return own + number.offset if number.offset else own

    def write(self) -> None:
        """Write the operations."""
        for number, operation in enumerate(self.operations):
            operands = [self._operand(operand, operation) for operand in operation.operands]
            way = operation.way
            if way == "write":
                item = self._write(number, operation, operands)
            elif way == "read":
                item = self._read(operation, operands[0])
            elif way == "transposed":
                item = _transposed(operation, operands[0])
            elif isinstance(way, Pointwise):
                item = self._pointwise(operation, operands)
            elif isinstance(way, Reduction):
                item = self._reduction(number, operation, operands[0])
            else:
                item = self._contraction(number, operation, operands)
            if operation.cell is not None and way != "write":
                item = self._kept(number, operation, item)
            elif item.memory is None and item.lengths and self.uses[number] > 1 and item.cost > CHEAP:
                self._materialise(item)
            self.items.append(item)

    # Values

    def _operand(self, operand: Operand, operation: Operation) -> Item:
        if operand.kind == "here":
            return self.items[operand.which]
        if operand.kind == "outer":
            array = self.loop.inputs[operand.which]
            if not array.shape:
                return _number(self.code.own(array.at(self.code, ())))
            assert isinstance(array, Placed)
            return _of_memory(array, operand.lengths, array.shape, {})
        assert operand.cell is not None
        if operand.kind == "stored":
            array = self.loop.inputs[operand.which]
            assert isinstance(array, Placed)
            memory = self._in_cell(array, operand.cell)
            item = _of_memory(memory, operand.lengths, memory.shape, {})
        else:
            item = self._cell(operand.cell, operand.lengths)
        return item if item.lengths else _number(item.at(self.code, ()))

    def _cell(self, cell: Cell, lengths: Lengths) -> Item:
        """Return the value in a cell."""
        memory = self._in_cell(self.loop.memories[cell.memory], cell)
        parts = tuple([(Number(-1, 0), 1) for _ in lengths])
        return _of_memory(memory, lengths, memory.shape, {cell.memory: (cell, parts, lengths)})

    def _in_cell(self, whole: Placed, cell: Cell) -> Placed:
        offset = self.code.linear([self.number(cell.number)], whole.strides[:1], whole.offset)
        return Placed(whole.shape[1:], whole.kind, whole.pointer, whole.strides[1:], offset)

    def _kept(self, number: int, operation: Operation, item: Item) -> Item:
        """Store a result in its cell."""
        assert operation.cell is not None
        found = self._cell(operation.cell, operation.lengths)
        assert found.memory is not None
        if not operation.lengths:
            _store(self.code, found.memory, (), item.at(self.code, ()))
            return item
        if (
            item.memory is None
            or item.memory.pointer is not found.memory.pointer
            or item.memory.offset is not found.memory.offset
        ):
            self._before_change(number, operation.cell.memory)
            if operation.cell.memory in item.reads:
                self._materialise(item)
            self._copy(item, found.memory)
        return found

    def _before_change(self, number: int, memory: int) -> None:
        """Store the items that are read later, and depend on a memory that is about to change."""
        for other, item in enumerate(self.items):
            if self.last.get(other, -1) > number and memory in item.reads:
                self._materialise(item)

    def _materialise(self, item: Item) -> None:
        """Store the elements of an item."""
        memory = self.writer.buffer(tuple([max(n, 1) for n in item.most]), item.kind)
        self._copy(item, memory)
        item.memory, item.reads, item.cost = memory, {}, 1.0
        item.element = lambda code, index: _load(code, memory, index)

    # Loops

    @contextmanager
    def _inner(self) -> Iterator[Code]:
        """Write a function of its own, in which buffers share no memory, and call it."""
        code = Code(fused=self.code.fused, outer=self.code)
        yield code
        self.writer.module.call(self.code, code)

    @contextmanager
    def _over(self, code: Code, lengths: Lengths, axes: Sequence[int], *, straight: bool = True) -> Iterator[dict[int, Index]]:
        """Loop over some axes, the last one innermost."""
        with ExitStack() as stack:
            index: dict[int, Index] = {}
            for axis in axes:
                stop = self.number(lengths[axis])
                if type(stop) is int and stop == 1:
                    index[axis] = 0
                    continue
                stop = code.own(stop) if isinstance(stop, Value) else stop
                index[axis] = stack.enter_context(code.loop(0, stop, straight=straight and axis == axes[-1]))
            yield index

    def _copy(self, item: Item, memory: Placed, adds: bool = False) -> None:
        """Write the elements of an item to memory."""
        order = sorted(range(len(item.lengths)), key=lambda axis: -abs(memory.strides[axis]))
        with self._inner() as code, self._over(code, item.lengths, order) as index:
            whole = [index[axis] for axis in range(len(order))]
            value = code.cast(item.at(code, whole), memory.kind)
            if adds:
                known = _load(code, memory, whole)
                value = known | value if memory.kind == "i1" else known + value
            _store(code, memory, whole, value)

    # Operations

    def _view(self, item: Item, operation: Operation) -> Placed:
        """Return the view at an index."""
        memory = item.memory
        assert memory is not None
        code, axis, strides, terms, factors = self.code, 0, list[int](), list[Index](), list[int]()
        for part in operation.parts:
            if part is None:
                strides.append(0)
                continue
            start, step = (part, None) if isinstance(part, Number) else part
            terms.append(self.number(start))
            factors.append(memory.strides[axis])
            if step is not None:
                strides.append(step * memory.strides[axis])
            axis += 1
        offset = code.linear(terms, factors, memory.offset)
        return Placed(tuple(operation.most), memory.kind, memory.pointer, strides, offset)

    def _read(self, operation: Operation, item: Item) -> Item:
        if item.memory is not None:
            reads = {
                m: None if key is None or key[1] != _whole(key) else (key[0], operation.parts, operation.lengths)
                for m, key in item.reads.items()
            }
            found = _of_memory(self._view(item, operation), operation.lengths, operation.most, reads)
        else:
            found = Item(
                item.kind,
                operation.lengths,
                operation.most,
                self._moved(item, operation),
                None,
                dict.fromkeys(item.reads),
                item.cost,
            )
        return found if operation.lengths else _number(found.at(self.code, ()))

    def _moved(self, item: Item, operation: Operation) -> Callable[[Code, Sequence[Index]], Value]:
        """Return the elements of a formula at an index."""

        def element(code: Code, index: Sequence[Index]) -> Value:
            own, axis = list[Index](), 0
            for part in operation.parts:
                if isinstance(part, Number):
                    place = self.number(part)
                    own.append(code.own(place) if isinstance(place, Value) else place)
                    continue
                if part is not None:
                    own.append(code.linear([index[axis]], [part[1]], self.number(part[0])))
                axis += 1
            return item.at(code, own)

        return element

    def _write(self, number: int, operation: Operation, operands: Sequence[Item]) -> Item:
        array, value = operands
        assert operation.cell is not None
        whole = self._cell(operation.cell, operation.operands[0].lengths)
        memory = operation.cell.memory
        self._before_change(number, memory)
        target = self._view(whole, operation)
        key = operation.cell, operation.parts, operation.lengths
        follows = operation.follows[0]
        if memory in value.reads and (value.reads[memory] != key or not all(follows) or len(follows) != len(operation.lengths)):
            self._materialise(value)
        if operation.copied:
            assert whole.memory is not None
            if memory in value.reads:
                self._materialise(value)
            if memory in array.reads:
                self._materialise(array)
            self._copy(_with(array, whole.lengths), whole.memory)
        item = Item(value.kind, operation.lengths, operation.most, _broadcast(value, follows, len(operation.lengths)))
        if operation.lengths:
            self._copy(item, target, operation.adds)
        else:
            found = self.code.cast(item.at(self.code, ()), target.kind)
            if operation.adds:
                known = _load(self.code, target, ())
                found = known | found if target.kind == "i1" else known + found
            _store(self.code, target, (), found)
        return whole

    def _pointwise(self, operation: Operation, operands: Sequence[Item]) -> Item:
        way: Pointwise = operation.way
        ndim = len(operation.lengths)
        given = [_broadcast(item, follows, ndim) for item, follows in zip(operands, operation.follows, strict=True)]

        def element(code: Code, index: Sequence[Index]) -> Value:
            values = [code.cast(at(code, index), kind) for at, kind in zip(given, way.kinds, strict=True)]
            return way.formula(code, *values)

        reads: dict[int, Any] = {}
        for item, follows in zip(operands, operation.follows, strict=True):
            for memory, key in item.reads.items():
                same = len(follows) == ndim and all(follows) and reads.get(memory, key) == key
                reads[memory] = key if same else None
        if not ndim:
            return _number(self.code.cast(element(self.code, ()), operation.kind))
        cost = way.cost + sum(item.cost for item in operands if item.lengths)
        return Item(way.result, operation.lengths, operation.most, element, None, reads, cost)

    def _target(self, number: int, operation: Operation, items: Sequence[Item]) -> Item:
        """Return the memory for the result of a reduction: its cell, or a buffer."""
        if operation.cell is not None:
            self._before_change(number, operation.cell.memory)
            for item in items:
                if operation.cell.memory in item.reads:
                    self._materialise(item)
            return self._cell(operation.cell, operation.lengths)
        memory = self.writer.buffer(tuple([max(n, 1) for n in operation.most]), operation.kind)
        return _of_memory(memory, operation.lengths, operation.most, {})

    def _reduction(self, number: int, operation: Operation, item: Item) -> Item:
        way: Reduction = operation.way
        kept = [axis for axis in range(len(item.lengths)) if axis not in way.axes]
        rounded = way.how == "sum" and way.kind in REALS

        def term(code: Code, index: dict[int, Index]) -> Value:
            return code.cast(item.at(code, [index[axis] for axis in range(len(item.lengths))]), way.kind)

        def combine(code: Code, x: Value, y: Value) -> Value:
            return combined(way.how, x, y)

        return self._total(
            number,
            operation,
            [item],
            item.lengths,
            item.most,
            kept,
            list(way.axes),
            term,
            combine,
            start_of(way.how, way.kind),
            rounded,
        )

    def _contraction(self, number: int, operation: Operation, operands: Sequence[Item]) -> Item:
        found: Contraction = operation.way
        letters = list(dict.fromkeys(found.result + "".join(found.terms)))
        lengths, most = {}, {}
        for item, term, follows in zip(operands, found.terms, operation.follows, strict=True):
            for letter, length, n, follow in zip(term, item.lengths, item.most, follows, strict=True):
                if follow or letter not in lengths:
                    lengths[letter] = length
                    most[letter] = n
        place = {letter: i for i, letter in enumerate(letters)}
        for item, term in zip(operands, found.terms, strict=True):
            if item.memory is None and item.lengths and item.cost > CHEAP and set(term) != set(letters):
                self._materialise(item)

        def factor(code: Code, item: Item, term: str, follows: Sequence[bool], index: dict[int, Index]) -> Value:
            own = [index[place[letter]] if follow else 0 for letter, follow in zip(term, follows, strict=True)]
            return code.cast(item.at(code, own), operation.kind)

        def product(code: Code, index: dict[int, Index]) -> Value:
            x, y = [
                factor(code, item, term, follows, index)
                for item, term, follows in zip(operands, found.terms, operation.follows, strict=True)
            ]
            return code.emit("mul", x.kind, x, y, loose="contract")

        depth = [letter for letter in letters if letter not in found.result]
        if not depth:

            def element(code: Code, index: Sequence[Index]) -> Value:
                return product(code, dict(enumerate(index)))

            if not operation.lengths:
                return _number(element(self.code, ()))
            reads = dict.fromkeys([memory for item in operands for memory in item.reads])
            return Item(
                operation.kind, operation.lengths, operation.most, element, None, reads, 1.0 + sum(i.cost for i in operands)
            )

        def combine(code: Code, x: Value, y: Value) -> Value:
            return code.emit("add", x.kind, x, y, loose="reassoc contract nsz")

        sizes = tuple([lengths[letter] for letter in letters])
        largest = [most[letter] for letter in letters]
        kept = list(range(len(found.result)))
        along = kept and self._is_along(operands, found)
        return self._total(
            number,
            operation,
            operands,
            sizes,
            largest,
            kept,
            list(range(len(kept), len(letters))),
            product,
            combine,
            0,
            False,
            bool(along),
        )

    def _is_along(self, operands: Sequence[Item], found: Contraction) -> bool:
        """Return `True` if the innermost loop goes along the last axis of the result."""
        last = found.result[-1]
        for item, term in zip(operands, found.terms, strict=True):
            if item.memory is not None and last in term and abs(item.memory.strides[term.index(last)]) == 1:
                return all(abs(item.memory.strides[i]) != 1 for i, letter in enumerate(term) if letter not in found.result)
        return False

    def _total(
        self,
        number: int,
        operation: Operation,
        items: Sequence[Item],
        lengths: Lengths,
        most: Sequence[int],
        kept: list[int],
        reduced: list[int],
        term: Callable[[Code, dict[int, Index]], Value],
        combine: Callable[[Code, Value, Value], Value],
        start: float,
        rounded: bool,
        along: bool = False,
    ) -> Item:
        """Combine terms over some axes; the result has the other axes."""
        kind = operation.kind
        long = rounded and math.prod([most[axis] for axis in reduced]) > BLOCK

        def reduction(code: Code, index: dict[int, Index]) -> Value:
            total = code.allocate(kind, 2)
            code.store(total, 0, code.constant(start, kind))
            if not long:
                with self._over(code, lengths, reduced) as own:
                    code.store(total, 0, combine(code, code.load(total, 0, kind), term(code, {**index, **own})))
                return code.load(total, 0, kind)
            code.store(total, 1, code.constant(0, kind))
            *outer, last = reduced
            stop = self.number(lengths[last])
            stop = code.own(stop) if isinstance(stop, Value) else code.constant(stop, "i64")
            with self._over(code, lengths, outer, straight=False) as own, code.loop(0, stop, step=BLOCK) as low:
                part = code.allocate(kind, 1)
                code.store(part, 0, code.constant(0, kind))
                high = where(low + BLOCK < stop, low + BLOCK, stop)
                with code.loop(low, high, straight=True) as i:
                    value = term(code, {**index, **own, last: i})
                    code.store(part, 0, combine(code, code.load(part, 0, kind), value))
                before, block = code.load(total, 0, kind), code.load(part, 0, kind)
                after = before + block
                change = after - before
                lost = (before - (after - change)) + (block - change)
                code.store(total, 1, code.load(total, 1, kind) + lost)
                code.store(total, 0, after)
            value = code.load(total, 0, kind)
            return where(abs(value) < math.inf, value + code.load(total, 1, kind), value)

        if not operation.lengths:
            result = self.code.allocate(kind, 1)
            with self._inner() as code:
                value = reduction(code, {})
                code.store(code.own(result), 0, value)
            return _number(self.code.load(result, 0, kind))
        found = self._target(number, operation, items)
        memory = found.memory
        assert memory is not None
        ones = dict.fromkeys(kept, 0)
        if len(operation.lengths) != len(kept):  # axes of length 1 in place of reduced ones

            def place(index: dict[int, Index]) -> list[Index]:
                return [index[axis] if axis in ones else 0 for axis in range(len(lengths))]
        else:

            def place(index: dict[int, Index]) -> list[Index]:
                return [index[axis] for axis in kept]

        with self._inner() as code:
            if along:
                with self._over(code, lengths, kept) as index:
                    _store(code, memory, place(index), code.constant(start, kind))
                *outer, last = kept
                with (
                    self._over(code, lengths, [*outer, *reduced], straight=False) as own,
                    self._over(code, lengths, [last]) as inner,
                ):
                    index = {**own, **inner}
                    value = combine(code, _load(code, memory, place(index)), term(code, index))
                    _store(code, memory, place(index), value)
            else:
                with self._over(code, lengths, kept, straight=False) as index:
                    _store(code, memory, place(index), reduction(code, index))
        return found


def _whole(key: Any) -> Any:
    """Return the parts of a read of a whole cell."""
    return tuple([(Number(-1, 0), 1) for _ in key[2]])


def _transposed(operation: Operation, item: Item) -> Item:
    """Return an item with its axes in another order."""
    axes, reads = operation.parts, dict.fromkeys(item.reads)
    if item.memory is not None:
        memory = item.memory
        strides = [memory.strides[axis] for axis in axes]
        view = Placed(operation.most, memory.kind, memory.pointer, strides, memory.offset)
        return _of_memory(view, operation.lengths, operation.most, reads)

    def element(code: Code, index: Sequence[Index]) -> Value:
        return item.at(code, [index[axes.index(axis)] for axis in range(len(axes))])

    return Item(item.kind, operation.lengths, operation.most, element, None, reads, item.cost)


def _with(item: Item, lengths: Lengths) -> Item:
    return Item(item.kind, lengths, item.most, item.element, item.memory, item.reads, item.cost)


def _broadcast(item: Item, follows: Sequence[bool], ndim: int) -> Callable[[Code, Sequence[Index]], Value]:
    """Return the elements of an item that is broadcast to `ndim` axes."""
    more = ndim - len(follows)

    def element(code: Code, index: Sequence[Index]) -> Value:
        return item.at(code, [index[more + axis] if follow else 0 for axis, follow in enumerate(follows)])

    return element
