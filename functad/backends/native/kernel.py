"""One loop nest over the elements of a shape, which stores arrays and computes reductions.

The nest is a separate function with `noalias` arguments, so that LLVM can vectorise it. Axes that all arrays traverse alike are
merged. Small trailing axes are unrolled. A long sum consists of sums of blocks, added with error compensation; it is at least
as accurate as NumPy's sum.

NumPy multiplies the elements of a product in order. In another order, as in vector lanes, a partial product may overflow or
underflow although none does in NumPy's order, and an infinite one may then be multiplied by zero. The fast product of a block
is therefore used only if no partial product in any order leaves the normal range. The product before the block times all
factors above 1 must be finite, and times all factors below 1 it must be normal. Other blocks are multiplied in order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from functad.backends.native.arrays import Array, Memory
from functad.backends.native.axes import Arrays, Axes
from functad.backends.native.lowering import Reduction
from functad.backends.native.plan import Loops
from functad.loops.build import Code, Index
from functad.loops.ir import Store
from functad.loops.values import Value, where

BLOCK = 256
"""The number of elements summed without error compensation, and computed by quick formulas before these are checked."""

UNROLLED = 8
"""Trailing axes of up to this many elements together are unrolled."""

MOST_CALLS = 32
"""A loop with more elementary functions calls them; inlining and vectorising all would take seconds to compile."""

LARGE = 16_384
"""Longer loops compute the remainder with scalar calls; shorter loops use a masked vector."""

SHORT = 16
"""Products of fewer elements are always computed in order."""

_SMALLEST_NORMAL = {"double": 2.0**-1022, "float": 2.0**-126}

Places = dict[tuple[int, ...], Value]


class Total(NamedTuple):
    """A reduction in a nest.

    Attributes:
        way: the method.
        axes: the reduced axes of the nest.
        array: the operand.
        out: the result, with the other axes of the nest.
    """

    way: Reduction
    axes: frozenset[int]
    array: Array
    out: Memory

    @property
    def first(self) -> int:
        """The first reduced axis."""
        return min(self.axes)

    @property
    def is_rounded(self) -> bool:
        """Return `True` for a sum of real numbers."""
        return self.way.start == 0 and not self.way.exact

    def place(self, index: Sequence[Index]) -> list[Index]:
        """Return the index of the result to which an element contributes."""
        return [i for axis, i in enumerate(index) if axis not in self.axes]


class Nest:
    """The loops of a unit of a plan.

    Args:
        writer: the writer of the enclosing function.
        loops: the unit.
        out: the memory of each slot of the unit.
        code: the function that receives the loops.
    """

    def __init__(self, writer: Arrays, loops: Loops, out: dict[int, Memory], code: Code) -> None:
        axes = Axes(writer, loops, out)
        self.code = code
        self.shape = axes.shape
        self.stored = [(axes.array(s), axes.target(s, out[s])) for s in loops.stored]
        self.totals = [Total(*axes.reduced(s, out[s])) for s in loops.reduced]
        self.order = axes.order
        self.calls = axes.calls
        self.straight = axes.calls <= MOST_CALLS
        self.rare = axes.rare and self.straight and not writer.in_place  # a block is not computed again from changed arrays
        self.looped = len(self.shape) - self._unrolled()
        own = [t for t in self.totals if t.first < self.looped]
        self.local = [t for t in self.totals if t.first >= self.looped]
        self.numbers = [t for t in own if all(a in t.axes for a in range(t.first, self.looped))]
        self.spread = [t for t in own if t not in self.numbers]
        self.scalars: dict[int, Places] = {}
        self.blocks: dict[int, Places] = {}
        self.in_any_order = False

    def _unrolled(self) -> int:
        """Return the number of trailing axes that are unrolled."""
        count, size = 0, 1
        for n in reversed(self.shape):
            size *= n
            if size > UNROLLED or math.prod(self.shape) // size < UNROLLED:
                break
            count += 1
        return count

    def write(self, first: Index, stop: Index) -> None:
        """Write the loops.

        Args:
            first: the first index along the first axis.
            stop: the end along the first axis, which is excluded.
        """
        self.scalars = {id(t): self._places(t, 2) for t in self.numbers}
        self._level(0, [], first, stop)

    def _places(self, total: Total, count: int) -> Places:
        """Reserve `count` numbers for each element of the unrolled axes."""
        rest = [(0,) if a in total.axes else range(self.shape[a]) for a in range(self.looped, len(self.shape))]
        return {key: self.code.allocate(total.way.kind, count) for key in itertools.product(*rest)}

    def _level(self, axis: int, index: list[Index], first: Index, stop: Index) -> None:
        """Write the loop over an axis, and the loops inside it."""
        for total in self.numbers:
            if total.first == axis:
                self._clear(self.scalars[id(total)], total, 2)
        for total in self.spread:
            if total.first == axis:
                self._clear_array(total, index)
        if axis == self.looped - 1:
            self._innermost(index, first, stop)
        else:
            with self.code.loop(first, stop) as i:
                self._level(axis + 1, [*index, i], 0, self.shape[axis + 1])
        for total in self.numbers:
            if total.first == axis:
                self._finish(total, index)

    def _clear(self, places: Places, total: Total, count: int) -> None:
        """Store the result of an empty reduction."""
        for place in places.values():
            self.code.store(place, 0, self.code.constant(total.way.start, total.way.kind))
            if count == 2 and total.is_rounded:
                self.code.store(place, 1, self.code.constant(0, total.way.kind))

    def _clear_array(self, total: Total, index: Sequence[Index]) -> None:
        start = self.code.constant(total.way.start, total.way.kind)
        with self._over_rest(total, len(index)) as rest:
            total.out.put(self.code, total.place([*index, *rest]), start)

    @contextmanager
    def _over_rest(self, total: Total, depth: int) -> Iterator[list[Index]]:
        """Loop over the axes of a result from `depth` on."""
        with ExitStack() as stack:
            yield [
                0 if a in total.axes else stack.enter_context(self.code.loop(0, self.shape[a]))
                for a in range(depth, len(self.shape))
            ]

    def _finish(self, total: Total, index: Sequence[Index]) -> None:
        """Store a result that was accumulated in a scalar."""
        code, depth = self.code, self.looped - len(index)
        for key, place in self.scalars[id(total)].items():
            value = code.load(place, 0, total.way.kind)
            if total.is_rounded:
                value = where(abs(value) < math.inf, value + code.load(place, 1, total.way.kind), value)
            total.out.put(code, total.place([*index, *[0] * depth, *key]), value)

    def _innermost(self, index: list[Index], first: Index, stop: Index) -> None:
        """Write the innermost loop, which LLVM vectorises; in blocks if it is long."""
        code = self.code
        long = self.shape[self.looped - 1] > BLOCK
        quick = self.rare and not self.spread
        any_order = not self.spread and self.shape[self.looped - 1] >= SHORT and any(t.way.ordered for t in self.numbers)
        size = max((math.prod([self.shape[a] for a in t.axes]) for t in self.numbers), default=0)
        if not (quick or any_order or (self.numbers and (long or size > BLOCK))):
            self._run(index, first, stop, straight=self.straight)
            return
        around = code.rare
        with ExitStack() as stack:
            low, high = first, stop
            if long:
                low = stack.enter_context(code.loop(first, stop, step=BLOCK))
                end, limit = low + BLOCK, code.integer(stop)
                high = where(end < limit, end, limit)
            self.blocks = {id(t): self._places(t, 3 if t.way.ordered else 1) for t in self.numbers}
            code.quick, code.rare, self.in_any_order = quick, None, any_order
            self._clear_blocks()
            mark = len(code.nodes)
            self._run(index, low, high, straight=self.straight)
            code.quick = self.in_any_order = False
            rare = self._met()
            again = self._needs_order() if any_order else None
            if rare is not None:
                code.nodes.insert(mark, Store("i1", rare.name, "0", "0"))
                met = code.load(rare, 0, "i1")
                again = met if again is None else again | met
            if again is not None:
                with code.when(again):  # rare, so not vectorised
                    self._clear_blocks()
                    self._run(index, low, high, straight=False)
            code.rare = around
            for total in self.numbers:
                for key, place in self.blocks[id(total)].items():
                    self._add_block(total, self.scalars[id(total)][key], code.load(place, 0, total.way.kind))
            self.blocks = {}

    def _met(self) -> Value | None:
        """Return the flag that records a rare argument, if there is one."""
        return self.code.rare

    def _clear_blocks(self) -> None:
        for total in self.numbers:
            places = self.blocks[id(total)]
            self._clear(places, total, 1)
            if total.way.ordered and self.in_any_order:
                for place in places.values():
                    self.code.store(place, 1, self.code.constant(1.0, total.way.kind))
                    self.code.store(place, 2, self.code.constant(1.0, total.way.kind))
            elif total.way.ordered:
                for key, place in places.items():
                    self.code.store(place, 0, self.code.load(self.scalars[id(total)][key], 0, total.way.kind))

    def _needs_order(self) -> Value:
        """Finish the fast products of a block; return `True` (as a value) if one must be computed in order."""
        code, found = self.code, None
        for total in self.numbers:
            if not total.way.ordered:
                continue
            kind = total.way.kind
            for key, place in self.blocks[id(total)].items():
                before = code.load(self.scalars[id(total)][key], 0, kind)
                code.store(place, 0, before * code.load(place, 0, kind))
                largest, least = [abs(before * code.load(place, i, kind)) for i in (1, 2)]
                failed = ~((largest < math.inf) & (least >= _SMALLEST_NORMAL[kind]))
                found = failed if found is None else found | failed
        assert found is not None
        return found

    def _multiply(self, total: Total, place: Value, value: Value) -> None:
        """Multiply in any order; accumulate the factors above 1 and below 1 separately as well."""
        size = abs(value)
        factors = value, where(size > 1.0, size, size.like(1.0)), where(size < 1.0, size, size.like(1.0))
        for i, factor in enumerate(factors):
            known = self.code.load(place, i, total.way.kind)
            self.code.store(place, i, self.code.emit("mul", known.kind, known, factor, loose="reassoc"))

    def _add_block(self, total: Total, place: Value, block: Value) -> None:
        """Add the sum of a block to the total, and the rounding error of the addition to the correction."""
        code = self.code
        before = code.load(place, 0, total.way.kind)
        if total.way.ordered:  # the block began with the earlier product
            code.store(place, 0, block)
            return
        if not total.is_rounded:
            code.store(place, 0, total.way.combine(code, before, block))
            return
        after = before + block
        part = after - before
        lost = (before - (after - part)) + (block - part)
        code.store(place, 1, code.load(place, 1, total.way.kind) + lost)
        code.store(place, 0, after)

    def _run(self, index: list[Index], first: Index, stop: Index, *, straight: bool) -> None:
        code = self.code
        if straight and self.calls and self.shape[self.looped - 1] >= LARGE:
            first, stop = code.integer(first), code.integer(stop)
            most = ((stop - first) >> 6) << 6
            count = code.emit("freeze", "i64", most)  # LLVM knows only that it is a multiple of 64
            with code.loop(0, count, straight=True, counted=True) as i:
                self._body([*index, first + i])
            first, straight = first + count, False
        with code.loop(first, stop, straight=straight) as i:
            self._body([*index, i])

    def _body(self, index: list[Index]) -> None:
        """Compute, store and reduce the elements of one iteration."""
        code = self.code
        sums: dict[tuple[int, tuple[int, ...]], Value] = {}
        for rest in itertools.product(*[range(n) for n in self.shape[self.looped :]]):
            whole = [*index, *rest]
            for array in self.order:  # operands first, so that no deep recursion occurs
                at(array, code, whole)
            for array, target in self.stored:
                target.put(code, whole, at(array, code, whole))
            for number, total in enumerate(self.totals):
                value = code.cast(at(total.array, code, whole), total.way.kind)
                key = tuple([0 if a in total.axes else i for a, i in enumerate(rest, self.looped)])
                places = self.blocks.get(id(total)) or self.scalars.get(id(total))
                if places:
                    place = places[key]
                    if total.way.ordered and self.in_any_order:
                        self._multiply(total, place, value)
                        continue
                    code.store(place, 0, total.way.combine(code, code.load(place, 0, total.way.kind), value))
                elif total in self.local:
                    known = sums.get((number, key))
                    sums[number, key] = value if known is None else total.way.combine(code, known, value)
                else:
                    own, pointer = total.out.place(code, total.place(whole)), code.own(total.out.pointer)
                    code.store(pointer, own, total.way.combine(code, code.load(pointer, own, total.way.kind), value))
        for (number, key), value in sums.items():
            self.totals[number].out.put(code, self.totals[number].place([*index, *key]), value)


def at(array: Array, code: Code, index: Sequence[Index]) -> Value:
    """Return the element at an index of the loops, to which the array broadcasts."""
    return array.at(code, [0 if n == 1 else i for i, n in zip(index, array.shape, strict=True)])
