"""Equations that are several for native code: a mean is a sum and a division."""

from __future__ import annotations

from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import ArraySpec
from functad.primitives.elementwise.arithmetic import DIVIDE
from functad.primitives.reductions.sums import MEAN, SUM, count


def expanded(expressions: Expressions) -> Expressions:
    """Return a list without means of real numbers."""
    if not any(e.primitive is MEAN for e in expressions.equations):
        return expressions
    specs = list(expressions.specs)
    equations: list[Equation] = []
    for equation in expressions.equations:
        [source, *_] = equation.inputs or (None,)
        if (
            equation.primitive is not MEAN
            or type(source) is not int
            or specs[source].dtype.kind != "f"
            or not specs[source].size
        ):
            equations.append(equation)
            continue
        [out] = equation.outputs
        specs.append(ArraySpec(specs[out].shape, specs[out].dtype))
        total = len(specs) - 1
        number = count(specs[source].shape, equation.params["axis"])
        equations.append(Equation(SUM, (source,), dict(equation.params), (total,)))
        equations.append(Equation(DIVIDE, (total, Constant(float(number))), {}, (out,)))
    return expressions.replace(equations=tuple(equations), specs=tuple(specs))
