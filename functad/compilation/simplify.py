"""A list made shorter: without equations that nothing needs, and without those that compute the same again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import PYTHON_SCALARS, ArraySpec
from functad.primitives.safe import PRODUCT
from functad.transforms.closed_lists import extract


def simplified(expressions: Expressions) -> Expressions:
    """Return a list that computes the same by fewer equations."""
    return without_dead(without_repeats(without_ones(expressions)))


def without_ones(expressions: Expressions) -> Expressions:
    """Return a list that multiplies by no constants that are ones, as the derivative of a sum is: that changes no value."""
    moved: dict[int, int] = {}
    kept = []
    for equation in expressions.equations:
        e = _with_sources(equation, moved)
        same = _factor(e, expressions.specs)
        if same is None:
            kept.append(e)
        else:
            moved[e.outputs[0]] = same
    return _with_results(expressions, kept, moved)


def _factor(equation: Equation, specs: Sequence[ArraySpec]) -> int | None:
    """Return the slot that an equation multiplies by ones without changing its shape or dtype; `None` if it does not."""
    if equation.primitive.function is not np.multiply and equation.primitive is not PRODUCT:
        return None
    for one, other in (equation.inputs, equation.inputs[::-1]):
        if isinstance(one, Constant) and type(other) is int and specs[other] == specs[equation.outputs[0]]:
            value = one.value
            if not issubclass(type(value), (np.ndarray, np.generic, int, float)) or not np.all(value == 1):
                continue
            return other
    return None


def _with_sources(equation: Equation, moved: Mapping[int, int]) -> Equation:
    """Return an equation that reads other slots in the place of some."""
    if not any(type(s) is int and s in moved for s in equation.inputs):
        return equation
    inputs = tuple([moved.get(s, s) if type(s) is int else s for s in equation.inputs])
    return Equation(equation.primitive, inputs, equation.params, equation.outputs)


def _with_results(expressions: Expressions, equations: Sequence[Equation], moved: Mapping[int, int]) -> Expressions:
    """Return a list of other equations, which returns other slots in the place of some."""
    outputs = tuple([moved.get(s, s) if type(s) is int else s for s in expressions.outputs])
    return expressions.replace(equations=tuple(equations), outputs=outputs)


def without_dead(expressions: Expressions) -> Expressions:
    """Return a list without the equations whose results no output needs."""
    return extract(expressions, range(len(expressions.inputs)), expressions.outputs, expressions.inputs)


def without_repeats(expressions: Expressions) -> Expressions:
    """Return a list in which no equation computes what one before it has computed."""
    moved: dict[int, int] = {}
    seen: dict[Any, tuple[int, ...]] = {}
    kept = []
    for equation in expressions.equations:
        e = _with_sources(equation, moved)
        key = _key(e)
        if key is None or key not in seen:
            kept.append(e)
            if key is not None:
                seen[key] = e.outputs
        else:
            moved |= dict(zip(e.outputs, seen[key], strict=True))
    return _with_results(expressions, kept, moved)


def _key(equation: Equation) -> Any:
    """Return a key that equations have in common if they compute the same; `None` if that is not known."""
    primitive = equation.primitive
    if primitive.inner is not None or primitive.owner is not None or primitive.lists:
        return None
    try:
        parts = tuple([_value_key(s.value) if isinstance(s, Constant) else s for s in equation.inputs])
        params = tuple([(name, _value_key(value)) for name, value in equation.params.items()])
        hash((parts, params))
    except TypeError:
        return None
    return primitive, parts, params


def _value_key(value: Any) -> Any:
    """Return a key of a value: of an array that of its bytes."""
    if issubclass(type(value), np.ndarray):
        return "array", value.dtype, value.shape, value.tobytes()
    if issubclass(type(value), np.generic) or type(value) in PYTHON_SCALARS:
        return type(value), repr(value)
    if isinstance(value, (tuple, list)):
        return type(value), tuple(map(_value_key, value))
    if isinstance(value, slice):
        return "slice", value.start, value.stop, value.step
    return value
