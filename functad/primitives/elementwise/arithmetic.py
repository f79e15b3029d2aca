"""Arithmetic ufuncs: Python's arithmetic operators and related functions, from addition to powers."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from functad.primitives.kinds import elementwise
from functad.primitives.plan import INLINE
from functad.primitives.safe import product, quotient

_AWAY_FROM_ZERO = (0.5, 2.0)
_BOOL = np.dtype(np.bool_)


def _divide(x: Any, y: Any) -> Any:
    try:
        return x / y
    except ZeroDivisionError:  # two Python numbers: return infinity or NaN, like NumPy
        return np.true_divide(x, y).item()


def _power(x: Any, y: Any) -> Any:
    if type(x) in (int, float) and type(y) in (int, float) and not (type(x) is int is type(y) and y >= 0):
        return np.float_power(x, y).item()  # Python would return a complex number or raise
    if type(x) is np.ndarray and x.dtype is _BOOL:  # `x**2` calls np.square, which returns int8
        return np.power(x, y)
    return x**y


def _remainder(x: Any, y: Any) -> Any:
    try:
        return x % y
    except ZeroDivisionError:
        return np.remainder(x, y).item()


def to_integer(x: Any) -> Any:
    """Return the distance to the nearest integer."""
    return x - np.rint(x)


def to_multiple(x: Any, y: Any) -> Any:
    """Return the distance of `x` to the nearest multiple of `y`."""
    return to_integer(x / y) * y


def unchanged(g: Any) -> Any:
    """Return `g` unchanged: the rule of a sum, for a cotangent or a tangent."""
    return g


_BOTH: dict[str, Any] = {"curvature": "none", "passes_nan": (0, 1)}
ADD = elementwise(np.add, unchanged, unchanged, operator=operator.add, doc="d(x + y) = dx + dy", **_BOTH)
SUBTRACT = elementwise(np.subtract, unchanged, lambda g: -g, operator=operator.sub, doc="d(x - y) = dx - dy", **_BOTH)
MULTIPLY = elementwise(
    np.multiply,
    lambda g, y: g * y,
    lambda g, x: g * x,
    operator=operator.mul,
    doc="d(x y) = y dx + x dy",
    curvature="product",
    passes_nan=(0, 1),
)
INLINE[unchanged] = "{0}"
INLINE.update({rule: "{0} * {1}" for rule in MULTIPLY.vjps if callable(rule)})
DIVIDE = elementwise(
    np.divide,
    lambda g, y: quotient(g, y),
    lambda g, y, out: -product(g, _divide(out, y)),
    operator=_divide,
    domain=((-2.0, 2.0), _AWAY_FROM_ZERO),
    doc="d(x / y) = dx / y - x / y^2 dy; zero where the cotangent is exactly zero",
    curvature="quotient",
    passes_nan=(0, 1),
    cost=4.0,
)
NEGATIVE = elementwise(np.negative, lambda g: -g, operator=operator.neg, doc="d(-x) = -dx", curvature="none", exact=True)
POSITIVE = elementwise(np.positive, lambda g: g, operator=operator.pos, doc="d(+x) = dx", curvature="none", exact=True)


def _power_base(g: Any, x: Any, y: Any) -> Any:
    """Return `y x^(y-1) g`. An exact zero of `y` wins over `0^(-1)`: the derivative of `x ** 0` is 0 everywhere."""
    if type(y) is int or type(y) is float:
        if y == 2:
            return (x + x) * g  # a third faster than 2 * x on small arrays; NumPy multiplies in place on large ones
        return g * y if y in {0, 1} else product(g, y * _power(x, y - 1))
    return product(g, product(y, _power(x, y - 1)))


def _power_exponent(g: Any, x: Any, out: Any) -> Any:
    """Return `x^y log(x) g`, with `log(1)` at x = 0, because `0^y` is constant except for a jump at y = 0."""
    base = x + (x == 0)
    if type(x) in (int, float, complex):  # keep the logarithm a Python number, so that a float32 result keeps its dtype
        return product(g, product(out, np.log(base).item()))
    return product(g, product(out, np.log(base)))


POWER = elementwise(
    np.power,
    _power_base,
    _power_exponent,
    operator=_power,
    domain=(_AWAY_FROM_ZERO, (-2.0, 2.0)),
    raises=lambda specs, params: ((1,), "integers") if all(spec.dtype.kind in "iu" for spec in specs) else None,
    doc="d(x^y) = y x^(y-1) dx + x^y log(x) dy; at x = 0 the second term is 0",
)
FLOAT_POWER = elementwise(
    np.float_power,
    _power_base,
    _power_exponent,
    domain=(_AWAY_FROM_ZERO, (-2.0, 2.0)),
    doc="as power, in double precision at least",
)
SQUARE = elementwise(np.square, lambda g, x: (x + x) * g, doc="d(x^2) = 2 x dx", finite=True, cost=1.0)
RECIPROCAL = elementwise(
    np.reciprocal,
    lambda g, out: -product(product(g, out), out),
    domain=(_AWAY_FROM_ZERO,),
    doc="d(1/x) = -dx / x^2; zero where the cotangent is exactly zero",
    cost=4.0,
)
REMAINDER = elementwise(
    np.remainder,
    lambda g: g,
    lambda g, x, y: -product(g, np.floor_divide(x, y)),
    operator=_remainder,
    domain=((-2.0, 2.0), (2.5, 3.0)),
    complex=False,
    doc="d(x mod y) = dx - floor(x / y) dy",
    finite=False,
    linear_by=lambda params: (),
    curvature="none",
    cost=20.0,
    jumps=to_multiple,
)
FMOD = elementwise(
    np.fmod,
    lambda g: g,
    lambda g, x, y, out: -product(g, np.rint((x - out) / y)),  # trunc(x / y) can be off by one if x / y was rounded
    domain=((-2.0, 2.0), (0.5, 0.7)),
    complex=False,
    doc="d fmod(x, y) = dx - trunc(x / y) dy",
    finite=False,
    linear_by=lambda params: (),
    curvature="none",
    cost=20.0,
    exact=True,
    jumps=to_multiple,
)
ABSOLUTE = elementwise(
    np.absolute,
    lambda g, x: g * np.sign(x).conj(),
    operator=abs,
    doc="d|x| = Re(conj(x) dx) / |x|; 0 at x = 0",
    curvature="none of reals",
    exact=True,
    kinks=lambda x: x,
)
FABS = elementwise(
    np.fabs,
    lambda g, x: g * np.sign(x),
    complex=False,
    doc="d|x| = sign(x) dx; 0 at x = 0",
    curvature="none",
    exact=True,
    kinks=lambda x: x,
)
