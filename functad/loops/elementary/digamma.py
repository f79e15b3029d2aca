"""The digamma function: Stirling's series from 3 on, and a polynomial around its zero on `[1, 2]`.

Other numbers below 3 are shifted to `[1, 2]` by `digamma(x + 1) = digamma(x) + 1 / x`. Negative numbers use the reflection
formula (DLMF 5.5.2, 5.5.4, 5.11.2).
"""

from __future__ import annotations

import math

from functad.loops.elementary.coefficients import DIGAMMA, DIGAMMA_FAR
from functad.loops.elementary.gamma import PI, PI_LOW, where_pair
from functad.loops.elementary.logarithms import log_pair
from functad.loops.elementary.pairs import Pair, constant_pair, quick_sum, two_product, two_sum
from functad.loops.elementary.polynomials import horner, polynomial
from functad.loops.elementary.trigonometric import sine_and_cosine
from functad.loops.values import Value, fused, larger, smaller, where

ZERO, ZERO_LOW = 1.4616321449683622, 9.549995429965697e-17
"""The positive zero of the function, to 106 bits."""


def _of_positive(x: Value) -> Pair:
    """Return `digamma(x)` for x between 2^-60 and 2^1000."""
    far = x >= 3.0
    near = smaller(x, 3.0)
    above, below = near >= 2.0, near < 1.0
    zero, one = x.like(0.0), x.like(1.0)
    # The polynomial takes the distance from the zero, after an exact shift by 1 to between 1 and 2.
    shift = where(above, one, where(below, -one, zero))
    distance = _distance(near, shift)
    first, *higher = DIGAMMA.short if x.body.short else DIGAMMA.wide
    u = near - (shift + 1.5)
    slope = quick_sum(x.like(first), u * horner(u, higher))
    centre = distance.times(slope)
    divisor = where(above, near - 1.0, where(below, -near, one))
    fraction = Pair(one, zero).over(Pair(divisor, zero))
    centre = where_pair(above | below, fraction.plus(centre), centre)
    # Stirling's series
    size = larger(x, 3.0)
    inverse = 1.0 / size
    rest = Pair(inverse * -0.5, zero)
    rest = Pair(rest.high, fused(-inverse, size, 1.0) * inverse * -0.5)
    w = inverse * inverse
    total = log_pair(size).plus(rest).plus_number(-(w * polynomial(w, DIGAMMA_FAR)))
    return where_pair(far, total, centre)


def _distance(near: Value, shift: Value) -> Pair:
    """Return `near - shift - ZERO`; below 1 the first difference may be inexact."""
    first = two_sum(near, -shift)
    second = two_sum(first.high, -ZERO)
    return quick_sum(second.high, second.low + (first.low - ZERO_LOW))


def digamma_of_moderate(x: Value) -> Value:
    """Return `digamma(x)` for x that is not `is_extreme`."""
    return _of_positive(smaller(larger(x, 2.0**-60), 2.0**1000)).value()


def digamma(x: Value) -> Value:
    """Return `digamma(x)`; below 0 it is `digamma(-x) - 1 / x - pi / tan(pi x)`."""
    size = abs(x)
    bounded = smaller(larger(size, 2.0**-60), 2.0**1000)
    positive = _of_positive(bounded)
    # The tangent of pi x depends only on the distance of x from the nearest multiple of 1/2.
    rest = bounded - bounded.body.call("nearbyint", bounded)
    distance = abs(rest)
    close = distance > 0.25
    turn = two_product(where(close, 0.5 - distance, distance), PI)
    both = sine_and_cosine(quick_sum(turn.high, fused(where(close, 0.5 - distance, distance), PI_LOW, turn.low)))
    safe = where(rest.equals(0.0), x.like(0.25), 1.0)
    sine, cosine = where_pair(close, both.cosine, both.sine), where_pair(close, both.sine, both.cosine)
    cotangent = cosine.over(Pair(where(rest.equals(0.0), safe, sine.high), sine.low)).times(constant_pair(x, PI, PI_LOW))
    inverse = Pair(x.like(1.0), x.like(0.0)).over(Pair(bounded, x.like(0.0)))
    reflected = positive.plus(inverse).plus(cotangent.times_number(x.like(1.0).with_sign_of(rest))).value()
    result = where(x > 0.0, positive.value(), where(rest.equals(0.0), x.like(math.nan), reflected))
    result = where(size < 2.0**-60, -1.0 / x, result)
    infinite = where(x > 0.0, log_pair(where(size < math.inf, larger(size, 1.0), 1.0)).value(), math.nan)
    result = where(size > 2.0**1000, infinite, result)
    return where(x.equals(math.inf) | x.is_nan(), x, result)
