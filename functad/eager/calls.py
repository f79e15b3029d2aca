"""What the records of a persistent tape leave out of the calls, so that the tape can be listed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.expressions.expressions import Constant
from functad.expressions.spec import spec_of
from functad.primitives.operands import innermost
from functad.primitives.primitive import Primitive
from functad.tracing.recorder import Recorded


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
                value = innermost(a)
                inputs.append(Constant(value.copy() if isinstance(value, np.ndarray) else value))
        self[results[-1].slot] = tuple(inputs), params, tuple([spec_of(t.value) for t in results])

    def renumber(self, places: dict[int, int]) -> None:
        """Take note of the new numbers of slots; those that are not there are gone."""
        kept = {places[slot]: _renumbered(note, places) for slot, note in self.items() if slot in places}
        self.clear()
        self.update(kept)


def _renumbered(note: Any, places: dict[int, int]) -> Any:
    if type(note) is not tuple:
        return note
    inputs, params, specs = note
    return tuple([places[source] if type(source) is int else source for source in inputs]), params, specs
