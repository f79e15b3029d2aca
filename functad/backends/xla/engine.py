"""JAX's modules, imported when something of them is first used: that takes two seconds, and the tables need no JAX."""

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
    """Return a context in which JAX has 64-bit dtypes, or has none; the user's configuration stays what it is."""
    return jax.enable_x64(wide)


def cast(value: Any, dtype: Any) -> Any:
    """Return a value as an array of JAX with a dtype, converted as NumPy does.

    Raises:
        TypeError: the imaginary part would be lost.
    """
    if getattr(value, "dtype", None) == dtype and isinstance(value, jax.Array):
        return value
    if not isinstance(value, jax.Array):  # numbers and constants: NumPy itself converts them
        return jnp.asarray(readable(np.asarray(value).astype(np.dtype(dtype).newbyteorder("="))))
    if np.dtype(dtype).kind == "b":
        return value != 0
    if value.dtype.kind == "c" and np.dtype(dtype).kind != "c":
        raise TypeError(f"{value.dtype} does not fit into {dtype}")
    if value.dtype == np.bool_ and np.dtype(dtype).kind in "fc":  # XLA makes a choice of a product with a converted boolean
        return jnp.where(value, np.ones((), dtype), np.zeros((), dtype))
    return lax.convert_element_type(value, dtype)


def converted_to(value: Any, dtype: Any) -> Any:
    """Return a value converted as by `astype` or an assignment: the imaginary part is lost where the dtype is real.

    Floating-point numbers out of range wrap in unsigned integers, and integers of 8 or 16 bits take the last bits, as in NumPy
    on the usual processors. XLA returns the nearest integer of the dtype.
    """
    target = np.dtype(dtype)
    if not isinstance(value, jax.Array) or target.kind not in "iuf":
        return cast(value, target)
    if value.dtype.kind == "c":
        value = value.real
    if value.dtype.kind != "f" or target.kind == "f":
        return cast(value, target)
    if value.dtype.itemsize < 4:
        value = cast(value, np.dtype(np.float32))  # half precision does not have the bounds of the integers
    if target.itemsize < 4:
        return cast(_as_signed(value, np.dtype(np.int32)), target)
    if target.kind == "i":
        return _as_signed(value, target)
    return _as_uint32(value) if target.itemsize == 4 else _as_uint64(value)


def _as_uint32(value: Any) -> Any:
    """Return floating-point numbers modulo 2**32, and 0 for what int64 cannot hold, as NumPy converts one number.

    The remainder of the size is exact in each floating-point dtype, and needs no int64.
    """
    size = jnp.where(abs(value) < 2.0**63, abs(value), jnp.zeros((), value.dtype))
    found = cast(jnp.fmod(size, jnp.asarray(2.0**32, value.dtype)), np.dtype(np.uint32))
    return jnp.where(value < 0, -found, found)


def _as_uint64(value: Any) -> Any:
    """Return floating-point numbers as uint64; NumPy computes once the integers for NaN and for too large numbers."""
    target = np.dtype(np.uint64)
    with np.errstate(invalid="ignore"):
        of_nan, of_large = np.array([np.nan, np.inf]).astype(target)
    found = jnp.where(value < 0, cast(cast(value, np.dtype(np.int64)), target), cast(value, target))
    return jnp.where(value != value, of_nan, jnp.where(value >= 2.0**64, of_large, found))


def _as_signed(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return floating-point numbers as signed integers; NumPy computes once the integers for NaN and for too large numbers."""
    with np.errstate(invalid="ignore"):
        of_nan, of_large = np.array([np.nan, np.inf]).astype(dtype)
    found = jnp.where(value != value, of_nan, cast(value, dtype))
    return jnp.where(value >= 2.0 ** (8 * dtype.itemsize - 1), of_large, found)


def readable(value: Any) -> Any:
    """Convert a NumPy array to the form that XLA reads: native byte order, and boolean bytes of 0 or 1.

    NumPy takes every byte of a boolean array except 0 as true. XLA computes with the byte.
    """
    if type(value) is not np.ndarray:
        return value
    if value.dtype == np.bool_:
        return value.view(np.uint8) != 0
    return value if value.dtype.isnative else value.astype(value.dtype.newbyteorder("="))
