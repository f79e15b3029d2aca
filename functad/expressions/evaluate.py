"""The first walk: run an expression list forward on values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functad.expressions.expressions import Constant, Expressions


def evaluate(expressions: Expressions, inputs: Sequence[Any]) -> list[Any]:
    """Return the output leaves of a list for given input leaves; values are dropped after their last use.

    The inputs may be arrays or Tensors: on Tensors the evaluation is recorded, so a list can be differentiated again.
    """
    last = _last_uses(expressions)
    values: dict[int, Any] = dict(enumerate(inputs))
    for number, equation in enumerate(expressions.equations):
        primitive = equation.primitive
        given = [source.value if isinstance(source, Constant) else values[source] for source in equation.inputs]
        out = primitive(*given, **equation.params)
        values.update(zip(equation.outputs, out if primitive.multiple else (out,), strict=True))
        for source in equation.inputs:
            if not isinstance(source, Constant) and last[source] == number:
                values.pop(source, None)
    return [source.value if isinstance(source, Constant) else values[source] for source in expressions.outputs]


def _last_uses(expressions: Expressions) -> dict[int, int]:
    """Return for each slot the number of the last equation that reads it; past the end for outputs."""
    last = {
        source: number
        for number, equation in enumerate(expressions.equations)
        for source in equation.inputs
        if not isinstance(source, Constant)
    }
    last.update({source: len(expressions.equations) for source in expressions.outputs if not isinstance(source, Constant)})
    return last
