"""Sets through what holds a function or a list of its own: loops, branches, checkpoints, calls with rules of the user's own.

A loop whose number of steps is known is followed step by step, and if a branch is chosen later all are followed. A loop that
ends by a condition is followed until nothing is added any more. A checkpoint is what it computes. Of a call with rules of its
own the rule says how its results depend on its arguments, whatever the function computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functad.control.branches import COND, SWITCH
from functad.control.equation import part
from functad.control.loops import WHILE
from functad.control.scan import SCAN
from functad.errors import FunctadError
from functad.expressions.expressions import evaluate
from functad.expressions.spec import ArraySpec, dtype_of, shape_of
from functad.primitives.entry import Primitive
from functad.primitives.operands import is_traced
from functad.rules.call import OneCall
from functad.rules.checkpoint import Segment
from functad.sparse.sets import Array
from functad.transforms.closed_lists import Closed

if TYPE_CHECKING:
    from functad.sparse.patterns import Dependence

_STEPS = 64
"""After so many steps of a loop that still add something, its results are taken to depend on all that goes into it."""


def opened(recorder: Dependence, primitive: Primitive, arrays: Sequence[Any], params: dict[str, Any]) -> Any:
    """Return the results of what holds a list, followed through the list; `NotImplemented` for anything else.

    Args:
        recorder: the trace that follows dependence.
        primitive: what is called.
        arrays: its arguments, Tensors of the trace among them.
        params: its parameters.
    """
    if primitive is SCAN:
        return _steps(arrays, params)
    if primitive is COND or primitive is SWITCH:
        return _branches(recorder, arrays, params["branches"])
    if primitive is WHILE:
        return _until_nothing_is_added(recorder, arrays, params)
    if isinstance(primitive, OneCall):
        rules = getattr(_call_of(primitive), "rules", None)
        segment = rules and getattr(rules.value, "__self__", None)
        if isinstance(segment, Segment):
            return tuple(evaluate(segment.expressions, arrays))
    return NotImplemented


def _call_of(primitive: OneCall) -> Any:
    """Return what a primitive made for one call knows of it; that of a tape's own rules has no `rules`."""
    return getattr(primitive.compute, "__self__", None)


def _steps(arrays: Sequence[Any], params: dict[str, Any]) -> Any:
    carries, body, length = params["carries"], params["body"], params["length"]
    leaves, rows, outer = part(arrays, carries, params["rows"])
    step, results = Closed(body), []
    for i in range(length - 1, -1, -1) if params["reverse"] else range(length):
        leaves, ys = part(step(*leaves, *[row[i] for row in rows], *outer), carries)
        results.append(ys)
    if not length:
        return (*leaves, *[np.zeros((0, *spec.shape), spec.dtype) for spec in body.results[carries:]])
    if params["reverse"]:
        results.reverse()
    return (*leaves, *[np.stack(column) for column in zip(*results, strict=True)])


def _branches(recorder: Dependence, arrays: Sequence[Any], branches: Sequence[Any]) -> Any:
    index, *values = arrays
    if not is_traced(index):
        return tuple(evaluate(branches[min(max(int(index), 0), len(branches) - 1)], values))
    each = [evaluate(branch, values) for branch in branches]
    return tuple([recorder.united(leaves) for leaves in zip(*each, strict=True)])


def _until_nothing_is_added(recorder: Dependence, arrays: Sequence[Any], params: dict[str, Any]) -> Any:
    if recorder.happened is not None:
        return NotImplemented  # each step has events of its own, without end
    leaves, outer = part(arrays, params["carries"])
    step = Closed(params["body"])
    leaves = [recorder.united([leaf]) for leaf in leaves]
    for _ in range(_STEPS):
        after = step(*leaves, *outer)
        both = [recorder.united(pair) for pair in zip(leaves, after, strict=True)]
        if all(np.array_equal(a.slot.sets, b.slot.sets) for a, b in zip(leaves, both, strict=True)):
            return tuple(both)
        leaves = both
    return NotImplemented


def by_rule(
    recorder: Dependence,
    primitive: Primitive,
    given: Sequence[Array | None],
    outs: Sequence[Any],
    made: Callable[[], Dependence],
) -> list[Array] | None:
    """Return the sets of the results of a call with rules of its own, as one of its rules has it; `None` if none can tell.

    The rule for forward mode is run on tangents that have the sets of the arguments. That for backward mode is run on
    cotangents each of which is an input of a trace of its own: what it gives to an argument is the pattern, transposed.

    Args:
        recorder: the trace that follows dependence.
        primitive: the call, which has been computed.
        given: the sets of the arguments; `None` for one without a derivative.
        outs: the results.
        made: returns another trace that follows dependence.
    """
    if not isinstance(primitive, OneCall) or recorder.happened is not None:
        return None  # second derivatives are those of what the rule does with the arguments
    call = _call_of(primitive)
    if not hasattr(call, "rules") or any(isinstance(a, ArraySpec) or is_traced(a) for a in (*call.given, *outs)):
        return None
    try:
        with np.errstate(all="ignore"):
            return (
                _pushed(recorder, call, given, outs)
                if call.rules.push is not None
                else _pulled(made(), call, recorder, given, outs)
            )
    except FunctadError:
        return None  # it asks for values, as code that is not NumPy's does


def _pushed(recorder: Dependence, call: Any, given: Sequence[Array | None], outs: Sequence[Any]) -> list[Array]:
    ts = []
    for i in call.positions:
        sets = given[i]
        ts.append(None if sets is None else recorder.entered(np.ones(sets.shape, dtype_of(call.given[i]))[()], sets))
    found = call.push(ts, call.given)
    return [np.broadcast_to(_sets_in(recorder, t), shape_of(out)) for t, out in zip(found, outs, strict=True)]


def _sets_in(recorder: Dependence, value: Any) -> Array:
    own = is_traced(value) and value.recorder is recorder
    return value.slot.sets if own else np.zeros(shape_of(value), np.int64)


def _pulled(
    inner: Dependence, call: Any, recorder: Dependence, given: Sequence[Array | None], outs: Sequence[Any]
) -> list[Array]:
    floats = [dtype_of(out).kind in "fc" for out in outs]
    gs = [
        inner.enter(np.ones(shape_of(out), dtype_of(out))[()], active=True) if inexact else np.zeros(shape_of(out))
        for out, inexact in zip(outs, floats, strict=True)
    ]
    found = call.pull(tuple(gs), call.given)
    groups, members = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for ct, sets in zip(found, given, strict=True):
        if sets is None or ct is None:
            continue
        reached = np.broadcast_to(_sets_in(inner, ct), sets.shape).ravel()
        groups.append(inner.sets.members(reached).astype(np.int64))
        members.append(np.repeat(sets.ravel(), inner.sets.length[reached]))
    count = inner.sets.universe
    whole = recorder.sets.union_groups(np.concatenate(groups), np.concatenate(members), count)
    result, start = [], 0
    for out, inexact in zip(outs, floats, strict=True):
        size = math.prod(shape_of(out)) if inexact else 0
        own = whole[start : start + size] if inexact else np.zeros(math.prod(shape_of(out)), np.int64)
        result.append(own.reshape(shape_of(out)))
        start += size
    return result
