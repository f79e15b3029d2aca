"""Addition to powers: the ufuncs behind Python's arithmetic operators, and their relatives."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from functad.primitives.kinds import elementwise
from functad.primitives.safe import product, quotient

_AWAY_FROM_ZERO = (0.5, 2.0)


def _divide(x: Any, y: Any) -> Any:
    try:
        return x / y
    except ZeroDivisionError:  # two Python numbers: give infinity or NaN, as NumPy does
        return np.true_divide(x, y).item()


def _power(x: Any, y: Any) -> Any:
    if type(x) in (int, float) and type(y) in (int, float):  # Python would give complex numbers, or raise
        return np.float_power(x, y).item()
    return x**y


def _remainder(x: Any, y: Any) -> Any:
    try:
        return x % y
    except ZeroDivisionError:
        return np.remainder(x, y).item()


ADD = elementwise(np.add, lambda g: g, lambda g: g, operator=operator.add, doc="d(x + y) = dx + dy")
SUBTRACT = elementwise(np.subtract, lambda g: g, lambda g: -g, operator=operator.sub, doc="d(x - y) = dx - dy")
MULTIPLY = elementwise(
    np.multiply, lambda g, y: g * y, lambda g, x: g * x, operator=operator.mul, doc="d(x y) = y dx + x dy"
)
DIVIDE = elementwise(
    np.divide,
    lambda g, y: quotient(g, y),
    lambda g, y, out: -product(g, out / y),
    operator=_divide,
    domain=((-2.0, 2.0), _AWAY_FROM_ZERO),
    doc="d(x / y) = dx / y - x / y^2 dy; zero where the cotangent is exactly zero",
)
NEGATIVE = elementwise(np.negative, lambda g: -g, operator=operator.neg, doc="d(-x) = -dx")
POSITIVE = elementwise(np.positive, lambda g: g, operator=operator.pos, doc="d(+x) = dx")


def _power_base(g: Any, x: Any, y: Any) -> Any:
    """`y x^(y-1) g`; the exponent's exact zeros win over `0^(-1)`, so that `x ** 0` has derivative 0 everywhere."""
    if type(y) in (int, float) and y >= 1:
        return g * (y * x ** (y - 1)) if y != 2 else g * (2 * x)
    return product(g, product(y, x ** (y - 1)))


POWER = elementwise(
    np.power,
    _power_base,
    lambda g, x, out: product(g, product(out, np.log(x))),
    operator=_power,
    domain=(_AWAY_FROM_ZERO, (-2.0, 2.0)),
    doc="d(x^y) = y x^(y-1) dx + x^y log(x) dy; at x = 0 the second term is 0",
)
FLOAT_POWER = elementwise(
    np.float_power,
    _power_base,
    lambda g, x, out: product(g, product(out, np.log(x))),
    domain=(_AWAY_FROM_ZERO, (-2.0, 2.0)),
    doc="as power, in double precision at least",
)
SQUARE = elementwise(np.square, lambda g, x: g * (2 * x), doc="d(x^2) = 2 x dx")
RECIPROCAL = elementwise(
    np.reciprocal,
    lambda g, out: -product(g, out * out),
    domain=(_AWAY_FROM_ZERO,),
    doc="d(1/x) = -dx / x^2; zero where the cotangent is exactly zero",
)
REMAINDER = elementwise(
    np.remainder,
    lambda g: g,
    lambda g, x, y: -g * np.floor_divide(x, y),
    operator=_remainder,
    domain=((-2.0, 2.0), (2.5, 3.0)),
    complex=False,
    doc="d(x mod y) = dx - floor(x / y) dy",
)
FMOD = elementwise(
    np.fmod,
    lambda g: g,
    lambda g, x, y: -g * np.trunc(x / y),
    domain=((0.5, 2.0), (2.5, 3.0)),
    complex=False,
    doc="d fmod(x, y) = dx - trunc(x / y) dy",
)


ABSOLUTE = elementwise(
    np.absolute, lambda g, x: g * np.conjugate(np.sign(x)), operator=abs, doc="d|x| = Re(conj(x) dx) / |x|; 0 at x = 0"
)
FABS = elementwise(np.fabs, lambda g, x: g * np.sign(x), complex=False, doc="d|x| = sign(x) dx; 0 at x = 0")
