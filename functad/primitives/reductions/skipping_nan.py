"""Reductions and scans that skip NaNs. Skipped elements get an exactly zero cotangent.

Exception: if all elements are NaN, an extreme, a median or a quantile is a NaN element, and NaN elements get its cotangent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.arranging.reshape import Calls
from functad.primitives.batching import Params, Values, Which, aligned, spread_out
from functad.primitives.elementwise.conversion import astype, laid_out_like
from functad.primitives.entry import Primitive
from functad.primitives.indexing.read import as_number
from functad.primitives.kinds import composite, constant
from functad.primitives.operands import as_operand, refuse_out
from functad.primitives.reductions.over_axes import (
    Axes,
    count,
    enter_extreme,
    enter_position,
    mean,
    prod,
    reduced_axes,
    reduced_shape,
    reduction_samples,
    sum,  # noqa: A004
)
from functad.primitives.reductions.quantiles import enter_median, enter_quantile, median_samples, quantile_samples
from functad.primitives.reductions.scans import cumprod, cumsum
from functad.primitives.reductions.statistics import correction_of, enter_deviation, std_samples, var

_NoValue = np._NoValue
_INTP = np.dtype(np.intp)


def replaced(a: Any, fill: Any) -> Any:
    """Return `a` with every NaN replaced by `fill`."""
    a = as_operand(a)
    return laid_out_like(np.where(a != a, fill, a), a) if dtype_of(a).kind in "fc" else a


def _given(value: Any, default: Any) -> Any:
    return default if value is _NoValue else value


def _with_nans(a: Any) -> Any:
    """Return an array with every third element replaced by NaN: one in every row of three."""
    hidden = (np.arange(a.size) % 3 == 1).reshape(a.shape)
    return np.where(hidden, a.dtype.type(np.nan), a)


def _reduction(**options: Any) -> Any:
    """Return the samples of a reduction that skips NaNs."""

    def samples(array: Any) -> Calls:
        return [
            *reduction_samples(**options)(array),
            ((_with_nans(array(4)),), {}),
            ((_with_nans(array(2, 3)), 1), {}),
            ((_with_nans(array(2, 3)),), {"axis": -1, "keepdims": True}),
        ]

    return samples


def _scan_samples(array: Any) -> Calls:
    wider = np.result_type(array().dtype, np.float64)
    return [
        ((array(3),), {}),
        ((_with_nans(array(4)),), {}),
        ((_with_nans(array(2, 3)),), {"axis": 0}),
        ((_with_nans(array(2, 3)), -1), {"dtype": wider}),
        ((array(2, 2),), {}),
        ((array(),), {}),
        ((array(0, 2), 1), {}),
    ]


# Sums and products


def _enter_total(function: Any, plain: Any, fill: int, samples: Any) -> None:
    """Register a sum, a product or a scan: `plain`, with every NaN replaced by `fill`."""

    @composite(function, samples=samples, doc=f"as {plain.__name__}; NaNs get zero", reduces=np.multiply if fill else np.add)
    def total(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, *args: Any, **kwargs: Any) -> Any:
        refuse_out(out, function.__name__)
        return plain(replaced(a, fill), axis, dtype, None, *args, **kwargs)


_enter_total(np.nansum, sum, 0, _reduction(initial=1.5))
_enter_total(np.nanprod, prod, 1, _reduction(initial=1.5))
_enter_total(np.nancumsum, cumsum, 0, _scan_samples)
_enter_total(np.nancumprod, cumprod, 1, _scan_samples)


# Mean, variance, standard deviation


def _inexact(dtype: Any) -> None:
    if dtype is not None and np.dtype(dtype).kind not in "fc":
        raise TypeError("If a is inexact, then dtype must be inexact")


def _number(valid: Any, axis: Any, keepdims: bool) -> Any:
    """Return the number of elements that a mask selects for each result, as an exact integer."""
    return sum(valid, axis, _INTP, keepdims=keepdims)


def _as_real(number: Any, dtype: Any) -> Any:
    return number.astype(dtype.type(0).real.dtype)


@composite(np.nanmean, samples=_reduction(empty=False), doc="as mean of what is no NaN; NaNs get zero")
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = _NoValue, *, where: Any = _NoValue
) -> Any:
    """Return the result of `np.nanmean`."""
    refuse_out(out, "nanmean")
    a, where, keepdims = as_operand(a), _given(where, True), keepdims is not _NoValue and bool(keepdims)
    if dtype_of(a).kind not in "fc":
        return mean(a, axis, dtype, None, keepdims, where=where)
    _inexact(dtype)
    total = sum(replaced(a, 0), axis, dtype, None, keepdims, where=where)
    return total / _as_real(_number((a == a) & where, axis, keepdims), dtype_of(total))


def _pivot(a: Any, valid: Any, *, axis: Axes) -> Any:
    """Return an element selected by the mask for each result of a reduction; 0 if it would be NaN or infinite."""
    if count(shape_of(a), axis) == 0:
        return np.zeros(reduced_shape(shape_of(a), axis, keepdims=True), dtype_of(a))
    found = np.fmax.reduce(np.where(valid, a, np.nan), axis, keepdims=True)
    return np.where(np.isfinite(found), found, 0).astype(dtype_of(a))


def _decomposed_pivot(a: Any, valid: Any, *, axis: Axes) -> Any:
    if count(shape_of(a), axis) == 0:
        return np.zeros(reduced_shape(shape_of(a), axis, keepdims=True), dtype_of(a))
    found = np.max(np.where(valid & (a == a), a, -np.inf), axis, keepdims=True)
    return np.where(np.isfinite(found), found, 0)


def _pivot_batch(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    a, valid = aligned(values, batched)
    ndim, axis = len(shape_of(values[0])) - batched[0], params["axis"]
    return primitive(
        spread_out(a, batched[0], size), valid, axis=tuple(range(1, ndim + 1)) if axis is None else tuple([i + 1 for i in axis])
    )


PIVOT = constant(
    _pivot,
    spec=lambda a, valid, *, axis: ArraySpec(reduced_shape(spec_of(a).shape, axis, keepdims=True), dtype_of(a)),
    samples=lambda array: [
        ((array(2, 3), np.array([True, False, True])), {"axis": (1,)}),
        ((array(3), np.array([True, False, True])), {"axis": None}),
        ((array(2, 0), np.zeros((2, 0), np.bool_)), {"axis": (1,)}),
    ],
    internal=True,
    doc="only where differences are taken, which do not depend on it",
    decomposition=_decomposed_pivot,
    batch=_pivot_batch,
)


def _var_samples(array: Any) -> Calls:
    a = _with_nans(array(2, 3))
    return [
        *_reduction(empty=False)(array),
        ((_with_nans(array(4)),), {"ddof": 1}),
        ((_with_nans(array(2, 5)), 1), {"correction": 1}),
        ((_with_nans(array(2, 5)),), {"where": np.array([True, False, True, True, True]), "ddof": 1}),
        ((a, 1), {"mean": np.nanmean(a, 1, keepdims=True)}),
    ]


@composite(np.nanvar, samples=_var_samples, doc="as var of what is no NaN; NaNs get zero")
def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = _NoValue,
    *,
    where: Any = _NoValue,
    mean: Any = _NoValue,
    correction: Any = _NoValue,
) -> Any:
    """Return the result of `np.nanvar`, exactly 0 for equal elements: one of the elements is subtracted first."""
    refuse_out(out, "nanvar")
    a, where, keepdims = as_operand(a), _given(where, True), keepdims is not _NoValue and bool(keepdims)
    if dtype_of(a).kind not in "fc":
        return var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    _inexact(dtype)
    ddof = correction_of(ddof, correction)
    valid = (a == a) & where
    number = _number(valid, axis, True)
    if mean is _NoValue:
        start = PIVOT(a, valid, axis=reduced_axes(axis, len(shape_of(a))))
        wide = a if dtype is None else astype(a, dtype, copy=False)
        total = sum(np.where(valid, wide - start, 0), axis, keepdims=True)
        mean = start + total / _as_real(np.maximum(number, 1), dtype_of(total))
    d = astype(np.where(valid, a - mean, 0), dtype_of(a), copy=False)  # NumPy stores the differences in the dtype of a
    squares = (d * d.conj()).real if dtype_of(a).kind == "c" else d * d
    total = sum(squares, axis, dtype, keepdims=keepdims)
    spare = (number if keepdims else number.reshape(shape_of(total))) - ddof
    return as_number(np.where(spare > 0, total / _as_real(np.where(spare > 0, spare, 1), dtype_of(total)), np.nan))


enter_deviation(np.nanstd, nanvar, std_samples(_with_nans), doc="as std of what is no NaN; NaNs get zero")


# Extremes


NANMAX = enter_extreme(np.nanmax, np.fmax, _reduction, "as max; NaNs get zero")
NANMIN = enter_extreme(np.nanmin, np.fmin, _reduction, "as min; NaNs get zero")


def _nan_position(function: Any) -> Primitive:
    return enter_position(
        function, lambda array: ((_with_nans(array(3)),), {}), lambda array: ((_with_nans(array(2, 3)),), {"axis": -1})
    )


NANARGMAX = _nan_position(np.nanargmax)
NANARGMIN = _nan_position(np.nanargmin)


# Medians and quantiles


def _nan_median_samples(array: Any) -> Calls:
    return [
        *median_samples(array),
        ((_with_nans(array(5)),), {}),
        ((_with_nans(array(6)),), {}),
        ((_with_nans(array(2, 5)),), {"axis": 1, "keepdims": True}),
    ]


enter_median(np.nanmedian, _nan_median_samples, skip_nan=True, doc="as median of what is no NaN; NaNs get zero")


def _nan_quantile_samples(scale: int) -> Any:
    def samples(array: Any) -> Calls:
        q = np.array([0.31, 0.83]).astype(array().dtype) * scale
        return [
            *quantile_samples(scale)(array),
            ((_with_nans(array(6)), q), {}),
            ((_with_nans(array(2, 5)), q), {"axis": 1, "keepdims": True}),
            ((_with_nans(array(2, 5)), 0.4 * scale, 1), {"method": "nearest"}),
            ((_with_nans(array(2, 5)), q, -1), {"method": "hazen"}),
        ]

    return samples


_NAN_QUANTILE = "as quantile of what is no NaN; NaNs get zero"

enter_quantile(np.nanquantile, _nan_quantile_samples(1), scale=1, skip_nan=True, doc=_NAN_QUANTILE)
enter_quantile(np.nanpercentile, _nan_quantile_samples(100), scale=100, skip_nan=True, doc=_NAN_QUANTILE)
