"""Primitives of any number of arrays with one joint rule for each mode: solvers and control flow.

Each is created once. For calls of functions with user rules, `functad.rules.call` creates a primitive per call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functad.primitives.batching import Batch, one_by_one
from functad.primitives.entry import Primitive, Rule, names_read
from functad.primitives.plan import Plan


class SolverPrimitive(Primitive):
    """A primitive of any number of arrays that returns a tuple.

    Its VJP rule `pull(gs, ...)` returns the cotangents of all arrays. A rule `pull(gs, active, ...)` may compute only the
    cotangents at the positions `active`, to save work such as a differential equation. Its JVP rule `push(ts, ..., arrays,
    ...)` receives the tangents of all arrays, with `None` for zero. Without a batching rule, each example is computed
    separately, because solvers choose their own steps for each example.
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
            jvps=(push,),
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

    def forward_plan(self, active: tuple[int, ...]) -> Plan:
        """Return the plan for pushing forward tangents of the arrays at the positions `active`."""
        if active not in self.forward_plans:
            push: Any = self.jvps[0]  # type: ignore[index] # there is a rule
            names = names_read(push)
            place = names.index("arrays")

            def of_all(ts: Sequence[Any], *saved: Any) -> Any:
                given = dict(zip(active, ts, strict=True))
                return push([given.get(i) for i in range(len(saved[place]))], *saved)

            self.forward_plans[active] = Plan(self, active, (of_all,), [names], joint=True, forward=True)
        plan: Plan = self.forward_plans[active]
        return plan
