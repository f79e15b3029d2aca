"""The equations of tapes that can be listed, beside the records, which keep only what rules read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import CodeType, MappingProxyType
from typing import Any

import numpy as np

from functad.expressions.expressions import Constant, Equation
from functad.expressions.spec import ArraySpec, spec_of
from functad.primitives.entry import Primitive
from functad.tracing.constants import with_arrays
from functad.tracing.traces.base import Recorded
from functad.tracing.views import clone


class TapeEquations(dict[int, tuple[Equation, tuple[ArraySpec, ...]] | Constant]):
    """By slot, the equation that a value is a result of, with the specs of its results; or the value, if none is.

    Attributes:
        lines: by slot, the code and the instruction of the user's line that an equation comes from.
    """

    lines: Mapping[int, tuple[CodeType, int]] = MappingProxyType({})  # of its own from the first equation on

    def note(self, primitive: Primitive, arrays: Sequence[Any], params: dict[str, Any], made: Any) -> None:
        """Add the equation of a call that was just recorded."""
        results = tuple(made) if primitive.multiple else (made,)
        recorder = results[0].recorder
        inputs: list[int | Constant] = []
        for a in arrays:
            if isinstance(a, Recorded) and a.recorder is recorder:
                self.keep(a)
                inputs.append(a.slot)
            else:
                known = as_constant(a)
                inputs.append(Constant(known.value.copy()) if issubclass(type(known.value), np.ndarray) else known)
        if results[0].code is not None:
            line = results[0].code, results[0].instruction
            own_lines = vars(self).setdefault("lines", {})
            own_lines.update(dict.fromkeys([t.slot for t in results], line))
        own = {name: with_arrays(value, np.copy) for name, value in params.items()}
        equation = Equation(primitive, tuple(inputs), own, tuple([t.slot for t in results]))
        self.update(dict.fromkeys(equation.outputs, (equation, tuple([spec_of(t.below) for t in results]))))

    def keep(self, tensor: Recorded) -> None:
        """Keep the value of a Tensor that no equation made, as the user's own or one of a tape that was opened earlier."""
        if tensor.slot not in self:
            self[tensor.slot] = as_constant(tensor)


def as_constant(value: Any) -> Constant:
    """Return the value of a Tensor in no trace as a constant.

    Of one that stands for all examples of a `vmap`, the Tensor: so the list can be evaluated as long as that runs.
    """
    while isinstance(value, Recorded):
        below = value.current()  # type: ignore[attr-defined]
        if isinstance(below, ArraySpec):
            return Constant(clone(value))
        value = below
    return Constant(value)
