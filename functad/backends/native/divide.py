"""The division of an expression list into native functions and NumPy equations, including inner lists."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from functad.backends.native.module_text import ModuleText
from functad.backends.native.plan import Loops, Plan
from functad.backends.native.step import Step
from functad.expressions.expressions import Equation, Expressions
from functad.expressions.records import inputs_of

SHARED = 200_000.0
"""Loops of at least this cost, in additions, run on several threads."""


class Divided:
    """An expression list, divided into native functions and equations for NumPy.

    Args:
        expressions: the list.
        module: the module of the native functions.
        steps: the steps of all lists of the program. New steps are appended.
        checked: the slots of results that native functions check for NaN.
        overwritten: maps slots of results to inputs. A result is written into the memory of its input.

    Attributes:
        order: the native functions and the equations for NumPy, in the order in which they run.
    """

    def __init__(
        self,
        expressions: Expressions,
        module: ModuleText,
        steps: list[Step],
        checked: Collection[int] = (),
        overwritten: Mapping[int, int] | None = None,
    ) -> None:
        self.plan = Plan(expressions, outermost=True)
        self.module = module
        self.steps = steps
        self.order: list[Step | Equation] = []
        self._divide()
        self._write(checked, overwritten or {})
        self._lists = {n: self._lists_of(item) for n, item in enumerate(self.order) if isinstance(item, Equation)}

    def _lists_of(self, equation: Equation) -> dict[str, Any]:
        """Divide the inner lists of an equation for NumPy."""
        if not equation.primitive.lists or not equation.params.get("length", 1):
            return {}

        def divided(value: Any) -> Any:
            if isinstance(value, Expressions):
                return Divided(value, self.module, self.steps)
            return tuple(map(divided, value)) if isinstance(value, tuple) else value

        return {key: divided(value) for key, value in equation.params.items()}

    def inner_lists(self, number: int) -> list[Divided]:
        """Return the inner lists of the item of `order` with a number."""
        found = [part for value in self._lists[number].values() for part in (value if type(value) is tuple else (value,))]
        return [part for part in found if isinstance(part, Divided)]

    def listed(self, call: Callable[[Step], Equation]) -> Expressions:
        """Return the expression list with the equation `call(step)` for each native function."""

        def whole(value: Any) -> Any:
            if isinstance(value, Divided):
                return value.listed(call)
            return tuple(map(whole, value)) if isinstance(value, tuple) else value

        made = []
        for number, item in enumerate(self.order):
            if isinstance(item, Step):
                made.append(call(item))
            elif self._lists[number]:
                params = {key: whole(value) for key, value in self._lists[number].items()}
                made.append(Equation(item.primitive, item.inputs, params, item.outputs))
            else:
                made.append(item)
        return self.plan.expressions.replace(equations=tuple(made))

    def _divide(self) -> None:
        """Divide the units into steps: native functions, loops for several threads, equations for NumPy."""
        plan, units, exported = self.plan, [], set()  # type: ignore[var-annotated]
        count = len(plan.expressions.inputs)

        def close(small: Sequence[int], parallel: bool = False) -> None:
            nonlocal units
            fresh = [s for s in dict.fromkeys(small) if s not in exported]
            if units or fresh:
                exported.update(fresh)
                step = Step(plan, self.module, len(self.steps) + 1, units, fresh, parallel)
                self.steps.append(step)
                self.order.append(step)
                units = []

        for unit in plan.units:
            if isinstance(unit, Equation) and plan.way(unit.outputs[0]) is None:
                close([s for s in inputs_of(unit) if s in plan.tiny])
                self.order.append(unit)
            elif isinstance(unit, Loops) and self._is_large(unit):
                close([])
                units = [unit]
                close([], parallel=True)
            else:
                units.append(unit)
        close([s for s in plan.expressions.outputs if type(s) is int and s >= count and s in plan.tiny])

    def _is_large(self, unit: Loops) -> bool:
        if self.module.alone or any(self.plan.is_split_in_order(s) for s in unit.reduced):
            return False
        cost = 1.0 + len(unit.stored) + len(unit.reduced)
        return float(np.prod(unit.domain, dtype=float)) * cost >= SHARED

    def _write(self, checked: Collection[int], overwritten: Mapping[int, int]) -> None:
        """Write all steps, last one first, because the slots that a step must return depend on the later steps."""
        plan = self.plan
        wanted = {s for s in plan.expressions.outputs if type(s) is int}
        given = set(range(len(plan.expressions.inputs)))
        fresh = []
        for item in self.order:
            made = item.makes() if isinstance(item, Step) else item.outputs
            fresh.append([slot for slot in made if slot not in given])
            given.update(made)
        for item, own in zip(reversed(self.order), reversed(fresh), strict=True):
            given.difference_update(own)
            if isinstance(item, Step):
                item.write(given, wanted, checked, overwritten)
                wanted.update(p.source for p in item.inputs if type(p.source) is int)
            else:
                wanted.update(inputs_of(item))
