"""`tape.explain`, and `debug_nans` for tapes and forward accumulators.

A recorder made under `debug_nans` has a `TapeMonitor`. It does the work of `functad.diagnostics.nans` for a list with any
number of derivatives, at any slot. It makes no check while another tape records or a monitored function runs: a NaN that does
not reach the outer result is no error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from functad.diagnostics.nan_origins import CotangentArrivals, Offence, OperationLog, TangentArrivals
from functad.diagnostics.nans import Monitor
from functad.eager.variable import ACTIVE, Variable
from functad.expressions.records import mark_reached, marks_at
from functad.expressions.spec import dtype_of
from functad.places import here, line_of
from functad.primitives.elementwise.elementary import BOOLEAN
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
    slots = [slot for target in targets for slot in tape.slots_of(read(target))]
    if not slots:
        return (
            "the target was not made by anything that the tape recorded: it was computed outside the `with` block, before the "
            "source was watched, or from constants." + _cuts(tape, _dependent(tape, own))
        )
    if min(own) > max(slots):
        return "the source was watched, or made, after the target: watch it before it is used."
    used = _dependent(tape, own)
    if used & set(slots):
        if _dependent(tape, own, cutting=False) & set(slots):
            beside = _cuts(tape, used - set(slots), beside=True)
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
    records = tape.recorder.records
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
    for tensor in tape._watched_tensors():
        if np.array_equal(np.asarray(all_examples(tensor)), value):
            return (
                "the tape watches another Tensor of equal value. A tape compares Tensors by identity: ask for the gradient by "
                "the watched object itself."
            )
    return (
        "the Tensor was never watched, and was not made from anything that is: tape.watch(x) inside the `with` block, before "
        "x is used, or use functad.grad, which needs no watching."
    )


def _late(tape: Any, source: Any, own: Sequence[int]) -> str:
    """Return a sentence if the source was watched after the first record, so that earlier uses may be lost; else `""`."""
    before = sum(record is not None and tape.recorded(i) for i, record in enumerate(tape.recorder.records[: min(own)]))
    if not before or not tape._watches(source):
        return ""
    return (
        f" The source was watched after {before} operation{'s' * (before > 1)} had been recorded: what was computed from it "
        f"until then does not count. Watch it before it is used."
    )


def _cuts(tape: Any, used: set[int], *, beside: bool = False) -> str:
    """Return a sentence with the line where a dependent value left the tape, else `""`; `beside` ignores comparisons."""
    left = [place for slot, place in tape.recorder.exits.items() if slot in used and not (beside and place[0] in BOOLEAN)]
    if not left:
        return ""
    name, code, instruction = min(left, key=lambda where: where[0] in BOOLEAN)
    what = "What else depends on it" if beside else "What depends on it"
    return f" {what} left the tape by {name} at {line_of(code, instruction)}."


class _TapeLog(OperationLog):
    """The operation log of a tape."""

    followed = "anything that the tape follows"
    asked = "the tape"

    def __init__(self, variables: dict[int, tuple[Any, list[int]]]) -> None:
        super().__init__()
        self._variables = variables

    def variable_at(self, slot: int) -> str | None:
        """Return the name of the Variable that was read into a slot, or `None`."""
        return next((variable.name for variable, slots in self._variables.values() if slot in slots), None)

    def name_of(self, slot: int) -> str:
        variable = self.variable_at(slot)
        return "a Tensor that was given to the tape" if variable is None else f"the Variable {variable!r}"


class TapeMonitor(Monitor):
    """The monitor of the list of tapes or of a forward accumulator.

    Attributes:
        asking: a weak reference to the tape or accumulator that computes a derivative now.
    """

    value_name = "The target"
    asking: Callable[[], Any] = staticmethod(lambda: None)

    def __init__(self, recorder: Any, *, offence: Offence) -> None:
        super().__init__(recorder, offence=offence)
        self.log: _TapeLog = _TapeLog(recorder.variables)

    def silent(self) -> bool:
        """Return `True` if another tape or transform will check the results."""
        asking = self.asking()
        return super().silent() or any(tape is not asking for recorder in ACTIVE.get() for tape in recorder.tapes)

    def pulled(self, tape: Any, seeds: dict[int, Any], pull: Callable[[], dict[int, Any]]) -> dict[int, Any]:
        """Return the cotangents by slot from a backward pass of a tape, and check targets and cotangents.

        Raises:
            NotFiniteError: a target or a cotangent holds a NaN, or an infinity if those are checked.
        """
        self.asking = ref(tape)
        self.check_values(list(seeds))
        arrivals = CotangentArrivals(self.log, seeds, quiet=self.silent())
        found: dict[int, Any] = arrivals.through(pull)
        for slot, g in found.items():
            variable = self.log.variable_at(slot)
            name = "The gradient" if variable is None else f"The gradient by the Variable {variable!r}"
            self.check_derivatives(arrivals, [g], [slot], name)
        return found

    def observed_by(self, accumulator: Any, inputs: dict[int, Any]) -> TangentArrivals:
        """Return an observer of the forward pass of an accumulator, given the tangents of its inputs by slot."""
        self.asking = ref(accumulator)
        return TangentArrivals(self.log, inputs, quiet=self.silent())

    def check_tangent(self, accumulator: Any, arrivals: TangentArrivals, slot: int, t: Any) -> None:
        """Check the value in a slot and its tangent.

        Raises:
            NotFiniteError: one of them holds a NaN, or an infinity if those are checked.
        """
        self.asking = ref(accumulator)
        self.check_values([slot])
        if t is not None and not self.silent():
            self.check_derivatives(arrivals, [t], [slot], "The tangent")

    def _call_text(self) -> str:
        return f"asked of {self.recorder.transform} at {here()}"
