"""Reductions over axes, scans along an axis, and positions of extremes."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from functad.backends.xla import complex_numbers
from functad.backends.xla.engine import cast, jnp, lax
from functad.backends.xla.replay import Call, alike, booleans, of_result, row, unchanged
from functad.primitives.reductions.scans import CAREFUL_RECURRENCE, RECURRENCE

Axes = tuple[int, ...] | None

row(np.any, np.all)(alike(booleans))
row(np.count_nonzero)(alike(unchanged))
row(np.nanmax, np.nanmin)(alike(of_result, refused="c"))  # NumPy compares the parts of numbers with one NaN part


@row(np.sum, np.prod)
def _sum(call: Call, a: Any, *, axis: Axes, keepdims: bool) -> Any:
    name = {"sum": "any", "prod": "all"}[call.name] if call.dtype.kind == "b" else call.name  # sums that NumPy keeps boolean
    return getattr(jnp, name)(cast(a, call.dtype), axis=axis, keepdims=keepdims)


@row(np.mean)
def _mean(call: Call, a: Any, *, axis: Axes, keepdims: bool) -> Any:
    wide = np.float32 if call.dtype == np.float16 else call.dtype
    shape = call.given[0].shape
    count = math.prod(shape if axis is None else [shape[i] for i in axis])
    return jnp.sum(cast(a, wide), axis=axis, keepdims=keepdims) / np.asarray(count, wide)


@row(np.max, np.min)
def _extreme(call: Call, a: Any, *, axis: Axes, keepdims: bool) -> Any:
    a = cast(a, call.dtype)
    if call.dtype.kind != "c":
        return getattr(jnp, call.name)(a, axis=axis, keepdims=keepdims)
    axes = tuple(range(a.ndim)) if axis is None else axis
    return complex_numbers.extreme(a, axes, largest=call.name == "max", keepdims=keepdims)


@row(np.argmax, np.argmin, np.nanargmax, np.nanargmin)
def _position(call: Call, a: Any, *, axis: Axes, keepdims: bool) -> Any:
    """Return the position of the first extreme. A NaN counts as the extreme, as in NumPy."""
    if call.kind == "c":
        return NotImplemented
    one = None if axis is None else axis[0]
    return getattr(jnp, call.name)(cast(a, call.given[0].dtype), axis=one, keepdims=keepdims)


# Scans along an axis


@row(np.cumsum, np.cumprod)
def _scan(call: Call, a: Any, *, axis: int, **reverse: bool) -> Any:
    return getattr(lax, call.name)(cast(a, call.dtype), axis % len(call.shape), **reverse)


@row(RECURRENCE, CAREFUL_RECURRENCE)
def _recurrence(call: Call, a: Any, b: Any, *, axis: int, reverse: bool) -> Any:
    """Compute `y[i] = a[i-1] y[i-1] + b[i-1]` step by step, so that it overflows only where NumPy does.

    In `CAREFUL_RECURRENCE` a product with an exact zero is zero.
    """
    a, b = [jnp.moveaxis(value, axis, 0) for value in call.cast(a, b)]
    if b.shape[0] == 0:
        return jnp.moveaxis(b, 0, axis)
    times = complex_numbers.times if call.dtype.kind == "c" else operator.mul

    def step(y: Any, row: Any) -> Any:
        product = times(row[0], y)
        if call.primitive is CAREFUL_RECURRENCE:
            product = jnp.where((row[0] == 0) | (y == 0), jnp.zeros((), y.dtype), product)
        return product + row[1], y

    _, y = lax.scan(step, jnp.zeros_like(b[0]), (jnp.broadcast_to(a, b.shape), b), reverse=reverse)
    return jnp.moveaxis(y, 0, axis)
