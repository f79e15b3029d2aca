"""Reductions over axes, scans along an axis, and positions of extremes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functad.backends.xla import complex_numbers
from functad.backends.xla.elementwise import zero_wins
from functad.backends.xla.engine import cast, jnp, lax
from functad.backends.xla.table import Call, row
from functad.primitives.reductions.norms import EUCLIDEAN
from functad.primitives.reductions.scans import CAREFUL_RECURRENCE, EXCLUSIVE, RECURRENCE
from functad.primitives.reductions.skipping_nan import PIVOT
from functad.primitives.reductions.statistics import CENTRED

Axes = tuple[int, ...] | None


def _count(call: Call, axis: Axes) -> int:
    shape = call.given[0].shape
    return math.prod(shape if axis is None else [shape[i] for i in axis])


@row(np.sum, np.prod)
def _sum(call: Call, a: Any, *, axis: Axes, keepdims: bool) -> Any:
    name = call.primitive.function.__name__
    if call.dtype.kind == "b":  # boolean sums that NumPy keeps boolean
        name = {"sum": "any", "prod": "all"}[name]
    return getattr(jnp, name)(cast(a, call.dtype), axis=axis, keepdims=keepdims)


@row(np.mean)
def _mean(call: Call, a: Any, *, axis: Axes, keepdims: bool) -> Any:
    wide = np.float32 if call.dtype == np.float16 else call.dtype
    return jnp.sum(cast(a, wide), axis=axis, keepdims=keepdims) / np.asarray(_count(call, axis), wide)


@row(np.any, np.all)
def _truth(call: Call, a: Any, *, axis: Axes, keepdims: bool = False, **params: Any) -> Any:
    name = call.primitive.function.__name__
    return getattr(jnp, name)(cast(a, np.bool_), axis=axis, keepdims=keepdims)


@row(np.count_nonzero)
def _count_nonzero(call: Call, a: Any, *, axis: Axes = None, keepdims: bool = False) -> Any:
    return jnp.sum(cast(cast(a, np.bool_), call.dtype), axis=axis, keepdims=keepdims)


@row(np.max, np.min)
def _extreme(call: Call, a: Any, *, axis: Axes, keepdims: bool) -> Any:
    a = cast(a, call.dtype)
    if call.dtype.kind != "c":
        return getattr(jnp, call.primitive.function.__name__)(a, axis=axis, keepdims=keepdims)
    axes = tuple(range(a.ndim)) if axis is None else axis
    return complex_numbers.extreme(a, axes, largest=call.primitive.function is np.max, keepdims=keepdims)


@row(np.nanmax, np.nanmin)
def _extreme_but_nan(call: Call, a: Any, *, axis: Axes, keepdims: bool) -> Any:
    if call.dtype.kind == "c":
        return NotImplemented  # NumPy compares the parts of numbers with one NaN part
    return getattr(jnp, call.primitive.function.__name__)(cast(a, call.dtype), axis=axis, keepdims=keepdims)


@row(np.argmax, np.argmin, np.nanargmax, np.nanargmin)
def _position(call: Call, a: Any, *, axis: Axes, keepdims: bool) -> Any:
    """Return the position of the first extreme. A NaN counts as the extreme, as in NumPy."""
    dtype = call.given[0].dtype
    if dtype.kind == "c":
        return NotImplemented
    one = None if axis is None else axis[0]
    return getattr(jnp, call.primitive.function.__name__)(cast(a, dtype), axis=one, keepdims=keepdims)


def _from_the_mean(call: Call, a: Any, axis: Axes) -> Any:
    """Return the differences from the mean. Subtracting the first element first makes them exactly zero for equal elements."""
    shape = call.given[0].shape
    if not shape or 0 in shape:
        return a - a
    d = a - a[tuple([slice(0, 1) if axis is None or i in axis else slice(None) for i in range(len(shape))])]
    return d - jnp.sum(d, axis=axis, keepdims=True) / np.asarray(_count(call, axis), d.dtype)


@row(CENTRED)
def _centred(call: Call, a: Any, *, axis: Axes) -> Any:
    return _from_the_mean(call, cast(a, call.dtype), axis)


@row(np.var)
def _var(call: Call, a: Any, *, axis: Axes, keepdims: bool, ddof: float) -> Any:
    given = call.given[0].dtype
    if call.dtype == np.float16:
        return NotImplemented
    d = _from_the_mean(call, cast(a, given if given.kind == "c" else call.dtype), axis)
    n = np.asarray(max(_count(call, axis) - ddof, 0), call.dtype)
    return jnp.sum(_square(d), axis=axis, keepdims=keepdims) / n


def _square(x: Any) -> Any:
    return x.real * x.real + x.imag * x.imag if x.dtype.kind == "c" else x * x


@row(EUCLIDEAN)
def _euclidean_norm(call: Call, x: Any, *, axis: Axes, keepdims: bool) -> Any:
    given = call.given[0].dtype
    x = cast(x, given if given.kind == "c" else call.dtype)
    return jnp.sqrt(jnp.sum(_square(x), axis=axis, keepdims=keepdims))


@row(PIVOT)
def _pivot(call: Call, a: Any, valid: Any, *, axis: Axes) -> Any:
    if _count(call, axis) == 0:
        return jnp.zeros(call.shape, call.dtype)
    a, valid = call.cast(a)[0], cast(valid, np.bool_)
    lowest = jnp.full((), -np.inf, call.dtype)
    kept = valid & ~jnp.isnan(a)
    found = jnp.max(jnp.where(kept, a, lowest), axis=axis, keepdims=True)
    some = jnp.any(kept, axis=axis, keepdims=True)
    return jnp.where(some & jnp.isfinite(found), found, jnp.zeros((), call.dtype))


# Scans along an axis


@row(np.cumsum)
def _cumsum(call: Call, a: Any, *, axis: int, reverse: bool) -> Any:
    return lax.cumsum(cast(a, call.dtype), axis % len(call.shape), reverse=reverse)


@row(np.cumprod)
def _cumprod(call: Call, a: Any, *, axis: int) -> Any:
    return lax.cumprod(cast(a, call.dtype), axis % len(call.shape))


@row(EXCLUSIVE)
def _exclusive_product(call: Call, a: Any, *, axis: int, reverse: bool) -> Any:
    a, axis = cast(a, call.dtype), axis % len(call.shape)
    n = call.shape[axis]
    if n == 0:
        return a
    one = jnp.ones((*call.shape[:axis], 1, *call.shape[axis + 1 :]), call.dtype)
    if reverse:
        return lax.cumprod(jnp.concatenate((lax.slice_in_dim(a, 1, n, axis=axis), one), axis), axis, reverse=True)
    return lax.cumprod(jnp.concatenate((one, lax.slice_in_dim(a, 0, n - 1, axis=axis)), axis), axis)


@row(RECURRENCE, CAREFUL_RECURRENCE)
def _recurrence(call: Call, a: Any, b: Any, *, axis: int, reverse: bool) -> Any:
    """Compute `y[i] = a[i-1] y[i-1] + b[i-1]` step by step, so that it overflows only where NumPy does.

    In `CAREFUL_RECURRENCE` a product with an exact zero is zero.
    """
    is_careful = call.primitive is CAREFUL_RECURRENCE
    a, b = [jnp.moveaxis(value, axis, 0) for value in call.cast(a, b)]
    n = b.shape[0]
    if n == 0:
        return jnp.moveaxis(b, 0, axis)
    if reverse:
        a, b = a[::-1], b[::-1]

    def step(y: Any, row: Any) -> Any:
        return (zero_wins(row[0], y) if is_careful else row[0] * y) + row[1], y

    _, y = lax.scan(step, jnp.zeros_like(b[0]), (jnp.broadcast_to(a, b.shape), b))
    return jnp.moveaxis(y[::-1] if reverse else y, 0, axis)
