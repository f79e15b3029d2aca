"""Loops for products that sum over axes, for sizes at which a BLAS call takes longer.

The innermost loop goes along an axis of the result, so it needs no reduction and LLVM vectorises it. It unrolls several rows
and several products of each sum, so loaded elements are reused. Small results are unrolled completely. If all axes of the
result are short, the innermost loop sums.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from functad.backends.native.arrays import Memory
from functad.loops.build import Code, Index
from functad.loops.ir import REALS
from functad.loops.values import Value, fused

SHORT = 8
"""Shorter axes are not worth a vectorised loop."""

TILE = 128
"""Maximum number of multiplications of a small product that is unrolled completely."""

MOST_DEEP = 32
"""Maximum number of products in a sum that is unrolled completely."""

BODY = 48
"""Approximate number of products that the innermost loop unrolls."""


class Axis(NamedTuple):
    """An axis of a product.

    Attributes:
        letter: its letter. Two axes of a window view may be equal in length and strides, so axes differ by letter.
        n: its length.
        role: as in `Letters.role`.
        strides: its strides in the two operands and in the result; 0 in an array without this axis.
    """

    letter: str
    n: int
    role: str
    strides: tuple[int, int, int]


class Factors(NamedTuple):
    """The operands, the result and the axes of a product.

    Attributes:
        a: the first operand.
        b: the second operand.
        out: the result.
        axes: the axes of the result by descending stride, then the summed axes.
    """

    a: Memory
    b: Memory
    out: Memory
    axes: list[Axis]


Places = dict[Axis, Index]


class Loops:
    """Writes the loops of a product.

    Args:
        code: the function for the loops.
        factors: the product.
    """

    def __init__(self, code: Code, factors: Factors) -> None:
        self.code = code
        self.arrays = factors.a, factors.b, factors.out
        self.kind = factors.out.kind
        self.depth = [axis for axis in factors.axes if axis.role == "depth"]
        self.free = [axis for axis in factors.axes if axis.role != "depth"]

    def write(self) -> None:
        """Write the loops."""
        depth = math.prod([axis.n for axis in self.depth])
        inner = self.free[-1] if self.free else None
        if inner is not None and inner.n >= SHORT:
            self._along(inner, depth)
            return
        tile, rest = self._tile(depth)
        if depth <= MOST_DEEP and math.prod([axis.n for axis in tile]) * depth <= TILE:
            self._written_out(tile, rest)
        else:
            self._summed(tile, rest)

    # Elements

    def _position(self, which: int, places: Places) -> Index:
        steps = [axis.strides[which] for axis in places]
        return self.code.linear(list(places.values()), steps, self.arrays[which].offset)

    def _factor(self, which: int, places: Places) -> Value:
        """Return an element of an operand, cast to the type of the result."""
        array, code, position = self.arrays[which], self.code, self._position(which, places)
        key = which, position.name if isinstance(position, Value) else position
        known = code.remembered.get(key)
        if known is None:
            known = code.remember(key, code.cast(code.load(code.own(array.pointer), position, array.kind), self.kind))
        return known  # type: ignore[no-any-return]

    def _added(self, places: Places, total: Value | None, *, loose: bool = False) -> Value:
        """Return a sum plus one more product."""
        x, y = self._factor(0, places), self._factor(1, places)
        if total is None:
            return x * y
        if not x.is_real:
            return total + x * y
        if loose:  # LLVM may reorder the sum
            product = self.code.emit("mul", x.kind, x, y, loose="contract")
            return self.code.emit("add", x.kind, total, product, loose="reassoc contract nsz")
        return fused(x, y, total)

    def _put(self, places: Places, value: Value) -> None:
        out = self.arrays[2]
        self.code.store(self.code.own(out.pointer), self._position(2, places), value)

    def _kept(self, places: Places) -> Value:
        out = self.arrays[2]
        return self.code.load(self.code.own(out.pointer), self._position(2, places), self.kind)

    def _zero(self) -> Value:
        return self.code.constant(0.0 if self.kind in REALS else 0, self.kind)

    # Loops

    def _over(self, axes: Sequence[Axis], places: Places, body: Callable[[Places], None], *, straight: bool = False) -> None:
        """Write nested loops over axes."""
        if not axes:
            body(places)
            return
        axis, *rest = axes
        with self.code.loop(0, axis.n, straight=straight and not rest) as i:
            self._over(rest, {**places, axis: i}, body, straight=straight)

    def _blocks(self, axis: Axis, size: int, places: Places, body: Callable[[list[Places]], None]) -> None:
        """Write a loop over blocks of an axis, and the remainder; `body` receives the list of places of each block."""
        whole = axis.n // size * size
        if whole == size:
            body([{**places, axis: i} for i in range(size)])
        elif whole:
            with self.code.loop(0, whole, step=size) as i:
                body([{**places, axis: i + k if k else i} for k in range(size)])
        if whole < axis.n:
            with self.code.scope():
                body([{**places, axis: i} for i in range(whole, axis.n)])

    # A vectorised loop along an axis of the result

    def _along(self, inner: Axis, depth: int) -> None:
        others = self.free[:-1]
        shared = [axis for axis in others if axis.role not in ("batch", inner.role) and axis.n > 1]
        row = max(shared, key=lambda axis: axis.n, default=None)
        around = [axis for axis in others if axis is not row]
        at_once = depth <= MOST_DEEP
        most = max(1, min(6, BODY // depth)) if at_once else 4
        rows = 1 if row is None else _block(row.n, most)

        def body(block: Sequence[Places]) -> None:
            (self._at_once if at_once else self._in_parts)(inner, block)

        def outer(places: Places) -> None:
            if row is None:
                body([places])
            else:
                self._blocks(row, rows, places, body)

        self._over(around, {}, outer)

    def _steps(self, axes: Sequence[Axis]) -> list[Places]:
        return [dict(zip(axes, i, strict=True)) for i in itertools.product(*[range(axis.n) for axis in axes])]

    def _at_once(self, inner: Axis, block: Sequence[Places]) -> None:
        """Write a loop that computes complete sums."""
        with self.code.loop(0, inner.n, straight=True) as j:
            totals: list[Value | None] = [None] * len(block)
            for step in self._steps(self.depth):
                for r, places in enumerate(block):
                    totals[r] = self._added({**places, inner: j, **step}, totals[r])
            for total, places in zip(totals, block, strict=True):
                assert total is not None
                self._put({**places, inner: j}, total)

    def _in_parts(self, inner: Axis, block: Sequence[Places]) -> None:
        """Write a loop that sets the sums to zero, and loops that add to them."""
        with self.code.loop(0, inner.n, straight=True) as j:
            for places in block:
                self._put({**places, inner: j}, self._zero())
        *outer, last = self.depth
        size = _block(last.n, 8 if len(block) < 3 else 4)

        def part(around: Places) -> None:
            def add(steps: list[Places]) -> None:
                with self.code.loop(0, inner.n, straight=True) as j:
                    for places in block:
                        total = self._kept({**places, inner: j})
                        for step in steps:
                            total = self._added({**places, inner: j, **step}, total)
                        self._put({**places, inner: j}, total)

            self._blocks(last, size, around, add)

        self._over(outer, {}, part)

    # Small results

    def _tile(self, depth: int) -> tuple[list[Axis], list[Axis]]:
        """Return the axes of the result to unroll, and the axes for loops."""
        size, count = 1, 0
        most = max(1, TILE // depth) if depth <= MOST_DEEP else SHORT
        for axis in reversed(self.free):
            size *= axis.n
            if size > most:
                break
            count += 1
        place = len(self.free) - count
        return self.free[place:], self.free[:place]

    def _written_out(self, tile: Sequence[Axis], rest: Sequence[Axis]) -> None:
        """Write loops that unroll all products of the axes `tile`; LLVM may vectorise the innermost loop."""

        def body(places: Places) -> None:
            for own in self._steps(tile):
                total = None
                for step in self._steps(self.depth):
                    total = self._added({**places, **own, **step}, total)
                assert total is not None
                self._put({**places, **own}, total)

        self._over(rest, {}, body, straight=True)

    def _summed(self, tile: Sequence[Axis], rest: Sequence[Axis]) -> None:
        """Write loops with an innermost loop that accumulates several sums at once."""
        code = self.code
        steps = self._steps(tile)
        totals = [code.allocate(self.kind, 1) for _ in steps]

        def add(places: Places) -> None:
            for own, total in zip(steps, totals, strict=True):
                code.store(total, 0, self._added({**places, **own}, code.load(total, 0, self.kind), loose=True))

        def body(places: Places) -> None:
            for total in totals:
                code.store(total, 0, self._zero())
            self._over(self.depth, places, add, straight=True)
            for own, total in zip(steps, totals, strict=True):
                self._put({**places, **own}, code.load(total, 0, self.kind))

        self._over(rest, {}, body)


def _block(n: int, most: int) -> int:
    """Return the number of elements of an axis to unroll: a divisor of its length, if a large one exists."""
    if n <= most:
        return n
    return next((size for size in range(most, most // 2, -1) if n % size == 0), most)


def write_loops(writer: Any, factors: Factors) -> None:
    """Write the loops of a product as a separate function, and call it."""
    code = Code(fused=writer.code.fused, outer=writer.code)
    Loops(code, factors).write()
    writer.module.call(writer.code, code)
