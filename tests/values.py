"""Values among the results of functions: arrays, numbers and Tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

import functad

NUMBERS = (bool, int, float, complex)


def is_array(value: Any) -> bool:
    """Return `True` if a value is an array, a NumPy scalar, a number or a Tensor."""
    return type(value) in NUMBERS or (not isinstance(value, type) and hasattr(value, "dtype") and hasattr(value, "shape"))


def dtype_of(value: Any) -> np.dtype[Any]:
    """Return the dtype of an array, a Tensor or a number (the widest dtype for a Python number)."""
    return np.asarray(value).dtype if type(value) in NUMBERS else value.dtype


def innermost(value: Any) -> Any:
    """Return the value of a Tensor below all traces: an array, a number, or the spec in a batch or a trace without values."""
    while issubclass(type(value), functad.Tensor):
        value = value.current()
    return value
