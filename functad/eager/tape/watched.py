"""`debug_nans` for tapes and forward accumulators: the origin of a NaN in their results.

A recorder made under `debug_nans` has a `TapeWatch`. It does the work of `functad.diagnostics.nan_watch` for a list with any
number of derivatives, at any slot. It makes no check while another tape records or a watched function runs: a NaN that does
not reach the outer result is no error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from functad.diagnostics.nan_arrivals import CotangentArrivals, TangentArrivals
from functad.diagnostics.nan_watch import Watch
from functad.diagnostics.operation_log import Offence, OperationLog
from functad.eager.active import ACTIVE
from functad.places import here


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


class TapeWatch(Watch):
    """The watch of the list of tapes or of a forward accumulator.

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

    def pulled(self, tape: Any, seeds: dict[int, Any], walk: Callable[[], dict[int, Any]]) -> dict[int, Any]:
        """Return the cotangents by slot from a backward pass of a tape, and check targets and cotangents.

        Raises:
            NotFiniteError: a target or a cotangent holds a NaN, or an infinity if those are checked.
        """
        self.asking = ref(tape)
        self.check_values(list(seeds))
        arrivals = CotangentArrivals(self.log, seeds, quiet=self.silent())
        found: dict[int, Any] = arrivals.through(walk)
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

    def _asked(self) -> str:
        return f"asked of {self.recorder.transform} at {here()}"
