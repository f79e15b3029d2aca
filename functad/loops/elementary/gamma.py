"""The logarithm of the gamma function: Stirling's series from 9/2 on, and a polynomial on `[3/2, 5/2]`.

Other numbers below 9/2 are shifted to this interval by `gamma(x + 1) = x gamma(x)`. Negative numbers use the reflection formula
(DLMF 5.5.1, 5.5.3, 5.11.1).
"""

from __future__ import annotations

import math

from functad.loops.elementary.coefficients import GAMMALN, STIRLING
from functad.loops.elementary.exponential import ROUNDING
from functad.loops.elementary.logarithms import log_of_pair, log_pair
from functad.loops.elementary.pairs import Pair, constant_pair, quick_sum, two_product, two_sum
from functad.loops.elementary.polynomials import horner, polynomial
from functad.loops.elementary.trigonometric import sine_and_cosine
from functad.loops.values import Value, fused, larger, smaller, where

SLOPE, SLOPE_LOW = 0.42278433509846713, 4.942915152430645e-18
"""1 - Euler's constant."""

HALF_LOG_2PI, HALF_LOG_2PI_LOW = 0.9189385332046728, -3.8782941580672414e-17
LOG_PI, LOG_PI_LOW = 1.1447298858494002, 1.0265951162707826e-17
PI, PI_LOW = 3.141592653589793, 1.2246467991473532e-16


def is_extreme(x: Value) -> Value:
    """Return the test for numbers that are not positive, or with possible overflow or underflow of intermediate results."""
    return ~((x > 2.0**-60) & (x < 2.0**1000))


def _of_positive(x: Value) -> Pair:
    """Return `log(gamma(x))` for x between 2^-1000 and 2^1000."""
    far = x >= 4.5
    near = smaller(x, 4.5)
    # near = 2 + steps + t, |t| <= 1/2
    steps = (near + (ROUNDING - 2.0)) - ROUNDING
    t = near - (steps + 2.0)
    # The factors of gamma(2 + t): the numbers from 2 + t to x - 1. Or its divisors: the numbers from x to 1 + t.
    # A product of two numbers is a pair.
    one = x.like(1.0)
    first = where(steps > 0.0, near - 1.0, where(steps < 0.0, near, one))
    second = where(steps > 1.0, near - 2.0, one)
    above = two_sum(near, 1.0)
    twice = steps < -1.5
    product = two_product(first, second)
    under = two_product(near, above.high)
    under = quick_sum(under.high, fused(near, above.low, under.low))
    argument = Pair(where(twice, under.high, product.high), where(twice, under.low, product.low))
    logarithm = log_of_pair(Pair(where(far, x, argument.high), where(far, x.like(0.0), argument.low)))
    # Near 2
    slope = constant_pair(x, SLOPE, SLOPE_LOW).times_number(t)
    quadratic, *higher = GAMMALN.short if x.body.short else GAMMALN.wide
    square = two_product(t, t)
    curved = square.times_number(quadratic)
    tail = square.high * t * horner(t, higher)
    centre = slope.plus(curved).plus_number(tail)
    centre = where_pair(steps < 0.0, centre.plus(logarithm.negated()), where_pair(steps > 0.0, centre.plus(logarithm), centre))
    # Stirling
    inverse = 1.0 / larger(x, 4.5)
    series = inverse * polynomial(inverse * inverse, STIRLING)
    total = logarithm.plus_number(-1.0).times(two_sum(x, -0.5))
    total = total.plus(constant_pair(x, HALF_LOG_2PI - 0.5, HALF_LOG_2PI_LOW)).plus_number(series)
    return where_pair(far, total, centre)


def where_pair(condition: Value, true: Pair, false: Pair) -> Pair:
    """Select one of two pairs."""
    return Pair(where(condition, true.high, false.high), where(condition, true.low, false.low))


def _bounded(size: Value) -> Value:
    return smaller(larger(size, 2.0**-1000), 2.0**1000)


def _with_extremes(size: Value, result: Value) -> Value:
    tiny = -log_pair(where(size < 2.0**-60, size, size.like(1.0))).value()
    large = where(size > 2.0**1000, size * (log_pair(size).value() - 1.0), result)
    return where(size < 2.0**-60, tiny, where(size.equals(math.inf), size, large))


def gammaln_of_moderate(x: Value) -> Value:
    """Return `log(gamma(x))` for x that is not `is_extreme`."""
    return _of_positive(_bounded(x)).value()


def gammaln(x: Value) -> Value:
    """Return `log(|gamma(x)|)`."""
    size = abs(x)
    positive = _of_positive(_bounded(size))
    plain = _with_extremes(size, positive.value())
    # log(pi / (|x| |sin(pi x)|)) - log(gamma(|x|)); the sine uses the distance to the nearest integer
    rest = size - x.body.call("nearbyint", size)
    turn = two_product(abs(rest), PI)
    turn = quick_sum(turn.high, fused(abs(rest), PI_LOW, turn.low))
    both = sine_and_cosine(Pair(where(turn.high > 0.7854, quarter_less(turn).high, turn.high), where_low(turn)))
    sine = where_pair(turn.high > 0.7854, both.cosine, both.sine)
    product = sine.times_number(_bounded(size))
    safe = where_pair(product.high > 2.0**-900, product, constant_pair(x, 1.0, 0.0))
    reflected = constant_pair(x, LOG_PI, LOG_PI_LOW).plus(log_of_pair(safe).negated()).plus(positive.negated()).value()
    pole = rest.equals(0.0) & (x <= 0.0)
    result = where(x < 0.0, where(size < 2.0**-60, plain, reflected), plain)
    return where(pole, x.like(math.inf), where(size.equals(math.inf), x, result))


def quarter_less(turn: Pair) -> Pair:
    """Return `pi / 2 - turn`."""
    return constant_pair(turn.high, PI / 2, PI_LOW / 2).plus(turn.negated())


def where_low(turn: Pair) -> Value:
    """Return the lower part of an angle, or of its complement if the angle exceeds pi / 4."""
    return where(turn.high > 0.7854, quarter_less(turn).low, turn.low)
