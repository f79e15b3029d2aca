"""Sums, extremes and statistics of NumPy by the functions of the array API."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.namespaces.array import FUNCTIONS, NamespaceArray, computes
from functad.namespaces.library import Library

_INTEGER, _FLOAT = np.dtype(np.int64), np.dtype(np.float64)


def _numbers(lib: Library, a: Any, dtype: Any = None, *, inexact: bool = False) -> Any:
    """Return an array of numbers: of truth values, integers; in a given dtype, or in floating point."""
    x = lib.array(a)
    kind = lib.known(x.dtype).kind  # type: ignore[union-attr] # an array of the library has one
    if dtype is not None:
        return lib.array(x, np.dtype(dtype))
    if inexact:
        return x if kind in "fc" else lib.array(x, _FLOAT)
    return lib.array(x, _INTEGER) if kind == "b" else x


def _reduction(name: str, *, inexact: bool = False) -> Any:
    def compute(lib: Library, a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False) -> Any:
        if out is not None:
            raise TypeError("out=")
        return getattr(lib.xp, name)(_numbers(lib, a, dtype, inexact=inexact), axis=axis, keepdims=keepdims)

    return compute


def _extreme(name: str, join: np.ufunc) -> Any:
    def compute(lib: Library, a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None) -> Any:
        if out is not None:
            raise TypeError("out=")
        x = lib.array(a)
        if initial is not None and 0 in x.shape:  # which has no extreme of its own
            shape = np.sum(np.zeros(x.shape, bool), axis=axis, keepdims=keepdims).shape
            return lib.xp.broadcast_to(lib.array(initial, lib.known(x.dtype)), shape)
        found = getattr(lib.xp, name)(x, axis=axis, keepdims=keepdims)
        return found if initial is None else lib.array(join(NamespaceArray(found), initial))

    return compute


FUNCTIONS[np.sum] = _reduction("sum")
FUNCTIONS[np.prod] = _reduction("prod")
FUNCTIONS[np.mean] = _reduction("mean", inexact=True)
FUNCTIONS.update(dict.fromkeys((np.max, np.amax), _extreme("max", np.maximum)))
FUNCTIONS.update(dict.fromkeys((np.min, np.amin), _extreme("min", np.minimum)))


@computes(np.any)
def _any(lib: Library, a: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
    return lib.xp.any(lib.array(a, np.dtype(bool)), axis=axis, keepdims=keepdims)


@computes(np.all)
def _all(lib: Library, a: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
    return lib.xp.all(lib.array(a, np.dtype(bool)), axis=axis, keepdims=keepdims)


@computes(np.count_nonzero)
def _count_nonzero(lib: Library, a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return lib.xp.sum(lib.array(lib.array(a, np.dtype(bool)), _INTEGER), axis=axis, keepdims=keepdims)


def _without_nan(name: str, end: float) -> Any:
    def compute(lib: Library, a: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
        xp, x = lib.xp, lib.array(a)
        missing = xp.isnan(x)
        found = getattr(xp, name)(xp.where(missing, xp.full_like(x, end), x), axis=axis, keepdims=keepdims)
        return xp.where(xp.all(missing, axis=axis, keepdims=keepdims), xp.full_like(found, np.nan), found)

    return compute


FUNCTIONS[np.nanmax] = _without_nan("max", -np.inf)
FUNCTIONS[np.nanmin] = _without_nan("min", np.inf)


def _spread(name: str) -> Any:
    def compute(
        lib: Library,
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        correction: float | None = None,
    ) -> Any:
        x = _numbers(lib, a, dtype, inexact=True)
        return getattr(lib.xp, name)(x, axis=axis, correction=ddof if correction is None else correction, keepdims=keepdims)

    return compute


FUNCTIONS[np.var], FUNCTIONS[np.std] = _spread("var"), _spread("std")


def _scan(name: str, standard: str) -> Any:
    def compute(lib: Library, a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
        x = _numbers(lib, a, dtype)
        own = getattr(lib.xp, standard, None) or getattr(lib.xp, name)
        return own(lib.xp.reshape(x, (-1,)), axis=0) if axis is None else own(x, axis=axis)

    return compute


FUNCTIONS[np.cumsum] = _scan("cumsum", "cumulative_sum")
FUNCTIONS[np.cumprod] = _scan("cumprod", "cumulative_prod")


@computes(np.average)
def _average(lib: Library, a: Any, axis: Any = None, weights: Any = None) -> Any:
    x = _numbers(lib, a, inexact=True)
    if weights is None:
        return lib.xp.mean(x, axis=axis)
    w = lib.array(weights, lib.known(x.dtype))
    return lib.xp.sum(x * w, axis=axis) / lib.xp.sum(w, axis=axis)


def _place_of_extreme(name: str) -> Any:
    def compute(lib: Library, a: Any, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Any:
        return getattr(lib.xp, name)(lib.array(a), axis=axis, keepdims=keepdims)

    return compute


FUNCTIONS[np.argmax], FUNCTIONS[np.argmin] = _place_of_extreme("argmax"), _place_of_extreme("argmin")
