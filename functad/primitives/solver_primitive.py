"""Primitives of any number of arrays with one rule for each mode, which sees all of them: solvers and control flow.

Each is made once. The call of a function with rules of the user is a primitive made for this call: `functad.rules.call`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functad.primitives.batching import Batch, one_by_one
from functad.primitives.entry import Primitive, Rule, names_read
from functad.primitives.plan import Plan, Plans


class SolverPrimitive(Primitive):
    """A primitive of any number of arrays that gives a tuple.

    Its VJP rule `pull(gs, ...)` returns the cotangents of all arrays, or, if it is `pull(gs, active, ...)`, of those at the
    positions `active` at least: what the others cost, such as a differential equation, is spared. Its JVP rule
    `push(ts, ..., arrays, ...)` is given the tangents of all arrays, `None` for zero, for only some of them may be
    differentiated. Without a batching rule it is computed for one example at a time, for solvers take steps of their own for
    each.
    """

    def __init__(
        self,
        function: Any,
        *,
        name: str,
        compute: Callable[..., Any],
        pull: Rule,
        push: Rule,
        spec: Callable[..., Any],
        doc: str,
        batch: Batch = one_by_one,
        **traits: Any,
    ) -> None:
        super().__init__(
            function,
            name=name,
            kind="general",
            names=(),
            compute=compute,
            vjps=(pull,),
            joint=True,
            spec=spec,
            multiple=True,
            doc=doc,
            samples=None,
            registered=False,
            forward_plans=_ForwardPlans(self, push),
            batch=batch,
            **traits,
        )

    def reverse_plan(self, active: tuple[int, ...]) -> Plan:
        """Return the plan for pulling cotangents back to the arrays at the positions `active`."""
        rule: Any = self.vjps[0]
        names = names_read(rule)
        if "active" not in names:
            return super().reverse_plan(active)
        if active not in self.reverse_plans:
            of_these = lambda gs, *saved: rule(gs, active, *saved)  # noqa: E731
            self.reverse_plans[active] = Plan(self, active, (of_these,), [names[1:]], joint=True)
        plan: Plan = self.reverse_plans[active]
        return plan


class _ForwardPlans(Plans):
    """The plans of a primitive for pushing tangents forward, made when they are asked for."""

    def __init__(self, primitive: Primitive, push: Rule) -> None:
        super().__init__()
        self.primitive = primitive
        self.push = push

    def __contains__(self, active: object) -> bool:
        return True

    def __missing__(self, active: tuple[int, ...]) -> Plan:
        push, names = self.push, names_read(self.push)
        place = names.index("arrays")

        def by_position(ts: Sequence[Any], *saved: Any) -> Any:
            given = dict(zip(active, ts, strict=True))
            return push([given.get(i) for i in range(len(saved[place]))], *saved)

        plan = self[active] = Plan(self.primitive, active, (by_position,), [names], joint=True, forward=True)
        return plan
