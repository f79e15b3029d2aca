"""One loop nest over the elements of a shape, which stores arrays and computes reductions.

The nest is a separate function with `noalias` arguments, so that LLVM can vectorise it. It has one loop per axis. The schedule
merges loops, and replaces the reductions.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple, Protocol

from functad.backends.native.arrays import Array, Memory, Shape
from functad.backends.native.lowering import Pointwise, Reduction
from functad.backends.native.plan import Loops, Plan
from functad.loops.build import Code, Index
from functad.loops.ir import For
from functad.loops.schedule import flattened, length_of
from functad.loops.values import Value

MOST_CALLS = 32
"""A loop with more elementary functions calls them; inlining and vectorising all would take seconds to compile."""

LONG = 20.0
"""A function of at least this cost, in additions, counts as a long function."""


class Arrays(Protocol):
    """The interface of the enclosing function that a loop nest uses."""

    plan: Plan

    def is_ready(self, slot: Any) -> bool:
        """Return `True` if the value of a slot is available."""

    def array(self, source: Any) -> Array:
        """Return the array of a slot or constant."""

    def pointwise(self, way: Pointwise, operands: Sequence[Array], shape: Shape) -> Array:
        """Return the elementwise result of `way` for broadcast operands."""


class Total(NamedTuple):
    """A reduction in a nest.

    Attributes:
        way: the method.
        axes: the reduced axes of the nest.
        array: the operand.
        out: the result, with the other axes of the nest.
    """

    way: Reduction
    axes: set[int]
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
        self.writer, self.code, self.shape = writer, code, loops.domain
        self.order: list[Array] = []  # operands come before the arrays that read them
        self.calls = 0  # long functions per element
        self._arrays: dict[Any, Array] = {}
        self.stored = [(self._array(s), self._target(s, out[s])) for s in loops.stored]
        self.totals = [self._total(s, out[s]) for s in loops.reduced]

    def write(self, between: tuple[Index, Index] | None = None) -> int:
        """Write the loops, and return the length of the first loop.

        Args:
            between: the first index of the first loop and its end, which is excluded, if this function runs a part of the loop.
        """
        code, straight = self.code, self.calls <= MOST_CALLS
        with ExitStack() as stack:
            index: list[Index] = []
            for axis, n in enumerate(self.shape):
                loop = code.loop(0, n, straight=straight and axis == len(self.shape) - 1)
                index.append(stack.enter_context(loop))
            self._write(index)
        flattened(code)
        *_, first = code.nodes
        assert isinstance(first, For)
        if between is not None:
            low, high = [code.integer(index).name for index in between]
            code.nodes[-1] = first._replace(first=low, stop=high)
        return length_of(first) or 0

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

    # Arrays with the axes of the nest

    def _spec(self, slot: int) -> Any:
        return self.writer.plan.expressions.specs[slot]

    def _is_computed(self, slot: Any, stored: bool) -> bool:
        """Return `True` if the nest computes the elements of a slot."""
        plan = self.writer.plan
        if type(slot) is not int or not isinstance(plan.way(slot), Pointwise) or slot in plan.tiny:
            return False
        return stored or not self.writer.is_ready(slot)

    def _array(self, slot: Any, frame: Shape | None = None) -> Array:
        """Return the array of a slot with the axes of the nest. Without `frame`, the loops write the slot."""
        stored = frame is None and not self.writer.is_ready(slot)
        frame = self._spec(slot).shape if frame is None else frame
        plan, arrays = self.writer.plan, self._arrays
        pending = [slot]
        while pending:  # operands first; no recursion, because chains are long
            source = pending[-1]
            if (source, frame) in arrays:
                pending.pop()
                continue
            if not self._is_computed(source, stored and source == slot):
                self._enter((source, frame), _fitted(self.writer.array(source), frame))
                pending.pop()
                continue
            inputs = plan.equation(source).inputs
            missing = [s for s in inputs if type(s) is int and (s, frame) not in arrays]
            if missing:
                pending += missing
                continue
            way = plan.way(source)
            assert isinstance(way, Pointwise)
            self.calls += way.cost >= LONG
            operands = [arrays[s, frame] if type(s) is int else _fitted(self.writer.array(s), frame) for s in inputs]
            shape = _fitted_shape(self._spec(source).shape, frame)
            self._enter((source, frame), self.writer.pointwise(way, operands, shape))
            pending.pop()
        return arrays[slot, frame]

    def _enter(self, key: Any, array: Array) -> None:
        self._arrays[key] = array
        self.order.append(array)

    def _target(self, slot: int, memory: Memory) -> Memory:
        """Return the memory of a slot that the loops write, with the axes of the nest."""
        found = _fitted(memory, self._spec(slot).shape)
        assert isinstance(found, Memory)
        return found

    def _total(self, slot: int, memory: Memory) -> Total:
        """Return the reduction of a slot."""
        way, [source] = self.writer.plan.way(slot), self.writer.plan.equation(slot).inputs
        assert isinstance(way, Reduction)
        assert type(source) is int
        shape = self._spec(source).shape
        numbers = list(itertools.accumulate([n != 1 for n in shape], initial=0))
        axes = {numbers[axis] for axis in way.axes if shape[axis] != 1}
        out = memory.reshaped(tuple([n for i, n in enumerate(self.shape) if i not in axes]))
        assert isinstance(out, Memory)
        return Total(way, axes, self._array(source, shape), out)


def at(array: Array, code: Code, index: Sequence[Index]) -> Value:
    """Return the element at an index of the loops, to which the array broadcasts."""
    return array.at(code, [0 if n == 1 else i for i, n in zip(index, array.shape, strict=True)])


def _fitted_shape(shape: Shape, frame: Shape) -> Shape:
    """Return `shape`, broadcast to the rank of `frame`, without the axes of length 1 of `frame`."""
    whole = (1,) * (len(frame) - len(shape)) + tuple(shape)
    return tuple([n for n, m in zip(whole, frame, strict=True) if m != 1])


def _fitted(array: Array, frame: Shape) -> Array:
    """Return an array with the axes of `_fitted_shape`."""
    shape = _fitted_shape(array.shape, frame)
    if not isinstance(array, Memory):
        return array.reshaped(shape)
    whole = (0,) * (len(frame) - len(array.shape)) + array.strides
    return array.view(shape, [s for s, m in zip(whole, frame, strict=True) if m != 1])
