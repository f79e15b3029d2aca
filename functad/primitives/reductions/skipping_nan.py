"""Reductions and scans that skip NaNs: what is skipped gets a cotangent of exactly zero.

Only an extreme, a median or a quantile of nothing but NaNs is one of them, and its cotangent goes there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.arranging.reshape import Calls
from functad.primitives.batching import aligned, along_axes, spread_out
from functad.primitives.elementwise.conversion import astype, laid_out_like
from functad.primitives.entry import Primitive
from functad.primitives.indexing.read import as_number
from functad.primitives.kinds import composite, constant, general
from functad.primitives.operands import as_operand, refuse_out
from functad.primitives.reductions.extremes import MAX, MIN, enter_position
from functad.primitives.reductions.quantiles import enter_quantile, median_of, median_samples, quantile_samples
from functad.primitives.reductions.scans import cumprod, cumsum
from functad.primitives.reductions.statistics import correction_of, root, var
from functad.primitives.reductions.sums import (
    Axes,
    count,
    mean,
    number_like,
    prod,
    reduced_axes,
    reduced_shape,
    reduction_samples,
    sum,  # noqa: A004
)

_NoValue = np._NoValue
_INTP = np.dtype(np.intp)


def replaced(a: Any, fill: Any) -> Any:
    """Return `a` with `fill` in place of every NaN."""
    a = as_operand(a)
    return laid_out_like(np.where(a != a, fill, a), a) if dtype_of(a).kind in "fc" else a


def _given(value: Any, default: Any) -> Any:
    return default if value is _NoValue else value


def _with_nans(a: Any) -> Any:
    """Return an array with a NaN in place of each third element: one in every row of three."""
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


@composite(np.nansum, samples=_reduction(initial=1.5), doc="as sum; NaNs get zero")
def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = _NoValue,
    initial: Any = _NoValue,
    where: Any = _NoValue,
) -> Any:
    """`np.nansum`."""
    refuse_out(out, "nansum")
    return sum(replaced(a, 0), axis, dtype, None, keepdims, initial, _given(where, True))


@composite(np.nanprod, samples=_reduction(initial=1.5), doc="as prod; NaNs get zero")
def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = _NoValue,
    initial: Any = _NoValue,
    where: Any = _NoValue,
) -> Any:
    """`np.nanprod`."""
    refuse_out(out, "nanprod")
    return prod(replaced(a, 1), axis, dtype, None, keepdims, initial, _given(where, True))


@composite(np.nancumsum, samples=_scan_samples, doc="as cumsum; NaNs get zero")
def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """`np.nancumsum`."""
    refuse_out(out, "nancumsum")
    return cumsum(replaced(a, 0), axis, dtype)


@composite(np.nancumprod, samples=_scan_samples, doc="as cumprod; NaNs get zero")
def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """`np.nancumprod`."""
    refuse_out(out, "nancumprod")
    return cumprod(replaced(a, 1), axis, dtype)


# Mean, variance, standard deviation


def _inexact(dtype: Any) -> None:
    if dtype is not None and np.dtype(dtype).kind not in "fc":
        raise TypeError("If a is inexact, then dtype must be inexact")


def _number(valid: Any, axis: Any, keepdims: bool) -> Any:
    """Return how many elements a mask selects for each result; an integer, exact for any number of them."""
    return sum(valid, axis, _INTP, keepdims=keepdims)


def _as_real(number: Any, dtype: Any) -> Any:
    return number.astype(dtype.type(0).real.dtype)


@composite(np.nanmean, samples=_reduction(empty=False), doc="as mean of what is no NaN; NaNs get zero")
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = _NoValue, *, where: Any = _NoValue
) -> Any:
    """`np.nanmean`."""
    refuse_out(out, "nanmean")
    a, where, keepdims = as_operand(a), _given(where, True), keepdims is not _NoValue and bool(keepdims)
    if dtype_of(a).kind not in "fc":
        return mean(a, axis, dtype, None, keepdims, where=where)
    _inexact(dtype)
    total = sum(replaced(a, 0), axis, dtype, None, keepdims, where=where)
    return total / _as_real(_number((a == a) & where, axis, keepdims), dtype_of(total))


def pivot(a: Any, valid: Any, *, axis: Axes) -> Any:
    """Return, for each result of a reduction, one of the elements that a mask selects."""
    return PIVOT(a, valid, axis=axis)


def _pivot(a: Any, valid: Any, *, axis: Axes) -> Any:
    if count(shape_of(a), axis) == 0:
        return np.zeros(reduced_shape(shape_of(a), axis, keepdims=True), dtype_of(a))
    found = np.fmax.reduce(np.where(valid, a, np.nan), axis, keepdims=True)
    return np.where(np.isfinite(found), found, 0).astype(dtype_of(a))


def _pivot_spec(a: Any, valid: Any, *, axis: Axes) -> ArraySpec:
    spec = spec_of(a)
    return ArraySpec(reduced_shape(spec.shape, axis, keepdims=True), spec.dtype)


def _pivot_batch(
    primitive: Primitive, size: int, values: Sequence[Any], batched: Sequence[bool], params: Mapping[str, Any]
) -> Any:
    a, valid = aligned(values, batched)
    ndim, axis = len(shape_of(values[0])) - batched[0], params["axis"]
    return primitive(
        spread_out(a, batched[0], size), valid, axis=tuple(range(1, ndim + 1)) if axis is None else tuple([i + 1 for i in axis])
    )


PIVOT = constant(
    pivot,
    compute=_pivot,
    spec=_pivot_spec,
    samples=lambda array: [
        ((array(2, 3), np.array([True, False, True])), {"axis": (1,)}),
        ((array(3), np.array([True, False, True])), {"axis": None}),
        ((array(2, 0), np.zeros((2, 0), np.bool_)), {"axis": (1,)}),
    ],
    internal=True,
    doc="only where differences are taken, which do not depend on it",
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
    """`np.nanvar`; differences are taken from one of the elements first, so that of equal ones it is exactly 0."""
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
    d = astype(np.where(valid, a - mean, 0), dtype_of(a), copy=False)  # NumPy writes the differences over the array
    squares = (d * d.conjugate()).real if dtype_of(a).kind == "c" else d * d
    total = sum(squares, axis, dtype, keepdims=keepdims)
    spare = (number if keepdims else number.reshape(shape_of(total))) - ddof
    return as_number(np.where(spare > 0, total / _as_real(np.where(spare > 0, spare, 1), dtype_of(total)), np.nan))


def _std_samples(array: Any) -> Calls:
    """Return calls that do not come near zero, where the second derivative is large."""
    wider = np.result_type(array().dtype, np.float64)
    a = _with_nans(array(2, 6))
    return [
        ((array(4),), {}),
        ((_with_nans(array(5)),), {}),
        ((_with_nans(array(2, 6)), 1), {"ddof": 1}),
        ((_with_nans(array(2, 6)),), {"axis": -1, "keepdims": True, "correction": 1}),
        ((array(2, 3, 2), (0, 1)), {}),
        ((_with_nans(array(2, 3)),), {"dtype": wider}),
        ((array(0, 3), 1), {}),
        ((_with_nans(array(2, 4)),), {"where": np.array([True, False, True, True])}),
        ((a, 1), {"mean": np.nanmean(a, 1, keepdims=True)}),
    ]


@composite(np.nanstd, samples=_std_samples, doc="as std of what is no NaN; NaNs get zero")
def nanstd(
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
    """`np.nanstd`."""
    refuse_out(out, "nanstd")
    return root(nanvar(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction))


# Extremes


def _enter_extreme(function: Any, ufunc: np.ufunc, like: Primitive, worst: float) -> Primitive:
    """Enter `np.nanmax` or `np.nanmin`: a NaN is never equal to the result, so the rules are those of `max` and `min`."""
    reduce: Callable[..., Any] = ufunc.reduce

    def compute(a: Any, *, axis: Axes, keepdims: bool) -> Any:
        return reduce(a, axis, None, None, keepdims)

    def front(
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: Any = _NoValue,
        initial: Any = _NoValue,
        where: Any = _NoValue,
    ) -> Any:
        refuse_out(out, entry.name)
        a, where, keepdims = as_operand(a), _given(where, True), keepdims is not _NoValue and bool(keepdims)
        shape = shape_of(a)
        axes = reduced_axes(axis, len(shape))
        if initial is _NoValue or initial is None:
            if where is not True:
                raise ValueError(f"reduction operation '{ufunc.__name__}' has no identity, so where= needs initial= too")
            return entry(a, axis=axes, keepdims=keepdims)
        initial = number_like(initial, a)
        if where is not True:
            a = np.where(where, a, worst if dtype_of(a).kind == "f" else initial)
        if count(shape, axes) == 0:
            return np.broadcast_to(initial, reduced_shape(shape, axes, keepdims)).copy()[()]
        return ufunc(entry(a, axis=axes, keepdims=keepdims), initial)

    entry = general(
        function,
        *like.vjps,
        jvps=like.jvps,
        compute=compute,
        spec=like.spec,
        samples=_reduction(dtype=False, empty=False, initial=-0.75 if like is MAX else 0.75),
        doc=f"as {like.name}; NaNs get zero",
        front=front,
        batch=along_axes,
        selects=True,
        dependence="reduction",
        curvature="none",
    )
    return entry


NANMAX = _enter_extreme(np.nanmax, np.fmax, MAX, -np.inf)
NANMIN = _enter_extreme(np.nanmin, np.fmin, MIN, np.inf)


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


@composite(np.nanmedian, samples=_nan_median_samples, doc="as median of what is no NaN; NaNs get zero")
def nanmedian(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = _NoValue) -> Any:
    """`np.nanmedian`."""
    refuse_out(out, "nanmedian")
    return median_of(a, axis, keepdims, skip_nan=True)


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
