"""What a record says of shapes and dtypes: what derivatives must be brought to, where they can differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.errors import ConversionError
from functad.expressions.spec import dtype_of, shape_of
from functad.places import here
from functad.primitives.primitive import Primitive

_FLOAT64 = np.dtype(np.float64)


def specs_for(mode: str, primitive: Primitive, values: Sequence[Any], active: tuple[int, ...], out: Any) -> Any:
    """Return what a record that a short way makes says of shapes and dtypes: what derivatives must be brought to.

    In a forward trace that is the spec of the result, and `None` where other records say whether the VJP is to be transposed:
    the tangent is found by `Plan.pushes`.
    """
    if mode == "reverse":
        return reverse_specs(primitive, values, active, out)
    return (shape_of(out), dtype_of(out)), None


def reverse_specs(primitive: Primitive, values: Sequence[Any], active: tuple[int, ...], out: Any) -> Any:
    """Return the shape and dtype that the cotangent of each active input must be brought to, or `None`.

    `None` stands for what cannot differ: the shape unless the primitive broadcasts, the dtype if it is that of the result.
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
    result = []
    for i in active:
        value = values[i]
        shape = shape_of(value) if broadcasts else None
        if shape is not None and primitive.kind == "elementwise" and shape == shape_of(out):
            shape = None
        own = dtype_of(value)
        result.append(None if shape is None and own is dtype else (shape, own))
    if not any(result):
        return None
    return result[0] if len(result) == 1 else tuple(result)
