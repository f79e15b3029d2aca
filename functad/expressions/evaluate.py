"""The first walk: run an expression list forward on values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functad.expressions.expressions import Constant, Expressions


def evaluate(expressions: Expressions, inputs: Sequence[Any]) -> list[Any]:
    """Return the output leaves of a list for given input leaves; values are dropped after their last use.

    The inputs may be arrays or Tensors: on Tensors the evaluation is recorded, so a list can be differentiated again.
    """
    return evaluator(expressions)(inputs)


def evaluator(expressions: Expressions) -> Callable[[Sequence[Any]], list[Any]]:
    """Return `evaluate` of a list as a function of the inputs, for lists that are run many times, such as bodies of loops.

    What is the same for each run, when which value is dropped above all, is found once: that is half the time of a short list.
    """
    last = _last_uses(expressions)
    constants: dict[int, Any] = {}
    slots = len(expressions.specs)

    def place(source: int | Constant) -> int:
        """Return where the values of a run have an input: constants stand behind the slots."""
        if isinstance(source, Constant):
            constants[slots + len(constants)] = source.value
            return slots + len(constants) - 1
        return source

    steps = []
    for number, equation in enumerate(expressions.equations):
        dropped = {s for s in equation.inputs if not isinstance(s, Constant) and last[s] == number}
        places = [place(source) for source in equation.inputs]
        steps.append((equation.primitive, places, dict(equation.params), equation.outputs, tuple(dropped)))
    results = [place(source) for source in expressions.outputs]
    empty = [None] * (slots - len(expressions.inputs)) + list(constants.values())

    def run(inputs: Sequence[Any]) -> list[Any]:
        values = [*inputs, *empty]
        for primitive, places, params, outputs, dropped in steps:
            out = primitive(*[values[i] for i in places], **params)
            if primitive.multiple:
                for slot, value in zip(outputs, out, strict=True):
                    values[slot] = value
            else:
                values[outputs[0]] = out
            for slot in dropped:
                values[slot] = None
        return [values[i] for i in results]

    return run


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
