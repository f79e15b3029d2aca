"""What TensorFlow computes element by element: mostly NumPy's ufuncs under TensorFlow's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import functad
from functad.compat.tensorflow.creation import zeros_like
from functad.compat.tensorflow.names import enter
from functad.compat.tensorflow.tensors import as_tensor, operands, operation, returning_tensors
from functad.expressions.spec import dtype_of

UNARY: dict[str, Any] = {
    "abs math.abs": np.abs,
    "acos math.acos": np.arccos,
    "acosh math.acosh": np.arccosh,
    "asin math.asin": np.arcsin,
    "asinh math.asinh": np.arcsinh,
    "atan math.atan": np.arctan,
    "atanh math.atanh": np.arctanh,
    "ceil math.ceil": np.ceil,
    "cos math.cos": np.cos,
    "cosh math.cosh": np.cosh,
    "exp math.exp": np.exp,
    "floor math.floor": np.floor,
    "imag math.imag": np.imag,
    "is_finite math.is_finite": np.isfinite,
    "is_inf math.is_inf": np.isinf,
    "is_nan math.is_nan": np.isnan,
    "log math.log": np.log,
    "logical_not math.logical_not": np.logical_not,
    "log1p math.log1p": np.log1p,
    "math.angle angle": np.angle,
    "math.conj conj": np.conj,
    "math.expm1 expm1": np.expm1,
    "math.reciprocal reciprocal": lambda x: 1 / x,
    "math.rsqrt rsqrt": lambda x: 1 / np.sqrt(x),
    "negative math.negative": np.negative,
    "real math.real": np.real,
    "round math.round": np.rint,
    "sin math.sin": np.sin,
    "sinh math.sinh": np.sinh,
    "sqrt math.sqrt": np.sqrt,
    "square math.square": np.square,
    "tan math.tan": np.tan,
    "tanh math.tanh nn.tanh keras.activations.tanh": np.tanh,
}
"""Functions of one Tensor."""

BINARY: dict[str, Any] = {
    "add math.add": np.add,
    "atan2 math.atan2": np.arctan2,
    "divide math.divide truediv math.truediv": np.true_divide,
    "equal math.equal": np.equal,
    "floordiv math.floordiv": np.floor_divide,
    "greater math.greater": np.greater,
    "greater_equal math.greater_equal": np.greater_equal,
    "less math.less": np.less,
    "less_equal math.less_equal": np.less_equal,
    "logical_and math.logical_and": np.logical_and,
    "logical_or math.logical_or": np.logical_or,
    "math.floormod math.mod mod": np.remainder,
    "math.squared_difference": lambda x, y: np.square(x - y),
    "multiply math.multiply": np.multiply,
    "not_equal math.not_equal": np.not_equal,
    "pow math.pow": np.power,
    "subtract math.subtract": np.subtract,
}
"""Functions of two Tensors."""


def _of_one(function: Callable[[Any], Any], path: str) -> Callable[..., Any]:
    def apply(x: Any, name: str | None = None) -> Any:
        return function(as_tensor(x))

    return _called(apply, path)


def _of_two(function: Callable[[Any, Any], Any], path: str) -> Callable[..., Any]:
    def apply(x: Any, y: Any, name: str | None = None) -> Any:
        return function(*operands(x, y))

    return _called(apply, path)


def _called(apply: Callable[..., Any], path: str) -> Callable[..., Any]:
    apply.__name__ = apply.__qualname__ = path.partition(" ")[0]
    apply.__doc__ = f"TensorFlow's `tf.{apply.__name__}`, element by element."
    return returning_tensors(apply)


for _paths, _function in UNARY.items():
    enter(_paths, _of_one(_function, _paths))
for _paths, _function in BINARY.items():
    enter(_paths, _of_two(_function, _paths))


@operation("sign math.sign")
def sign(x: Any, name: str | None = None) -> Any:
    """Return -1, 0 or 1; the derivative is zero, and not `None` as for rounding."""
    x = as_tensor(x)
    return np.where(True, np.sign(x), x)  # the branch not taken has a path, and derivative zero


@operation("maximum math.maximum")
def maximum(x: Any, y: Any, name: str | None = None) -> Any:
    """Return the larger elements; where both are equal, the derivative goes to `x`."""
    x, y = operands(x, y)
    return np.where((x >= y) | (x != x), x, y)


@operation("minimum math.minimum")
def minimum(x: Any, y: Any, name: str | None = None) -> Any:
    """Return the smaller elements; where both are equal, the derivative goes to `x`."""
    x, y = operands(x, y)
    return np.where((x <= y) | (x != x), x, y)


@operation("clip_by_value")
def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """Return elements limited to an interval, at whose ends the derivative passes."""
    return np.clip(*operands(t, clip_value_min, clip_value_max))


@operation("math.divide_no_nan")
def divide_no_nan(x: Any, y: Any, name: str | None = None) -> Any:
    """Return quotients, and 0 where the denominator is 0."""
    x, y = operands(x, y)
    safe = np.where(y == 0, as_tensor(1, dtype_of(y)), y)
    return np.where(y == 0, zeros_like(safe), x / safe)


@operation("math.accumulate_n add_n math.add_n")
def add_n(inputs: Any, name: str | None = None) -> Any:
    """Return the sum of Tensors in a list."""
    first, *others = operands(*inputs)
    for other in others:
        first = first + other
    return first


@operation("complex dtypes.complex")
def complex_(real: Any, imag: Any, name: str | None = None) -> Any:
    """Return complex numbers from their parts: complex64 from float32."""
    real, imag = operands(real, imag)
    return real + imag * np.result_type(dtype_of(real), np.complex64).type(1j)


@operation("where")
def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Return elements of `x` where the condition holds, of `y` elsewhere; without these, the positions where it holds."""
    condition = as_tensor(condition)
    if x is None and y is None:
        return np.argwhere(condition.numpy())
    x, y = operands(x, y)
    return np.where(condition, x, y)


@operation("stop_gradient")
def stop_gradient(input: Any, name: str | None = None) -> Any:
    """Return the value as a constant; a list is stacked."""
    return functad.stop_gradient(as_tensor(input))
