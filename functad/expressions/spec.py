"""Abstract values: shape, dtype, and the weak type of Python scalars."""

from __future__ import annotations

import math
import operator
from importlib import import_module
from typing import Any

import numpy as np

from functad.errors import InputError
from functad.immutable import Immutable, assign

PYTHON_SCALARS: dict[type, np.dtype[Any]] = {
    bool: np.dtype(np.bool_),
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    complex: np.dtype(np.complex128),
}
PLAIN = frozenset({np.ndarray, np.float64, np.float32, np.complex128, np.complex64, *PYTHON_SCALARS})
"""The most common types that are not Tensors. Skipping the search for Tensors in them halves its time on small arrays."""
_WEAK_NAMES = {"b": "bool", "i": "int", "f": "float", "c": "complex"}


def _checked(shape: Any) -> tuple[int, ...]:
    """Return a shape as a tuple.

    Raises:
        InputError: the shape is not a sequence of lengths, or a length is negative.
    """
    from functad.places import here  # noqa: PLC0415 - needed for an error only

    try:
        lengths = tuple(map(operator.index, shape)) if hasattr(shape, "__iter__") else (operator.index(shape),)
    except TypeError:
        lengths = (-1,)
    if any(length < 0 for length in lengths):
        raise InputError(f"ArraySpec, at {here()}: shape is {shape!r}. Pass a tuple of lengths, such as (2, 3).")
    return lengths


class ArraySpec(Immutable):
    """Shape and dtype of an array or a number.

    NumPy has two kinds of value of shape `()`: a scalar (`np.float64`) is immutable, an array can be written to. `zero_d` tells
    them apart. Equality and hash ignore `zero_d`, since both kinds hold the same data.

    Attributes:
        shape: a tuple of integers.
        dtype: a NumPy dtype.
        weak: `True` for a Python scalar: its dtype yields to the dtype of any array.
        zero_d: `True` for an array of shape `()`; `False` for a scalar and for an array with axes.

    Example:
        >>> ArraySpec((2, 3), np.dtype(np.float32))
        float32[2,3]
        >>> spec_of(1.5)
        float[]
    """

    __slots__ = ("dtype", "shape", "weak", "zero_d")

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    weak: bool
    zero_d: bool

    def __init__(self, shape: Any, dtype: Any, weak: bool = False, zero_d: bool = False) -> None:
        if isinstance(dtype, (type, str)):
            dtype = np.dtype(dtype)
        if type(shape) is not tuple or (shape and min(shape) < 0):
            shape = _checked(shape)
        assign(self, "shape", shape)
        assign(self, "dtype", dtype)
        assign(self, "weak", weak)
        assign(self, "zero_d", zero_d)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"zero_d": False, **state})

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.shape == other.shape and self.dtype == other.dtype and self.weak == other.weak

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.weak))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.size * self.dtype.itemsize

    def __repr__(self) -> str:
        name = _WEAK_NAMES[self.dtype.kind] if self.weak else self.dtype.name
        return f"{name}[{','.join(map(str, self.shape))}]"


_OF_NUMBERS = {kind: ArraySpec((), dtype, weak=True) for kind, dtype in PYTHON_SCALARS.items()}


def spec_of(value: Any) -> ArraySpec:
    """Return the spec of an array, a Tensor, a NumPy scalar, a Python scalar, a list, or a spec itself.

    Raises:
        TypeError: `value` is none of these.
    """
    if issubclass(type(value), ArraySpec):
        return value if type(value) is ArraySpec else ArraySpec(value.shape, value.dtype, value.weak, value.zero_d)
    known = _OF_NUMBERS.get(type(value))
    if known is not None:
        return known
    spec = getattr(value, "spec", None)
    if isinstance(spec, ArraySpec):
        return spec
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        shape = tuple(value.shape)
        return ArraySpec(shape, value.dtype, False, not shape and issubclass(type(value), np.ndarray))
    if isinstance(value, (list, tuple)):
        return spec_of(np.asarray(value))
    raise TypeError(f"{type(value).__name__} is no array")


def spec_or_none(value: Any) -> ArraySpec | None:
    """Return the spec of a value; `None` if it is neither array nor number."""
    try:
        return spec_of(value)
    except TypeError:
        return None


def strong_spec(value: Any) -> ArraySpec:
    """Return a spec with the shape and dtype of a value or spec that is never weak."""
    return ArraySpec(shape_of(value), dtype_of(value))


def in_native_order(spec: ArraySpec) -> ArraySpec:
    """Return the spec in native byte order: results of operations on byte-swapped arrays have native order."""
    return spec if spec.dtype.isnative else ArraySpec(spec.shape, spec.dtype.newbyteorder("="), spec.weak)


def type_of(value: Any) -> type:
    """Return the type of a value, or the type of the values that a spec describes."""
    if not issubclass(type(value), ArraySpec):
        return type(value)
    if value.weak:
        return type(value.dtype.type(0).item())
    return np.ndarray if value.shape or value.zero_d else value.dtype.type


def stand_in(value: Any) -> Any:
    """Return an array with the given spec that takes no memory: all its strides are zero.

    The result is a scalar if the spec describes a scalar. A value that is not a spec is returned unchanged.
    """
    if not isinstance(value, ArraySpec):
        return value
    if value.weak:
        return value.dtype.type(1).item()
    if not value.shape and not value.zero_d:
        return value.dtype.type(1)
    return np.broadcast_to(np.ones((), value.dtype), value.shape)


def shape_of(value: Any) -> tuple[int, ...]:
    """Return the shape of an array, Tensor or scalar (`()` for a Python scalar)."""
    return () if type(value) in PYTHON_SCALARS else value.shape


class ChunkedShape(tuple[int, ...]):  # noqa: SLOT001 - tuples cannot have non-empty slots
    """The shape of a chunked array (Dask), with the lengths of its chunks along each axis.

    Rules of sums save it in place of the shape, so that broadcast cotangents have the same chunks.
    """

    chunks: tuple[tuple[int, ...], ...]

    def broadcast(self, a: Any) -> Any:
        """Return a Dask array broadcast to these chunks. NumPy's function makes one chunk along new axes.

        Each chunk is made by the task that reads it. One large chunk would need two slicing tasks for each other chunk.
        """
        fits = all(own in (wanted, (1,)) for own, wanted in zip(a.chunks, self.chunks[len(self) - a.ndim :], strict=True))
        library: Any = import_module("dask.array")
        return library.broadcast_to(a, tuple(self), chunks=self.chunks) if fits else np.broadcast_to(a, tuple(self))


def dtype_of(value: Any) -> np.dtype[Any]:
    """Return the dtype of an array, Tensor or scalar (the widest dtype for a Python scalar)."""
    return PYTHON_SCALARS[type(value)] if type(value) in PYTHON_SCALARS else value.dtype


def inexact(value: Any) -> np.dtype[Any]:
    """Return the dtype of the derivatives of a value: its own dtype, or float64 for integers."""
    dtype = dtype_of(value)
    return dtype if dtype.kind in "fc" else np.dtype(np.float64)


def is_array(value: Any) -> bool:
    """Return `True` if a value has shape and dtype: an array, a Tensor, or a NumPy number."""
    return hasattr(value, "dtype") and hasattr(value, "shape")


def is_array_or_number(value: Any) -> bool:
    """Return `True` for an array, a Tensor or a number."""
    return type(value) in PYTHON_SCALARS or is_array(value)


def shape_and_dtype(value: Any) -> tuple[Any, Any]:
    """Return the shape and the dtype of an array, a Tensor or a number; `None` for each that another object lacks."""
    if type(value) in PYTHON_SCALARS:
        return (), PYTHON_SCALARS[type(value)]
    return getattr(value, "shape", None), getattr(value, "dtype", None)


def is_float_array(value: Any) -> bool:
    """Return `True` for a plain NumPy array or number with a floating point or complex dtype."""
    return issubclass(type(value), (np.ndarray, np.generic)) and value.dtype.kind in "fc"


def is_inexact(value: Any) -> bool:
    """Return `True` if a value can have a derivative: floating point or complex."""
    return dtype_of(value).kind in "fc"
