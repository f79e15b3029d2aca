"""The reasons for a gradient that is `None`, for `tape.explain`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.eager.models.variable import Variable
from functad.expressions.records import mark_reached, marks_at
from functad.expressions.spec import dtype_of
from functad.places import line_of
from functad.primitives.elementwise.comparisons import BOOLEAN
from functad.primitives.operands import all_examples, read


def explain_missing(tape: Any, targets: Sequence[Any], source: Any) -> str:
    """Return the reason for a missing gradient in a sentence or two, or state that a path exists."""
    dtype = dtype_of(source)
    if dtype.kind not in "fc":
        return f"the source is {dtype}: integers have no derivative. Make it floats before it is used."
    own = tape.slots_of(source)
    if not own:
        return _not_followed(tape, source)
    whole = [target for target in targets if dtype_of(target).kind not in "fc"]
    if len(whole) == len(targets) > 0:
        return f"the target is {dtype_of(whole[0])}: a cast to integers or a comparison has cut the path."
    places = [slot for target in targets for slot in tape.slots_of(read(target))]
    if not places:
        return (
            "the target was not made by anything that the tape recorded: it was computed outside the `with` block, before the "
            "source was watched, or from constants." + _cuts(tape, _dependent(tape, own))
        )
    if min(own) > max(places):
        return "the source was watched, or made, after the target: watch it before it is used."
    used = _dependent(tape, own)
    if used & set(places):
        if _dependent(tape, own, cutting=False) & set(places):
            beside = _cuts(tape, used - set(places), beside=True)
            return "the tape does record a path, so there is a gradient." + beside + _late(tape, source, own)
        return (
            "the tape does record a path, but only by functions of custom_gradient: what the gradient function of one returns "
            "None for has no gradient."
        )
    if len(used) == len(own):
        return "nothing that the tape records uses the source." + _cuts(tape, used) + _late(tape, source, own)
    return "the source is used, but not in what leads to the target." + _cuts(tape, used) + _late(tape, source, own)


def _dependent(tape: Any, slots: Sequence[int], *, cutting: bool = True) -> set[int]:
    """Return `slots` and all slots that depend on them; without `cutting`, ignore gradient functions of the user."""
    records = tape.recorder.equations
    if not cutting:
        records = [None if r is None or getattr(r[0].primitive, "may_cut", False) else r for r in records]
    return {slot for slot, mark in enumerate(mark_reached(marks_at(slots, len(records)), records)) if mark}


def _not_followed(tape: Any, source: Any) -> str:
    if isinstance(source, Variable):
        if not source.trainable:
            return "the Variable is not trainable, so the tape did not follow it: tape.watch(v) inside the `with` block."
        if not tape._watch_accessed:
            return "the tape has watch_accessed_variables=False: tape.watch(v) inside the `with` block."
        if any(variable is source for variable in tape.watched_variables()):
            return "nothing that the tape still holds uses the Variable: the results that did are gone."
        return "the Variable was not read while the tape recorded."
    value = all_examples(read(source))
    for weak in tape._watched:
        if (tensor := weak()) is not None and np.array_equal(np.asarray(all_examples(tensor)), value):
            return (
                "the tape watches another Tensor, of equal value. It knows them by what they are: ask for the very object "
                "that was watched."
            )
    return (
        "the Tensor was never watched, and was not made from anything that is: tape.watch(x) inside the `with` block, before "
        "x is used, or use functad.grad, which needs no watching."
    )


def _late(tape: Any, source: Any, own: Sequence[int]) -> str:
    """Return a sentence if the source was watched after the first record, so that earlier uses may be lost; else `""`."""
    before = sum(record is not None and tape.recorded(i) for i, record in enumerate(tape.recorder.equations[: min(own)]))
    watched = id(source) in tape._explicit or any(weak() is source for weak in tape._watched)
    if not before or not watched:
        return ""
    return (
        f" The source was watched after {before} operation{'s' * (before > 1)} had been recorded: what was computed from it "
        f"until then does not count. Watch it before it is used."
    )


def _cuts(tape: Any, used: set[int], *, beside: bool = False) -> str:
    """Return a sentence with the line where a dependent value left the tape, else `""`; `beside` ignores comparisons."""
    left = [place for slot, place in tape.recorder.left.items() if slot in used and not (beside and place[0] in BOOLEAN)]
    if not left:
        return ""
    name, code, instruction = min(left, key=lambda where: where[0] in BOOLEAN)
    what = "What else depends on it" if beside else "What depends on it"
    return f" {what} left the tape by {name} at {line_of(code, instruction)}."
