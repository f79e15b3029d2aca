"""Powers, roots and `hypot`."""

from __future__ import annotations

import math

from functad.loops.elementary.coefficients import CBRT
from functad.loops.elementary.exponential import bounded, exp, exp_of_pair, times_power_of_two
from functad.loops.elementary.logarithms import log_of_one_plus, log_pair, scaled
from functad.loops.elementary.pairs import Pair, quick_sum, two_product
from functad.loops.elementary.polynomials import horner
from functad.loops.values import Value, larger, where


def power(x: Value, y: Value) -> Value:
    """Return `x^y` with the conventions of C: `x^0` and `1^y` are 1, even for NaN."""
    size = abs(x)
    magnitude = _power_of_magnitude(size, y)
    half = y * 0.5
    whole = y.body.call("trunc", y).equals(y)
    odd = whole & ~y.body.call("trunc", half).equals(half)
    result = where(odd, magnitude.with_sign_of(x), magnitude)
    invalid = (x < 0.0) & (x > -math.inf) & ~whole
    result = where(invalid, x.like(math.nan), result)
    result = where(x.is_nan() | y.is_nan(), x + y, result)
    result = where(y.equals(0.0) | x.equals(1.0), x.like(1.0), result)
    return where(y.equals(2.0), x * x, where(y.equals(1.0), x, result))


def _power_of_magnitude(size: Value, y: Value) -> Value:
    if size.is_spare:
        part = scaled(size, denormal=False)
        product = y * log_of_one_plus(part.m - 1.0, part.k, exact=True)
    else:
        logarithm = log_pair(size)
        pair = logarithm.times_number(y)
        rough = logarithm.high * y
        product = where(abs(rough) < 1000.0, pair.high, rough)
    product = where(size.equals(0.0), -y * math.inf, where(size.equals(math.inf), y * math.inf, product))
    product = where(size.equals(1.0), size.like(0.0), product)
    if size.is_spare:
        return exp(product)
    exponent = bounded(product)
    value, shifted = exp_of_pair(Pair(exponent, where(exponent.equals(pair.high), pair.low, size.like(0.0))))
    return times_power_of_two(value.high + value.low, shifted)


def cbrt(x: Value) -> Value:
    """Return the cube root, by a polynomial, one step of Halley's method, and a correction of the rounding error."""
    size = abs(x)
    small = size < 2.0**-1022
    normal = where(small, size * 2.0**54, size)
    biased = normal.bits >> 52
    # x = m 2^(3 q + r): for an exponent below 2^13, a multiplication and a shift divide by 3.
    exponent = biased + 3 * 1024
    third = (exponent * 0x5556) >> 16
    rest = exponent - third * 3
    m = ((normal.bits & ((1 << 52) - 1)) | (1023 << 52)).real
    # The bias 1023 is 3 * 341, so the biased and the true exponent have the same remainder.
    root = horner(m, CBRT.wide) * where(rest.equals(0), x.like(1.0), where(rest.equals(1), x.like(2 ** (1 / 3)), 2 ** (2 / 3)))
    cube = m * where(rest.equals(0), x.like(1.0), where(rest.equals(1), x.like(2.0), 4.0))
    power3 = root * root * root
    root = root - root * (power3 - cube) / (2.0 * power3 + cube)
    square = two_product(root, root)
    third_power = two_product(square.high, root)
    missing = ((cube - third_power.high) - third_power.low) - square.low * root
    root = root + missing / (3.0 * square.high)
    result = root * ((third + (1023 - 341 - 1024)) << 52).real
    result = where(small, result * 2.0**-18, result).with_sign_of(x)
    return where((size > 0.0) & (size < math.inf), result, x)


def hypot(x: Value, y: Value) -> Value:
    """Return `sqrt(x^2 + y^2)` without intermediate overflow."""
    a, b = abs(x), abs(y)
    largest = larger(a, b)
    scale = where(largest > 2.0**500, x.like(2.0**-600), where(largest < 2.0**-400, x.like(2.0**600), 1.0))
    back = where(largest > 2.0**500, x.like(2.0**600), where(largest < 2.0**-400, x.like(2.0**-600), 1.0))
    a, b = a * scale, b * scale
    high, low = where(a > b, a, b), where(a > b, b, a)
    square, other = two_product(high, high), two_product(low, low)
    total = quick_sum(square.high, other.high)
    rest = total.low + (square.low + other.low)
    root = (total.high + rest).sqrt()
    result = where(largest.equals(0.0), largest, root) * back
    infinite = a.equals(math.inf) | b.equals(math.inf)
    return where(infinite, x.like(math.inf), where(x.is_nan() | y.is_nan(), x + y, result))


def sqrt(x: Value) -> Value:
    """Return the square root."""
    return x.sqrt()


def square(x: Value) -> Value:
    """Return `x^2`."""
    return x * x


def reciprocal(x: Value) -> Value:
    """Return `1 / x`."""
    return 1.0 / x
