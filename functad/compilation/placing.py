"""The equations of one list written behind those of another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functad.expressions.expressions import Equation, Expressions
from functad.expressions.spec import ArraySpec


def put(made: Expressions, given: Sequence[Any], specs: list[ArraySpec], equations: list[Equation]) -> Any:
    """Write the equations of a list behind others, and return where its result is."""
    places: dict[int, Any] = dict(enumerate(given))
    for e in made.equations:
        [slot] = e.outputs
        places[slot] = len(specs)
        specs.append(made.specs[slot])
        inputs = tuple([places[s] if type(s) is int else s for s in e.inputs])
        equations.append(Equation(e.primitive, inputs, e.params, (places[slot],)))
    [result] = made.outputs
    return places[result] if type(result) is int else result
