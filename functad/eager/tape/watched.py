"""`debug_nans` for tapes and forward accumulators: the origin of a NaN in their results.

A recorder made under `debug_nans` has a `TapeWatch`. It does the work of `functad.diagnostics.nan_watch` for a list with any
number of derivatives, at any slot. It makes no check while another tape records or a watched function runs: a NaN that does
not reach the outer result is no error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from functad.diagnostics.nan_origins import CotangentArrivals, Offence, OperationLog, TangentArrivals
from functad.diagnostics.nan_watch import Watch
from functad.eager.active import ACTIVE
from functad.eager.tape.recorder import EagerRecorder
from functad.eager.tape.walk import cotangents_at
from functad.places import here


class _TapeLog(OperationLog):
    """The operation log of a tape."""

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
    """Return the name of the Variable that was read into a slot, or `None`."""
    return next((variable.name for variable, slots in recorder.variables.values() if slot in slots), None)


class TapeWatch(Watch):
    """The watch of the list of tapes or of a forward accumulator.

    Attributes:
        asking: a weak reference to the tape or accumulator that computes a derivative now.
    """

    recorder: EagerRecorder
    value_name = "The target"
    asking: Callable[[], Any] = staticmethod(lambda: None)

    def __init__(self, recorder: EagerRecorder, *, offence: Offence) -> None:
        super().__init__(recorder, offence=offence)
        self.log = _TapeLog(recorder)

    def silent(self) -> bool:
        """Return `True` if another tape or transform will check the results."""
        asking = self.asking()
        others = (tape for recorder in ACTIVE.get() for tape in recorder.tapes if tape is not asking)
        return super().silent() or next(others, None) is not None

    def cotangents_at(
        self, tape: Any, equations: list[Any], seeds: dict[int, Any], wanted: set[int], cuts: set[int]
    ) -> tuple[dict[int, Any], CotangentArrivals | None]:
        """Return the cotangents as `functad.eager.tape.walk.cotangents_at` does, and the arrivals of the backward pass.

        Raises:
            NotFiniteError: a target holds a NaN, or an infinity if those are checked.
        """
        if not seeds:
            return {}, None
        self.asking = ref(tape)
        self.check_values(list(seeds))
        arrivals = CotangentArrivals(self.log, seeds, quiet=self.silent())
        found = arrivals.through(cotangents_at, self.recorder, equations, seeds, wanted, cuts, consume=False, sparse=False)
        return found, arrivals

    def check_gradients(self, arrivals: CotangentArrivals, found: dict[int, Any]) -> None:
        """Check the cotangents of the sources.

        Raises:
            NotFiniteError: a cotangent holds a NaN, or an infinity if those are checked.
        """
        for slot, g in found.items():
            variable = variable_at(self.recorder, slot)
            name = "The gradient" if variable is None else f"The gradient by the Variable {variable!r}"
            self.check_derivatives(arrivals, [g], [slot], name)

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

    def _asked(self) -> str:
        return f"asked of {self.recorder.transform} at {here()}"
