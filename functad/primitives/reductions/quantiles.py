"""Medians and quantiles: elements picked by rank, or weighted means of two such elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.arranging.reshape import Calls, ravel
from functad.primitives.batching import Params, Values, Which, everywhere, one_by_one
from functad.primitives.elementwise.conversion import arranged
from functad.primitives.entry import Primitive
from functad.primitives.indexing.sort import PICKED, POSITIONS
from functad.primitives.kinds import composite, constant
from functad.primitives.operands import as_operand, innermost, is_traced, refuse_out
from functad.primitives.reductions.over_axes import Axes, mean, over, reduced_shape
from functad.primitives.reductions.statistics import aligned

_NoValue = np._NoValue
_INTP = np.dtype(np.intp)


def _rows(a: Any, axis: Axes) -> tuple[Any, tuple[int, ...]]:
    """Return an array with the reduced axes merged into the last axis, and the shape of the reduction with `keepdims`."""
    shape = shape_of(a)
    whole = reduced_shape(shape, axis, keepdims=True)
    if axis is None:
        return ravel(a), whole
    if axis != (len(shape) - 1,):
        others = tuple([i for i in range(len(shape)) if i not in axis])
        a = np.transpose(a, (*others, *axis)).reshape((*[shape[i] for i in others], math.prod([shape[i] for i in axis])))
    return a, whole


def _first(rows: Any) -> Any:
    """Return the first element of each row; a number if `rows` is a vector."""
    return rows[0] if len(shape_of(rows)) == 1 else rows[..., 0]


def number_without_nan(rows: Any) -> Any:
    """Return the number of elements of each row that are not NaN, with a last axis of length 1."""
    return (rows == rows).sum(-1, keepdims=True)


def _lying_as(function: Any, out: Any, a: Any, of_q: tuple[int, ...], weights: Any, **options: Any) -> Any:
    """Return quantiles in NumPy's memory layout, which depends on the strides of the argument."""
    known = innermost(a)
    if len(shape_of(out)) < 2 or type(known) is not np.ndarray:
        return out
    few = tuple([min(n, 2) for n in known.shape])
    ranked = sorted({abs(stride) for stride in known.strides})
    order = tuple([ranked.index(abs(stride)) if n > 1 else 0 for n, stride in zip(few, known.strides, strict=True)])
    few_q = tuple([min(n, 2) for n in of_q])
    return arranged(out, _strides(function, few, order, few_q, weights is not None, *options.items()))


@lru_cache
def _strides(
    function: Any, shape: tuple[int, ...], order: Sequence[int], of_q: tuple[int, ...], weighs: bool, *options: Any
) -> tuple[int, ...]:
    """Return the strides of NumPy's result for a small model array with the given axis order in memory."""
    axes = sorted(range(len(shape)), key=lambda axis: -order[axis])
    model = np.ones([shape[axis] for axis in axes]).transpose(np.argsort(axes))
    weights = {"weights": np.ones(shape)} if weighs else {}
    args = () if function in (np.median, np.nanmedian) else (np.zeros(of_q),)
    strides: tuple[int, ...] = np.asarray(function(model, *args, **weights, **dict(options))).strides
    return strides


def _median(a: Any, axis: Any, keepdims: Any, *, skip_nan: bool) -> Any:
    """Return medians over axes: the middle element, or the mean of the two middle elements."""
    a = as_operand(a)
    params = over(a, axis, keepdims)
    rows, whole = _rows(a, params["axis"])
    n = shape_of(rows)[-1]
    if n == 0:
        return mean(a, **params)
    if skip_nan:
        valid = number_without_nan(rows)
        ranks = np.concatenate([np.maximum(valid - 1, 0) // 2, valid // 2], -1)
    else:
        ranks = np.array([n // 2] if n % 2 else [n // 2 - 1, n // 2])
    middle = PICKED(rows, POSITIONS(rows, ranks, skip_nan=skip_nan))
    result = mean(middle, -1) if shape_of(middle)[-1] > 1 or dtype_of(middle).kind in "biu" else _first(middle)
    result = result.reshape(whole) if params["keepdims"] else result
    return _lying_as(np.nanmedian if skip_nan else np.median, result, a, (), None, **params)


def median_samples(array: Any) -> Calls:
    """Return calls of a median with every form of axis."""
    return [
        ((array(5),), {}),
        ((array(4),), {}),
        ((array(2, 3),), {}),
        ((array(2, 3), 0), {}),
        ((array(2, 3),), {"axis": -1, "keepdims": True}),
        ((array(2, 2, 3),), {"axis": (0, -1)}),
        ((array(2, 3),), {"keepdims": True, "overwrite_input": False}),
        ((array(),), {}),
        ((array(0, 2),), {"axis": 1}),
    ]


def enter_median(function: Any, samples: Any, *, skip_nan: bool, doc: str) -> None:
    """Register `np.median` or `np.nanmedian`."""

    @composite(function, samples=samples, doc=doc)
    def entered(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False) -> Any:
        refuse_out(out, function.__name__)
        return _median(a, axis, keepdims, skip_nan=skip_nan)


_MEDIAN = "goes to the middle element, or to the two middle ones by halves"
enter_median(np.median, median_samples, skip_nan=False, doc=_MEDIAN)


@lru_cache
def _float64_yields() -> bool:
    """Return `True` if NumPy treats a NumPy scalar as a weak number in `q`, as older versions do."""
    return np.quantile(np.zeros(1, np.float32), np.float64(0.5)).dtype == np.float32


_ROUNDING: dict[str, Any] = {"lower": np.floor, "higher": np.ceil, "nearest": np.round}

_PLOTTING = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3.0, 1 / 3.0),
    "normal_unbiased": (3 / 8.0, 3 / 8.0),
}
"""The continuous methods except `linear`, with the parameters alpha and beta of Hyndman and Fan."""


def _neighbours(method: str, q: Any, n: Any) -> tuple[Any, Any, Any]:
    """Return the ranks below and above each quantile of `n` elements, and the weight of the upper rank.

    The upper rank and the weight are `None` for methods that pick one element. Only the weight of the continuous methods has
    a derivative with respect to `q`.
    """
    last = n - 1 if isinstance(n, int) else np.maximum(n - 1, 0)
    linear = (n - 1) * q
    if method in _ROUNDING:
        return _clipped(_ROUNDING[method](linear), last), None, None
    if method in ("inverted_cdf", "closest_observation"):
        place = n * q - (1 if method == "inverted_cdf" else 1.5)
        below = np.floor(place)
        exact = place == below
        if method == "closest_observation":
            exact = exact & (below % 2 == 1)
        return _clipped(np.where(exact, below, below + 1), last), None, None
    if method == "linear":
        place = linear
    elif method == "midpoint":
        place = (np.floor(linear) + np.ceil(linear)) * 0.5
    elif method == "averaged_inverted_cdf":
        place = n * q - 1
        below = np.floor(place)  # a weight of 1 keeps the lower element: NumPy's value is NaN if it is infinite
        return _clipped(below, last), _clipped(below + 1, last), np.where(place == below, 0.5, 1.0)
    elif method in _PLOTTING:
        alpha, beta = _PLOTTING[method]
        place = n * q + (alpha + q * (1 - alpha - beta)) - 1
    else:
        methods = ["linear", "lower", "higher", "nearest", "midpoint", "inverted_cdf", "averaged_inverted_cdf"]
        raise ValueError(f"{method!r} is not a valid method. Use one of: {[*methods, 'closest_observation', *_PLOTTING]}")
    place = np.clip(place, 0, last)
    below = np.floor(place)
    return _clipped(below, last), _clipped(below + 1, last), place - below


def _clipped(rank: Any, last: Any) -> Any:
    return np.clip(rank, 0, last).astype(_INTP)


def quantile_of(
    name: str, a: Any, q: Any, axis: Any, method: str, keepdims: Any, weights: Any, *, scale: int, skip_nan: bool
) -> Any:
    """Return the quantiles over axes for the probabilities `q / scale`; the axes of `q` come first."""
    a, q = as_operand(a), as_operand(q)
    if dtype_of(a).kind == "c":
        raise TypeError("a must be an array of real numbers")
    own, known = shape_of(q), innermost(q)
    weak = spec_of(known).weak or (scale == 1 and own == () and isinstance(known, (float, ArraySpec)) and _float64_yields())
    if len(own) > 2:
        raise ValueError("q must be a scalar or 1d")
    if not isinstance(known, ArraySpec) and not np.all((known >= 0) & (known <= scale)):
        raise ValueError(f"{'Quantiles' if scale == 1 else 'Percentiles'} must be in the range [0, {scale}]")
    exact = dtype_of(q).kind in "biu" and scale == 1 and method == "linear"  # NumPy then picks elements and keeps the dtype
    q = (np.asarray(q, np.float64) if weak and not is_traced(q) else q) / (scale if scale > 1 else 1.0)
    params = over(a, axis, keepdims)
    rows, whole = _rows(a, params["axis"])
    if shape_of(rows)[-1] == 0:
        raise IndexError(f"np.{name} of no elements")
    if weights is not None:
        values = _weighted(
            rows, _rows(aligned(as_operand(weights), shape_of(a), axis), params["axis"])[0], q, method, skip_nan=skip_nan
        )
    else:
        n = number_without_nan(rows).astype(dtype_of(q)) if skip_nan else shape_of(rows)[-1]
        values = _between(rows, *_neighbours(method, q.reshape(-1), n), exact=exact, weak=weak, skip_nan=skip_nan)
    if own == ():
        values = _first(values)
        values = values.reshape(whole) if params["keepdims"] else values
    else:
        rest = whole if params["keepdims"] else shape_of(values)[:-1]
        values = np.moveaxis(values, -1, 0).reshape((*own, *rest))
    return _lying_as(getattr(np, name), values, a, own, weights, method=method, **params)


def _between(rows: Any, below: Any, above: Any, weight: Any, *, exact: bool, weak: bool, skip_nan: bool) -> Any:
    """Return the interpolation between the elements of two ranks, computed from the nearer one, like NumPy."""
    if above is None or exact:
        return PICKED(rows, POSITIONS(rows, below, skip_nan=skip_nan))
    both = PICKED(rows, POSITIONS(rows, np.concatenate([below, above], -1), skip_nan=skip_nan))
    count = shape_of(below)[-1]
    low, high = both[..., :count], both[..., count:]
    if weak and dtype_of(rows).kind == "f":
        weight = weight.astype(dtype_of(rows))
    upper = weight >= 0.5
    return np.where(upper, high, low) + (high - low) * np.where(upper, weight - 1, weight)


def _weighted(rows: Any, weights: Any, q: Any, method: str, *, skip_nan: bool) -> Any:
    """Return the weighted quantiles. Each is one of the elements, read by position."""
    if method != "inverted_cdf":
        raise ValueError(f"Only method 'inverted_cdf' supports weights. Got: {method}.")
    return PICKED(rows, WEIGHTED_POSITIONS(rows, weights, q.reshape(-1), skip_nan=skip_nan))


def _weighted_positions(rows: Any, weights: Any, q: Any, *, skip_nan: bool) -> Any:
    """Return the positions of the weighted quantiles in each row."""
    quantile: Any = np.nanquantile if skip_nan else np.quantile
    values = np.moveaxis(quantile(rows, q, axis=-1, weights=weights, method="inverted_cdf"), 0, -1)[..., None]
    rows = rows[..., None, :]
    return ((rows == values) | ((rows != rows) & (values != values))).argmax(-1)


def _weighted_positions_batch(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    """Compute all examples in one call if they share the probabilities, otherwise one example at a time."""
    if batched[2]:
        return one_by_one(primitive, size, values, batched, params)
    rows, weights = everywhere(values[:2], batched[:2], size)
    return primitive(rows, weights, values[2], **params)


WEIGHTED_POSITIONS = constant(
    _weighted_positions,
    spec=lambda rows, weights, q, *, skip_nan: ArraySpec((*spec_of(rows).shape[:-1], *spec_of(q).shape), _INTP),
    samples=lambda array: [((array(4), array(4, low=0.5), np.array([0.3, 0.8])), {"skip_nan": False})],
    complex=False,
    internal=True,
    doc="positions have no derivative",
    batch=_weighted_positions_batch,
)


def quantile_samples(scale: int) -> Any:
    """Return calls of a quantile with every method, and every form of axis and `q`."""
    continuous = ("linear", *_PLOTTING)
    steps = ("lower", "higher", "nearest", "midpoint", "inverted_cdf", "averaged_inverted_cdf", "closest_observation")

    def samples(array: Any) -> Calls:
        q = np.array([0.31, 0.83, 0.52]).astype(array().real.dtype) * scale
        return [
            ((array(5), 0.3 * scale), {}),
            ((array(4), q[0]), {}),
            ((array(2, 3), q), {}),
            ((array(4, 2), q[:2], 0), {}),
            ((array(2, 3), [0.25 * scale, 0.6 * scale]), {"axis": -1, "keepdims": True}),
            ((array(2, 2, 3), 0.4 * scale), {"axis": (0, -1), "keepdims": True}),
            ((array(2, 3), q.reshape(1, 3)), {"axis": 1}),
            ((array(2, 2, 2), q), {"axis": (0, 1)}),
            ((array(4), 0), {}),
            ((array(4), 1.0 * scale), {}),
            ((array(), 0.3 * scale), {}),
            ((array(1), q[:1]), {}),
            ((array(5), q), {"weights": array(5, low=0.5), "method": "inverted_cdf"}),
            ((array(2, 3), q, 1), {"weights": array(2, 3, low=0.5), "method": "inverted_cdf", "keepdims": True}),
            ((array(2, 3), q[0], 0), {"weights": array(2, 3, low=0.5), "method": "inverted_cdf"}),
            *[((array(5), q[:2]), {"method": method}) for method in continuous],
            *[((array(5), [0.0, 0.25 * scale, 0.37 * scale, 1.0 * scale]), {"method": method}) for method in steps],
        ]

    return samples


_QUANTILE = "goes to the two elements that the value lies between, by their weights; by q, their difference times the slope"


def enter_quantile(function: Any, samples: Any, *, scale: int, skip_nan: bool, doc: str = _QUANTILE) -> None:
    """Register `np.quantile` or a similar function, with probabilities `q / scale`."""
    name = function.__name__

    @composite(function, samples=samples, complex=False, doc=doc)
    def entered(
        a: Any,
        q: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: Any = _NoValue,
        *,
        weights: Any = None,
        interpolation: Any = None,
    ) -> Any:
        refuse_out(out, name)
        method = interpolation or method
        return quantile_of(name, a, q, axis, method, keepdims, weights, scale=scale, skip_nan=skip_nan)


enter_quantile(np.quantile, quantile_samples(1), scale=1, skip_nan=False)
enter_quantile(np.percentile, quantile_samples(100), scale=100, skip_nan=False)
