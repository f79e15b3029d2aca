"""The trace that tracks how elements depend on inputs.

Primitives with expression lists are traced through their lists. A loop with a known number of steps is traced step by step. If
a branch is chosen later, all branches are traced. A loop with a condition is traced until its sets no longer grow. A checkpoint
is traced like its function. A call with custom rules is traced by a rule, which gives the dependence of the results on the
arguments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.errors import FunctadError
from functad.expressions.expressions import Expressions, evaluate
from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.entry import Primitive
from functad.primitives.operands import is_traced
from functad.rules.call import OneCall
from functad.sparse.curvature import Events
from functad.sparse.dependence import Call, passed
from functad.sparse.sets import Array, Sets
from functad.tracing.trace import Recorded, Recorder, alike
from functad.tracing.views import note_if_view
from functad.transforms.lists import Closed

_STEPS = 64
"""The largest number of traced steps of a loop. If sets still grow, the results depend on all inputs of the loop."""


class Place(int):
    """The slot of a Tensor of a `Dependence` trace, with the sets of the Tensor.

    The slot holds the sets, so they live as long as the Tensor. Otherwise a loop that writes an array element by element would
    keep the sets of every state of the array.

    Attributes:
        sets: for each element, the id of its set of inputs.
        events: for each element, the id of its set of events; `None` if there are no events.
    """

    sets: Array
    events: Array | None


class Dependence(Recorder):
    """A trace that tracks how elements depend on inputs. It has no records, and evaluates operations immediately.

    Attributes:
        sets: the table of sets of inputs.
        happened: the events, if second derivatives are needed, else `None`.
    """

    pulls = True
    sees_inside = True

    def __init__(self, transform: str, function: object, *, second: bool) -> None:
        super().__init__(transform, function)
        self.sets = Sets()
        self.happened = Events() if second else None

    def enter_elements(self, value: Any, *, active: bool) -> Any:
        """Return the Tensor of an input. If the input is active, each of its elements depends on itself."""
        shape = shape_of(value)
        sets = self.sets.singletons(math.prod(shape)).reshape(shape) if active else np.zeros(shape, np.int64)
        self.inputs += 1
        return self.tensor(value, sets)

    def buffer(self, value: Any) -> Any:
        """Return a Tensor of a new buffer."""
        return self.tensor(value, np.zeros(shape_of(value), np.int64))

    def owns(self, value: Any) -> bool:
        """Return `True` if `value` is a Tensor of this trace."""
        return isinstance(value, Recorded) and value.recorder is self

    def sets_of(self, value: Any) -> Array:
        """Return the set of each element of a value; empty sets for a value that is not a Tensor of this trace."""
        found: Array = value.slot.sets if self.owns(value) else np.zeros(shape_of(value), np.int64)
        return found

    def united(self, leaves: Sequence[Any]) -> Any:
        """Return a Tensor without a value for one of several values of one shape; it depends on the inputs of all."""
        spec, events = spec_of(leaves[0]), None
        sets = np.zeros(spec.shape, np.int64)
        for leaf in leaves:
            if self.owns(leaf):
                place: Any = leaf.slot
                sets = self.sets.union(sets, place.sets)
                if self.happened is not None and place.events is not None:
                    events = place.events if events is None else self.happened.sets.union(events, place.events)
        return self.tensor(ArraySpec(spec.shape, spec.dtype), sets, events)

    def tensor(self, value: Any, sets: Array, events: Array | None = None) -> Any:
        """Return a Tensor of a value with the given sets and events."""
        place = Place(len(self.records))
        place.sets, place.events = sets, events
        tensor = self.append(None, value)
        tensor.slot = place
        return tensor

    def process(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Call a primitive one level lower, and propagate the sets. A result without a derivative is a constant."""
        if primitive.lists:
            results = _THROUGH[primitive.lists](self, arrays, params)
            if results is not NotImplemented:
                return results
        if isinstance(primitive, OneCall) and primitive.rules is not None and primitive.rules.inner is not None:
            return tuple(evaluate(primitive.rules.inner, arrays))
        own = [self.owns(a) for a in arrays]
        values = [a.below if mine else a for a, mine in zip(arrays, own, strict=True)]
        if any(isinstance(value, ArraySpec) for value in values):
            out = primitive.spec(*[spec_of(v) if isinstance(v, Recorded) else v for v in values], **params)
        elif any(isinstance(value, Recorded) for value in values):
            out = primitive(*values, **params)
        else:
            out = primitive.compute(*values, **params)
        active = [mine and (primitive.joint or primitive.differentiable(i)) for i, mine in enumerate(own)]
        if out is NotImplemented or not any(active):
            return out if not isinstance(out, ArraySpec) else self.buffer(out)
        results = out if primitive.multiple else (out,)
        places = [a.slot if counts else None for a, counts in zip(arrays, active, strict=True)]
        given = [None if p is None else p.sets for p in places]
        call = Call(primitive, self.sets, given, values, params, [shape_of(r) for r in results])
        found = _by_rule(self, primitive, values, call.given, results) or passed(call)
        events: list[Array | None] = [None] * len(found)
        if self.happened is not None:
            events = self.happened.passed(call, [None if p is None else p.events for p in places], found)
        made = [self.tensor(*parts) for parts in zip(results, found, events, strict=True)]
        if primitive.multiple:
            return alike(out, made)
        if primitive.views:
            note_if_view(arrays[0], made[0], values[0], out, primitive, params)
        return made[0]


def _through_scan(recorder: Dependence, arrays: Sequence[Any], params: dict[str, Any]) -> Any:
    carries, body, length = params["carries"], params["body"], params["length"]
    first = carries + params["rows"]
    leaves, rows, outer = arrays[:carries], arrays[carries:first], arrays[first:]
    step, results = Closed(body), []
    for i in range(length - 1, -1, -1) if params["reverse"] else range(length):
        found = step(*leaves, *[row[i] for row in rows], *outer)
        leaves = found[:carries]
        results.append(found[carries:])
    if not length:
        return (*leaves, *[np.zeros((0, *spec.shape), spec.dtype) for spec in body.results[carries:]])
    if params["reverse"]:
        results.reverse()
    return (*leaves, *[np.stack(column) for column in zip(*results, strict=True)])


def _through_branches(recorder: Dependence, arrays: Sequence[Any], params: dict[str, Any]) -> Any:
    index, *values = arrays
    branches: Sequence[Expressions] = params["branches"]
    if not is_traced(index):
        return tuple(evaluate(branches[min(max(int(index), 0), len(branches) - 1)], values))
    each = [evaluate(branch, values) for branch in branches]
    return tuple([recorder.united(leaves) for leaves in zip(*each, strict=True)])


def _through_loop(recorder: Dependence, arrays: Sequence[Any], params: dict[str, Any]) -> Any:
    if recorder.happened is not None:
        return NotImplemented  # each step adds events, so the sets never stop growing
    leaves, outer = list(arrays[: params["carries"]]), arrays[params["carries"] :]
    step = Closed(params["body"])
    leaves = [recorder.united([leaf]) for leaf in leaves]
    for _ in range(_STEPS):
        after = step(*leaves, *outer)
        both = [recorder.united(pair) for pair in zip(leaves, after, strict=True)]
        if all(np.array_equal(a.slot.sets, b.slot.sets) for a, b in zip(leaves, both, strict=True)):
            return tuple(both)
        leaves = both
    return NotImplemented


_THROUGH = {"scan": _through_scan, "branches": _through_branches, "loop": _through_loop}


def _by_rule(
    recorder: Dependence, primitive: Primitive, arrays: Sequence[Any], given: Sequence[Array | None], outs: Sequence[Any]
) -> list[Array] | None:
    """Return the sets of the results of a call with custom rules, found by a rule, or `None` if no rule can be used.

    The JVP rule runs on tangents with the sets of the arguments. The VJP rule runs on cotangents that are inputs of a new
    trace; the sets of the results of the rule are the transposed pattern.

    Args:
        recorder: the trace that tracks dependence.
        primitive: the call, already computed.
        arrays: the arguments of the call.
        given: the sets of the arguments; `None` for an argument that is not a Tensor of the trace.
        outs: the results.
    """
    if not isinstance(primitive, OneCall) or primitive.rules is None or recorder.happened is not None:
        return None  # second derivatives depend on the rule's operations on the arguments
    if any(isinstance(a, ArraySpec) or is_traced(a) for a in (*arrays, *outs)):
        return None
    try:
        with np.errstate(all="ignore"):
            return (_pulled if primitive.jvps is None else _pushed)(recorder, primitive, arrays, given, outs)
    except FunctadError:
        return None  # the rule needs values, for example in code outside NumPy


def _pushed(
    recorder: Dependence, primitive: Any, arrays: Sequence[Any], given: Sequence[Array | None], outs: Sequence[Any]
) -> list[Array]:
    ts = [
        None if sets is None else recorder.tensor(np.ones(sets.shape, dtype_of(a))[()], sets)
        for a, sets in zip(arrays, given, strict=True)
    ]
    found = primitive.jvps[0](ts, arrays)
    return [np.broadcast_to(recorder.sets_of(t), shape_of(out)) for t, out in zip(found, outs, strict=True)]


def _pulled(
    recorder: Dependence, primitive: Any, arrays: Sequence[Any], given: Sequence[Array | None], outs: Sequence[Any]
) -> list[Array]:
    inner = Dependence(recorder.transform, recorder.function, second=False)
    floats = [dtype_of(out).kind in "fc" for out in outs]
    gs = [
        inner.enter_elements(np.ones(shape_of(out), dtype_of(out))[()], active=True) if inexact else np.zeros(shape_of(out))
        for out, inexact in zip(outs, floats, strict=True)
    ]
    found = primitive.vjps[0](tuple(gs), arrays)
    groups, members = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for ct, sets in zip(found, given, strict=True):
        if sets is None or ct is None:
            continue
        reached = np.broadcast_to(inner.sets_of(ct), sets.shape).ravel()
        groups.append(inner.sets.members(reached).astype(np.int64))
        members.append(np.repeat(sets.ravel(), inner.sets.length[reached]))
    whole = recorder.sets.union_groups(np.concatenate(groups), np.concatenate(members), inner.sets.universe)
    result, start = [], 0
    for out, inexact in zip(outs, floats, strict=True):
        own = np.zeros(shape_of(out), np.int64)
        if inexact:
            own = whole[start : start + own.size].reshape(own.shape)
            start += own.size
        result.append(own)
    return result
