"""The writer of the native code of an expression list: loops, small values, and equations with own code."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from functad.backends.native.arrays import Array, Formula, Held, Memory, aligned, plain_array
from functad.backends.native.kernel import Nest
from functad.backends.native.lowering import Own, Pointwise, Reduction, View
from functad.backends.native.module_text import ModuleText
from functad.backends.native.plan import Loops, Plan
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.records import inputs_of
from functad.expressions.spec import spec_of
from functad.loops.build import KINDS, SIZES, Code, Index
from functad.loops.reductions import combined
from functad.loops.values import Value

STACK = 16_384
"""Arrays of up to this many bytes are on the stack; larger ones use memory of the caller."""

WHOLE_STACK = 262_144
"""The maximum stack memory of all arrays of a function, in bytes; threads may have a small stack."""

LARGEST_TABLE = 4_096
"""Constant arrays of up to this many bytes are embedded in the code."""


class Writer:
    """Writes an expression list into a function.

    Args:
        plan: the plan of the list.
        code: the function.
        module: the module of the function.
        operands: the arrays of the first inputs of the list. Other inputs come from `outside`.
        targets: the memory of slots with a fixed target.
        outside: returns an array that this function does not compute.
        given: the slots of these arrays.
    """

    def __init__(
        self,
        plan: Plan,
        code: Code,
        module: ModuleText,
        operands: Sequence[Array] = (),
        targets: dict[int, Memory] | None = None,
        outside: Callable[[int | Constant], Array] | None = None,
        given: Collection[int] = (),
    ) -> None:
        self.plan = plan
        self.code = code
        self.module = module
        self.targets = dict(targets or {})
        self.placed: dict[int, tuple[int, Any]] = {}
        self.outside = outside
        self.given = given
        self.arrays: dict[int, Array] = dict(enumerate(operands))
        self.ready = set(range(len(operands)))
        self.views: dict[int, Array] = {}
        self._constants: dict[int, tuple[Array, Constant]] = {}

    # Arrays

    def is_ready(self, slot: Any) -> bool:
        """Return `True` if the value of a slot is available."""
        return type(slot) is not int or slot in self.ready or slot in self.given

    def array(self, source: int | Constant) -> Array:
        """Return the array of a slot or constant: memory, values, or a formula."""
        if isinstance(source, Constant):
            return self._constant(source)
        if source in self.ready:
            return self.arrays[source]
        if source in self.given:
            assert self.outside is not None
            self.arrays[source] = self.outside(source)
            self.ready.add(source)
            return self.arrays[source]
        known = self.views.get(source)
        if known is not None:
            return known
        way = self.plan.way(source)
        if self.plan.is_formula(source):
            operands = [self.array(s) for s in self.plan.equation(source).inputs]
            if isinstance(way, View):
                found = way.make(operands)
            else:
                assert isinstance(way, Pointwise)
                found = self.pointwise(way, operands, self.plan.expressions.specs[source].shape)
            if not isinstance(found, Memory) or isinstance(way, View):
                self.views[source] = found
            return found
        assert source in self.plan.tiny, f"slot {source} is read before it is made"
        self.hold([source])
        return self.arrays[source]

    def pointwise(self, way: Pointwise, operands: Sequence[Array], shape: tuple[int, ...]) -> Array:
        """Return the elementwise result of `way` for broadcast operands."""

        def element(code: Code, index: Sequence[Index]) -> Value:
            values = [code.cast(a.at(code, aligned(index, a.shape)), kind) for a, kind in zip(operands, way.kinds, strict=True)]
            return way.formula(code, *values)

        return Formula(shape, way.result, element)

    def _constant(self, source: Constant) -> Array:
        known = self._constants.get(id(source))
        if known is None:
            known = self._constants[id(source)] = self._new_constant(source), source
        return known[0]

    def _new_constant(self, source: Constant) -> Array:
        spec = spec_of(source.value)
        kind, value = KINDS[spec.dtype], plain_array(source.value)
        first = value.ravel()[0].item()
        if spec.size <= self.plan.most:
            return Held(spec.shape, kind, [self.code.constant(v.item(), kind) for v in value.ravel()])
        if value.strides == (0,) * value.ndim or value.tobytes() == np.full_like(value, first).tobytes():
            return Formula(spec.shape, kind, lambda code, index: code.constant(first, kind))
        if value.nbytes <= LARGEST_TABLE or self.outside is None or self.module.alone:
            return Memory(spec.shape, kind, self.module.table(self.code, value))
        return self.outside(source)

    # Computation

    def hold(self, slots: Sequence[int]) -> None:
        """Compute small arrays, and the small arrays that they depend on, as values."""
        for slot in self.small_ones_before(slots):
            if slot in self.ready:
                continue
            equation, way, spec = self.plan.equation(slot), self.plan.way(slot), self.plan.expressions.specs[slot]
            operands = [self.array(s) for s in equation.inputs]
            if isinstance(way, Reduction):
                values = self._reduced(way, operands[0])
                kind = way.kind
            else:
                array = way.make(operands) if isinstance(way, View) else self.pointwise(way, operands, spec.shape)  # type: ignore[arg-type]
                values, kind = array.elements(self.code), array.kind
            self.arrays[slot] = Held(spec.shape, kind, values)
            self.ready.add(slot)

    def _reduced(self, way: Reduction, array: Array) -> list[Value]:
        """Return the elements of a reduction of a small array."""
        code = self.code
        sums: dict[tuple[int, ...], Value] = {}
        for index in itertools.product(*map(range, array.shape)):
            key = tuple([i for axis, i in enumerate(index) if axis not in way.axes])
            value = code.cast(array.at(code, index), way.kind)
            sums[key] = combined(way.how, sums[key], value) if key in sums else value
        return list(sums.values())

    def small_ones_before(self, slots: Sequence[int]) -> list[int]:
        """Return the small arrays among `slots` and their dependencies through formulas, in order."""
        plan, found, pending = self.plan, set(), list(slots)
        while pending:
            slot = pending.pop()
            if slot in found or self.is_ready(slot) or not (slot in plan.tiny or plan.is_formula(slot)):
                continue
            found.add(slot)
            pending += inputs_of(plan.equation(slot))
        return sorted((s for s in found if s in plan.tiny), key=lambda s: (plan.maker[s], s))

    def run(self, units: Sequence[Any]) -> None:
        """Write units of the plan, in order."""
        self._place(units)
        for unit in units:
            if isinstance(unit, Loops):
                self._loops(unit)
            else:
                self._own(unit)

    def _place(self, units: Sequence[Any]) -> None:
        """Find arrays that are computed in the memory of their reader's result.

        Such an array is copied into a part of the result by its only reader, or its last reader changes some elements.
        """
        plan, specs = self.plan, self.plan.expressions.specs
        made, made_whole, pieces = set[int](), set[int](), []
        for unit in units:
            if isinstance(unit, Loops):
                made.update(unit.stored)
                made_whole.update(unit.stored)
                continue
            way, [whole, *_] = plan.way(unit.outputs[0]), unit.outputs
            assert isinstance(way, Own)
            base = unit.inputs[0] if way.updates else None
            if base in made_whole and base not in self.targets and plan.in_place.get(base) == whole:
                self.placed[base] = whole, None
            made_whole.update(unit.outputs)
            for source, part in zip(unit.inputs, way.parts, strict=False):
                if part is None or source not in made or source in self.targets or specs[source].dtype != specs[whole].dtype:
                    continue
                alone = plan.readers[source].count(plan.maker[whole]) == len(plan.readers[source]) == 1
                if plan.written_early.get(source) == whole if way.updates else alone:
                    pieces.append((source, (whole, part)))
            if way.gaps:
                made.update(unit.outputs)
        self.placed.update(pieces)

    def _loops(self, unit: Loops) -> None:
        self.hold(self.plan.read_by(unit))
        out = {slot: self.memory(slot) for slot in (*unit.stored, *unit.reduced)}
        code = Code(fused=self.code.fused, outer=self.code)
        nest = Nest(self, unit, out, code)
        nest.write()
        self.module.call(self.code, code)
        self._done(out)

    def _own(self, equation: Equation) -> None:
        way = self.plan.way(equation.outputs[0])
        assert isinstance(way, Own)
        self.hold(inputs_of(equation))
        operands = [self.array(s) for s in equation.inputs]
        out = {slot: self.memory(slot) for slot in equation.outputs}
        way.write(self, operands, list(out.values()))
        if way.updates:
            for memory in out.values():
                self.code.forget(memory.pointer)
        self._done(out)

    def _done(self, out: dict[int, Memory]) -> None:
        """Mark slots as available in memory."""
        for slot, memory in out.items():
            self.arrays[slot] = memory
            self.ready.add(slot)
            if math.prod(memory.shape) <= self.plan.most:
                self.arrays[slot] = Held(memory.shape, memory.kind, memory.elements(self.code))
        self.views.clear()

    def memory(self, slot: int) -> Memory:
        """Return the memory for a slot that is about to be computed."""
        chain, part = [], None
        while slot not in self.targets and part is None:
            chain.append(slot)
            if slot not in self.placed:
                spec = self.plan.expressions.specs[slot]
                self.targets[slot] = self.buffer(spec.shape, KINDS[spec.dtype])
            else:
                slot, part = self.placed[slot]
        known = self.targets[slot] if part is None else self.memory(slot).part(part)
        self.targets.update(dict.fromkeys(chain, known))
        return known

    def buffer(self, shape: tuple[int, ...], kind: str) -> Memory:
        """Return a new buffer, on the stack or in memory of the caller."""
        size = math.prod(shape)
        room = size * SIZES[kind]
        if self.module.workspace is None or (room <= STACK and self.code.reserved + room <= WHOLE_STACK):
            self.code.reserved += room
            return Memory(shape, kind, self.code.allocate(kind, size))
        return Memory(shape, kind, self.module.workspace(room))

    def copy(self, array: Array, target: Memory) -> None:
        """Copy the elements of an array to memory."""
        if math.prod(target.shape) <= self.plan.most:
            for index in itertools.product(*map(range, target.shape)):
                target.put(self.code, index, array.at(self.code, index))
            return
        code = Code(fused=self.code.fused, outer=self.code)
        order = sorted(range(len(target.shape)), key=lambda axis: -abs(target.strides[axis]))  # in memory order

        def level(index: dict[int, Index]) -> None:
            if len(index) == len(order):
                whole = [index[axis] for axis in range(len(order))]
                target.put(code, whole, code.cast(array.at(code, whole), target.kind))
                return
            axis = order[len(index)]
            with code.loop(0, target.shape[axis], straight=len(index) + 1 == len(order)) as i:
                level({**index, axis: i})

        level({})
        self.module.call(self.code, code)

    def inline(self, expressions: Expressions, operands: Sequence[Array], targets: Sequence[Memory | None]) -> list[Array]:
        """Write another list into this function: the body of a loop, or a branch.

        Args:
            expressions: the list. All of its equations are native.
            operands: the inputs of the list.
            targets: the memory of the outputs. It is not used for outputs that are small, inputs or constants.

        Returns:
            The outputs of the list.
        """
        plan = self.module.plan_of(expressions)
        own = {
            s: target
            for s, target in zip(expressions.outputs, targets, strict=True)
            if type(s) is int and target is not None and s in plan.maker and s not in plan.tiny
        }
        inner = Writer(plan, self.code, self.module, operands, own, None)
        inner.run(plan.units)
        inner.hold([s for s in expressions.outputs if type(s) is int])
        return [inner.array(s) for s in expressions.outputs]
