"""Trigonometric functions, by polynomials on `[-pi/4, pi/4]`, and their inverses."""

from __future__ import annotations

import math
from typing import NamedTuple

from functad.loops.elementary.coefficients import ARCSIN, ARCTAN, COS, SIN
from functad.loops.elementary.formats import format_of
from functad.loops.elementary.pairs import Pair, quick_sum, two_product, two_sum
from functad.loops.elementary.polynomials import polynomial
from functad.loops.elementary.reduction import MODERATE, Angle, any_angle, moderate
from functad.loops.values import BITS, Value, fused, larger, smaller, where

HALF_PI, HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17
SIGN = -(1 << 63)
TAN_PI_8 = 0.41421356237309503


class Both(NamedTuple):
    """The sine and cosine of a reduced angle."""

    sine: Pair
    cosine: Pair


def sine_and_cosine(r: Pair) -> Both:
    """Return the sine and cosine of an angle of at most pi / 4 in magnitude."""
    x, low = r
    z = x * x
    if x.is_spare:
        sine = fused(x * z, polynomial(z, SIN), x)
        cosine = fused(z * z, polynomial(z, COS), fused(z, -0.5, 1.0))
        zero = x.like(0.0)
        return Both(Pair(sine, zero), Pair(cosine, zero))
    half = z * 0.5
    sine_tail = fused(x * z, polynomial(z, SIN), fused(-half, low, low))
    one = 1.0 - half
    cosine_tail = fused(z * z, polynomial(z, COS), ((1.0 - one) - half) - x * low)
    return Both(quick_sum(x, sine_tail), quick_sum(one, cosine_tail))


def is_large(x: Value) -> Value:
    """Return the test for angles that need the table, infinity and NaN included."""
    return ~(abs(x) < MODERATE[x.kind])


def _turned(x: Value, angle: Angle, quarter: int) -> Value:
    both = sine_and_cosine(angle.r)
    quarters = angle.quarters + quarter
    value = where((quarters & 1).equals(0), both.sine.high, both.cosine.high)
    return (value.bits ^ ((quarters & 2) << BITS[value.kind] - 2)).real


def _finite(x: Value, result: Value) -> Value:
    return where(abs(x) < math.inf, result, x - x)


def sin(x: Value) -> Value:
    """Return the sine."""
    return where(abs(x) < 2.0**-27, x, _finite(x, _turned(x, any_angle(x), 0)))


def sin_of_moderate(x: Value) -> Value:
    """Return the sine of a moderate angle."""
    return where(abs(x) < format_of(x).tiny, x, _turned(x, moderate(x), 0))


def cos(x: Value) -> Value:
    """Return the cosine."""
    return _finite(x, _turned(x, any_angle(x), 1))


def cos_of_moderate(x: Value) -> Value:
    """Return the cosine of a moderate angle."""
    return _turned(x, moderate(x), 1)


def _quotient(x: Value, angle: Angle) -> Value:
    sine, cosine = sine_and_cosine(angle.r)
    odd = ~(angle.quarters & 1).equals(0)
    over = Pair(where(odd, -cosine.high, sine.high), where(odd, -cosine.low, sine.low))
    under = Pair(where(odd, sine.high, cosine.high), where(odd, sine.low, cosine.low))
    result = over.high / under.high if x.is_spare else over.over(under).value()
    return where(abs(x) < format_of(x).tiny, x, result)


def tan(x: Value) -> Value:
    """Return the tangent."""
    return _finite(x, _quotient(x, any_angle(x)))


def tan_of_moderate(x: Value) -> Value:
    """Return the tangent of a moderate angle."""
    return _quotient(x, moderate(x))


def arcsin(x: Value) -> Value:
    """Return the arcsine; above 1/2 it is `pi / 2 - 2 a` with `sin(a) = sqrt((1 - x) / 2)`."""
    size = abs(x)
    near_one = size > 0.5
    z = where(near_one, (1.0 - size) * 0.5, x * x)
    root = z.sqrt()
    base = where(near_one, root, size)
    tail = base * (z * polynomial(z, ARCSIN))
    above = HALF_PI - (2.0 * base - (HALF_PI_LOW - 2.0 * (tail + _missing(z, root))))
    result = where(near_one, above, base + tail).with_sign_of(x)
    return where(size < 2.0**-27, x, result)


def arccos(x: Value) -> Value:
    """Return the arccosine; above 1/2 it is `2 arcsin(sqrt((1 - x) / 2))`."""
    size = abs(x)
    near_one = size > 0.5
    z = where(near_one, (1.0 - size) * 0.5, x * x)
    root = z.sqrt()
    base = where(near_one, root, x)
    tail = base * (z * polynomial(z, ARCSIN))
    missing = tail + where(near_one, _missing(z, root), x.like(0.0))
    middle = two_sum(x.like(HALF_PI), -base)
    below_half = middle.high + (middle.low + (HALF_PI_LOW - tail))
    above = 2.0 * (base + missing)
    turned = two_sum(x.like(2.0 * HALF_PI), -2.0 * base)
    beyond = turned.high + (turned.low + (2.0 * HALF_PI_LOW - 2.0 * missing))
    return where(near_one, where(x > 0.0, above, beyond), below_half)


def _missing(z: Value, root: Value) -> Value:
    """Return the rounding error of `root`, the square root of z."""
    square = two_product(root, root)
    return where(z > 0.0, ((z - square.high) - square.low) / (root + root), z.like(0.0))


def arctan(x: Value) -> Value:
    """Return the arctangent."""
    size = abs(x)
    angle = _angle_of(smaller(size, 2.0**60), size.like(1.0))
    return where(size < 2.0**-27, x, angle.with_sign_of(x))


def _angle_of(y: Value, x: Value) -> Value:
    """Return the angle of a point with nonnegative coordinates.

    The bounds `tan(pi / 8) = sqrt(2) - 1` and its inverse divide the quadrant into three sectors; each is rotated to the
    interval `[-pi / 8, pi / 8]`.
    """
    up = y * TAN_PI_8 > x
    middle = (x * TAN_PI_8 < y) & ~up
    over = where(up, -x, where(middle, y - x, y))
    under = where(up, y, where(middle, y + x, x))
    q = over / under
    z = q * q
    base = where(up, x.like(HALF_PI), where(middle, x.like(HALF_PI / 2), 0.0))
    low = where(up, x.like(HALF_PI_LOW), where(middle, x.like(HALF_PI_LOW / 2), 0.0))
    tail = fused(q * z, polynomial(z, ARCTAN), low)
    return base + (q + tail)


def arctan2(y: Value, x: Value) -> Value:
    """Return the angle between a point and the x axis, in all four quadrants."""
    high, wide = abs(y), abs(x)
    largest = larger(high, wide)
    infinite = largest.equals(math.inf)
    # Scaling avoids overflow and loss of digits. A point with two infinite coordinates lies on the diagonal.
    scale = where(largest > 2.0**1000, x.like(2.0**-100), where(largest < 2.0**-900, x.like(2.0**100), 1.0))
    up = where(infinite, where(high.equals(math.inf), x.like(1.0), 0.0), high * scale)
    along = where(infinite, where(wide.equals(math.inf), x.like(1.0), 0.0), wide * scale)
    origin = largest.equals(0.0)
    angle = _angle_of(up, where(origin, x.like(1.0), along))
    left = x.bits < 0
    turned = (2.0 * HALF_PI - angle) + 2.0 * HALF_PI_LOW
    result = where(left, turned, angle).with_sign_of(y)
    return where(x.is_nan() | y.is_nan(), x + y, result)
