"""Rules for loops and branches with bodies that act row by row: each chunk runs its own loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functad.chunks.partition import NotByRowsError, Partition, body_by_rows, template
from functad.chunks.rules import Along, Call, Found, rule
from functad.control.branches import COND, SWITCH
from functad.control.loops import WHILE
from functad.control.scan import SCAN
from functad.expressions.expressions import Expressions


def first(one: Any, other: Any) -> Any:
    """Return the first of two equal parts, such as an iteration count."""
    return one


def _alongs(partition: Partition) -> list[Along | None]:
    return [getattr(v, "along", None) for v in partition.outputs]


def _settled(
    body: Expressions, carries: list[Along | None], others: Sequence[Along | None], rows: int
) -> tuple[Partition, list[Along | None]] | None:
    """Return the partition of a loop body and the cuts of its carries at their fixed point; `None` if there is none."""
    while True:
        found = body_by_rows(body, [*carries, *others], rows)
        if found is None:
            return None
        after = _alongs(found)[: len(carries)]
        if all(a is None or a == c for a, c in zip(after, carries, strict=True)):
            break
        if any(a is not None and c is not None and a != c for a, c in zip(after, carries, strict=True)):
            return None
        carries = [a or c for a, c in zip(after, carries, strict=True)]
    return (found, carries) if _fitted(found, carries) else None


def _fitted(body: Partition, outs: Sequence[Along | None]) -> bool:
    """Cut whole results of a body where `outs` requires it; return `False` if a result cannot be cut."""
    for i, (source, along) in enumerate(zip(body.outputs, outs, strict=False)):
        if along is not None and getattr(source, "along", None) is None:
            try:
                body.outputs[i] = body.cut(source, along)
            except NotByRowsError:
                return False
    return True


def _cuts(call: Call, carries: Sequence[Along | None]) -> dict[int, Along]:
    return {i: c for i, (c, own) in enumerate(zip(carries, call.alongs, strict=False)) if c is not None and own is None}


def _found(call: Call, outs: Sequence[Along | None], cuts: dict[int, Along], params: dict[str, Any]) -> Found | None:
    return Found(tuple(outs), cuts, params, combine=first) if any(outs) else None


@rule(SCAN)
def _scan(call: Call) -> Found | None:
    count, rows = call.params["carries"], call.params["rows"]
    xs = call.alongs[count : count + rows]
    if any(x is not None and x.axis == 0 for x in xs):
        return None
    each = [None if x is None else Along(x.axis - 1, x.factor) for x in xs]
    settled = _settled(call.params["body"], list(call.alongs[:count]), [*each, *call.alongs[count + rows :]], call.rows)
    if settled is None:
        return None
    body, carries = settled
    ys = [None if y is None else Along(y.axis + 1, y.factor) for y in _alongs(body)[count:]]
    own = template(body.inputs, body.outputs)
    return _found(call, [*carries, *ys], _cuts(call, carries), {"body": own})


@rule(WHILE)
def _while(call: Call) -> Found | None:
    """Apply the rule of while loops. The condition must be the same for all rows: a batched loop runs until all rows stop."""
    count = call.params["carries"]
    settled = _settled(call.params["body"], list(call.alongs[:count]), call.alongs[count:], call.rows)
    if settled is None:
        return None
    body, carries = settled
    cond = body_by_rows(call.params["cond"], [*carries, *call.alongs[count:]], call.rows)
    if cond is None or any(_alongs(cond)):
        return None
    lists = {"cond": template(cond.inputs, cond.outputs), "body": template(body.inputs, body.outputs)}
    return _found(call, carries, _cuts(call, carries), lists)


@rule(COND, SWITCH)
def _branches(call: Call) -> Found | None:
    if call.alongs[0] is not None:
        return None
    bodies = [body_by_rows(branch, call.alongs[1:], call.rows) for branch in call.params["branches"]]
    if None in bodies:
        return None
    outs = [next((a for a in each if a is not None), None) for each in zip(*map(_alongs, bodies), strict=True)]  # type: ignore[arg-type]
    if not all(body is not None and _fitted(body, outs) and _alongs(body) == outs for body in bodies):
        return None
    own = tuple([template(body.inputs, body.outputs) for body in bodies if body is not None])
    return _found(call, outs, {}, {"branches": own})
