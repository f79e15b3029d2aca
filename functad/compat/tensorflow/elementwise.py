"""TensorFlow's elementwise functions: mostly NumPy's ufuncs under TensorFlow's names."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

import functad
from functad.compat.tensorflow.tensors import as_tensor, enter_calls, operands, operation
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
    "sign math.sign": lambda x: np.where(True, np.sign(x), x),  # the branch not taken gives the derivative 0 instead of `None`
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
    "maximum math.maximum": lambda x, y: np.where((x >= y) | (x != x), x, y),  # for equal elements, x gets the derivative
    "minimum math.minimum": lambda x, y: np.where((x <= y) | (x != x), x, y),
    "multiply math.multiply": np.multiply,
    "not_equal math.not_equal": np.not_equal,
    "pow math.pow": np.power,
    "subtract math.subtract": np.subtract,
}
"""Functions of two Tensors."""


enter_calls({paths: (function, lambda x, name=None: (as_tensor(x),)) for paths, function in UNARY.items()})
enter_calls({paths: (function, lambda x, y, name=None: operands(x, y)) for paths, function in BINARY.items()})
enter_calls(
    {
        "clip_by_value": (
            np.clip,
            lambda t, clip_value_min, clip_value_max, name=None: operands(t, clip_value_min, clip_value_max),
        ),
        "math.add_n add_n math.accumulate_n": (
            lambda *tensors: functools.reduce(operator.add, tensors),
            lambda inputs, name=None: operands(*inputs),
        ),
        "stop_gradient": (functad.stop_gradient, lambda input, name=None: (as_tensor(input),)),
    }
)


@operation("math.divide_no_nan")
def divide_no_nan(x: Any, y: Any, name: str | None = None) -> Any:
    """Return quotients, with 0 at zero denominators."""
    x, y = operands(x, y)
    safe = np.where(y == 0, as_tensor(1, dtype_of(y)), y)
    return np.where(y == 0, np.zeros_like(safe), x / safe)


@operation("complex dtypes.complex")
def complex_(real: Any, imag: Any, name: str | None = None) -> Any:
    """Return complex numbers from their real and imaginary parts; float32 gives complex64."""
    real, imag = operands(real, imag)
    return real + imag * np.result_type(dtype_of(real), np.complex64).type(1j)


@operation("where")
def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Return elements of `x` where the condition holds, otherwise of `y`; without both, the positions where it holds."""
    condition = as_tensor(condition)
    if x is None and y is None:
        return np.argwhere(condition.numpy())
    x, y = operands(x, y)
    return np.where(condition, x, y)
