"""Creation of Tensors from shapes and numbers: `tf.zeros`, `tf.range`, `tf.one_hot` and others."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.compat.tensorflow.dtypes import numpy_dtype
from functad.compat.tensorflow.tensors import as_tensor, enter_calls, operands, operation
from functad.expressions.spec import ArraySpec, dtype_of, shape_of
from functad.primitives.operands import innermost
from functad.tracing.traces.base import resolve


def static(value: Any) -> Any:
    """Return a static argument, such as indices or a shape, as a plain array."""
    return np.asarray(as_tensor(value).numpy())


def places_of(value: Any) -> Any:
    """Return positions as a plain array; under `vmap`, or if the values are unknown, as a Tensor."""
    tensor = as_tensor(value)
    return tensor if isinstance(innermost(resolve(tensor)), ArraySpec) else np.asarray(tensor.numpy())


def shape_from(value: Any) -> tuple[int, ...]:
    """Return a shape given as a list, a Tensor or one length."""
    return tuple(int(n) for n in np.atleast_1d(static(value)))


def _shape_and_dtype(input: Any, dtype: Any) -> tuple[Any, Any]:
    """Return the shape and dtype of a Tensor like `input`; derivatives do not propagate to `input`."""
    x = as_tensor(input)
    return shape_of(x), dtype_of(x) if dtype is None else numpy_dtype(dtype)


enter_calls(
    {
        "zeros": (np.zeros, lambda shape, dtype=np.float32, name=None: (shape_from(shape), numpy_dtype(dtype))),
        "ones": (np.ones, lambda shape, dtype=np.float32, name=None: (shape_from(shape), numpy_dtype(dtype))),
        "zeros_like": (np.zeros, lambda input, dtype=None, name=None: _shape_and_dtype(input, dtype)),
        "ones_like": (np.ones, lambda input, dtype=None, name=None: _shape_and_dtype(input, dtype)),
        "fill": (np.broadcast_to, lambda dims, value, name=None: (as_tensor(value), shape_from(dims))),
    }
)


_WIDTHS = [np.dtype(name) for name in ("bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8")]
"""The dtypes that `range` accepts, in TensorFlow's order of promotion: floats come after integers."""


@operation("range")
def range_(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str | None = None) -> Any:
    """Return the numbers from `start` (default 0) up to `limit`, excluded."""
    first, last = (0, start) if limit is None else (start, limit)
    numbers = [static(number) for number in operands(first, last, delta)]
    own = max([number.dtype for number in numbers], key=_WIDTHS.index) if dtype is None else None
    return np.arange(*[number[()] for number in numbers], dtype=own or numpy_dtype(dtype))


@operation("linspace")
def linspace(start: Any, stop: Any, num: Any, name: str | None = None, axis: int = 0) -> Any:
    """Return evenly spaced numbers, both ends included."""
    first, last = operands(start, stop)
    steps = np.linspace(0.0, 1.0, int(static(num))).astype(np.result_type(dtype_of(first), np.float16))
    steps = steps.reshape((-1,) + (1,) * len(shape_of(first)))
    return np.moveaxis(first + (last - first) * steps, 0, axis)


@operation("eye linalg.eye")
def eye(
    num_rows: Any, num_columns: Any = None, batch_shape: Any = None, dtype: Any = np.float32, name: str | None = None
) -> Any:
    """Return the identity matrix, or a batch of it."""
    matrix = np.eye(int(static(num_rows)), None if num_columns is None else int(static(num_columns)), dtype=numpy_dtype(dtype))
    return matrix if batch_shape is None else np.broadcast_to(matrix, (*shape_from(batch_shape), *matrix.shape))


@operation("one_hot")
def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = 1,
    off_value: Any = 0,
    axis: int = -1,
    dtype: Any = None,
    name: str | None = None,
) -> Any:
    """Return, for each integer, a row with `on_value` at that position; an integer out of range gives no `on_value`."""
    kind = np.float32 if dtype is None else numpy_dtype(dtype)
    chosen = np.expand_dims(places_of(indices), -1) == np.arange(int(static(depth)))
    return np.moveaxis(np.where(chosen, as_tensor(on_value, kind), as_tensor(off_value, kind)), -1, axis)


@operation("meshgrid")
def meshgrid(*args: Any, indexing: str = "xy", name: str | None = None) -> list[Any]:
    """Return the coordinates of a grid."""
    return list(np.meshgrid(*operands(*args), indexing=indexing))  # type: ignore[call-overload]
