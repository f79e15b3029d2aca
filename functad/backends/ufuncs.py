"""Properties of an equation: whether its result is a new array, and the ufunc that computes it."""

from __future__ import annotations

import numpy as np

from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import spec_of


def is_fresh(equation: Equation) -> bool:
    """Return `True` if the result of an equation is always a new array or a number."""
    primitive = equation.primitive
    return primitive.fresh and primitive.owner is None


def ufunc_of(equation: Equation, expressions: Expressions) -> np.ufunc | None:
    """Return the ufunc that computes an equation, or `None`. For Python numbers alone, ufuncs and operators differ: `None`."""
    function = equation.primitive.function
    if not isinstance(function, np.ufunc) or equation.params or function.nout != 1:
        return None
    specs = [expressions.specs[s] if not isinstance(s, Constant) else spec_of(s.value) for s in equation.inputs]
    return function if any(not spec.weak for spec in specs) else None


def is_power(ufunc: np.ufunc | None, equation: Equation, expressions: Expressions) -> bool:
    """Return `True` if `x**y` computes the equation. For booleans, `x**2` and `np.power(x, 2)` differ in dtype."""
    base = equation.inputs[0]
    spec = expressions.specs[base] if not isinstance(base, Constant) else spec_of(base.value)
    return ufunc is np.power and spec.dtype.kind != "b"


def makes_numbers(expressions: Expressions) -> bool:
    """Return `True` if NumPy gives all results of shape `()` as numbers, never as arrays."""
    wanted = {s for s in expressions.outputs if type(s) is not int or not expressions.specs[s].shape}
    for equation in expressions.equations:
        if equation.primitive.zero_d is False:
            wanted.difference_update(equation.outputs)
    return not wanted
