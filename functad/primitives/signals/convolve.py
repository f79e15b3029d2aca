"""Signals: convolution and correlation, interpolation between samples, unwrapping of phases."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.lib.stride_tricks import sliding_window_view

from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of, stand_in
from functad.primitives.arranging.join import concatenate
from functad.primitives.arranging.pad import PAD
from functad.primitives.arranging.reshape import Calls, atleast, unbroadcast
from functad.primitives.batching import one_by_one, padded, spread_out, stacked
from functad.primitives.elementwise.conversion import astype, of_parts
from functad.primitives.entry import Primitive
from functad.primitives.indexing.read import as_number, get_item
from functad.primitives.kinds import composite, general, multilinear
from functad.primitives.operands import as_operand, concrete, innermost, is_traced
from functad.primitives.signals.differences import array_of

# Convolution

_MODES = {"valid": "valid", "same": "same", "full": "full", 0: "valid", 1: "same", 2: "full"}


def _convolve(a: Any, v: Any, *, mode: str) -> Any:
    if a.ndim == 1:
        return np.convolve(a, v, mode)  # type: ignore[call-overload]
    long, short = (a, v) if a.shape[-1] >= v.shape[-1] else (v, a)
    n, m = long.shape[-1], short.shape[-1]
    outside = {"full": (m - 1, m - 1), "same": (m // 2, (m - 1) // 2), "valid": (0, 0)}[mode]
    around = np.zeros((*long.shape[:-1], n + sum(outside)), long.dtype)
    around[..., outside[0] : outside[0] + n] = long
    windows = sliding_window_view(around, m, -1)
    return np.einsum("...nm,...m->...n", windows, short[..., ::-1])


def _convolve_spec(a: Any, v: Any, *, mode: str) -> ArraySpec:
    a, v = spec_of(a), spec_of(v)
    long, short = max(a.shape[-1], v.shape[-1]), min(a.shape[-1], v.shape[-1])
    length = {"full": long + short - 1, "same": long, "valid": long - short + 1}[mode]
    return ArraySpec((*a.shape[:-1], length), np.result_type(a.dtype, v.dtype))


def _convolve_vjp(g: Any, other: Any, length: int, mode: str) -> Any:
    """`ct[i] = sum_k g[i + k] other[k]`: the convolution of `g` with the reversed other argument.

    `same` keeps the middle of the full result; `valid` keeps the part with complete overlap.
    """
    *batch, n = shape_of(other)
    other = other[..., ::-1]
    if mode == "valid":
        return CONVOLVE(g, other, mode="full" if length >= n else "valid")
    if mode == "same":
        left = (min(length, n) - 1) // 2
        g = PAD(g, widths=(*[(0, 0) for _ in batch], (left, min(length, n) - 1 - left)))
    return CONVOLVE(g, other, mode="valid")


def _convolve_samples(array: Any) -> Calls:
    calls: Calls = [
        ((array(4), array(2), mode), {}) if i % 2 else ((array(2), array(5)), {"mode": mode})
        for i, mode in enumerate(("full", "same", "valid", "full", "same", "valid"))
    ]
    return [
        *calls,
        ((array(5), array(4), "same"), {}),
        ((array(2), array(3), "same"), {}),
        ((array(3), array(3), "valid"), {}),
        ((array(3), [1.0, 2.0]), {}),
    ]


def _signal(value: Any, name: str) -> Any:
    value = array_of(value)
    shape = shape_of(value)
    if len(shape) != 1:
        raise ValueError(f"object {'too deep' if shape else 'of too small depth'} for desired array")
    if shape == (0,):
        raise ValueError(f"{name} cannot be empty")
    return value


def _mode(mode: Any) -> str:
    if mode not in _MODES:
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")
    return _MODES[mode]


def _convolve_front(a: Any, v: Any, mode: Any = "full") -> Any:
    return CONVOLVE(_signal(atleast(a, 1), "a"), _signal(atleast(v, 1), "v"), mode=_mode(mode))


# A primitive: slices and products would take one operation for each element of the shorter array. It also takes stacks of
# rows, unlike `np.convolve`.
CONVOLVE: Primitive = multilinear(
    np.convolve,
    lambda g, v, a_shape, mode: _convolve_vjp(g, v, a_shape[-1], mode),
    lambda g, a, v_shape, mode: _convolve_vjp(g, a, v_shape[-1], mode),
    compute=_convolve,
    spec=_convolve_spec,
    samples=lambda array: [*_convolve_samples(array), ((array(), array(2)), {})],
    doc="bilinear; the cotangents are convolutions with the other argument backwards",
    batch=stacked,
    front=_convolve_front,
    dependence="convolution",
)


@composite(
    np.correlate,
    samples=lambda array: [*_convolve_samples(array), ((array(4), array(2)), {})],
    doc="bilinear: convolution with the conjugate of the second argument backwards",
)
def _correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    a, v, mode = _signal(a, "first array argument"), _signal(v, "second array argument"), _mode(mode)
    v = v[::-1]
    if dtype_of(v).kind == "c":
        v = v.conj()
    (n,), (m,) = shape_of(a), shape_of(v)
    if mode == "same" and n < m and n % 2 == 0:  # the second array is the longer one; the middle rounds up
        return CONVOLVE(a, v, mode="full")[n // 2 : n // 2 + m]
    return CONVOLVE(a, v, mode=mode)


# Interpolation


def _interp_samples(array: Any) -> Calls:
    def real(*shape: int) -> Any:
        return np.real(array(*shape))

    def knots(n: int) -> Any:
        return np.sort(real(n))

    return [
        ((real(), knots(4), array(4)), {}),
        ((real(5), knots(3), array(3)), {}),
        ((real(2, 3), knots(4), array(4)), {"left": 0.5, "right": -0.5}),
        ((real(4), knots(3), array(3), real()), {}),
        ((real(4), real(3), array(3)), {"period": 2.5}),
        ((real(3), [-1.0, 0.1, 0.7], array(3)), {}),
        ((real(3), np.array([-1, 0, 0, 2]), [3.0, 1.0, 4.0, 2.0]), {}),
        ((np.array([-2.0, -1.0, 0.0, 0.5, 2.0, 3.0])[:0], knots(2), array(2)), {}),
        ((real(3), knots(1), array(1)), {}),  # not a plain draw: a random program would use unsorted knots
    ]


@composite(
    np.interp,
    samples=_interp_samples,
    doc="in x the slope of the interval (at a knot, that to its right; outside, 0); in xp and fp that of the line",
)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """`np.interp`."""
    x, xp, fp = _floats(x, "f"), _floats(xp, "f"), _floats(fp, "fc")
    (n,) = shape_of(xp)
    if shape_of(fp) != (n,):
        raise ValueError("fp and xp are not of the same length.")
    if n == 0:
        raise ValueError("array of sample points is empty")
    if period is not None:
        x, xp, fp = _unrolled(x, xp, fp, period)
        left = right = None
        n += 2
    if n == 1:
        inside = np.broadcast_to(fp[0], shape_of(x))
    else:
        i = np.minimum(np.maximum(np.searchsorted(xp, x, "right") - 1, 0), n - 2)
        ends = _at(xp, i), _at(xp, i + 1), _at(fp, i), _at(fp, i + 1)
        inside = _on_line(x, *ends)
        inside = np.where(x == x, inside, x)  # NaN stays NaN
    below, above = x < xp[0], x > xp[-1]
    outside = np.where(above, fp[-1] if right is None else right, inside)
    return as_number(np.where(below, fp[0] if left is None else left, outside))


def _on_line(x: Any, x0: Any, x1: Any, f0: Any, f1: Any) -> Any:
    """Return the values at `x` on the lines from `(x0, f0)` to `(x1, f1)`, as NumPy does beside infinities.

    A line that is NaN from its left end is computed from its right end. A NaN at an end, or between equal values, is the value
    there. The parts of complex values are computed one by one (`arr_interp` in NumPy's compiled_base.c).
    """
    if dtype_of(f0).kind == "c":
        parts = [_on_line(x, x0, x1, part(f0), part(f1)) for part in (np.real, np.imag)]
        return of_parts(*parts)
    width = x1 - x0
    flat = width == 0  # x is at the last two knots, which coincide
    slope = (f1 - f0) / (width + flat)
    left, right = slope * (x - x0) + f0, slope * (x - x1) + f1
    first, last = x == x0, x == x1
    line = np.where(last | (left != left), right, left)
    at_end = np.where(last, f1, np.where(first | (f0 == f1), f0, line))
    return np.where(flat, f1, np.where(line == line, line, at_end))


def _at(values: Any, i: Any) -> Any:
    """Return `values[i]`; convert a NumPy array to the library of the index first."""
    if type(values) is np.ndarray and not issubclass(type(i), (np.ndarray, np.generic)) and not is_traced(i):
        values = np.asarray(values, like=i)
    return get_item(values, i)


def _floats(value: Any, kinds: str) -> Any:
    """Return an array in double precision, as NumPy uses for interpolation."""
    value = array_of(value)
    kind = dtype_of(value).kind
    if kind not in "biu" + kinds:
        raise TypeError(f"np.interp: cannot interpolate between {dtype_of(value)} numbers")
    return astype(value, np.complex128 if kind == "c" else np.float64, copy=False)


def _unrolled(x: Any, xp: Any, fp: Any, period: Any) -> tuple[Any, Any, Any]:
    """Return all coordinates modulo the period, with sorted knots and one more knot at each end."""
    if shape_of(period):
        raise ValueError("period must be a number")
    known = innermost(period)
    if not isinstance(known, ArraySpec) and known == 0:
        raise ValueError("period must be a non-zero value")
    period = np.absolute(period)
    x, xp = x % period, xp % period
    order = np.argsort(xp)
    xp, fp = get_item(xp, order), get_item(fp, order)
    return x, concatenate([xp[-1:] - period, xp, xp[:1] + period]), concatenate([fp[-1:], fp, fp[:1]])


# Phases


def _unwrap_spec(p: Any, period: Any, *, discont: float | None, axis: int) -> ArraySpec:
    own = spec_of(p)
    return ArraySpec(own.shape, np.result_type(own.dtype, stand_in(spec_of(period))))


def _unwrap_samples(array: Any) -> Calls:
    return [
        ((5 * array(5),), {}),
        ((5 * array(2, 4),), {}),
        ((5 * array(4, 2), None, 0), {}),
        ((5 * array(4), 4.0), {}),
        ((array(4),), {"period": 1.0}),
        ((array(2, 3),), {"axis": -2, "period": array(low=0.5)}),
        ((array(0),), {}),
        ((array(1),), {}),
    ]


def _unwrap_front(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * math.pi) -> Any:
    p = as_operand(p)
    if dtype_of(p).kind == "c":
        raise TypeError("np.unwrap takes real numbers; of complex ones take np.angle first")
    axis = normalize_axis_index(axis, len(shape_of(p)))
    return UNWRAP(p, period, discont=concrete(discont, "discont"), axis=axis)


def _unwrap_batch(
    primitive: Primitive, size: int, values: Sequence[Any], batched: Sequence[bool], params: Mapping[str, Any]
) -> Any:
    p, period = values
    p = spread_out(p, batched[0], size)
    if batched[1]:
        if dtype_of(period).kind in "biu" and dtype_of(p).kind in "biu":
            return one_by_one(primitive, size, values, batched, params)  # NumPy tests one integer period for evenness
        period = padded(period, len(shape_of(p)) - 1)
    return primitive(p, period, **{**params, "axis": params["axis"] + 1})


UNWRAP = general(
    np.unwrap,
    lambda g: g,
    lambda g, p, period, out, period_shape: unbroadcast(
        g * ((out - p) / period), period_shape
    ),  # one period for each example of a batch
    jvps=(lambda t: t, lambda t, p, period, out: t * ((out - p) / period)),
    compute=lambda p, period, *, discont, axis: np.unwrap(p, discont, axis, period=period),
    spec=_unwrap_spec,
    samples=_unwrap_samples,
    complex=False,
    doc="d out = dp + k dperiod, with the number k of periods that were added",
    front=_unwrap_front,
    linear_by=lambda params: (),
    batch=_unwrap_batch,
    curvature="none",
    dependence="elementwise",
)
