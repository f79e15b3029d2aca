"""What the records of a persistent tape leave out of the calls, so that the tape can be listed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.expressions.expressions import Constant
from functad.expressions.spec import ArraySpec, spec_of
from functad.primitives.entry import Primitive
from functad.tracing.constants import with_arrays
from functad.tracing.traces.base import Recorded
from functad.tracing.views import clone


class Calls(dict[int, Any]):
    """By slot, what was noted of calls: their inputs as in an `Equation`, their parameters, and the specs of their results.

    Of an operator only the plain operand is noted, and that not if the rule reads it; of an array that no operation made, the
    value as a `Constant`. What is not noted, the record holds: so a chain of operators takes no longer for it.
    """

    def note(self, primitive: Primitive, arrays: Sequence[Any], params: dict[str, Any], made: Any) -> None:
        """Note a call that was just recorded."""
        results = tuple(made) if primitive.multiple else (made,)
        recorder = results[-1].recorder
        inputs: list[int | Constant] = []
        for a in arrays:
            if isinstance(a, Recorded) and a.recorder is recorder:
                inputs.append(a.slot)
            else:
                known = as_constant(a)
                inputs.append(Constant(known.value.copy()) if issubclass(type(known.value), np.ndarray) else known)
        own = {name: with_arrays(value, np.copy) for name, value in params.items()}
        self[results[-1].slot] = tuple(inputs), own, tuple([spec_of(t.value) for t in results])

    def renumber(self, places: dict[int, int]) -> None:
        """Take note of the new numbers of slots; those that are not there are gone."""
        kept = {places[slot]: _renumbered(note, places) for slot, note in self.items() if slot in places}
        self.clear()
        self.update(kept)


def as_constant(value: Any) -> Constant:
    """Return what stands in a list for a value that none of its slots has: a plain value.

    Of one that stands for all examples of a `vmap`, the Tensor: so the list can be evaluated as long as that runs.
    """
    while isinstance(value, Recorded):
        below = value.current()  # type: ignore[attr-defined]
        if isinstance(below, ArraySpec):
            return Constant(clone(value))
        value = below
    return Constant(value)


def _renumbered(note: Any, places: dict[int, int]) -> Any:
    if type(note) is not tuple:
        return note
    inputs, params, specs = note
    return tuple([places[source] if type(source) is int else source for source in inputs]), params, specs
