"""The error function and its complement.

`erf` is a polynomial up to 1. Above 1 it is `1 - exp(p)` with a polynomial `p` for `log(erfc(x))`.

`erfc(x)` is `exp(-x^2) / (1 + 2 x)` times a factor between 1.1 and 1.3. One polynomial in `(x - 4) / (x + 4)` gives this factor
up to infinity (after Shepherd and Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc x, 1981).
"""

from __future__ import annotations

from functad.loops.elementary.coefficients import ERF, ERFC, LOG_ERFC
from functad.loops.elementary.exponential import exp_of_pair, exp_tail, power_of_two, reduced, times_power_of_two
from functad.loops.elementary.pairs import quick_sum, two_product
from functad.loops.elementary.polynomials import polynomial
from functad.loops.values import Value, fused, larger, smaller, where


def _complement(size: Value) -> tuple[Value, Value]:
    """Return `erfc(x) / 2^k` and `k + ROUNDING`, for x of at least 1/2."""
    square = two_product(size, size)
    exponential, shifted = exp_of_pair(square.negated())
    q = (size - 4.0) / (size + 4.0)
    factor = quick_sum(size.like(19 / 16), polynomial(q, ERFC))
    divisor = quick_sum(2.0 * size, size.like(1.0))
    if size.is_spare:
        return exponential.high * factor.high / divisor.high, shifted
    return exponential.times(factor).over(divisor).value(), shifted


def erf(x: Value) -> Value:
    """Return the error function."""
    size = abs(x)
    part = reduced(polynomial(smaller(size, 6.0) - 1.0, LOG_ERFC))
    power = power_of_two(part.shifted)
    far = fused(-power, part.r + exp_tail(part), 1.0 - power)
    return where(size < 1.0, _near_zero(x), far.with_sign_of(x))


def erfc(x: Value) -> Value:
    """Return `1 - erf(x)`, accurate where `erf(x)` is nearly 1."""
    size = abs(x)
    value, shifted = _complement(smaller(larger(size, 0.5), 27.5))
    far = times_power_of_two(value, shifted)
    return where(size < 0.5, 1.0 - _near_zero(x), where(x < 0.0, 2.0 - far, far))


def _near_zero(x: Value) -> Value:
    return fused(x, polynomial(x * x, ERF), x)
