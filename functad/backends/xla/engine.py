"""Lazy imports of JAX, which take two seconds, and conversions of dtypes. The tables are filled without JAX."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np


class Late:
    """A module that is imported when one of its names is first read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._name), name)
        setattr(self, name, value)
        return value


jax: Any = Late("jax")
jnp: Any = Late("jax.numpy")
lax: Any = Late("jax.lax")


def in_double_precision(wide: bool) -> Any:
    """Return a context that enables or disables 64-bit dtypes of JAX. The user's configuration does not change."""
    return jax.enable_x64(wide)


def cast(value: Any, dtype: Any) -> Any:
    """Return a value as a JAX array with a dtype, converted as in NumPy.

    Raises:
        TypeError: the conversion would discard the imaginary part.
    """
    if getattr(value, "dtype", None) == dtype and isinstance(value, jax.Array):
        return value
    if not isinstance(value, jax.Array):  # NumPy converts numbers and constants
        return jnp.asarray(readable(np.asarray(value).astype(np.dtype(dtype).newbyteorder("="))))
    if np.dtype(dtype).kind == "b":
        return value != 0
    if value.dtype.kind == "c" and np.dtype(dtype).kind != "c":
        raise TypeError(f"{value.dtype} does not fit into {dtype}")
    if value.dtype == np.bool_ and np.dtype(dtype).kind in "fc":  # XLA turns a product with a converted boolean into a select
        return jnp.where(value, np.ones((), dtype), np.zeros((), dtype))
    return lax.convert_element_type(value, dtype)


def converted_to(value: Any, dtype: Any) -> Any:
    """Return a value converted as by `astype` or an assignment. A real dtype discards the imaginary part.

    As in NumPy on common processors, floating-point numbers out of range wrap in unsigned integers, and integers of 8 or 16
    bits take the lowest bits. XLA's own conversion returns the nearest integer of the dtype.
    """
    target = np.dtype(dtype)
    if not isinstance(value, jax.Array) or target.kind not in "iuf":
        return cast(value, target)
    if value.dtype.kind == "c":
        value = value.real
    if value.dtype.kind != "f" or target.kind == "f":
        return cast(value, target)
    if value.dtype.itemsize < 4:
        value = cast(value, np.dtype(np.float32))  # half precision cannot represent the bounds of the integers
    if target.itemsize < 4:
        return cast(_as_signed(value, np.dtype(np.int32)), target)
    if target.kind == "i":
        return _as_signed(value, target)
    return _as_uint32(value) if target.itemsize == 4 else _as_uint64(value)


def _as_uint32(value: Any) -> Any:
    """Return floating-point numbers modulo 2**32, and 0 outside the range of int64, as NumPy converts a scalar.

    The remainder of the absolute value is exact in each floating-point dtype and needs no int64.
    """
    size = jnp.where(abs(value) < 2.0**63, abs(value), jnp.zeros((), value.dtype))
    found = cast(jnp.fmod(size, jnp.asarray(2.0**32, value.dtype)), np.dtype(np.uint32))
    return jnp.where(value < 0, -found, found)


def _as_uint64(value: Any) -> Any:
    """Return floating-point numbers as uint64. NumPy computes the integers for NaN and overflow at compile time."""
    target = np.dtype(np.uint64)
    with np.errstate(invalid="ignore"):
        of_nan, of_large = np.array([np.nan, np.inf]).astype(target)
    found = jnp.where(value < 0, cast(cast(value, np.dtype(np.int64)), target), cast(value, target))
    return jnp.where(value != value, of_nan, jnp.where(value >= 2.0**64, of_large, found))


def _as_signed(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return floating-point numbers as signed integers. NumPy computes the integers for NaN and overflow at compile time."""
    with np.errstate(invalid="ignore"):
        of_nan, of_large = np.array([np.nan, np.inf]).astype(dtype)
    found = jnp.where(value != value, of_nan, cast(value, dtype))
    return jnp.where(value >= 2.0 ** (8 * dtype.itemsize - 1), of_large, found)


def readable(value: Any) -> Any:
    """Convert a NumPy array to the format of XLA: native byte order, and boolean bytes 0 or 1.

    NumPy treats each nonzero byte of a boolean array as true. XLA computes with the byte itself.
    """
    if type(value) is not np.ndarray:
        return value
    if value.dtype == np.bool_:
        return value.view(np.uint8) != 0
    return value if value.dtype.isnative else value.astype(value.dtype.newbyteorder("="))
