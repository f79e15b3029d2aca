"""What is known of a value without having it: shape, dtype, and whether it is a weak Python scalar."""

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
"""The types met most that no Tensor can be: code that sees them skips the look for one, half its time on small arrays."""
_WEAK_NAMES = {"b": "bool", "i": "int", "f": "float", "c": "complex"}


def _checked(shape: Any) -> tuple[int, ...]:
    """Return a shape as a tuple.

    Raises:
        InputError: the shape is not a sequence of lengths, or a length is negative.
    """
    from functad.places import here  # noqa: PLC0415 - few programs make specs, and none from wrong shapes

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
        weak: `True` for a Python scalar, whose dtype yields to the dtype of any array.
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


def spec_of(value: Any) -> ArraySpec:
    """Return the spec of an array, a Tensor, a NumPy scalar, a Python scalar, or of a spec itself.

    Raises:
        TypeError: `value` is none of these.
    """
    if issubclass(type(value), ArraySpec):
        return value if type(value) is ArraySpec else ArraySpec(value.shape, value.dtype, value.weak, value.zero_d)
    dtype = PYTHON_SCALARS.get(type(value))
    if dtype is not None:
        return ArraySpec((), dtype, weak=True)
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
    """Return the spec of a value; `None` if it is no array or number."""
    try:
        return spec_of(value)
    except TypeError:
        return None


def strong_spec(value: Any) -> ArraySpec:
    """Return the spec of an array that has shape and dtype of a value or spec, also if that is of a Python number."""
    return ArraySpec(shape_of(value), dtype_of(value))


def in_native_order(spec: ArraySpec) -> ArraySpec:
    """Return a spec in the byte order of the processor, which results of operations on byte-swapped arrays have."""
    return spec if spec.dtype.isnative else ArraySpec(spec.shape, spec.dtype.newbyteorder("="), spec.weak)


def type_of(value: Any) -> type:
    """Return the type of a value; of a spec, the type of the values that it describes."""
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
    """Return the shape of an array, Tensor or scalar (a Python scalar has shape `()`)."""
    return () if type(value) in PYTHON_SCALARS else value.shape


class ChunkedShape(tuple[int, ...]):  # noqa: SLOT001 - tuples cannot have slots that hold something
    """The shape of an array that lies in chunks, as those of Dask do, with the lengths of its chunks along each axis.

    Rules of sums keep it in place of the shape, so that what they make of a number lies in the same chunks.
    """

    chunks: tuple[tuple[int, ...], ...]

    def broadcast(self, a: Any) -> Any:
        """Return an array of Dask broadcast to these chunks; NumPy's function has one chunk along new axes.

        Each chunk is made by the operation that takes it, of a number or a part of `a`. One large chunk would be cut by two
        tasks for each of the others.
        """
        fits = all(own in (wanted, (1,)) for own, wanted in zip(a.chunks, self.chunks[len(self) - a.ndim :], strict=True))
        library: Any = import_module("dask.array")
        return library.broadcast_to(a, tuple(self), chunks=self.chunks) if fits else np.broadcast_to(a, tuple(self))


def dtype_of(value: Any) -> np.dtype[Any]:
    """Return the dtype of an array, Tensor or scalar (that of a Python scalar is its widest)."""
    return PYTHON_SCALARS[type(value)] if type(value) in PYTHON_SCALARS else value.dtype


def inexact(value: Any) -> np.dtype[Any]:
    """Return the dtype that derivatives of a value have: its own, or float64 for integers."""
    dtype = dtype_of(value)
    return dtype if dtype.kind in "fc" else np.dtype(np.float64)


def is_array(value: Any) -> bool:
    """Say whether a value has shape and dtype: an array, a Tensor, or a number that is not one of Python's."""
    return hasattr(value, "dtype") and hasattr(value, "shape")


def is_array_or_number(value: Any) -> bool:
    """Say whether a value is an array, a Tensor or a number."""
    return type(value) in PYTHON_SCALARS or is_array(value)


def is_float_array(value: Any) -> bool:
    """Say whether a value is a plain array or number of NumPy, floating point or complex."""
    return issubclass(type(value), (np.ndarray, np.generic)) and value.dtype.kind in "fc"


def is_inexact(value: Any) -> bool:
    """Say whether a value can carry a derivative: floating point or complex."""
    return dtype_of(value).kind in "fc"
