"""Branches that depend on values. This check finds all of them; `jit` raises at the first.

The check uses an abstract trace that supplies the values at the point when the function needs them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from functad.checkup.point import Finding, found
from functad.expressions.expressions import Constant, Equation
from functad.expressions.place import Place
from functad.expressions.spec import is_array_or_number
from functad.places import user_frame
from functad.profiling.call import Call
from functad.profiling.measure import gradient_of, place_of_frame
from functad.tracing.conversions import asked
from functad.tracing.traces.base import Recorded
from functad.tracing.traces.equations import AbstractRecorder
from functad.transforms.leaves import replaced
from functad.transforms.lists import make_list
from functad.trees.structure import flatten


class AnsweringRecorder(AbstractRecorder):
    """An abstract trace that computes values on demand.

    Attributes:
        values: the computed values, by slot; at first the inputs only.
        reached: the number of equations already computed.
        asked: the lines that needed values, by `file:line`, each with its use of the value.
    """

    def __init__(self, function: object, values: list[Any]) -> None:
        super().__init__("doctor", function)
        self.values: dict[int, Any] = dict(enumerate(values))
        self.reached = 0
        self.asked: dict[str, tuple[Place, str]] = {}

    def concrete_value(self, tensor: Recorded, wanted: str) -> Any:
        """Compute all equations so far, and return the value of a Tensor."""
        frame = user_frame(sys._getframe(1))
        if frame is not None:
            place = place_of_frame(frame)
            self.asked.setdefault(place.where, (place, wanted))
        for equation in self.equations[self.reached :]:
            if equation is not None:
                self._compute(equation)
        self.reached = len(self.equations)
        return self.values[tensor.slot]

    def _compute(self, equation: Equation) -> None:
        given = [source.value if isinstance(source, Constant) else self.values[source] for source in equation.inputs]
        out = equation.primitive(*given, **equation.params)
        outs = out if equation.primitive.multiple else (out,)
        self.values.update(zip(equation.outputs, outs, strict=True))


def places_asked(call: Call) -> list[tuple[Place, str]]:
    """Return the lines that need values in the value and gradient of a call, in order, each with its use of the value."""
    f, args, kwargs = gradient_of(call)
    leaves, structure = flatten((args, kwargs))
    static = (bool, int)  # `jit` can take these as static arguments
    places = [i for i, leaf in enumerate(leaves) if is_array_or_number(leaf) and type(leaf) not in static]

    def of_leaves(*own: Any) -> Any:
        args, kwargs = structure.unflatten(replaced(leaves, places, own))
        return f(*args, **kwargs)

    recorder = AnsweringRecorder(call.function, [leaves[i] for i in places])
    # An error here is reported already by `compiling`; the lines before it are still found.
    with suppress(Exception), call.undisturbed():
        make_list(recorder, of_leaves, [leaves[i] for i in places])
    return list(recorder.asked.values())


def branches(call: Call, known: str) -> Iterator[Finding]:
    """Yield findings for the lines that need values, except the line `known`, which has a finding already."""
    for place, wanted in places_asked(call):
        if place.where == known:
            continue
        if wanted == "bool":
            message = "This branch is decided by a value, so that a trace without values, such as that of jit, cannot take it."
            advice = (
                "Choose between values by np.where, between computations by functad.cond; a loop until something holds is "
                "functad.while_loop."
            )
        else:
            message = (
                f"This line asks for a value, by {asked(wanted)}, which a trace without values, such as that of jit, lacks."
            )
            advice = (
                "Take lengths from shapes, name what is a setting in static_argnums, or do this outside of what is compiled."
            )
        yield found("note", "branches", message, advice, place)
