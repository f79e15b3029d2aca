"""Logarithms: `x = 2^k m` with `sqrt(1/2) <= m <= sqrt(2)`, and `log(m) = 2 atanh((m - 1) / (m + 1))`."""

from __future__ import annotations

import math
from typing import NamedTuple

from functad.loops.elementary.coefficients import LOG, LOG_PAIR, Coefficients
from functad.loops.elementary.exponential import (
    LOG2,
    LOG2_REST,
    LOG2E,
    bounded,
    exp_of_pair,
    exp_tail,
    reduced,
    times_power_of_two,
)
from functad.loops.elementary.formats import format_of
from functad.loops.elementary.pairs import Pair, constant_pair, quick_sum, two_product, two_sum
from functad.loops.elementary.polynomials import polynomial
from functad.loops.values import Value, fused, larger, where

TWELFTH_LOW = 4.625929269271485e-18
LOG2E_LOW = 2.0355273740931033e-17
LOG10E, LOG10E_LOW = 0.4342944819032518, 1.098319650216765e-17
LOG10_2, LOG10_2_LOW = 0.3010299956639812, -2.8037281277851704e-18


class Scaled(NamedTuple):
    """A positive number as `m 2^k`, with k as a real number and as a biased integer."""

    m: Value
    k: Value
    biased: Value

    def scale(self) -> Value:
        """Return `2^-k`, for k of at most 1022."""
        form = format_of(self.m)
        return ((2 * form.bias - self.biased) << form.mantissa).real


def scaled(x: Value, *, denormal: bool = True) -> Scaled:
    """Split a positive number. If `denormal` is false, the number must be normal."""
    form = format_of(x)
    offset = x.like(0.0)
    if denormal:
        small = x < form.least_normal
        offset = where(small, x.like(form.mantissa + 2.0), 0.0)
        x = where(small, x * 2.0 ** (form.mantissa + 2), x)
    shifted = x.bits + (form.one - form.root_half)
    biased = shifted >> form.mantissa
    # The conversion of an integer to a real number puts it into the last digits of a power of two.
    k = (biased | ((form.bias + form.mantissa) << form.mantissa)).real - (2.0**form.mantissa + form.bias)
    m = ((shifted & form.fraction) + form.root_half).real
    return Scaled(m, k - offset if denormal else k, biased)


def with_special_values(x: Value, result: Value) -> Value:
    """Replace `result` by the logarithm of 0, infinity, NaN or a negative number."""
    special = where(x.equals(0.0), x.like(-math.inf), where(x < 0.0, x.like(math.nan), x))
    return where((x > 0.0) & (x < math.inf), result, special)


def log_of_one_plus(f: Value, k: Value, correction: Value | None = None, *, exact: bool = False) -> Value:
    """Return `log(1 + f) + k log(2) + correction` for -0.3 < f < 0.42; `exact`: use the float64 polynomial always."""
    form = format_of(f)
    s = f / (f + 2.0)
    z = s * s
    half = (f * f) * 0.5
    low = k * form.log2_low if correction is None else fused(k, form.log2_low, correction)
    # log(1 + f) = f - f^2 / 2 + s (f^2 / 2 + R) with R = 2 atanh(s) / s - 2
    rest = fused(s, fused(z, polynomial(z, Coefficients(LOG.wide, LOG.wide) if exact else LOG), half), low)
    return fused(k, form.log2_high, f - (half - rest))


def log(x: Value) -> Value:
    """Return the natural logarithm."""
    part = scaled(x, denormal=not x.is_spare)
    return with_special_values(x, log_of_one_plus(part.m - 1.0, part.k))


def log1p_of_pair(x: Pair) -> Value:
    """Return `log(1 + x)` of a pair above -1."""
    total = two_sum(x.high, 1.0)
    part = scaled(total.high, denormal=False)
    near = part.k.equals(0.0)
    f = where(near, x.high, part.m - 1.0)
    # The rounding error of 1 + x, times the derivative of the logarithm.
    lost = where(near, x.low / total.high, (total.low + x.low) / total.high)
    return log_of_one_plus(f, part.k, lost)


def log1p(x: Value) -> Value:
    """Return `log(1 + x)`, accurate near 0."""
    result = log1p_of_pair(Pair(x, x.like(0.0)))
    result = where(abs(x) < format_of(x).tiny ** 2, x, result)
    special = where(x.equals(-1.0), x.like(-math.inf), where(x < -1.0, x.like(math.nan), x))
    return where((x > -1.0) & (x < math.inf), result, special)


def log_of_mantissa(m: Value, low: Value | None = None) -> Pair:
    """Return `log(m + low)` to about 66 bits, for `sqrt(1/2) <= m <= sqrt(2)`.

    The formula is `2 s (1 + z / 3 + z^2 P(z))` with `s = (m - 1) / (m + 1)` and `z = s^2`. In the code, `s` is doubled.
    """
    f = m - 1.0
    above = quick_sum(m.like(1.0), m)
    low = m.like(0.0) if low is None else low
    s = Pair(f + f, low + low).over(Pair(above.high, above.low + low))
    square = two_product(s.high, s.high)
    square_low = fused(s.high + s.high, s.low, square.low)
    z = square.high * 0.25
    third = two_product(square.high, 1 / 12)
    third_low = fused(square.high, TWELFTH_LOW, fused(square_low, 1 / 12, third.low))
    series = quick_sum(third.high, (z * z) * polynomial(z, LOG_PAIR))
    product = two_product(s.high, series.high)
    product_low = fused(s.high, series.low + third_low, fused(s.low, series.high, product.low))
    total = quick_sum(s.high, product.high)
    return Pair(total.high, total.low + (product_low + s.low))


def log_pair(x: Value) -> Pair:
    """Return the logarithm of a positive number to about 64 bits."""
    part = scaled(x)
    return _with_exponent(part.k, log_of_mantissa(part.m))


def log_of_pair(x: Pair) -> Pair:
    """Return the logarithm of a positive pair between 2^-1000 and 2^1000."""
    part = scaled(x.high, denormal=False)
    return _with_exponent(part.k, log_of_mantissa(part.m, x.low * part.scale()))


def _with_exponent(k: Value, logarithm: Pair) -> Pair:
    """Add `k log(2)` to a logarithm; it is 0 or the larger term."""
    form = format_of(k)
    total = quick_sum(k * form.log2_high, logarithm.high)
    return Pair(total.high, total.low + fused(k, form.log2_low, logarithm.low))


def log2(x: Value) -> Value:
    """Return the logarithm to base 2."""
    part = scaled(x, denormal=not x.is_spare)
    if x.is_spare:
        return with_special_values(x, fused(log_of_one_plus(part.m - 1.0, x.like(0.0)), LOG2E, part.k))
    product = log_of_mantissa(part.m).times(constant_pair(x, LOG2E, LOG2E_LOW))
    total = two_sum(part.k, product.high)
    return with_special_values(x, total.high + (total.low + product.low))


def log10(x: Value) -> Value:
    """Return the logarithm to base 10."""
    if x.is_spare:
        return log(x) * LOG10E
    part = scaled(x)
    product = log_of_mantissa(part.m).times(constant_pair(x, LOG10E, LOG10E_LOW))
    exponent = two_product(part.k, LOG10_2)
    total = Pair(exponent.high, fused(part.k, LOG10_2_LOW, exponent.low)).plus(product)
    return with_special_values(x, total.value())


def logaddexp(a: Value, b: Value) -> Value:
    """Return `log(exp(a) + exp(b))`."""
    return _logaddexp(a, b, 1.0)


def logaddexp2(a: Value, b: Value) -> Value:
    """Return `log2(2^a + 2^b)`."""
    return _logaddexp(a, b, LOG2)


def _logaddexp(a: Value, b: Value, base: float) -> Value:
    top = where(a > b, a, b)
    difference = two_sum(where(a > b, b, a), -top)
    bound = -750.0 if base == 1.0 else -1080.0
    exponent = Pair(larger(difference.high, bound), where(difference.high > bound, difference.low, 0.0))
    if base != 1.0:
        exponent = exponent.times(constant_pair(a, LOG2, LOG2_REST))
    added = log1p_of_pair(Pair(_exp(exponent), a.like(0.0)))
    result = top + (added if base == 1.0 else added * LOG2E)
    # The difference of equal infinities is NaN.
    return where(a.equals(b), a + (LOG2 if base == 1.0 else 1.0), result)


def _exp(x: Pair) -> Value:
    """Return `exp(x)` of a bounded pair."""
    value, shifted = exp_of_pair(x)
    return times_power_of_two(value.high + value.low, shifted)


def logistic(x: Value) -> Value:
    """Return `1 / (1 + exp(-x))`."""
    part = reduced(bounded(-abs(x)))
    value = 1.0 + (part.r + exp_tail(part))
    small = times_power_of_two(value, part.shifted)
    positive = x > 0.0
    numerator = Pair(where(positive, x.like(1.0), value), x.like(0.0))
    quotient = numerator.over(quick_sum(x.like(1.0), small)).value()
    return where(positive, quotient, times_power_of_two(quotient, part.shifted))


def log_logistic(x: Value) -> Value:
    """Return `log(1 / (1 + exp(-x)))`."""
    exponent = larger(-abs(x), -750.0)
    added = log1p_of_pair(Pair(_exp(Pair(exponent, x.like(0.0))), x.like(0.0)))
    return where(x < 0.0, x, x.like(-0.0)) - added
