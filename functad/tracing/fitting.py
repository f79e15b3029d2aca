"""The specs in records: the shape and dtype to which a tangent or cotangent must be cast, broadcast or summed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.errors import ConversionError
from functad.expressions.spec import PYTHON_SCALARS, dtype_of, shape_of
from functad.places import here
from functad.primitives.entry import Primitive

_ndarray = np.ndarray
_FLOAT64 = np.dtype(np.float64)


def forward_specs(primitive: Primitive, values: Sequence[Any], active: tuple[int, ...], out: Any) -> Any:
    """Return the shape and dtype of the tangent of the result; `(None, specs)` for several results."""
    if primitive.multiple:
        return None, tuple([(shape_of(value), dtype_of(value)) for value in out])
    return shape_of(out), dtype_of(out)


def reverse_specs_beside(primitive: Primitive, values: Sequence[Any], active: tuple[int, ...], out: Any) -> Any:
    """Return the result of `reverse_specs` for an elementwise primitive, in 40 % of the time if all dtypes are equal."""
    if type(out) is _ndarray:
        shape, dtype = out.shape, out.dtype
        first = values[active[0]]
        if type(first) is _ndarray and first.dtype is dtype:
            spec = None if first.shape == shape else (first.shape, dtype)
            if len(active) == 1:
                return spec
            second = values[active[1]]
            if type(second) is _ndarray and second.dtype is dtype:
                other = None if second.shape == shape else (second.shape, dtype)
                return None if spec is other else (spec, other)
    return reverse_specs(primitive, values, active, out)


def reverse_specs(primitive: Primitive, values: Sequence[Any], active: tuple[int, ...], out: Any) -> Any:
    """Return the shape and dtype to which the cotangent of each active input must be brought, or `None`.

    `None` means no conversion. In a spec, the shape is `None` if broadcasting does not change the shape of the input.
    """
    dtype = None if primitive.multiple else dtype_of(out)
    if dtype is not _FLOAT64 and dtype is not None and dtype.kind == "O":
        raise ConversionError(
            f"{primitive.name} of a Tensor and an array of Python objects, at {here()}, would give an array of objects. "
            f"Make the other array one of numbers: a.astype(float), or np.stack(list(a)) if there are Tensors in it; "
            f"products with a sparse matrix are A @ t and t @ A."
        )
    broadcasts = primitive.broadcasts and len(values) > 1
    if not broadcasts and len(active) == 1:
        own = dtype_of(values[active[0]])
        return None if own is dtype else (None, own)
    if not broadcasts and not primitive.multiple:
        for i in active:
            if dtype_of(values[i]) is not dtype:
                break
        else:
            return None
    whole = shape_of(out) if broadcasts and primitive.kind == "elementwise" else None
    result = []
    for i in active:
        value = values[i]
        kind = type(value)
        shape, own = ((), PYTHON_SCALARS[kind]) if kind in PYTHON_SCALARS else (value.shape, value.dtype)
        if not broadcasts or shape == whole:
            shape = None
        result.append(None if shape is None and own is dtype else (shape, own))
    if not any(result):
        return None
    return result[0] if len(result) == 1 else tuple(result)
