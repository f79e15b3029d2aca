"""What is known of the result of an equation: whether it is a new array, and which ufunc computes it."""

from __future__ import annotations

import numpy as np

from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import spec_of


def is_fresh(equation: Equation) -> bool:
    """Say whether the result of an equation is surely a new array, or a number."""
    primitive = equation.primitive
    return primitive.fresh and primitive.owner is None


def ufunc_of(equation: Equation, expressions: Expressions) -> np.ufunc | None:
    """Return the ufunc that computes an equation: for Python numbers alone operators give others."""
    function = equation.primitive.function
    if not isinstance(function, np.ufunc) or equation.params or function.nout != 1:
        return None
    specs = [expressions.specs[s] if not isinstance(s, Constant) else spec_of(s.value) for s in equation.inputs]
    return function if any(not spec.weak for spec in specs) else None


def is_power(ufunc: np.ufunc | None, equation: Equation, expressions: Expressions) -> bool:
    """Return `True` if the text `x**y` computes an equation. For booleans, `x**2` has another dtype than `np.power(x, 2)`."""
    base = equation.inputs[0]
    spec = expressions.specs[base] if not isinstance(base, Constant) else spec_of(base.value)
    return ufunc is np.power and spec.dtype.kind != "b"


def makes_numbers(expressions: Expressions) -> bool:
    """Say whether results of shape `()` of a list are surely numbers, and not arrays, where NumPy computes them."""
    wanted = {s for s in expressions.outputs if type(s) is not int or not expressions.specs[s].shape}
    for equation in expressions.equations:
        if equation.primitive.zero_d is False:
            wanted.difference_update(equation.outputs)
    return not wanted
