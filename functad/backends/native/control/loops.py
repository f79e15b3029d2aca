"""Lowering of `scan` and `while_loop` to native loops, with the expression lists of the steps inlined.

A carry of a few elements is kept in registers. A larger carry has several buffers: each step reads one and writes another, and
their roles change after the step. A carry has one buffer if the steps only change some of its elements, or if carries exchange
their memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from functad.backends.native.arrays import Array, Formula, Held, Memory
from functad.backends.native.control.interrupts import Watch, chunk_of, cost_of, looked
from functad.backends.native.control.speculation import met_nan, without_guards
from functad.backends.native.lowering import Lowered, Own, row
from functad.backends.native.plan import Plan, is_native
from functad.backends.native.writer import Writer
from functad.control.equation import part
from functad.control.loops import WHILE
from functad.control.scan import SCAN
from functad.expressions.expressions import Equation, Expressions
from functad.expressions.spec import ArraySpec
from functad.loops.build import KINDS, Code, Index
from functad.loops.values import Value, where


def held(writer: Writer, array: Array) -> Array:
    """Return an array of a few elements as values, and a larger array unchanged."""
    if isinstance(array, Held) or math.prod(array.shape) > writer.plan.most:
        return array
    return Held(array.shape, array.kind, array.elements(writer.code))


def written(writer: Writer, array: Array, target: Memory) -> None:
    """Copy an array into `target`, unless it was computed there."""
    if array is not target:
        writer.copy(array, target)


def row_of(writer: Writer, array: Array, index: Index) -> Array:
    """Return row `index` of an array."""
    if isinstance(array, Memory):
        place = writer.code.linear([index], array.strides[:1], array.offset)
        return held(writer, Memory(array.shape[1:], array.kind, array.pointer, array.strides[1:], place))
    return held(writer, Formula(array.shape[1:], array.kind, lambda code, rest: array.at(code, [_own(code, index), *rest])))


def _own(code: Code, index: Index) -> Index:
    return code.own(index) if isinstance(index, Value) else index


class Registers:
    """A carry of a few elements, in stack memory that LLVM promotes to registers.

    Args:
        writer: the writer of the function with the loop.
        first: the carry before the first step.
    """

    target: Memory | None = None

    def __init__(self, writer: Writer, first: Array) -> None:
        self.writer = writer
        self.shape, self.kind = first.shape, first.kind
        self.places = [writer.code.allocate(first.kind, 1) for _ in range(math.prod(first.shape))]
        self.move(first)

    def now(self) -> Array:
        """Return the carry at the start of a step."""
        code = self.writer.code
        return Held(self.shape, self.kind, [code.load(place, 0, self.kind) for place in self.places])

    def move(self, after: Array) -> None:
        """Set the carry to the result `after` of a step."""
        code = self.writer.code
        for place, value in zip(self.places, after.elements(code), strict=True):
            code.store(place, 0, code.cast(value, self.kind))

    def finish(self, out: Memory) -> None:
        """Write the final carry to `out`."""
        self.writer.copy(self.now(), out)


class Buffers:
    """A larger carry, in buffers that change roles after each step.

    Args:
        writer: the writer of the function with the loop.
        first: the carry before the first step. It is not overwritten.
        out: memory for the final carry.
        length: the number of steps; `None` if it is known only at run time. If it is known, the last step writes to `out`.
    """

    def __init__(self, writer: Writer, first: Memory, out: Memory, length: int | None) -> None:
        code = writer.code
        self.writer, self.length = writer, length
        self.shape, self.kind = first.shape, first.kind
        other = writer.buffer(first.shape, first.kind)
        turns = (out, other) if length is None or length % 2 else (other, out)
        self.places = [code.allocate("ptr", 1) for _ in range(3)]  # read, written, written in the next step
        for place, memory in zip(self.places, (first, *turns), strict=True):
            code.store(place, 0, code.place(code.own(memory.pointer), memory.offset, memory.kind))
        self.pointers: list[Value] = []

    def now(self) -> Array:
        """Return the carry at the start of a step."""
        self.pointers = [self.writer.code.load(place, 0, "ptr") for place in self.places]
        self.target = Memory(self.shape, self.kind, self.pointers[1])
        return Memory(self.shape, self.kind, self.pointers[0])

    def move(self, after: Array) -> None:
        """Set the carry to the result `after` of a step."""
        written(self.writer, after, self.target)
        _, done, spare = self.pointers
        for place, pointer in zip(self.places, (done, spare, done), strict=True):
            self.writer.code.store(place, 0, pointer)

    def finish(self, out: Memory) -> None:
        """Write the final carry to `out`, unless it is already there; without steps it is the first carry."""
        if not self.length:
            code = self.writer.code
            last, own = code.load(self.places[0], 0, "ptr"), code.place(code.own(out.pointer), out.offset, out.kind)
            with code.when(code.emit("ne", "i1", last, own)):
                self.writer.copy(Memory(self.shape, self.kind, last), out)


class InPlace:
    """A larger carry that each step changes in the memory of a carry: in its own, or in that of another one.

    Carries that exchange their memory have one buffer each, and their roles change after each step.

    Args:
        writer: the writer of the function with the loop.
        first: the carry before the first step. It is not overwritten.
        start: the memory of the carry in the first step.
        moves: `True` if the carry changes its memory.
    """

    def __init__(self, writer: Writer, first: Array, start: Memory, moves: bool) -> None:
        self.writer, self.start = writer, start
        self.source, self.memory = self, start  # a step makes this carry in the memory of the source
        writer.copy(first, start)
        self.place = writer.code.allocate("ptr", 1) if moves else None
        self._point(start)

    def _point(self, memory: Memory) -> None:
        if self.place is not None:
            code = self.writer.code
            code.store(self.place, 0, code.place(code.own(memory.pointer), memory.offset, memory.kind))

    def now(self) -> Array:
        """Return the carry at the start of a step."""
        if self.place is not None:
            self.memory = Memory(self.start.shape, self.start.kind, self.writer.code.load(self.place, 0, "ptr"))
        else:
            self.memory = self.start
        return self.memory

    @property
    def target(self) -> Memory:
        """The memory of the result of a step."""
        return self.source.memory

    def move(self, after: Array) -> None:
        """Set the carry to the result `after` of a step, which is in the memory of the source."""
        assert after is self.target
        self._point(self.target)

    def finish(self, out: Memory) -> None:
        """Write the final carry to `out`, where it is."""


class Kept:
    """A carry that every step returns unchanged."""

    target: Memory | None = None

    def __init__(self, writer: Writer, first: Array) -> None:
        self.writer, self.first = writer, first

    def now(self) -> Array:
        """Return the carry at the start of a step."""
        return self.first

    def move(self, after: Array) -> None:
        """Set the carry to the result `after` of a step."""

    def finish(self, out: Memory) -> None:
        """Write the final carry to `out`."""
        self.writer.copy(self.first, out)


Carry = Registers | Buffers | InPlace | Kept


def carries_of(
    writer: Writer, body: Expressions, first: Sequence[Array], outs: Sequence[Memory], length: int | None
) -> list[Carry]:
    """Return the carries of a loop, from their first values and the memory for their final values."""
    sources = _sources(writer.module.plan_of(body), len(first), length)
    found: list[Carry] = []
    for number, (array, out) in enumerate(zip(first, outs, strict=True)):
        if body.outputs[number] == number:
            found.append(Kept(writer, held(writer, array)))
        elif math.prod(array.shape) <= writer.plan.most:
            found.append(Registers(writer, array))
        elif number in sources:
            found.append(InPlace(writer, array, outs[_last(number, sources, length)], sources[number] != number))
        else:
            found.append(Buffers(writer, _in_memory(writer, array), out, length))
    for number, source in sources.items():
        found[number].source = found[source]  # type: ignore[union-attr]
    return found


def _sources(plan: Plan, count: int, length: int | None) -> dict[int, int]:
    """Return, for each larger carry that a step makes in the memory of a carry, the number of that carry."""
    outputs, origins = plan.expressions.outputs, {result: source for source, result in plan.in_place.items()}
    found: dict[int, int] = {}
    for number in range(count):
        slot = outputs[number]
        while slot in origins:
            slot = origins[slot]
        small = plan.expressions.specs[number].size <= plan.most
        if type(slot) is int and slot < count and not small and outputs.count(outputs[number]) == 1 and outputs[slot] != slot:
            found[number] = slot
    if length is None:  # the memory after the last step must be known
        found = {number: source for number, source in found.items() if number == source}
    while len(kept := {n: s for n, s in found.items() if s in found and n in found.values()}) < len(found):
        found = kept
    return found if len({*found.values()}) == len(found) else {}


def _last(number: int, sources: dict[int, int], length: int | None) -> int:
    """Return the number of the carry that is in the memory of the carry `number` after the last step."""
    ring, next_ = [number], {source: n for n, source in sources.items()}
    while next_[ring[-1]] != number:
        ring.append(next_[ring[-1]])
    return ring[(length or 0) % len(ring)]


def _in_memory(writer: Writer, array: Array) -> Memory:
    """Return an array in memory; copy it if it is computed, such as a constant with equal elements."""
    if isinstance(array, Memory):
        return array
    memory = writer.buffer(array.shape, array.kind)
    writer.copy(array, memory)
    return memory


@row(SCAN)
def _scan(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    params: Any = equation.params
    body, count, length = (params[key] for key in ("body", "carries", "length"))
    if not is_native(body):
        return None

    plain = without_guards(body, count)

    def write(writer: Writer, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
        if plain is None:
            _write_scan(writer, params, operands, outs)
            return
        _write_scan(writer, {**params, "body": plain}, operands, outs)
        with writer.code.when(met_nan(writer, outs)):
            _write_scan(writer, params, operands, outs)

    return Own(write, cost=float(length))


def _write_scan(writer: Writer, params: Any, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
    """Write the loop of a scan."""
    body, count, rows, length, reverse = (params[key] for key in ("body", "carries", "rows", "length", "reverse"))
    code = writer.code
    first, xs, outer = part(operands, count, rows)
    outer = [held(writer, array) for array in outer]
    carries = carries_of(writer, body, first, outs[:count], length)
    with steps(writer, length, cost_of(body)) as i:
        index = code.linear([i], [-1], length - 1) if reverse else i
        now = [carry.now() for carry in carries]
        ys = [
            Memory(out.shape[1:], out.kind, out.pointer, out.strides[1:], code.linear([index], out.strides[:1], out.offset))
            for out in outs[count:]
        ]
        targets = [*[carry.target for carry in carries], *ys]
        found = writer.inline(body, [*now, *[row_of(writer, x, index) for x in xs], *outer], targets)
        go_on(writer, carries, found)
        for array, y in zip(found[count:], ys, strict=True):
            written(writer, array, y)
    for carry, out in zip(carries, outs, strict=False):
        carry.finish(out)


@contextmanager
def steps(writer: Writer, length: int, cost: float) -> Iterator[Value]:
    """Write a loop of `length` steps and yield its index; `cost`, in additions per step, decides on signal checks."""
    code, chunk = writer.code, None if writer.module.alone else chunk_of(length, cost)
    if chunk is None:
        with code.loop(0, length) as i:
            yield i
        return
    with code.loop(0, length, step=chunk) as first, code.when(~looked(writer)):
        stop = first + chunk
        with code.loop(first, where(stop < length, stop, length)) as i:
            yield i


def go_on(writer: Writer, carries: Sequence[Carry], found: Sequence[Array]) -> None:
    """Make the results of a step the carries of the next step."""
    after = [held(writer, array) for array in found[: len(carries)]]  # read all before writing any
    for carry, array in zip(carries, after, strict=True):
        carry.move(array)


def finish_step(code: Code, watch: Watch, loop: str) -> None:
    """Write the end of a step: it leaves the loop with the label `loop` if a signal handler raised.

    A loop also ends if NumPy must compute the list, because its condition might then never become false.
    """
    watch.step(loop)
    if code.refuses:
        code.leave(loop, code.load(code.note(), 0, "i1"))


@row(WHILE)
def _while(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    params: Any = equation.params
    test, body, count = params["cond"], params["body"], params["carries"]
    if not is_native(test) or not is_native(body) or test.results[0].dtype not in KINDS:
        return None

    def write(writer: Writer, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
        code = writer.code
        first, outer = part(operands, count)
        outer = [held(writer, array) for array in outer]
        carries = carries_of(writer, body, first, outs, None)
        watch = Watch(writer, cost_of(test, body))
        with code.repeat() as loop:
            now = [carry.now() for carry in carries]
            [more] = writer.inline(test, [*now, *outer], [None])
            code.leave(loop, ~code.cast(more.at(code, ()), "i1"))
            go_on(writer, carries, writer.inline(body, [*now, *outer], [carry.target for carry in carries]))
            finish_step(code, watch, loop)
        for carry, out in zip(carries, outs, strict=True):
            carry.finish(out)

    return Own(write, cost=100.0)
