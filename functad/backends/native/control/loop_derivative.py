"""The backward pass of `while_loop`: a forward loop pushes residuals on a growing stack, and a backward loop pops them.

The number of steps is unknown in advance, so native code allocates the stack from the system. It allocates no other memory. If
memory runs out, the call raises `MemoryError`: repeating the loop in Python would be slow and need as much memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functad.backends.native.arrays import Array, Formula, Memory
from functad.backends.native.control.interrupts import Watch, cost_of, note_lack_of_memory
from functad.backends.native.control.loops import Carry, carries_of, finish_step, go_on, held, written
from functad.backends.native.lowering import Lowered, Own, row
from functad.backends.native.plan import is_native
from functad.backends.native.writer import Writer
from functad.control.equation import part
from functad.control.loops import loop_derivative
from functad.expressions.expressions import Equation, Expressions
from functad.expressions.spec import ArraySpec
from functad.loops.build import KINDS, SIZES, Code
from functad.loops.values import Value, where
from functad.primitives.entry import Primitive

FIRST = 64
"""Initial capacity of a stack, in steps."""

ALIGNMENT = 64
"""Size of the largest SIMD vectors, in bytes."""


def native_backward(equation: Equation) -> Equation | None:
    """Return the backward pass of a loop as an equation with expression lists; `None` if native code cannot compute it.

    Args:
        equation: the backward pass that `while_loop` records. It has no lists, because they depend on values.
    """
    params: Any = equation.params
    found = loop_derivative(params["body"], params["carries"], params["by"])
    if found is None:
        return None
    lists = {"cond": params["cond"], "body": found.forward, "backward": found.backward}
    own = {**lists, "carries": params["carries"], "leaves": found.leaves, "order": found.order}
    return Equation(WHILE_BACKWARD, equation.inputs, own, equation.outputs)


WHILE_BACKWARD = Primitive(
    native_backward,
    kind="general",
    names=(),
    compute=native_backward,
    vjps=(),
    doc="the backward pass of `while_loop` as native code has it",
    samples=None,
    name="while_loop_vjp",
    multiple=True,
    lists="loop",
    registered=False,
)


class Stack:
    """A stack in memory, with one record of residuals per step.

    Args:
        code: the function that is written.
        specs: the specs of the residuals of a step.
    """

    def __init__(self, code: Code, specs: Sequence[ArraySpec]) -> None:
        self.code, self.specs = code, specs
        self.places: list[int] = []
        self.size = 0
        for spec in specs:
            self.places.append(self.size)
            room = SIZES[KINDS[spec.dtype]] * spec.size
            self.size += -(-room // ALIGNMENT) * ALIGNMENT if room >= ALIGNMENT else 8 * spec.size
        self.size = max(-(-self.size // ALIGNMENT) * ALIGNMENT, ALIGNMENT)
        self.base, self.count, self.room = code.allocate("ptr", 1), code.allocate("i64", 1), code.allocate("i64", 1)
        code.store(self.base, 0, Value(code, "null", "ptr"))
        for place in (self.count, self.room):
            code.store(place, 0, code.constant(0, "i64"))

    def push(self, failed: str) -> list[Memory]:
        """Return memory for the residuals of the next step; leave the block `failed` if memory runs out."""
        code = self.code
        count, room = code.load(self.count, 0, "i64"), code.load(self.room, 0, "i64")
        with code.when(count.equals(room)):
            more = where(room.equals(0), FIRST, room + room)
            found = code.run("@realloc", code.load(self.base, 0, "ptr"), more * self.size, kind="ptr")
            code.leave(failed, code.emit("eq", "i1", found, Value(code, "null", "ptr")))
            code.store(self.base, 0, found)
            code.store(self.room, 0, more)
        code.store(self.count, 0, count + 1)
        return self._record(count)

    def pop(self) -> list[Memory]:
        """Remove the last record and return it."""
        last = self.code.load(self.count, 0, "i64") - 1
        self.code.store(self.count, 0, last)
        return self._record(last)

    def _record(self, number: Value) -> list[Memory]:
        code = self.code
        base = code.load(self.base, 0, "ptr")
        start = code.place(base, number * self.size, "i8")
        found = []
        for spec, place in zip(self.specs, self.places, strict=True):
            pointer = code.place(start, place, "i8")
            found.append(Memory(spec.shape, KINDS[spec.dtype], pointer))
        return found

    def is_empty(self) -> Value:
        """Return the condition that the stack has no records."""
        return self.code.load(self.count, 0, "i64").equals(0)

    def free(self) -> None:
        """Free the memory."""
        self.code.run("@free", self.code.load(self.base, 0, "ptr"))


@row(WHILE_BACKWARD)
def _backward(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    params: Any = equation.params
    if not all(is_native(params[key]) for key in ("cond", "body", "backward")):
        return None
    if params["cond"].results[0].dtype not in KINDS:
        return None

    def write(writer: Writer, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
        _Pass(writer, params, operands, outs).write()

    return Own(write, cost=1000.0)


class _Pass:
    """Writes the forward loop and the backward loop."""

    def __init__(self, writer: Writer, params: Any, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
        self.writer, self.code, self.outs = writer, writer.code, outs
        self.test, self.body, self.backward = (params[key] for key in ("cond", "body", "backward"))
        self.count, self.leaves, self.order = (params[key] for key in ("carries", "leaves", "order"))
        inputs = len(self.body.inputs)
        self.first, outer, self.gs = part(operands, self.count, inputs - self.count)
        self.outer = [held(self.writer, array) for array in outer]

    def write(self) -> None:
        """Write both loops."""
        code = self.code
        stack = Stack(code, self.body.results[self.count :])
        with code.block() as whole:
            with code.block() as failed:
                self._go(stack, failed)
                self._return(stack)
                code.leave(whole)
            note_lack_of_memory(code)
        stack.free()

    def _carries(self, expressions: Expressions, first: Sequence[Array], outs: dict[int, Memory]) -> list[Carry]:
        memory = [outs.get(i) or self.writer.buffer(array.shape, array.kind) for i, array in enumerate(first)]
        return carries_of(self.writer, expressions, first, memory, None)

    def _go(self, stack: Stack, failed: str) -> None:
        """Write the forward loop, which pushes the residuals of each step."""
        code, writer = self.code, self.writer
        carries = self._carries(self.body, self.first, {})
        watch = Watch(writer, cost_of(self.test, self.body))
        with code.repeat() as loop:
            now = [carry.now() for carry in carries]
            [more] = writer.inline(self.test, [*now, *self.outer], [None])
            code.leave(loop, ~code.cast(more.at(code, ()), "i1"))
            record = stack.push(failed)
            found = writer.inline(self.body, [*now, *self.outer], [*[carry.target for carry in carries], *record])
            for array, memory in zip(found[self.count :], record, strict=True):
                written(writer, array, memory)
            go_on(writer, carries, found)
            finish_step(code, watch, loop)

    def _return(self, stack: Stack) -> None:
        """Write the backward loop, which computes the cotangents."""
        code, writer = self.code, self.writer
        sums = [_filled(spec.shape, KINDS[spec.dtype], 0) for spec in self.backward.results[self.leaves :]]
        outs = dict(zip(self.order, self.outs, strict=True))
        carries = self._carries(self.backward, [*self.gs, *sums], outs)
        watch = Watch(writer, cost_of(self.backward))
        with code.repeat() as loop:
            code.leave(loop, stack.is_empty())
            now = [carry.now() for carry in carries]
            kept = [held(writer, memory) for memory in stack.pop()]
            found = writer.inline(self.backward, [*now, *kept, *self.outer], [carry.target for carry in carries])
            go_on(writer, carries, found)
            finish_step(code, watch, loop)
        for place, out in outs.items():
            carries[place].finish(out)


def _filled(shape: tuple[int, ...], kind: str, number: float) -> Array:
    """Return an array with all elements equal to `number`."""
    return Formula(shape, kind, lambda code, index: code.constant(number, kind))
