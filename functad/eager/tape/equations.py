"""The equations of tapes with `lists=True`, beside the records, which keep residuals only."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.expressions.expressions import Constant, Equation
from functad.expressions.place import Place
from functad.expressions.spec import ArraySpec, spec_of
from functad.places import user_frame
from functad.primitives.entry import Primitive
from functad.tracing.ownership import map_arrays
from functad.tracing.traces.base import Recorded
from functad.tracing.views import clone


class TapeEquations(dict[int, tuple[Equation, tuple[ArraySpec, ...]] | Constant]):
    """A mapping from slots to equations with the specs of their results, or to a `Constant` if no equation made the slot."""

    def note(self, primitive: Primitive, arrays: Sequence[Any], params: dict[str, Any], made: Any) -> None:
        """Add the equation of a call, with copies of its constants; `made` holds the Tensors of the results."""
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
        frame = user_frame(sys._getframe(1))
        code = None if frame is None else frame.f_code
        place = None if code is None else Place(code.co_name, code.co_filename, frame.f_lineno, 0)
        own = {name: map_arrays(np.copy, value) for name, value in params.items()}
        equation = Equation(primitive, tuple(inputs), own, tuple([t.slot for t in results]), place)
        self.update(dict.fromkeys(equation.outputs, (equation, tuple([spec_of(t.below) for t in results]))))

    def keep(self, tensor: Recorded) -> None:
        """Keep the value of a Tensor that no equation made: a watched Tensor, or a result from before the tape started."""
        if tensor.slot not in self:
            self[tensor.slot] = as_constant(tensor)


def as_constant(value: Any) -> Constant:
    """Return the plain value of a Tensor as a constant.

    A Tensor of a trace without values stays a Tensor: the list can be evaluated while that trace runs.
    """
    while isinstance(value, Recorded):
        below = value.current()  # type: ignore[attr-defined]
        if isinstance(below, ArraySpec):
            return Constant(clone(value))
        value = below
    return Constant(value)
