"""Hyperbolic functions, by the addition theorem `sinh(k log(2) + r) = sinh(k log 2) cosh(r) + cosh(k log 2) sinh(r)`."""

from __future__ import annotations

import math
from typing import NamedTuple

from functad.loops.elementary.coefficients import COSH, SINH
from functad.loops.elementary.exponential import LOG2, ONE_BITS, exp_tail, power_of_two, reduced
from functad.loops.elementary.formats import format_of
from functad.loops.elementary.logarithms import log1p_of_pair
from functad.loops.elementary.pairs import Pair, quick_sum, two_product, two_sum
from functad.loops.elementary.polynomials import polynomial
from functad.loops.values import Value, fused, smaller, where


class Parts(NamedTuple):
    """For `|x| = k log(2) + r`: `cosh(k log 2) / 2`, `sinh(k log 2) / 2`, r, `sinh(r) - r`, `cosh(r) - 1`."""

    cosh_k: Pair
    sinh_k: Pair
    r: Value
    sinh_rest: Value
    cosh_less_one: Value


def _parts(size: Value) -> Parts:
    split = reduced(size)
    r, low = split.r, split.low
    # Halves of the powers of two do not overflow. Their inverses are negligible when they are denormal.
    growing = ((split.shifted.bits << 52) + (ONE_BITS - (2 << 52))).real
    inverse = (0 - (split.shifted.bits << 52) + (ONE_BITS - (2 << 52))).real
    falling = where(split.k > 1000.0, size.like(0.0), inverse)
    z = r * r
    square = z * 0.5
    sinh_rest = fused(r * z, polynomial(z, SINH), fused(square, low, low))
    cosh_less_one = square + fused(z * z, polynomial(z, COSH), r * low)
    return Parts(quick_sum(growing, falling), quick_sum(growing, -falling), r, sinh_rest, cosh_less_one)


def _half_sinh(part: Parts) -> Pair:
    product = two_product(part.cosh_k.high, part.r)
    total = two_sum(part.sinh_k.high, product.high)
    rest = fused(part.sinh_k.high, part.cosh_less_one, fused(part.cosh_k.high, part.sinh_rest, product.low + part.sinh_k.low))
    return quick_sum(total.high, total.low + rest)


def _half_cosh(part: Parts) -> Pair:
    rest = fused(part.sinh_k.high, part.r + part.sinh_rest, fused(part.cosh_k.high, part.cosh_less_one, part.cosh_k.low))
    return quick_sum(part.cosh_k.high, rest)


def sinh(x: Value) -> Value:
    """Return the hyperbolic sine."""
    size = abs(x)
    half = _half_sinh(_parts(smaller(size, 710.5)))
    result = (half.high + half.low) * 2.0
    return where(size < 2.0**-27, x, where(size > 710.5, x * math.inf, result.with_sign_of(x)))


def cosh(x: Value) -> Value:
    """Return the hyperbolic cosine."""
    size = abs(x)
    half = _half_cosh(_parts(smaller(size, 710.5)))
    return where(size > 710.5, x.like(math.inf), (half.high + half.low) * 2.0)


def tanh(x: Value) -> Value:
    """Return the hyperbolic tangent: `e / (e + 2)` with `e = exp(2 |x|) - 1`."""
    size = abs(x)
    double = smaller(size + size, 44.0)
    part = reduced(double)
    power = power_of_two(part.shifted)
    e = fused(exp_tail(part), power, fused(part.r, power, power - 1.0))
    quotient = e / (e + 2.0)
    if not x.is_spare:
        quotient = _corrected(quotient, e)
    return where(size < format_of(x).tiny, x, quotient.with_sign_of(x))


def _corrected(quotient: Value, e: Value) -> Value:
    """Correct the rounding errors of the sum and the division in `e / (e + 2)`."""
    # The factor 1 / (e + 2) of the correction equals (1 - quotient) / 2.
    divisor = e + 2.0
    lost = where(e < 2.0, e - (divisor - 2.0), 0.0)
    rest = fused(-quotient, lost, fused(-quotient, divisor, e))
    if not e.body.fused:
        product = two_product(quotient, divisor)
        rest = fused(-quotient, lost, (e - product.high) - product.low)
    return fused(rest * 0.5, 1.0 - quotient, quotient)


def arcsinh(x: Value) -> Value:
    """Return the inverse hyperbolic sine: `log1p(|x| + x^2 / (1 + sqrt(1 + x^2)))`."""
    size = abs(x)
    large = size > 2.0**30
    bounded = where(large, size.like(1.0), size)
    square = two_product(bounded, bounded)
    root = two_sum(square.high, 1.0)
    root = quick_sum(root.high, root.low + square.low).sqrt()
    above = two_sum(root.high, 1.0)
    added = square.over(quick_sum(above.high, above.low + root.low))
    total = two_sum(bounded, added.high)
    argument = Pair(where(large, size, total.high), where(large, size.like(-1.0), total.low + added.low))
    result = log1p_of_pair(argument) + where(large, size.like(LOG2), 0.0)
    result = where(size < 2.0**-27, x, result.with_sign_of(x))
    return where(size < math.inf, result, x)


def arccosh(x: Value) -> Value:
    """Return the inverse hyperbolic cosine: `log1p(t + sqrt(t (t + 2)))` with `t = x - 1`."""
    large = x > 2.0**30
    bounded = where(large, x.like(2.0), x)
    t = two_sum(bounded, -1.0)
    product = t.times(t.plus_number(2.0))
    positive = where(product.high > 0.0, product.high, x.like(1.0))
    root = Pair(positive, product.low).sqrt()
    zero = x.like(0.0)
    root = Pair(where(product.high > 0.0, root.high, zero), where(product.high > 0.0, root.low, zero))
    total = root.plus(t)
    argument = Pair(where(large, x, total.high), where(large, x.like(-1.0), total.low))
    result = log1p_of_pair(argument) + where(large, x.like(LOG2), 0.0)
    return where(x < math.inf, where(x < 1.0, x.like(math.nan), result), x)


def arctanh(x: Value) -> Value:
    """Return the inverse hyperbolic tangent: `log1p(2 |x| / (1 - |x|)) / 2`."""
    size = abs(x)
    inside = where(size < 1.0, size, x.like(0.0))
    below = two_sum(x.like(1.0), -inside)
    argument = Pair(2.0 * inside, x.like(0.0)).over(below)
    result = (log1p_of_pair(argument) * 0.5).with_sign_of(x)
    special = where(size.equals(1.0), x * math.inf, x * math.nan)
    return where(size < 2.0**-27, x, where(size < 1.0, result, special))
