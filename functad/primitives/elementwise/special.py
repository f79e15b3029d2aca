"""Ufuncs of two arguments with a guarded derivative, ufuncs with two results, unit conversions, and `sinc`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functad.expressions.spec import PLAIN, ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.elementwise.conversion import astype
from functad.primitives.elementwise.elementary import to_integer
from functad.primitives.entry import Primitive
from functad.primitives.kinds import composite, constant, elementwise, shaped_as_argument, ufunc_spec
from functad.primitives.operands import strong
from functad.primitives.safe import has_nan, over_radius

_LOG_2 = math.log(2.0)
_ndarray = np.ndarray
_FLOAT64 = np.dtype(np.float64)
_ONE = np.asarray(1.0)


def softmax_first(x: Any, y: Any) -> Any:
    """Return `exp(x) / (exp(x) + exp(y))`; 1/2 where x and y are the same infinity."""
    if type(x) in PLAIN and type(y) in PLAIN:
        return _softmax_first(x, y)
    return SOFTMAX_FIRST(x, y)


def _softmax_first(x: Any, y: Any) -> Any:
    difference = y - x
    if type(difference) is _ndarray:
        if has_nan(difference):
            difference = np.where(x == y, np.zeros((), difference.dtype), difference)
        np.exp(difference, difference)
        difference += 1.0
        return np.reciprocal(difference, difference)
    if not issubclass(type(difference), (np.generic, float, int)):  # an array of another library
        difference = np.where(x == y, np.zeros((), difference.dtype, like=difference), difference)
    elif difference != difference and x == y:
        difference = type(difference)(0)
    return 1 / (np.exp(difference) + 1.0)


SOFTMAX_FIRST = elementwise(
    softmax_first,
    lambda g, x, y, out: g * (out * softmax_first(y, x)),
    lambda g, x, y, out: -(g * (out * softmax_first(y, x))),
    operator=_softmax_first,
    spec=ufunc_spec(np.logaddexp, keeps_weak=False),
    complex=False,
    internal=True,
    doc="ds = s (1 - s) (dx - dy); x and y equal and infinite count as equal",
    passes_nan=(0, 1),
    plain=lambda x, y: np.reciprocal(np.exp(y - x) + 1.0),
    decomposition=True,
)


def _weighed(g: Any, x: Any, y: Any) -> Any:
    """Return `g exp(x) / (exp(x) + exp(y))`.

    Fast path for arrays, because every logistic loss uses this rule: `g / (1 + exp(y - x))` in one buffer.
    """
    if type(x) in PLAIN and type(y) in PLAIN:
        difference = y - x
        if (
            type(g) is type(difference) is _ndarray
            and g.dtype is difference.dtype
            and ((type(y) is _ndarray and not y.ndim and math.isfinite(y)) or not has_nan(difference))
        ):  # the difference of equal infinities is NaN; in most programs y is a finite number
            np.exp(difference, difference)
            difference += _ONE if difference.dtype is _FLOAT64 else 1.0  # NumPy must convert a Python number to an array first
            return np.divide(g, difference, difference)
    return g * softmax_first(x, y)


LOGADDEXP = elementwise(
    np.logaddexp,
    lambda g, x, y: _weighed(g, x, y),
    lambda g, x, y: _weighed(g, y, x),
    complex=False,
    doc="d log(e^x + e^y) = (e^x dx + e^y dy) / (e^x + e^y); half each where both are the same infinity",
    passes_nan=(0, 1),
)
LOGADDEXP2 = elementwise(
    np.logaddexp2,
    lambda g, x, y: g * softmax_first(x * _LOG_2, y * _LOG_2),
    lambda g, x, y: g * softmax_first(y * _LOG_2, x * _LOG_2),
    complex=False,
    doc="d log2(2^x + 2^y) = (2^x dx + 2^y dy) / (2^x + 2^y); half each where both are the same infinity",
    passes_nan=(0, 1),
)
HYPOT = elementwise(
    np.hypot,
    lambda g, x, out: g * (x * over_radius(out)),
    lambda g, y, out: g * (y * over_radius(out)),
    complex=False,
    doc="d sqrt(x^2 + y^2) = (x dx + y dy) / sqrt(x^2 + y^2); 0 at (0, 0)",
)


def _over_squared_radius(a: Any, x: Any, y: Any) -> Any:
    """Return `a / (x^2 + y^2)`, 0 at (0, 0). It divides twice by the radius: the square underflows (float32: below 1e-19)."""
    over = over_radius(np.hypot(x, y))
    return a * over * over


ARCTAN2 = elementwise(
    np.arctan2,
    lambda g, x, y: g * _over_squared_radius(y, x, y),
    lambda g, x, y: -(g * _over_squared_radius(x, x, y)),
    python=math.atan2,
    complex=False,
    doc="d arctan2(x, y) = (y dx - x dy) / (x^2 + y^2); 0 at (0, 0)",
    passes_nan=(0, 1),
)
COPYSIGN = elementwise(
    np.copysign,
    lambda g, x, out: g * (np.sign(x) * np.sign(out)),
    None,
    python=math.copysign,
    complex=False,
    doc="d copysign(x, y) = sign(x) sign(y) dx; 0 at x = 0",
    curvature="none",
    exact=True,
    kinks=lambda x, y: x,
    jumps=lambda x, y: y,
)


LDEXP = elementwise(
    np.ldexp,
    lambda g, y: np.ldexp(g, y),
    None,
    samples=lambda array: [
        ((array(3), np.array([1, -2, 3])), {}),
        ((array(2, 1), np.array([1, -2, 3])), {}),
        ((array(), 2), {}),
        ((array(0), 1), {}),
    ],
    complex=False,
    doc="d(x 2^y) = 2^y dx",
    curvature="none",
    exact=True,
)


FREXP_EXPONENT = constant(
    np.frexp,
    name="frexp_exponent",
    compute=lambda x: np.frexp(x)[1],
    spec=shaped_as_argument(np.dtype(np.intc)),
    samples=lambda array: [((array(3),), {})],
    complex=False,
    internal=True,
    doc="an integer",
)


MODF_FRACTION = elementwise(
    np.modf,
    lambda g: g,
    name="modf_fraction",
    operator=lambda x: np.modf(x)[0],
    spec=ufunc_spec(np.modf, keeps_weak=False),
    complex=False,
    internal=True,
    doc="d(x - trunc(x)) = dx",
    linear_by=lambda params: (),  # only piecewise linear
    decomposition=lambda x: np.copysign(np.where(np.isinf(x), 0, x - np.trunc(x)), x),
    curvature="none",
    exact=True,
    jumps=to_integer,
)


def _one_real(array: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    return [((array(3),), {}), ((array(2, 2),), {}), ((array(),), {}), ((array(0),), {})]


@composite(np.frexp, doc="d mantissa = 2^-exponent dx; the exponent is an integer", samples=_one_real, complex=False)
def frexp(x: Any, /) -> tuple[Any, Any]:
    """Return the mantissa and the exponent of `x = mantissa * 2 ** exponent`."""
    exponent = FREXP_EXPONENT(x)
    return np.ldexp(strong(x), -exponent), exponent


@composite(np.modf, doc="the fractional part has derivative 1, the integral part 0", samples=_one_real, complex=False)
def modf(x: Any, /) -> tuple[Any, Any]:
    """Return the fractional and the integral part of `x`, both with the sign of `x`."""
    fraction = MODF_FRACTION(x)
    return fraction, astype(np.trunc(x), dtype_of(fraction), copy=False)


@composite(
    np.divmod,
    doc="the quotient is piecewise constant; the remainder's derivative is that of remainder",
    samples=lambda array: [((array(3), array(2, 1, low=2.5, high=3.0)), {}), ((array(), array(low=2.5, high=3.0)), {})],
    complex=False,
)
def floor_and_remainder(x: Any, y: Any, /) -> tuple[Any, Any]:
    """Return `floor(x / y)` and the remainder."""
    return np.floor_divide(x, y), np.remainder(x, y)


_DEGREE = math.pi / 180
for _to_radians in (np.deg2rad, np.radians):
    elementwise(_to_radians, lambda g: g * _DEGREE, python=math.radians, complex=False, doc="radians(dx)", curvature="none")
for _to_degrees in (np.rad2deg, np.degrees):
    elementwise(_to_degrees, lambda g: g / _DEGREE, python=math.degrees, complex=False, doc="degrees(dx)", curvature="none")


def _sinc_derivative(x: Any, *, order: int) -> Any:
    """Return the derivative of `np.sinc` of order k >= 1: `d^k/dx^k sinc(x) = pi^k F_k(z)`, `z = pi x`.

    Differentiating `z F_0 = sin z` k times gives the recursion `z F_k + k F_(k-1) = sin(z + k pi/2)`. The recursion loses
    digits for |z| < 2. The power series `F_k = sum (-1)^((m+k)/2) z^m / ((m+k+1) m!)`, `m = k mod 2, k mod 2 + 2, ...`,
    replaces it there.
    """
    z = x * math.pi
    near = np.absolute(z) < 2
    far = np.where(near, 2, z)
    sin, cos = np.sin(far), np.cos(far)
    recursive = sin / far
    for k in range(1, order + 1):
        recursive = ((sin, cos, -sin, -cos)[k % 4] - k * recursive) / far
    z = np.where(near, z, 0)
    series = z * 0
    for m in range(order % 2 + 22, order % 2 - 1, -2):
        series = series * (z * z) + (-1) ** ((m + order) // 2) / ((m + order + 1) * math.factorial(m))
    if order % 2:
        series = series * z
    return (np.where(near, series, recursive) * math.pi**order)[()]


SINC_DERIVATIVE: Primitive = elementwise(
    _sinc_derivative,
    lambda g, x, order: g * SINC_DERIVATIVE(x, order=order + 1),
    spec=lambda x, order: spec_of(x),
    samples=lambda array: [((array(3),), {"order": order}) for order in (1, 2)],
    internal=True,
    doc="the derivative of the next order",
    decomposition=True,
)
SINC = elementwise(
    np.sinc,
    lambda g, x: g * SINC_DERIVATIVE(x, order=1),
    spec=lambda x: ArraySpec(shape_of(x), np.sinc(np.ones(1, dtype_of(x))).dtype),
    doc="d sinc(x) = (cos(pi x) - sinc(x)) / x dx; 0 at x = 0",
)
