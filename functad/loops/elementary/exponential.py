"""Exponentials: `exp(x) = 2^k exp(r)` with `|r| <= log(2) / 2`, and a polynomial for `exp(r)`.

The reduction subtracts k log(2) in two parts; the first part is exact (Cody and Waite, Software manual for the elementary
functions, 1980, chapter 6).
"""

from __future__ import annotations

from typing import NamedTuple

from functad.loops.elementary.coefficients import EXP
from functad.loops.elementary.formats import Format, format_of
from functad.loops.elementary.pairs import Pair, quick_sum, two_product, two_sum
from functad.loops.elementary.polynomials import polynomial
from functad.loops.values import Value, fused, larger, smaller, where

LOG2, LOG2_REST = 0.6931471805599453, 2.3190468138462996e-17
LOG2E = 1.4426950408889634

ROUNDING = 1.5 * 2.0**52
"""Adding this to a float64 number below 2^51 puts the nearest integer into the last bits."""

ONE_BITS = 1023 << 52


class Reduced(NamedTuple):
    """A number as `k log(2) + r + low`; `shifted` is `k + rounding`, `low` is the rounding error of `r`."""

    shifted: Value
    k: Value
    r: Value
    low: Value


def reduced(x: Value) -> Reduced:
    """Reduce a number by a multiple of log(2)."""
    form = format_of(x)
    shifted = fused(x, LOG2E, form.rounding)
    k = shifted - form.rounding
    high = fused(k, -form.log2_high, x)
    correction = k * form.log2_low
    r = high - correction
    return Reduced(shifted, k, r, (high - r) - correction)


def power_of_two(shifted: Value) -> Value:
    """Return `2^k` for `shifted = k + rounding` and k of the normal range."""
    return _power(shifted.bits, format_of(shifted))


def _power(k: Value, form: Format) -> Value:
    """Return `2^k` from the last bits of an integer."""
    return ((k << form.mantissa) + form.one).real


def times_power_of_two(x: Value, shifted: Value) -> Value:
    """Multiply by `2^k` in two steps, so that a result that overflows or is denormal is rounded once."""
    form = format_of(shifted)
    half = shifted.bits >> 1
    return (x * _power(half, form)) * _power(shifted.bits - half, form)


def exp_less_one(r: Value, low: Value | None = None) -> Pair:
    """Return `exp(r + low) - 1` for `|r| <= log(2) / 2`."""
    tail = (r * r) * polynomial(r, EXP)
    return quick_sum(r, tail if low is None else tail + fused(low, r, low))


def exp_tail(part: Reduced) -> Value:
    """Return `exp(r + low) - 1 - r` of a reduced number."""
    return fused(part.r * part.r, polynomial(part.r, EXP), fused(part.low, part.r, part.low))


def bounded(x: Value) -> Value:
    """Clip an exponent to the range in which its exponential may be finite and nonzero."""
    form = format_of(x)
    return smaller(larger(x, form.least_exponent * LOG2), form.largest_exponent * LOG2)


def exp(x: Value) -> Value:
    """Return the exponential function."""
    part = reduced(bounded(x))
    tail = fused(part.r * part.r, polynomial(part.r, EXP), part.r)
    return times_power_of_two(1.0 + tail, part.shifted)


def exp_of_pair(x: Pair) -> tuple[Pair, Value]:
    """Return a pair and `k + rounding` with `exp(x) = pair * 2^k`; x is `bounded`."""
    part = reduced(x.high)
    r = two_sum(part.r, part.low + x.low)
    tail = exp_less_one(r.high, r.low)
    one = quick_sum(x.high.like(1.0), tail.high)
    return quick_sum(one.high, one.low + tail.low), part.shifted


def exp2(x: Value) -> Value:
    """Return `2^x`."""
    x = smaller(larger(x, -1080.0), 1030.0)
    shifted = x + ROUNDING
    rest = x - (shifted - ROUNDING)
    product = two_product(rest, LOG2)
    low = fused(rest, LOG2_REST, product.low)
    tail = (product.high * product.high) * polynomial(product.high, EXP) + low
    return times_power_of_two(1.0 + (product.high + tail), shifted)


def expm1(x: Value) -> Value:
    """Return `exp(x) - 1`, accurate near 0."""
    form = format_of(x)
    part = reduced(smaller(larger(x, -50.0), (form.bias + 1.25) * LOG2))
    tail = exp_less_one(part.r, part.low)
    half = _power(part.shifted.bits - 1, form)  # 2^(k - 1) does not overflow
    leading = two_sum(half - 0.5, tail.high * half)
    result = (leading.high + fused(tail.low, half, leading.low)) * 2.0
    return where(abs(x) < form.tiny**2, x, result)
