"""A list made shorter: without equations that nothing needs, and without those that compute the same again."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import PYTHON_SCALARS
from functad.transforms.closed_lists import extract


def simplified(expressions: Expressions) -> Expressions:
    """Return a list that computes the same by fewer equations."""
    return without_dead(without_repeats(expressions))


def without_dead(expressions: Expressions) -> Expressions:
    """Return a list without the equations whose results no output needs."""
    return extract(expressions, range(len(expressions.inputs)), expressions.outputs, expressions.inputs)


def without_repeats(expressions: Expressions) -> Expressions:
    """Return a list in which no equation computes what one before it has computed."""
    moved: dict[int, int] = {}
    seen: dict[Any, tuple[int, ...]] = {}
    kept = []

    def source(s: int | Constant) -> int | Constant:
        return moved.get(s, s) if type(s) is int else s

    for equation in expressions.equations:
        e = Equation(equation.primitive, tuple(map(source, equation.inputs)), equation.params, equation.outputs)
        key = _key(e)
        if key is None or key not in seen:
            kept.append(e)
            if key is not None:
                seen[key] = e.outputs
        else:
            moved |= dict(zip(e.outputs, seen[key], strict=True))
    return expressions.replace(equations=tuple(kept), outputs=tuple(map(source, expressions.outputs)))


def _key(equation: Equation) -> Any:
    """Return what is equal for equations that compute the same; `None` if that is not known."""
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
    if isinstance(value, np.ndarray):
        return "array", value.dtype, value.shape, value.tobytes()
    if isinstance(value, np.generic) or type(value) in PYTHON_SCALARS:
        return type(value), repr(value)
    if isinstance(value, (tuple, list)):
        return type(value), tuple(map(_value_key, value))
    if isinstance(value, slice):
        return "slice", value.start, value.stop, value.step
    return value
