"""Lowering of scans along an axis (cumulative sums and products, linear recurrences), `argmax` and `argmin`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from functad.backends.native.arrays import Array, Memory
from functad.backends.native.lowering import Lowered, Own, row
from functad.expressions.expressions import Equation
from functad.expressions.spec import ArraySpec
from functad.loops.build import KINDS, Code, Index
from functad.loops.values import Value, where
from functad.primitives.reductions.over_axes import ARGMAX, ARGMIN
from functad.primitives.reductions.scans import CUMPROD, CUMSUM, EXCLUSIVE, RECURRENCE

Start = Callable[[Sequence[Value]], Value]
"""Maps the operands' elements at the first position to the first element of the result."""

Next = Callable[[Value, Sequence[Value], Sequence[Value]], Value]
"""Maps the previous element of the result, the operands' elements here, and their previous elements, to the element here."""


@contextmanager
def loops(code: Code, shape: Sequence[int], *, straight: bool = False) -> Iterator[list[Index]]:
    """Write loops over a shape and yield the index; it is 0 along axes of length 1."""
    last = max((i for i, n in enumerate(shape) if n != 1), default=0)
    with ExitStack() as stack:
        yield [
            0 if n == 1 else stack.enter_context(code.loop(0, n, straight=straight and i == last)) for i, n in enumerate(shape)
        ]


class Scan:
    """Computes each element along an axis from the previous one.

    Args:
        shape: the shape of the result and of each operand.
        axis: the axis of the scan.
        back: `True` to scan from the end.
        start: computes the first element.
        following: computes each other element.
    """

    def __init__(self, shape: tuple[int, ...], axis: int, *, back: bool, start: Start, following: Next) -> None:
        self.head, self.count, self.tail = shape[:axis], shape[axis], shape[axis + 1 :]
        self.back, self.start, self.following = back, start, following

    def write(self, writer: Any, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
        """Write the loops."""
        [out] = outs
        code = Code(fused=writer.code.fused, outer=writer.code)
        with loops(code, self.head) as head:
            if math.prod(self.tail) == 1:
                self._row(code, operands, out, head, [0] * len(self.tail))
            else:
                self._rows(code, operands, out, head)
        writer.module.call(writer.code, code)

    def _place(self, head: Sequence[Index], i: Index, tail: Sequence[Index]) -> list[Index]:
        return [*head, (self.count - 1) - i if self.back else i, *tail]

    def _given(self, code: Code, operands: Sequence[Array], place: Sequence[Index], kind: str) -> list[Value]:
        return [code.cast(a.at(code, place), kind) for a in operands]

    def _row(self, code: Code, operands: Sequence[Array], out: Memory, head: Sequence[Index], tail: Sequence[Index]) -> None:
        """Write the scan of one row, with the last element in a register."""
        running, place = code.allocate(out.kind, 1), self._place(head, 0, tail)
        value = self.start(self._given(code, operands, place, out.kind))
        out.put(code, place, value)
        code.store(running, 0, value)
        with code.loop(1, self.count) as i:
            value = self._next(code, operands, code.load(running, 0, out.kind), head, i, tail)
            out.put(code, self._place(head, i, tail), value)
            code.store(running, 0, value)

    def _rows(self, code: Code, operands: Sequence[Array], out: Memory, head: Sequence[Index]) -> None:
        """Write the scans of all adjacent rows together, step by step."""
        with loops(code, self.tail, straight=True) as tail:
            place = self._place(head, 0, tail)
            out.put(code, place, self.start(self._given(code, operands, place, out.kind)))
        with code.loop(1, self.count) as i, loops(code, self.tail, straight=True) as tail:
            before = out.place(code, self._place(head, i - 1, tail))
            last = code.load(code.own(out.pointer), before, out.kind)
            out.put(code, self._place(head, i, tail), self._next(code, operands, last, head, i, tail))

    def _next(
        self, code: Code, operands: Sequence[Array], last: Value, head: Sequence[Index], i: Value, tail: Sequence[Index]
    ) -> Value:
        here = self._given(code, operands, self._place(head, i, tail), last.kind)
        before = self._given(code, operands, self._place(head, i - 1, tail), last.kind)
        return self.following(last, here, before)


@row(CUMSUM, CUMPROD, EXCLUSIVE, RECURRENCE)
def _scan(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    start, following = _STEPS[equation.primitive]
    axis, back = equation.params["axis"], equation.params.get("reverse", False)
    if any(spec.shape != results[0].shape for spec in given):
        return None
    return Own(Scan(results[0].shape, axis, back=back, start=start, following=following).write)


_STEPS: dict[Any, tuple[Start, Next]] = {
    CUMSUM: (lambda here: here[0], lambda last, here, before: last + here[0]),
    CUMPROD: (lambda here: here[0], lambda last, here, before: last * here[0]),
    EXCLUSIVE: (lambda here: here[0].like(1), lambda last, here, before: last * before[0]),
    RECURRENCE: (lambda here: here[0].like(0), lambda last, here, before: last * before[0] + before[1]),
}


@row(ARGMAX, ARGMIN)
def _position(equation: Equation, given: Sequence[ArraySpec], results: Sequence[ArraySpec]) -> Lowered | None:
    axis, shape, kind = equation.params["axis"], given[0].shape, KINDS[given[0].dtype]
    if not shape:
        return None
    flat = axis is None
    whole, axis = ((given[0].size,), 0) if flat else (shape, axis[0])
    rest = (*whole[:axis], *whole[axis + 1 :])

    largest = equation.primitive is ARGMAX

    def better(x: Value, best: Value) -> Value:
        found = x > best if largest else x < best
        return found | (x.is_nan() & ~best.is_nan()) if x.is_real else found

    def find_first(code: Code, at: Callable[[Index], Value], place: Value) -> None:
        """Store the place of the first true, or the first false, element."""
        with code.block() as search, code.loop(0, whole[axis]) as i:
            x = at(i)
            with code.when(x if largest else ~x):
                code.store(place, 0, i)
                code.leave(search)

    def find_extreme(code: Code, at: Callable[[Index], Value], place: Value) -> None:
        best = code.allocate(kind, 1)
        code.store(best, 0, at(0))
        with code.loop(1, whole[axis]) as i:
            x, known = at(i), code.load(best, 0, kind)
            found = better(x, known)
            code.store(best, 0, where(found, x, known))
            code.store(place, 0, where(found, i, code.load(place, 0, "i64")))

    def write(writer: Any, operands: Sequence[Array], outs: Sequence[Memory]) -> None:
        code = Code(fused=writer.code.fused, outer=writer.code)
        array, out = operands[0].reshaped(whole), outs[0].reshaped(rest)
        assert isinstance(out, Memory)
        place = code.allocate("i64", 1)

        def element(index: Sequence[Index], i: Index) -> Value:
            return array.at(code, [*index[:axis], i, *index[axis:]])

        with loops(code, rest) as index:
            code.store(place, 0, code.integer(0))
            find = find_first if kind == "i1" else find_extreme
            find(code, partial(element, index), place)
            out.put(code, index, code.load(place, 0, "i64"))
        writer.module.call(writer.code, code)

    return Own(write)
