"""The trace that follows which elements of values depend on which inputs.

What holds expression lists is followed through them: a loop whose number of steps is known step by step, and if a branch is
chosen later all of them. A loop that ends by a condition is followed until nothing is added any more. A checkpoint is what it
computes. Of a call with rules of its own the rule says how its results depend on its arguments, whatever the function computes.
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
from functad.tracing.tensor import Tensor
from functad.tracing.traces.base import Recorded, Recorder, alike, bare
from functad.tracing.views import note_if_view
from functad.transforms.closed_lists import Closed

_STEPS = 64
"""After so many steps of a loop that still add something, its results are taken to depend on all that goes into it."""


class Place(int):
    """The slot of a Tensor of a trace that follows dependence, and with it what the Tensor depends on.

    It goes with the slot, so that it lives as long as a Tensor for that value does: a loop that writes an array element by
    element would otherwise keep the sets of every state of the array.

    Attributes:
        sets: for each element the number of the set of inputs that it depends on.
        events: for each element the number of the set of events that it was made of; `None` where there are none.
    """

    sets: Array
    events: Array | None


class Dependence(Recorder):
    """A trace that follows which elements depend on which; it has no records, and evaluates as it goes.

    Attributes:
        sets: the table of sets of inputs.
        happened: the events, if second derivatives are asked for.
    """

    pulls = True
    sees_inside = True

    def __init__(self, transform: str, function: object, *, second: bool) -> None:
        super().__init__(transform, function)
        self.sets = Sets()
        self.happened = Events() if second else None

    def enter_elements(self, value: Any, *, active: bool) -> Any:
        """Make the Tensor of an input; each of its elements depends on itself, if it is one to differentiate by."""
        shape = shape_of(value)
        sets = self.sets.singletons(math.prod(shape)).reshape(shape) if active else np.zeros(shape, np.int64)
        self.inputs += 1
        return self.tensor(value, sets)

    def buffer(self, value: Any) -> Any:
        """Make a Tensor of a new array, into which others can be written."""
        return self.tensor(value, np.zeros(shape_of(value), np.int64))

    def owns(self, value: Any) -> bool:
        """Say whether a value is a Tensor of this trace."""
        return isinstance(value, Recorded) and value.recorder is self

    def sets_of(self, value: Any) -> Array:
        """Return the set of each element of a value, empty ones for what is no Tensor of this trace."""
        found: Array = value.slot.sets if self.owns(value) else np.zeros(shape_of(value), np.int64)
        return found

    def united(self, leaves: Sequence[Any]) -> Any:
        """Make a Tensor that stands for any of some values, which have one shape, and depends on what all of them do."""
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
        """Make a Tensor of a value whose elements depend on what they are said to."""
        place = Place(len(self.equations))
        place.sets, place.events = sets, events
        self.equations.append(None)
        return bare(Tensor, self, value, place)

    def process(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Call a primitive one level lower, and pass the sets on; without a derivative the result is a constant."""
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
        return NotImplemented  # each step has events of its own, without end
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
    """Find the sets of the results of a call with rules of its own, as one of its rules has it; `None` if none can tell.

    The rule for forward mode is run on tangents that have the sets of the arguments. That for backward mode is run on
    cotangents each of which is an input of a trace of its own: what it gives to an argument is the pattern, transposed.

    Args:
        recorder: the trace that follows dependence.
        primitive: the call, which has been computed.
        arrays: what it was computed with.
        given: the sets of the arguments; `None` for one that is no Tensor of the trace.
        outs: the results.
    """
    if not isinstance(primitive, OneCall) or primitive.rules is None or recorder.happened is not None:
        return None  # second derivatives are those of what the rule does with the arguments
    if any(isinstance(a, ArraySpec) or is_traced(a) for a in (*arrays, *outs)):
        return None
    try:
        with np.errstate(all="ignore"):
            return (_pulled if primitive.jvps is None else _pushed)(recorder, primitive, arrays, given, outs)
    except FunctadError:
        return None  # it asks for values, as code that is not NumPy's does


def _pushed(
    recorder: Dependence, primitive: Any, arrays: Sequence[Any], given: Sequence[Array | None], outs: Sequence[Any]
) -> list[Array]:
    ts = [
        recorder.tensor(np.ones(sets.shape, dtype_of(a))[()], sets)
        for a, sets in zip(arrays, given, strict=True)
        if sets is not None
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
