"""Variance, standard deviation and weighted average."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from functad.expressions.spec import dtype_of, shape_of
from functad.primitives.arranging.reshape import Calls, same_spec
from functad.primitives.batching import along_axes
from functad.primitives.elementwise.conversion import astype
from functad.primitives.entry import Primitive, Samples
from functad.primitives.kinds import composite, elementwise, general, linear
from functad.primitives.operands import as_operand, is_traced, refuse_out, stored
from functad.primitives.reductions.over_axes import (
    Axes,
    count,
    expand,
    masked,
    mean,
    mean_dtype,
    number_of,
    over,
    reduced_spec,
    reduction_samples,
    sum,  # noqa: A004
    summed,
)
from functad.primitives.safe import careful_product, over_radius

_NoValue = np._NoValue
_ndarray = np.ndarray


# Variance


def _centred(a: Any, *, axis: Axes) -> Any:
    """Return the differences of the elements from their mean.

    The first element is subtracted before the mean is computed, so equal elements give exact zeros instead of rounding errors.
    """
    shape = shape_of(a)
    if not shape or 0 in shape:
        return a - a
    d = a - a[tuple([slice(0, 1) if axis is None or i in axis else slice(None) for i in range(len(shape))])]
    d -= summed(d, axis, keepdims=True) / count(shape, axis)
    return d


CENTRED: Primitive = linear(
    _centred,
    lambda g, axis: CENTRED(g, axis=axis),
    spec=same_spec,
    samples=lambda array: [
        ((array(*shape),), {"axis": axis})
        for shape, axis in (((4,), None), ((2, 3), None), ((2, 3), (1,)), ((3, 1, 2), (0, 2)), ((), None), ((0, 2), (0,)))
    ],
    internal=True,
    doc="linear, and its own transpose",
    decomposition=True,
    batch=along_axes,
    dependence="axes",
)


def _conjugate(a: Any) -> Any:
    return np.conjugate(a) if dtype_of(a).kind == "c" else a


def _var(a: Any, *, axis: Axes, keepdims: bool, ddof: float) -> Any:
    shape = shape_of(a)
    n = max(count(shape, axis) - ddof, 0)
    if dtype_of(a) == np.float16:  # NumPy sums float16 in a wider dtype
        return np.var(a, axis, None, None, ddof, keepdims)
    d = _centred(a, axis=axis)
    if dtype_of(d).kind == "c":
        squares = d.real * d.real + d.imag * d.imag
    elif axis is None and not keepdims and type(d) is _ndarray:
        d = d.ravel("K")
        return d.dot(d) / n  # one pass without a temporary
    else:
        d *= d
        squares = d
    return summed(squares, axis, keepdims) / n


def _var_factor(shape: tuple[int, ...], axis: Axes, ddof: float) -> float:
    n = count(shape, axis) - ddof
    return 2 / n if n > 0 else np.inf


def _var_vjp(g: Any, a: Any, axis: Axes, keepdims: bool, ddof: float) -> Any:
    """Return `2 / (n - ddof) conj(a - mean(a)) g`."""
    shape = shape_of(a)
    g = expand(g, shape, axis, keepdims) * _var_factor(shape, axis, ddof)
    return careful_product(
        _conjugate(CENTRED(a, axis=axis)), g
    )  # in this order NumPy reuses the memory of the left factor if g is a number


def _var_jvp(t: Any, a: Any, axis: Axes, keepdims: bool, ddof: float) -> Any:
    """Return `2 / (n - ddof) Re(sum(conj(a - mean(a)) t))`."""
    total = careful_product(t, _conjugate(CENTRED(a, axis=axis))).sum(axis, keepdims=keepdims)
    return total * _var_factor(shape_of(a), axis, ddof)


def _var_samples(array: Any) -> Calls:
    calls = reduction_samples(empty=False)(array)
    a = array(2, 3)
    return [
        *calls,
        ((array(4),), {"ddof": 1}),
        ((array(2, 3), 1), {"correction": 1}),
        ((array(2, 3),), {"where": np.array([True, False, True]), "ddof": 1}),
        ((a, 0), {"mean": a.mean(0, keepdims=True)}),
        ((array(3),), {"mean": array(1)}),
    ]


def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = _NoValue,
    correction: Any = _NoValue,
) -> Any:
    """Return the result of `np.var`."""
    if out is not None:
        return stored(out, np.var, a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    ddof = correction_of(ddof, correction)
    kind, wanted = dtype_of(a).kind, None if dtype is None else np.dtype(dtype).kind
    cuts = wanted is not None and (wanted in "biu" or (wanted == "f" and kind == "c"))
    if not cuts and (dtype is not None or kind in "biu"):
        a = astype(a, np.float64 if dtype is None else dtype, copy=False)
    params = over(a, axis, keepdims)
    if where is True and mean is _NoValue and not cuts:
        result = VAR(a, ddof=ddof, **params)
    else:
        result = _var_about(a, axis, dtype, ddof, params["keepdims"], where, mean)
    return result if dtype is None else astype(result, dtype, copy=False)


# A primitive instead of five operations, because layer and batch normalisation call it in every layer.
VAR = general(
    np.var,
    _var_vjp,
    jvps=(_var_jvp,),
    compute=_var,
    spec=reduced_spec(lambda own: mean_dtype(own).type(0).real.dtype),
    samples=_var_samples,
    doc="d var(a) = 2 / (n - ddof) Re(sum(conj(a - mean(a)) da))",
    decomposition=True,
    batch=along_axes,
    ordered=True,
    front=var,
    dependence="reduction",
)


def correction_of(ddof: Any, correction: Any) -> Any:
    """Return the correction of the element count: `ddof` and `correction` are synonyms."""
    if correction is not _NoValue and ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    found = ddof if correction is _NoValue else correction
    return int(found) if isinstance(found, np.integer) else found  # a count less an int8 would wrap


def _var_about(a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: bool, where: Any, middle: Any) -> Any:
    """Return the variance of the elements that a mask selects, about the mean `middle` if it is given.

    As in NumPy, a mean with more axes than `a` gives the deviations more axes, and `axis` counts these. Also as in NumPy,
    `dtype` applies to the mean and the squares, not to the elements. An integer dtype truncates both. For complex elements, a
    real dtype drops the imaginary part of the mean only.
    """
    if middle is _NoValue:
        middle = mean(a, axis, dtype, keepdims=True, where=where)
    d = masked(a - middle, where, 0)
    squares = (d * d.conj()).real if dtype_of(a).kind == "c" else d * d
    total = sum(squares, axis, dtype, keepdims=keepdims)
    own = over(a, axis, keepdims)["axis"]
    n = np.maximum((count(shape_of(a), own) if where is True else number_of(where, a, own, keepdims)) - ddof, 0)
    return total / (n if dtype_of(total).kind in "biu" else n.astype(dtype_of(total)))


# Standard deviation


ROOT = elementwise(
    np.sqrt,
    lambda g, out: g * (over_radius(out) * 0.5),
    name="root",
    spec=same_spec,
    domain=((0.5, 2.0),),
    internal=True,
    doc="d sqrt(x) = dx / (2 sqrt(x)); 0 at x = 0",
    cost=5.0,
)


def std_samples(hidden: Callable[[Any], Any] = lambda a: a) -> Samples:
    """Return calls with results away from zero, where the second derivative is large; `hidden` puts NaNs into some arrays."""

    def samples(array: Any) -> Calls:
        wider = np.result_type(array().dtype, np.float64)
        a = hidden(array(2, 6))
        return [
            ((array(4),), {}),
            ((hidden(array(5)),), {}),
            ((hidden(array(6, 2)), 0), {"ddof": 1}),
            ((hidden(array(2, 6)),), {"axis": -1, "keepdims": True, "correction": 1}),
            ((array(2, 3, 2), (0, 1)), {}),
            ((hidden(array(2, 3)),), {"dtype": wider}),
            ((array(0, 3), 1), {}),
            ((hidden(array(2, 4)),), {"where": np.array([True, False, True, True])}),
            ((a, 1), {"mean": np.nanmean(a, 1, keepdims=True)}),
        ]

    return samples


def enter_deviation(function: Any, variance: Callable[..., Any], samples: Samples, doc: str) -> None:
    """Register `np.std` or `np.nanstd`: the square root of `variance`."""

    @composite(function, samples=samples, doc=doc)
    def deviation(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, *args: Any, **kwargs: Any) -> Any:
        refuse_out(out, function.__name__)
        found = variance(a, axis, dtype, None, *args, **kwargs)
        return astype(ROOT(astype(found, np.float64)), dtype) if dtype_of(found).kind in "biu" else ROOT(found)


enter_deviation(np.std, var, std_samples(), "d std = d var / (2 std); 0 where all elements are equal")


# Average


def _average_samples(array: Any) -> Calls:
    return [
        ((array(2, 3),), {}),
        ((array(2, 3), 1), {"keepdims": True}),
        ((array(2, 3), -1, array(3, low=0.5)), {}),
        ((array(2, 3), 0), {"weights": array(2, 3, low=0.5), "returned": True}),
        ((array(2, 3),), {"weights": array(2, 3, low=0.5), "keepdims": True}),
        ((array(2, 3, 2), (2, 0)), {"weights": array(2, 2, low=0.5)}),
        ((array(3), None, [1.0, 2.0, 3.0]), {}),
        ((array(3),), {"returned": True}),
    ]


@composite(np.average, samples=_average_samples, doc="d (sum(w a) / sum(w)), in the elements and in the weights")
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False) -> Any:
    """Return the result of `np.average`."""
    a = as_operand(a)
    shape = shape_of(a)
    params = over(a, axis, keepdims)
    if weights is None:
        result = mean(a, **params)
        total = np.full((), count(shape, params["axis"]), dtype_of(result))[()]
    else:
        weights = aligned(as_operand(weights), shape, axis)
        dtype = np.result_type(dtype_of(a), dtype_of(weights), *[np.float64] * (dtype_of(a).kind in "biu"))
        total = sum(weights, dtype=dtype, **params)
        zero = total == 0
        if not is_traced(zero) and not hasattr(type(zero), "__dask_graph__") and np.any(zero):
            raise ZeroDivisionError("Weights sum to zero, can't be normalized")
        result = sum(np.multiply(a, weights), dtype=dtype, **params) / total
    if not returned:
        return result
    return result, total if shape_of(total) == shape_of(result) else np.broadcast_to(total, shape_of(result)).copy()


def aligned(weights: Any, shape: tuple[int, ...], axis: Any) -> Any:
    """Return the weights broadcast to the shape of the array; the given weights may have only the averaged axes."""
    own = shape_of(weights)
    if own == shape:
        return weights
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    axes = [operator.index(axis) % len(shape)] if np.ndim(axis) == 0 else [i % len(shape) for i in axis]
    if own != tuple([shape[i] for i in axes]):
        raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
    order = sorted(range(len(axes)), key=axes.__getitem__)
    weights = np.transpose(weights, order).reshape(tuple([n if i in axes else 1 for i, n in enumerate(shape)]))
    return np.broadcast_to(weights, shape)
