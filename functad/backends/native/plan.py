"""The schedule of an expression list: stored values, values that are recomputed at each use, and fused loops.

Stages order the work. The readers of a reduction belong to a later stage. Within a stage, all operations over the same shape
are fused into one loop. A value that several loops need is stored if computing it takes longer than reading it; otherwise each
loop recomputes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, islice
from typing import Any

from functad.backends.integer_ranges import INT32, holds_lists, is_python_integer, large_equations
from functad.backends.native.arrays import Array, Memory
from functad.backends.native.lowering import Lowered, Own, Pointwise, Reduction, View, is_ufunc, lowered
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.records import inputs_of
from functad.expressions.spec import ArraySpec
from functad.loops.build import Code
from functad.loops.values import Value

TINY = 4
"""Arrays of up to this many elements are values of a function of machine code, one per element."""

FEW = 8
"""Joined arrays of up to this many elements are selected from their pieces where they are read."""

CHEAP = 10.0
"""Values of up to this cost, in additions, are recomputed and not stored."""

LONGEST = 1_200
"""Loops with more operations are split: the compile time of a loop grows with the square of its length."""

STAGE = 1 << 16
"""Stage numbers are multiples of this; the pieces of a split loop have consecutive numbers from there."""

MOST_READERS = 64
"""The number of readers of a formula that are followed to its operands: each view of a view doubles their number."""

NEAR = 64
"""A loop may write a value early into an array that one of so many later units changes."""

NOWHERE = Value(Code(fused=False), "", "ptr")
"""The address of an array of which only the strides matter."""

Domain = tuple[int, ...]


@dataclass
class Loops:
    """One fused loop over the elements of a shape.

    Attributes:
        stage: the stage in which the loop runs.
        domain: the shape, without axes of length 1.
        stored: the slots that the loop writes elementwise.
        reduced: the slots of reductions that the loop computes.
    """

    stage: int
    domain: Domain
    stored: list[int] = field(default_factory=list)
    reduced: list[int] = field(default_factory=list)


class Plan:
    """The schedule of an expression list.

    Arithmetic between Python integers is unbounded, so Python does it outside of control flow. A native loop or branch uses
    int64 for Python integers; Python runs a loop or a branch in which they may not fit.

    Attributes:
        expressions: the list.
        most: arrays of up to this many elements are values of the function, one per element.
        ways: the method of each equation; `None` if NumPy computes it.
        maker: the number of the equation that defines a slot.
        tiny: the slots held as values of the function.
        stored: the slots that loops write to memory.
        stages: for each slot, the first stage that can use it.
        units: the loops, and the equations with own code or for NumPy, in the order in which they run.
        large: the numbers of the control-flow equations that Python runs because Python integers may not fit int64.
    """

    def __init__(self, expressions: Expressions, outermost: bool = False, most: int = TINY) -> None:
        self.expressions, self.most = expressions, most
        self.large = _large_loops(expressions) if outermost else set()
        self.ways: list[Lowered | None] = [
            None if outermost and (n in self.large or _makes_python_integers(e, expressions)) else lowered(e, expressions)
            for n, e in enumerate(expressions.equations)
        ]
        self.maker = {s: n for n, e in enumerate(expressions.equations) for s in e.outputs}
        self.readers: dict[int, list[int]] = defaultdict(list)
        for number, equation in enumerate(expressions.equations):
            for slot in inputs_of(equation):
                self.readers[slot].append(number)
        self._costs: dict[int, float] = {}
        self._cuts: dict[int, int] = {}
        self.tiny = {s for s in self.maker if self._is_tiny(s)}
        self.stored = self._needed_in_memory()
        self._find_stages()
        for _ in range(4):
            more = self._worth_keeping()
            if not more:
                break
            self.stored |= more
            self._find_stages()
        self._cut_long_loops()
        self.units = self._units()

    def way(self, slot: int) -> Lowered | None:
        """Return the method of a slot; `None` for inputs and slots that NumPy computes."""
        number = self.maker.get(slot)
        return None if number is None else self.ways[number]

    def equation(self, slot: int) -> Equation:
        """Return the equation that defines a slot."""
        return self.expressions.equations[self.maker[slot]]

    def is_formula(self, slot: int) -> bool:
        """Return `True` if the elements of a slot are computed at each use, unless the slot is stored."""
        return slot not in self.tiny and isinstance(self.way(slot), (Pointwise, View))

    def is_split(self, slot: int) -> bool:
        """Return `True` if a slot reduces the first axis of its loop, so that threads need partial results."""
        way = self.way(slot)
        if not isinstance(way, Reduction):
            return False
        shape = self.expressions.specs[inputs_of(self.equation(slot))[0]].shape
        return next(i for i, n in enumerate(shape) if n != 1) in way.axes

    def is_split_in_order(self, slot: int) -> bool:
        """Return `True` if the order of a split reduction matters, so that threads cannot share it."""
        way = self.way(slot)
        return isinstance(way, Reduction) and way.is_ordered and self.is_split(slot)

    def _is_tiny(self, slot: int) -> bool:
        way = self.way(slot)
        size = self.expressions.specs[slot].size
        if isinstance(way, Reduction):
            [source] = self.equation(slot).inputs
            return not isinstance(source, Constant) and self.expressions.specs[source].size <= self.most
        return isinstance(way, (Pointwise, View)) and size <= self.most

    def _needed_in_memory(self) -> set[int]:
        """Return the formulas that must be in memory for outputs, own code and NumPy."""
        found = {s for s in self.expressions.outputs if type(s) is int and self.is_formula(s)}
        for equation, way in zip(self.expressions.equations, self.ways, strict=True):
            for i, source in enumerate(equation.inputs):
                if type(source) is not int or not self.is_formula(source):
                    continue
                if way is None or (isinstance(way, Own) and (way.stored if isinstance(way.stored, bool) else way.stored[i])):
                    found |= self._viewed(source) if way is not None and way.views else {source}
        return found | self._broadcast_at_cost(found)

    def _viewed(self, slot: int) -> set[int]:
        """Return the non-view formulas at the origin of a chain of views."""
        found, pending = set(), [slot]
        while pending:
            slot = pending.pop()
            if isinstance(self.way(slot), View) and self.is_formula(slot):
                pending += inputs_of(self.equation(slot))
            elif self.is_formula(slot):
                found.add(slot)
        return found

    def _broadcast_at_cost(self, stored: Collection[int]) -> set[int]:
        """Return `stored` and the costly formulas that larger formulas read repeatedly."""
        specs, found = self.expressions.specs, set(stored)
        for slot in self.maker:
            if not self.is_formula(slot) or slot in found or self._cost(slot, found) < 4.0:
                continue
            for number in self.readers[slot]:
                out = self.expressions.equations[number].outputs[0]
                if isinstance(self.ways[number], (Pointwise, View)) and specs[out].size > specs[slot].size:
                    found.add(slot)
        return found

    def _cost(self, slot: int, stored: Collection[int]) -> float:
        """Return the cost of an element, in additions, given the slots in memory."""
        way = self.way(slot)
        own = way.cost if isinstance(way, (Pointwise, View)) else 0.0
        for source in inputs_of(self.equation(slot)):
            own += self._costs.get(source, 1.0) if self.is_formula(source) and source not in stored else 1.0
        self._costs[slot] = own
        return own

    def _find_stages(self) -> None:
        """Find the stage that computes each slot (`home`) and the first stage that can use it (`stages`)."""
        specs = self.expressions.specs
        self.stages: dict[int, int] = dict.fromkeys(range(len(self.expressions.inputs)), 0)
        self.home: dict[int, int] = {}
        for equation, way in zip(self.expressions.equations, self.ways, strict=True):
            stage = 0
            for source in inputs_of(equation):
                ready = self.stages[source]
                if isinstance(way, Reduction) and source in self._cuts:
                    ready = max(ready, self.home[source])
                if source in self.stored and (
                    not isinstance(way, (Pointwise, Reduction))
                    or (isinstance(way, Pointwise) and specs[equation.outputs[0]].size != specs[source].size)
                ):
                    ready = (self.home[source] // STAGE + 1) * STAGE
                stage = max(stage, ready)
            for slot in equation.outputs:
                later = (isinstance(way, (Reduction, Own)) or way is None) and slot not in self.tiny
                self.home[slot] = stage = max(stage, stage // STAGE * STAGE + self._cuts.get(slot, 0))
                self.stages[slot] = (stage // STAGE + 1) * STAGE if later else stage

    def domain(self, slot: int) -> Domain:
        """Return the shape of the loops that compute a slot, without axes of length 1."""
        way = self.way(slot)
        source = self.equation(slot).inputs[0] if isinstance(way, Reduction) else slot
        shape = self.expressions.specs[source].shape if type(source) is int else ()
        return tuple([n for n in shape if n != 1])

    def _worth_keeping(self) -> set[int]:
        """Return the formulas that are used repeatedly and cost more to recompute than to read.

        A loop computes an element once directly, and once more for each view through which the loop reads it.
        """
        specs = self.expressions.specs
        wanted: dict[int, dict[Any, int]] = defaultdict(dict)
        for number in reversed(range(len(self.expressions.equations))):
            equation, way = self.expressions.equations[number], self.ways[number]
            slot = equation.outputs[0]
            if isinstance(way, Reduction) or slot in self.stored:
                loops: set[Any] = {(self.home[slot], self.domain(slot))}
            elif self.is_formula(slot):
                loops = set(islice(wanted[slot], MOST_READERS))
            elif slot in self.tiny:
                continue
            else:
                loops = {number}
            for source in inputs_of(equation):
                if self.is_formula(source) and source not in self.stored:
                    moved = isinstance(way, View) and not (way.same and self.domain(source) == self.domain(slot))
                    read = specs[slot].size if moved else specs[source].size
                    for loop in loops:
                        key = (loop, slot) if moved else loop
                        wanted[source][key] = min(read, wanted[slot].get(loop, read))
        self._costs.clear()
        found: set[int] = set()
        for slot in self.maker:
            if self.is_formula(slot) and slot not in self.stored:
                cost = self._cost(slot, self.stored | found)
                if cost > CHEAP and sum(wanted[slot].values()) > specs[slot].size:
                    found.add(slot)
        return found

    def _cut_long_loops(self) -> None:
        """Split very long loops where few values are alive; store values that are not cheap and are read behind a split."""
        loops: dict[tuple[int, Domain], list[int]] = defaultdict(list)
        for slot in self.maker:
            if self.is_formula(slot) and isinstance(self.way(slot), Pointwise):
                loops[self.home[slot], self.domain(slot)].append(slot)
        if max(map(len, loops.values()), default=0) <= LONGEST:
            return
        for slots in loops.values():
            pieces = self._pieces(slots)
            self._cuts.update((slot, number) for number, piece in enumerate(pieces) for slot in piece)
        self._costs.clear()
        for slot, own in self._cuts.items():
            cost = self._cost(slot, self.stored)
            if cost > 2.0 and any(self._cuts.get(out, own) > own for n in self.readers[slot] for out in self._outputs(n)):
                self.stored.add(slot)
        self._find_stages()

    def _pieces(self, slots: list[int]) -> list[list[int]]:
        """Divide the operations of a loop into pieces of at most `LONGEST`, so that few values pass from piece to piece."""
        slots = self._with_late_values(slots)
        place = {slot: n for n, slot in enumerate(slots)}
        alive = [0] * len(slots)  # first the changes from place to place, then the values that are alive behind each place
        for slot, n in place.items():
            last = max((place.get(out, n) for reader in self.readers[slot] for out in self._outputs(reader)), default=n)
            alive[n] += 1
            alive[last] -= 1
        alive = list(accumulate(alive))
        found, start = [], 0
        while len(slots) - start > LONGEST:
            end = min(range(start + LONGEST // 2, start + LONGEST), key=alive.__getitem__) + 1
            found.append(slots[start:end])
            start = end
        return [*found, slots[start:]]

    def _with_late_values(self, slots: list[int]) -> list[int]:
        """Return slots in an order in which a value that is used much later is computed shortly before its first use.

        In the order of a trace, the backward pass of a formula follows the whole forward pass, whose values stay alive.
        """
        readers = defaultdict(list)
        place = {slot: n for n, slot in enumerate(slots)}
        for slot in slots:
            for source in inputs_of(self.equation(slot)):
                readers[source].append(slot)
        late: dict[int, int] = {}
        for slot in reversed(slots):
            first = min((late[reader] for reader in readers[slot]), default=place[slot])
            late[slot] = first if first - place[slot] > LONGEST // 4 else place[slot]
        return sorted(slots, key=lambda slot: (late[slot], place[slot]))

    @cached_property
    def _writes(self) -> list[tuple[int, Equation]]:
        """The numbers of the units that change elements of their first operand, and their equations."""
        found = [(n, unit) for n, unit in enumerate(self.units) if not isinstance(unit, Loops)]
        return [(n, e) for n, e in found if isinstance(way := self.way(e.outputs[0]), Own) and way.updates]

    @cached_property
    def _reads(self) -> list[set[int]]:
        """The arrays in memory that each unit reads; the last set is read after all units."""
        held: set[int] = set()
        found = [self._read(self.read_by(unit), held) for unit in self.units]
        return [*found, self._read([s for s in (*self.tiny, *self.expressions.outputs) if type(s) is int], held)]

    @cached_property
    def _last(self) -> dict[int, int]:
        """The number of the last unit that reads an array in memory."""
        return {slot: number for number, read in enumerate(self._reads) for slot in read}

    @cached_property
    def in_place(self) -> dict[int, int]:
        """Maps arrays to results that may be computed in their memory, because no later unit reads the array."""
        found = {}
        for number, unit in self._writes:
            source: Any = unit.inputs[0]
            [result] = unit.outputs
            alone = self._last.get(source) == number and unit.inputs.count(source) == 1
            if alone and self._spec(source).dtype == self._spec(result).dtype:
                found[source] = result
        return found

    @cached_property
    def written_early(self) -> dict[int, int]:
        """Maps values to the array with them that a later unit makes, if the loop that computes them may write them there."""
        homes: dict[Any, int] = {s: n for n, unit in enumerate(self.units) if isinstance(unit, Loops) for s in unit.stored}
        changed: dict[Any, int] = {e.inputs[0]: n for n, e in self._writes if e.inputs[0] in self.in_place}
        memory: dict[int, int] = {}  # arrays that share memory, by the first of them
        found: dict[int, int] = {}
        for number, equation in self._writes:
            [result], way = equation.outputs, self.way(equation.outputs[0])
            assert isinstance(way, Own)
            base: Any = equation.inputs[0]
            own = memory[result] = memory.get(base, base) if self.in_place.get(base) == result else result
            for source, part in zip(equation.inputs, way.parts, strict=False):
                home = homes.get(source)
                if part is None or home is None or type(source) is not int or source in found:
                    continue
                spec, target = self._spec(source), Memory(self._spec(result).shape, "", NOWHERE).part(part)
                alike = (spec.shape, spec.dtype) == (target.shape, self._spec(result).dtype)
                alike = alike and equation.inputs.count(source) == 1
                if not alike or number - home > NEAR or self._last[source] >= changed.get(result, len(self.units)):
                    continue
                if all(memory.get(slot, slot) != own for n in range(home + 1, number) for slot in self._touched(n)):
                    read = {slot for slot in self._reads[home] if memory.get(slot, slot) == own}
                    if not read or self._reads_alike(self.units[home], read, target):
                        found[source] = result
        return found

    def _touched(self, number: int) -> set[int]:
        """Return the arrays in memory that a unit reads or writes."""
        unit = self.units[number]
        return self._reads[number].union((*unit.stored, *unit.reduced) if isinstance(unit, Loops) else unit.outputs)

    def _reads_alike(self, unit: Loops, arrays: Collection[int], target: Memory) -> bool:
        """Return `True` if an iteration of a loop reads, of some arrays, at most the element that it writes to `target`."""
        views: dict[int, Array] = {slot: Memory(self._spec(slot).shape, "", NOWHERE) for slot in arrays}
        formulas, roots = self._formulas_of(unit)
        computed: set[int] = set()  # formulas of the arrays
        for slot in formulas:
            way, sources = self.way(slot), inputs_of(self.equation(slot))
            read, later = [views[s] for s in sources if s in views], not computed.isdisjoint(sources)
            if isinstance(way, View):
                if later or (read and len(read) != len(self.equation(slot).inputs)):
                    return False
                if read:
                    views[slot] = way.make(read)
                continue
            assert isinstance(way, Pointwise)
            if not all(_is_same(array, target) for array in read):
                return False
            if read or later:
                computed.add(slot)
                if self._spec(slot).shape != target.shape:
                    return False
        return all(_is_same(views[root], target) for root in roots if root in views)

    def _formulas_of(self, unit: Loops) -> tuple[list[int], list[Any]]:
        """Return the formulas that a loop computes, in order, and the sources of its results."""
        roots = [*unit.stored, *[self.equation(slot).inputs[0] for slot in unit.reduced]]
        found, pending = set[int](), [s for s in roots if type(s) is int]
        while pending:
            slot = pending.pop()
            if slot not in found and self.is_formula(slot) and (slot in unit.stored or slot not in self.stored):
                found.add(slot)
                pending += inputs_of(self.equation(slot))
        return sorted(found, key=self.maker.__getitem__), roots

    def _read(self, slots: Sequence[int], held: set[int]) -> set[int]:
        """Return the arrays in memory from which slots are computed. Small arrays are computed once, and then are `held`."""
        found, seen, pending = set[int](), set[int](), list(slots)
        while pending:
            slot = pending.pop()
            if slot in seen or slot in held:
                continue
            seen.add(slot)
            if slot in self.tiny:
                held.add(slot)
            if slot in self.tiny or (self.is_formula(slot) and slot not in self.stored):
                pending += inputs_of(self.equation(slot))
            else:
                found.add(slot)
        return found

    def read_by(self, unit: Any) -> list[int]:
        """Return the slots that the equations of a unit read."""
        if isinstance(unit, Loops):
            return [s for slot in (*unit.stored, *unit.reduced) for s in inputs_of(self.equation(slot))]
        return list(inputs_of(unit))

    def _spec(self, slot: int) -> ArraySpec:
        return self.expressions.specs[slot]

    def _outputs(self, number: int) -> tuple[int, ...]:
        return self.expressions.equations[number].outputs

    def _units(self) -> list[Any]:
        """Return the loops and the other equations, in the order in which they run."""
        loops: dict[tuple[int, Domain], Loops] = {}
        found: list[tuple[int, int, Any]] = []
        for number, (equation, way) in enumerate(zip(self.expressions.equations, self.ways, strict=True)):
            slot = equation.outputs[0]
            if slot in self.tiny:
                continue
            if way is None or isinstance(way, Own):
                found.append((self.home[slot], number, equation))
            elif isinstance(way, Reduction) or slot in self.stored:
                key = self.home[slot], self.domain(slot)
                if key not in loops:
                    loops[key] = Loops(*key)
                    found.append((key[0], number, loops[key]))
                (loops[key].reduced if isinstance(way, Reduction) else loops[key].stored).append(slot)
        found.sort(key=lambda each: each[:2])
        return [unit for _, _, unit in found]


def _is_same(array: Array, other: Memory) -> bool:
    """Return `True` if an array has the elements of another at the same indices, both in the same memory."""
    if not isinstance(array, Memory):
        return False
    return (array.shape, array.strides, array.offset) == (other.shape, other.strides, other.offset)


def _large_loops(expressions: Expressions) -> set[int]:
    """Return the numbers of the loops and branches in which a Python integer may exceed int64.

    Native functions reject Python integers beyond int32 as arguments (`functad.backends.native.step.LARGE`).
    """
    holding = [n for n, e in enumerate(expressions.equations) if holds_lists(e)]
    if not holding:
        return set()
    given = [INT32 if is_python_integer(spec) else None for spec in expressions.specs[: len(expressions.inputs)]]
    return set(large_equations(expressions, given)).intersection(holding)


def _makes_python_integers(equation: Equation, expressions: Expressions) -> bool:
    """Return `True` if an equation is a ufunc with a Python integer as its result."""
    if not is_ufunc(equation.primitive):
        return False
    results = [expressions.specs[slot] for slot in equation.outputs]
    return all(spec.weak and spec.dtype.kind == "i" for spec in results)


def is_native(expressions: Expressions) -> bool:
    """Return `True` if native code supports every equation of a list, inner lists included."""
    return all(lowered(e, expressions) is not None for e in expressions.equations)
