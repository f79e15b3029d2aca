"""One loop nest over the elements of a shape, which stores arrays and computes reductions.

The nest is a separate function with `noalias` arguments, so that LLVM can vectorise it. Axes that all arrays traverse alike are
merged. Small trailing axes are unrolled.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

from functad.backends.native.arrays import Array, Memory
from functad.backends.native.axes import Arrays, Axes
from functad.backends.native.lowering import Reduction
from functad.backends.native.plan import Loops
from functad.loops.build import Code, Index
from functad.loops.values import Value

UNROLLED = 8
"""Trailing axes of up to this many elements together are unrolled."""

MOST_CALLS = 32
"""A loop with more elementary functions calls them; inlining and vectorising all would take seconds to compile."""


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
        self.straight = axes.calls <= MOST_CALLS

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
        looped = len(self.shape) - self._unrolled()
        with ExitStack() as stack:
            index: list[Index] = []
            for axis, n in enumerate(self.shape[:looped]):
                low, high = (0, n) if axis else (first, stop)
                loop = self.code.loop(low, high, straight=self.straight and axis == looped - 1)
                index.append(stack.enter_context(loop))
            for rest in itertools.product(*[range(n) for n in self.shape[looped:]]):
                self._write([*index, *rest])

    def _write(self, index: Sequence[Index]) -> None:
        """Compute, store and reduce the elements at an index."""
        code = self.code
        for array in self.order:  # operands first, so that no deep recursion occurs
            at(array, code, index)
        for array, target in self.stored:
            target.put(code, index, at(array, code, index))
        for total in self.totals:
            place = total.out.place(code, [i for axis, i in enumerate(index) if axis not in total.axes])
            value = code.cast(at(total.array, code, index), total.way.kind)
            code.reduce(total.way.how, code.own(total.out.pointer), place, value)


def at(array: Array, code: Code, index: Sequence[Index]) -> Value:
    """Return the element at an index of the loops, to which the array broadcasts."""
    return array.at(code, [0 if n == 1 else i for i, n in zip(index, array.shape, strict=True)])
