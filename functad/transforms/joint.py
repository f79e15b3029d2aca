"""Primitives of solvers: of any number of arrays, with one rule for each mode, and computed for one example at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec, dtype_of, shape_of
from functad.primitives.primitive import Plan, Primitive, Rule, names_read


class JointPrimitive(Primitive):
    """A primitive of any number of arrays that gives a tuple.

    Its VJP rule `pull(gs, ...)` returns the cotangents of all arrays. Its JVP rule `push(ts, ...)` is given the tangents by
    position, a dict without those that are zero, for only some arrays may be differentiated.
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
        )
        self.forward_plans = _ForwardPlans(self, push)
        self.batch = example_by_example


class _ForwardPlans(dict[tuple[int, ...], Plan]):
    """The plans of a primitive for pushing tangents forward, made when they are asked for."""

    def __init__(self, primitive: Primitive, push: Rule) -> None:
        super().__init__()
        self.primitive = primitive
        self.push = push

    def __contains__(self, active: object) -> bool:
        return True

    def __missing__(self, active: tuple[int, ...]) -> Plan:
        push = self.push

        def by_position(ts: Sequence[Any], *saved: Any) -> Any:
            return push({i: t for i, t in zip(active, ts, strict=True) if t is not None}, *saved)

        plan = self[active] = Plan(self.primitive, active, (by_position,), [names_read(push)], joint=True)
        return plan


def example_by_example(
    primitive: Primitive, size: int, values: Sequence[Any], batched: Sequence[bool], params: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Call a primitive that gives a tuple for one example of a batch after the other: solvers take steps of their own for each.

    Args:
        primitive: the primitive.
        size: the number of examples.
        values: the arrays.
        batched: whether they have a batch axis in front.
        params: the parameters.
    """
    rows = [primitive(*[v[i] if b else v for v, b in zip(values, batched, strict=True)], **params) for i in range(size)]
    if not rows:
        given = [ArraySpec(shape_of(v)[b:], dtype_of(v)) for v, b in zip(values, batched, strict=True)]
        return tuple([np.zeros((0, *spec.shape), spec.dtype) for spec in primitive.spec(*given, **params)])
    return tuple([np.stack(column) for column in zip(*rows, strict=True)])
