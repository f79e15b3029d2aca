"""The axes of a loop nest: merges axes that all arrays traverse alike, and gives each array the axes of the nest."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Protocol

from functad.backends.native.arrays import Array, Memory, Shape
from functad.backends.native.lowering import Pointwise, Reduction
from functad.backends.native.plan import Loops, Plan

LONG = 20.0
"""A function of at least this cost, in additions, counts as a long function."""


class Arrays(Protocol):
    """The interface of the enclosing function that a loop nest uses."""

    plan: Plan
    in_place: bool

    def is_ready(self, slot: Any) -> bool:
        """Return `True` if the value of a slot is available."""

    def array(self, source: Any) -> Array:
        """Return the array of a slot or constant."""

    def pointwise(self, way: Pointwise, operands: Sequence[Array], shape: Shape) -> Array:
        """Return the elementwise result of `way` for broadcast operands."""


class Axes:
    """The axes of the loops of a unit.

    Attributes:
        shape: the shape of the nest.
        order: the arrays with these axes; operands come before the arrays that read them.
        rare: `True` if a function has a quick formula that is invalid for rare arguments.
        calls: the number of calls of long functions per element.
    """

    def __init__(self, writer: Arrays, loops: Loops, out: dict[int, Memory]) -> None:
        self.writer = writer
        self.domain = loops.domain
        self.order: list[Array] = []
        self.rare = False
        self.calls = 0
        self._arrays: dict[Any, Array] = {}
        self._read: list[tuple[Shape, Shape | None]] = []
        self._seen: dict[Shape, set[Any]] = {}
        self._general = False
        for slot in loops.stored:
            self._collect(slot, self._spec(slot).shape, stored=not writer.is_ready(slot))
            self._read.append((_fitted(out[slot].shape, out[slot].shape), _fitted_strides(out[slot], out[slot].shape)))
        for slot in loops.reduced:
            source = self._source(slot)
            self._collect(source, self._spec(source).shape, stored=False)
        self.groups = self._groups([self._reduced_axes(slot) for slot in loops.reduced])
        self.shape = tuple([math.prod([self.domain[i] for i in group]) for group in self.groups])

    def _spec(self, slot: int) -> Any:
        return self.writer.plan.expressions.specs[slot]

    def _source(self, slot: int) -> int:
        [source] = self.writer.plan.equation(slot).inputs
        assert type(source) is int
        return source

    def _reduced_axes(self, slot: int) -> set[int]:
        """Return the axes of the domain that a slot reduces."""
        way, shape = self.writer.plan.way(slot), self._spec(self._source(slot)).shape
        assert isinstance(way, Reduction)
        numbers = list(itertools.accumulate([n != 1 for n in shape], initial=0))
        return {numbers[axis] for axis in way.axes if shape[axis] != 1}

    # Arrays that the loops read

    def _is_computed(self, slot: Any, stored: bool) -> bool:
        """Return `True` if the nest computes the elements of a slot."""
        plan = self.writer.plan
        if type(slot) is not int or not isinstance(plan.way(slot), Pointwise) or slot in plan.tiny:
            return False
        return stored or not self.writer.is_ready(slot)

    def _collect(self, root: Any, frame: Shape, *, stored: bool) -> None:
        """Collect the shapes and strides of all arrays that the nest reads for `root`."""
        seen = self._seen.setdefault(frame, set())
        pending = [root]
        while pending:
            slot = pending.pop()
            key = slot, stored and slot == root
            if type(slot) is int:
                if key in seen:
                    continue
                seen.add(key)
            if self._is_computed(*key):
                self._read.append((_fitted(self._spec(slot).shape, frame), None))
                pending += self.writer.plan.equation(slot).inputs
                continue
            array = self.writer.array(slot)
            if isinstance(array, Memory):
                self._read.append((_fitted(array.shape, frame), _fitted_strides(array, frame)))
            elif math.prod(array.shape) > 1:
                self._general = True

    def _groups(self, reduced: Sequence[set[int]]) -> list[list[int]]:
        """Return the groups of neighbouring axes of the domain that are merged."""
        groups: list[list[int]] = []
        for axis, n in enumerate(self.domain):
            joins = groups and not self._general
            joins = joins and all((axis in axes) == (axis - 1 in axes) for axes in reduced)
            for shape, strides in self._read if joins else ():
                alike = (shape[axis - 1] == 1) == (shape[axis] == 1)
                if not alike or (strides is not None and shape[axis] != 1 and strides[axis - 1] != strides[axis] * n):
                    joins = False
                    break
            if joins:
                groups[-1].append(axis)
            else:
                groups.append([axis])
        return groups

    # Arrays with the axes of the nest

    def array(self, slot: Any, frame: Shape | None = None) -> Array:
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
                self._enter((source, frame), self._with_axes(self.writer.array(source), frame))
                pending.pop()
                continue
            inputs = plan.equation(source).inputs
            missing = [s for s in inputs if type(s) is int and (s, frame) not in arrays]
            if missing:
                pending += missing
                continue
            way = plan.way(source)
            assert isinstance(way, Pointwise)
            self.rare |= way.rare
            self.calls += way.cost >= LONG
            operands = [arrays[s, frame] if type(s) is int else self._with_axes(self.writer.array(s), frame) for s in inputs]
            shape = self._merged(_fitted(self._spec(source).shape, frame))
            self._enter((source, frame), self.writer.pointwise(way, operands, shape))
            pending.pop()
        return arrays[slot, frame]

    def _enter(self, key: Any, array: Array) -> None:
        self._arrays[key] = array
        self.order.append(array)

    def target(self, slot: int, memory: Memory) -> Memory:
        """Return the memory of a slot that the loops write, with the axes of the nest."""
        found = self._with_axes(memory, self._spec(slot).shape)
        assert isinstance(found, Memory)
        return found

    def reduced(self, slot: int, memory: Memory) -> tuple[Reduction, frozenset[int], Array, Memory]:
        """Return the reduction of a slot: the method, the reduced axes of the nest, the operand and the target."""
        way, source = self.writer.plan.way(slot), self._source(slot)
        assert isinstance(way, Reduction)
        axes = self._reduced_axes(slot)
        own = frozenset(i for i, group in enumerate(self.groups) if group[0] in axes)
        out = memory.reshaped(tuple([n for i, n in enumerate(self.shape) if i not in own]))
        assert isinstance(out, Memory)
        return way, own, self.array(source, self._spec(source).shape), out

    def _merged(self, shape: Shape) -> Shape:
        return tuple([math.prod([shape[i] for i in group]) for group in self.groups])

    def _with_axes(self, array: Array, frame: Shape) -> Array:
        shape = _fitted(array.shape, frame)
        if not isinstance(array, Memory):
            return array.reshaped(self._merged(shape))
        strides = _fitted_strides(array, frame)
        last = [([i for i in group if shape[i] != 1] or group)[-1] for group in self.groups]
        return array.view(self._merged(shape), [strides[i] for i in last])


def _fitted(shape: Shape, frame: Shape) -> Shape:
    """Return `shape`, broadcast to the rank of `frame`, without the axes of length 1 of `frame`."""
    whole = (1,) * (len(frame) - len(shape)) + tuple(shape)
    return tuple([n for n, m in zip(whole, frame, strict=True) if m != 1])


def _fitted_strides(array: Memory, frame: Shape) -> Shape:
    """Return the strides of an array for the axes of `_fitted`."""
    whole = (0,) * (len(frame) - len(array.shape)) + tuple(
        [0 if n == 1 else s for n, s in zip(array.shape, array.strides, strict=True)]
    )
    return tuple([s for s, m in zip(whole, frame, strict=True) if m != 1])
