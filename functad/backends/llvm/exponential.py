"""Exponentials: `exp(x) = 2^k exp(r)`, `|r| <= log(2) / 2`, and a polynomial for the rest.

The reduction subtracts k log(2) in two parts, the first of which is exact (Cody and Waite, Software manual for the elementary
functions, 1980, chapter 6).
"""

from __future__ import annotations

from typing import NamedTuple

from functad.backends.llvm.coefficients import EXP
from functad.backends.llvm.pairs import Pair, quick_sum, two_product, two_sum
from functad.backends.llvm.polynomials import polynomial
from functad.backends.llvm.values import Value, fused, larger, smaller, where

LOG2_HIGH = 0.6931471805598903
"""The first 42 digits of log(2), so that its product with an exponent is exact."""

LOG2_LOW = 5.497923018708371e-14
LOG2, LOG2_REST = 0.6931471805599453, 2.3190468138462996e-17
LOG2E = 1.4426950408889634

ROUNDING = 6755399441055744.0
"""Added to a number below 2^51, it leaves the nearest integer in the last bits."""

ONE_BITS = 1023 << 52


class Reduced(NamedTuple):
    """A number as `k log(2) + r`; `shifted` is `k + ROUNDING`, `low` is what `r` lacks."""

    shifted: Value
    k: Value
    r: Value
    low: Value


def reduced(x: Value) -> Reduced:
    """Split off the multiple of log(2)."""
    shifted = fused(x, LOG2E, ROUNDING)
    k = shifted - ROUNDING
    high = fused(k, -LOG2_HIGH, x)
    correction = k * LOG2_LOW
    r = high - correction
    return Reduced(shifted, k, r, (high - r) - correction)


def power_of_two(shifted: Value) -> Value:
    """Return `2^k` by `k + ROUNDING`, for k of normal numbers."""
    return ((shifted.bits << 52) + ONE_BITS).real


def times_power_of_two(x: Value, shifted: Value) -> Value:
    """Multiply by `2^k` in two steps, so that what overflows or is denormal is rounded once."""
    half = shifted.bits >> 1
    rest = shifted.bits - half
    return (x * ((half << 52) + ONE_BITS).real) * ((rest << 52) + ONE_BITS).real


def exp_less_one(r: Value, low: Value | None = None) -> Pair:
    """Return `exp(r + low) - 1` for `|r| <= log(2) / 2`."""
    tail = (r * r) * polynomial(r, EXP)
    return quick_sum(r, tail if low is None else tail + fused(low, r, low))


def exp_tail(part: Reduced) -> Value:
    """Return `exp(r + low) - 1 - r` of what a reduction left."""
    return fused(part.r * part.r, polynomial(part.r, EXP), fused(part.low, part.r, part.low))


def exp(x: Value) -> Value:
    """The exponential function."""
    part = reduced(smaller(larger(x, -760.0), 720.0))
    tail = fused(part.r * part.r, polynomial(part.r, EXP), part.r)
    return times_power_of_two(1.0 + tail, part.shifted)


def exp_of_pair(x: Pair) -> tuple[Pair, Value]:
    """Return `exp(x)` as a pair times `2^k`, with `k + ROUNDING`; x is within 760."""
    part = reduced(x.high)
    r = two_sum(part.r, part.low + x.low)
    tail = exp_less_one(r.high, r.low)
    one = quick_sum(x.high.like(1.0), tail.high)
    return quick_sum(one.high, one.low + tail.low), part.shifted


def exp2(x: Value) -> Value:
    """Two to the power of x."""
    x = smaller(larger(x, -1080.0), 1030.0)
    shifted = x + ROUNDING
    rest = x - (shifted - ROUNDING)
    product = two_product(rest, LOG2)
    low = fused(rest, LOG2_REST, product.low)
    tail = (product.high * product.high) * polynomial(product.high, EXP) + low
    return times_power_of_two(1.0 + (product.high + tail), shifted)


def expm1(x: Value) -> Value:
    """`exp(x) - 1`, accurate near 0."""
    bounded = smaller(larger(x, -50.0), 710.0)
    part = reduced(bounded)
    tail = exp_less_one(part.r, part.low)
    half = ((part.shifted.bits << 52) + (ONE_BITS - (1 << 52))).real  # 2^(k - 1), which does not overflow
    leading = two_sum(half - 0.5, tail.high * half)
    result = (leading.high + fused(tail.low, half, leading.low)) * 2.0
    return where(abs(x) < 2.0**-54, x, result)
