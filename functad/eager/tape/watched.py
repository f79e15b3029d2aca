"""`debug_nans` for tapes and forward accumulators: where a NaN was born that reached what they were asked for.

A recorder made under `debug_nans` has a `TapeWatch`: what `functad.diagnostics.watching` does for transforms, for a list that
may be asked again and again, by any of its slots. While another tape records, or a watched function runs, nothing is looked at:
what does not reach the result of that one is no error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

from functad.diagnostics.flow import Flow
from functad.diagnostics.notes import Notes, Offence
from functad.diagnostics.watching import Watch
from functad.eager.tape.recorder import ACTIVE, EagerRecorder
from functad.places import here
from functad.transforms.walks.cotangents import Scattered
from functad.transforms.walks.degenerate import doubts_in, settle
from functad.transforms.walks.reverse import guard_outer
from functad.transforms.walks.silence import in_silence


class _TapeNotes(Notes):
    """What a watch keeps of a tape."""

    followed = "anything that the tape follows"
    asked = "the tape"

    def __init__(self, recorder: EagerRecorder) -> None:
        super().__init__()
        self._recorder = ref(recorder)

    def name_of(self, slot: int) -> str:
        recorder = self._recorder()
        variable = None if recorder is None else variable_at(recorder, slot)
        return "a Tensor that was given to the tape" if variable is None else f"the Variable {variable!r}"


def variable_at(recorder: EagerRecorder, slot: int) -> str | None:
    """Return the name of the Variable that was read into a slot, if one was."""
    return next((variable.name for variable, slots in recorder.variables.values() if slot in slots), None)


class TapeWatch(Watch):
    """What is known of the list of tapes beside its records.

    Attributes:
        asking: a weak reference to the tape or accumulator that is asked now.
    """

    recorder: EagerRecorder
    value_name = "The target"
    asking: Callable[[], Any] = staticmethod(lambda: None)

    def __init__(self, recorder: EagerRecorder, *, offence: Offence) -> None:
        super().__init__(recorder, offence=offence)
        self.notes = _TapeNotes(recorder)

    def silent(self) -> bool:
        """Say whether somebody else will look at results: another tape, or a transform."""
        asking = self.asking()
        others = (tape for recorder in ACTIVE.get() for tape in recorder.tapes if tape is not asking)
        return super().silent() or next(others, None) is not None

    def cotangents_at(
        self, tape: Any, equations: list[Any], seeds: dict[int, Any], wanted: set[int], cuts: set[int]
    ) -> tuple[dict[int, Any], Flow | None]:
        """Return the cotangents of some slots as `walks.cotangents_at` does, and what they came by.

        Raises:
            NotFiniteError: a target is not as it should be.
        """
        if not seeds:
            return {}, None
        self.asking = ref(tape)
        self.check_values(list(seeds))
        flow = self._flow("cotangent", [seeds.get(slot) for slot in range(len(equations))])
        return self._pull_to(flow, equations, wanted, cuts), flow

    @in_silence
    def _pull_to(self, flow: Flow, equations: list[Any], wanted: set[int], cuts: set[int]) -> dict[int, Any]:
        found: dict[int, Any] = {}
        guard = self.recorder.guard
        for index in range(len(equations) - 1, -1, -1):
            equation = equations[index]
            if equation is None:
                continue
            first = index + 1 - len(equation[3][1]) if equation[0].primitive.multiple else index
            for slot in range(first, index + 1):
                if slot in wanted or slot in cuts:
                    _hand_out(flow, slot, found, cuts)
                    guard = True
            if self._pull(flow, index, equation, guard):
                guard = guard or equation[0].selects
        left = {slot: flow.take(slot) for slot in wanted if slot not in found and slot < len(equations)}
        found |= {slot: g for slot, g in left.items() if g is not None}
        if guard:
            guard_outer(list(found.values()))
        return found

    def check_gradients(self, flow: Flow | None, found: dict[int, Any]) -> None:
        """Raise if a cotangent that was asked for is not as it should be.

        Raises:
            NotFiniteError: it is not.
        """
        if flow is None:
            return
        for slot, g in found.items():
            variable = variable_at(self.recorder, slot)
            name = "The gradient" if variable is None else f"The gradient by the Variable {variable!r}"
            self._check_derivatives(flow, [g], [slot], name)

    def push(self, accumulator: Any, inputs: dict[int, Any]) -> tuple[list[Any], Flow]:
        """Return the tangents of all slots, given those of some, and what they came by."""
        self.asking = ref(accumulator)
        equations = self.recorder.equations
        slots: Sequence[int] = range(len(equations))
        flow = self._pushed([inputs.get(slot) for slot in slots], slots)
        if doubts := doubts_in(equations, flow.ways):
            settle(equations, doubts, slots)
        return flow.ways, flow

    def check_tangent(self, accumulator: Any, flow: Flow, slot: int) -> None:
        """Raise if a value whose tangent is asked for, or the tangent, is not as it should be.

        Raises:
            NotFiniteError: it is not.
        """
        self.asking = ref(accumulator)
        self.check_values([slot])
        if flow.ways[slot] is not None and not self.silent():
            self._check_derivatives(flow, [flow.ways[slot]], [slot], "The tangent")

    def _asked(self) -> str:
        return f"asked of {self.recorder.transform} at {here()}"


def _hand_out(flow: Flow, slot: int, found: dict[int, Any], cuts: set[int]) -> None:
    """Take a copy of the cotangent of a slot, all of which has arrived; nothing flows on from one that is cut."""
    g = flow.ways[slot]
    if type(g) is Scattered:
        g = flow.ways[slot] = g.total()
    flow.owned[slot] = False  # so that it is not written into
    if g is not None:
        found[slot] = g
    if slot in cuts:
        flow.ways[slot] = None
