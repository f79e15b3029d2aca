"""Donated arguments: native programs that write results into the memory of arguments.

A list with donated arguments becomes two programs. The first program computes everything that has no place in the memory of an
argument, and checks for NaN and errors. The second program is elementwise. It reads each element of a donated argument before
it writes the result with the same index, and nothing reads the argument later. So a call that fails, or that finds a NaN and
computes its results again, still has its arguments.

An argument is overwritten if it is a contiguous array that owns its memory and shares it with no other argument. Other
arguments are copied, and the copy is overwritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from functad.backends.careful import Again
from functad.backends.native.expand import expanded
from functad.backends.native.lowering import Lowered, Pointwise, lowered
from functad.backends.native.plan import CHEAP, Loops, Plan
from functad.backends.native.program import LlvmProgram
from functad.expressions.expressions import Equation, Expressions
from functad.expressions.records import inputs_of
from functad.expressions.spec import ArraySpec
from functad.primitives.entry import ENTRIES
from functad.tracing.trace import LIVE
from functad.transforms.lists import extract

_MAX: Any = ENTRIES[np.max]
SMALLEST = 262_144
"""Arrays of fewer bytes are not overwritten. The check of the arguments takes 3 us, which is the break-even point at 160 kB."""


class _FoundNaNError(Exception):
    """The first program found a NaN in a checked result."""


def native_program(
    expressions: Expressions, *, donated: Sequence[int] = (), again: Again | None = None, checked: Sequence[int] = ()
) -> LlvmProgram | InPlaceProgram:
    """Compile a list. The options are the ones of `LlvmProgram` and `InPlaceProgram`."""
    cut = Cut(expanded(expressions), donated, checked if again is not None else ()) if donated else None
    if cut is not None and cut.places:
        return InPlaceProgram(expressions, cut, again, checked)
    return LlvmProgram(expressions, again=again, checked=checked)


class Cut:
    """The division of a list into the two programs.

    Args:
        own: the list.
        donated: the positions of the donated inputs.
        checked: the positions of the results to check for NaN.

    Attributes:
        places: maps the slots of results to donated inputs. A result is written into the memory of its input.
        second: the equations of the second program, by the slots of their results.
    """

    def __init__(self, own: Expressions, donated: Sequence[int], checked: Sequence[int]) -> None:
        self.own = own
        self.checked = [own.outputs[i] for i in checked]
        self.maker: dict[int, tuple[Equation, Lowered | None]] = {e.outputs[0]: (e, None) for e in own.equations}
        self.places = self._places(donated)
        while self.places:
            self.second = self._second(list(self.places))
            bad = self._unsafe()
            if not bad:
                break
            self.places = {result: source for result, source in self.places.items() if source not in bad}

    def _way(self, slot: int) -> Lowered | None:
        """Return the method of the equation of a slot; `None` for inputs and equations of NumPy."""
        equation, way = self.maker.get(slot, (None, None))
        if equation is not None and way is None:
            way = lowered(equation, self.own) if len(equation.outputs) == 1 else None
            self.maker[slot] = equation, way
        return way

    def _places(self, donated: Sequence[int]) -> dict[int, int]:
        """Return results and the donated inputs of the same shape and dtype; first the inputs that a result depends on."""
        specs, outputs = self.own.specs, self.own.outputs
        results = [
            s for s in dict.fromkeys(outputs)
            if type(s) is int and s in self.maker and outputs.count(s) == 1 and isinstance(way := self._way(s), Pointwise)
            and not (s in self.checked and way.cost > CHEAP)
        ]  # fmt: skip
        reads = {s: {i for e in self._second([s]).values() for i in inputs_of(e)} for s in results}
        found: dict[int, int] = {}
        for depends in (True, False):
            for source in donated:
                spec = specs[source]
                if source in found.values() or spec.nbytes < SMALLEST:
                    continue
                alike = [s for s in results if s not in found and (specs[s].shape, specs[s].dtype) == (spec.shape, spec.dtype)]
                if alike := [s for s in alike if source in reads[s] or not depends]:
                    found[alike[0]] = source
        return found

    def _second(self, results: Sequence[int]) -> dict[int, Equation]:
        """Return the equations between the donated inputs and some results: elementwise functions over their shape.

        A costly value of a checked result is computed once, by the first program.
        """
        found: dict[int, Equation] = {}
        kept = {s for s in self.own.outputs if type(s) is int}.difference(results)
        pending = [(s, self.own.specs[s].shape) for s in results]
        while pending:
            slot, shape = pending.pop()
            way = self._way(slot)
            if slot in found or slot in kept or not isinstance(way, Pointwise) or self.own.specs[slot].shape != shape:
                continue
            if self.checked and way.cost > CHEAP and slot not in results:
                continue
            found[slot] = self.maker[slot][0]
            pending += [(s, shape) for s in inputs_of(found[slot])]
        return found

    def _unsafe(self) -> set[int]:
        """Return the donated inputs that cannot be overwritten."""
        sources, specs = set(self.places.values()), self.own.specs
        read = [(slot, s) for slot, e in self.second.items() for s in inputs_of(e) if s in sources]
        bad = {s for slot, s in read if specs[s].shape != specs[slot].shape}
        if bad:
            return bad
        inputs, second, places = self.second_list()
        plan = Plan(expanded(second), outermost=True)
        for place, number in places.items():
            result = plan.expressions.outputs[place]
            readers = [unit for unit in plan.units if number in plan._read(plan.read_by(unit), set())]
            if any(not isinstance(unit, Loops) or result not in unit.stored for unit in readers):
                bad.add(inputs[number])
        return bad

    def second_list(self) -> tuple[list[int], Expressions, dict[int, int]]:
        """Return the slots that the second program reads, its list, and the input for each of its results."""
        read = {s for e in self.second.values() for s in inputs_of(e)}.union(self.places.values())
        inputs = sorted(read.difference(self.second))
        second = extract(self.own, inputs, list(self.places), [f"x{s}" for s in inputs])
        return inputs, second, {i: inputs.index(source) for i, source in enumerate(self.places.values())}

    def first_list(self, kept: Sequence[int]) -> tuple[Expressions, list[int]]:
        """Return the list of the first program, and the positions of its results to check for NaN.

        Its results are the results without a place, then the slots `kept`, then the maxima of checked results with a place:
        a maximum is NaN if an element is.
        """
        own, specs, equations = self.own, list(self.own.specs), list(self.own.equations)
        rest = [s for s in own.outputs if s not in self.places]
        maxima = []
        for slot in (s for s in self.places if s in self.checked):
            maxima.append(len(specs))
            equations.append(Equation(_MAX, (slot,), {"axis": None, "keepdims": False}, (len(specs),)))
            specs.append(ArraySpec((), specs[slot].dtype))
        whole = own.replace(equations=tuple(equations), specs=tuple(specs))
        outputs = [*rest, *kept, *maxima]
        return extract(whole, outputs=outputs), [i for i, s in enumerate(outputs) if s in maxima or s in self.checked]


class InPlaceProgram:
    """An expression list as two native programs; the second one writes results into the memory of arguments.

    Args:
        expressions: the list.
        cut: its division.
        again: recomputes the results if one of the checked results contains NaN.
        checked: the positions of the results to check.

    Attributes:
        function: the program as a function of the leaves.
    """

    gives_numbers = False

    def __init__(self, expressions: Expressions, cut: Cut, again: Again | None, checked: Sequence[int]) -> None:
        count = len(expressions.inputs)
        self._expressions, self._options = expressions, {"again": again, "checked": checked}
        self._whole: LlvmProgram | None = None
        self._read, second, places = cut.second_list()
        kept = [s for s in self._read if s >= count]
        first, found = cut.first_list(kept)
        self._first = LlvmProgram(first, again=_found_nan, checked=found) if first.outputs else None  # type: ignore[arg-type]
        self._second = LlvmProgram(second, overwritten=places)
        self._run = self._second.function or (lambda *given: self._second(given))
        self._overwritten = [self._read[number] for number in places.values()]
        rest = len(first.outputs) - len(kept) - len([s for s in cut.places if s in cut.checked])
        self._kept = {slot: rest + i for i, slot in enumerate(kept)}
        numbers, results = iter(range(rest)), list(cut.places)
        self._order = [(1, results.index(s)) if s in cut.places else (0, next(numbers)) for s in cut.own.outputs]
        programs = [self._second] if self._first is None else [self._first, self._second]
        self.source = "\n\n# in the memory of arguments:\n".join([each.source for each in programs])
        self.nbytes = sum([each.nbytes for each in programs])
        self.stages = {name: "\n\n".join([each.stages[name] for each in programs]) for name in self._second.stages}

    def __call__(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """Return the output leaves for input leaves. Donated arguments may be overwritten."""
        return self.function(*leaves)

    def function(self, *leaves: Any) -> Sequence[Any]:
        """Return the output leaves for the input leaves. Donated arguments may be overwritten."""
        made: Sequence[Any] = ()
        if self._first is not None:
            try:
                made = self._first(leaves)
            except _FoundNaNError:
                if self._whole is None:
                    self._whole = LlvmProgram(self._expressions, **self._options)  # type: ignore[arg-type]
                return self._whole(leaves)
        given = [made[self._kept[s]] if s in self._kept else leaves[s] for s in self._read]
        for number, slot in enumerate(self._read):
            if slot in self._overwritten and not self._is_free(leaves, slot):
                given[number] = np.array(leaves[slot])
        written = self._run(*given)
        return tuple([written[i] if which else made[i] for which, i in self._order])

    def _is_free(self, leaves: Sequence[Any], slot: int) -> bool:
        """Return `True` if an argument may be overwritten."""
        own = leaves[slot]
        if LIVE or type(own) is not np.ndarray or not (own.flags.carray and own.flags.owndata and own.dtype.isnative):
            return False  # a running transform or tape may keep the array for its backward pass
        others = [*leaves[:slot], *leaves[slot + 1 :]]
        return not any(issubclass(type(other), np.ndarray) and np.may_share_memory(own, other) for other in others)


def _found_nan(outs: Sequence[Any], leaves: Sequence[Any]) -> NoReturn:
    raise _FoundNaNError
