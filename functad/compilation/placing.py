"""Append the equations of one list to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functad.expressions.expressions import Equation, Expressions
from functad.expressions.spec import ArraySpec


def put(made: Expressions, given: Sequence[Any], specs: list[ArraySpec], equations: list[Equation]) -> Any:
    """Append the equations of a list with one result to `equations`, and return the source of the result."""
    places: dict[int, Any] = dict(enumerate(given))
    for e in made.equations:
        [slot] = e.outputs
        places[slot] = len(specs)
        specs.append(made.specs[slot])
        inputs = tuple([places[s] if type(s) is int else s for s in e.inputs])
        equations.append(Equation(e.primitive, inputs, e.params, (places[slot],)))
    [result] = made.outputs
    return places[result] if type(result) is int else result
