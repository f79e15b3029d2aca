"""Functions of the array API standard that NumPy 2.0 lacks, by name; none if the installed NumPy has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.expressions.spec import dtype_of, shape_of
from functad.primitives.operands import as_operand


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Return the slices of an array along an axis."""
    return tuple(np.moveaxis(as_operand(x), axis, 0))


def accumulation(accumulate: Callable[..., Any], first: float) -> Callable[..., Any]:
    """Return `cumulative_sum` or `cumulative_prod`, given the accumulating function and the initial value."""

    def cumulative(
        x: Any, /, *, axis: int | None = None, dtype: Any = None, out: Any = None, include_initial: bool = False
    ) -> Any:
        x = as_operand(x)
        if axis is None and len(shape_of(x)) != 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
        along = 0 if axis is None else axis
        sums = accumulate(x, axis=along, dtype=dtype)
        if include_initial:
            shape = [1 if i == along % len(shape_of(sums)) else n for i, n in enumerate(shape_of(sums))]
            initial = np.full(shape, first, dtype_of(sums))
            sums = np.concatenate([initial, sums], axis=along)
        if out is None:
            return sums
        out[...] = sums
        return out

    return cumulative


class NamespaceInfo:
    """Capabilities of the namespace, as the array API standard defines them."""

    def capabilities(self) -> dict[str, Any]:
        """Return the optional capabilities of arrays."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Return the device of arrays created without a device."""
        return "cpu"

    def devices(self) -> list[str]:
        """Return all devices."""
        return ["cpu"]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, np.dtype[Any]]:
        """Return the dtypes of arrays created without a dtype."""
        return {
            "real floating": np.dtype(np.float64),
            "complex floating": np.dtype(np.complex128),
            "integral": np.dtype(np.intp),
            "indexing": np.dtype(np.intp),
        }

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
        """Return the dtypes of one or several kinds, by name."""
        sizes = {"int": (8, 16, 32, 64), "uint": (8, 16, 32, 64), "float": (32, 64), "complex": (64, 128)}
        names = ["bool", *[f"{name}{size}" for name, row in sizes.items() for size in row]]
        found = {name: np.dtype(name) for name in names}
        return found if kind is None else {name: dtype for name, dtype in found.items() if np.isdtype(dtype, kind)}


MISSING: dict[str, Any] = {
    name: value
    for name, value in {
        "unstack": unstack,
        "cumulative_sum": accumulation(np.cumsum, 0),
        "cumulative_prod": accumulation(np.cumprod, 1),
        "__array_namespace_info__": NamespaceInfo,
    }.items()
    if not hasattr(np, name)
}
"""Functions that the installed NumPy lacks."""
