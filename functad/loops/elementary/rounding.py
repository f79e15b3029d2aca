"""Rounding, remainders, signs, maximum and minimum, with NumPy's conventions."""

from __future__ import annotations

from functad.loops.elementary.pairs import two_product
from functad.loops.values import Value, where


def floor(x: Value) -> Value:
    """Return the largest integer not above x."""
    return x.body.call("floor", x)


def ceil(x: Value) -> Value:
    """Return the least integer not below x."""
    return x.body.call("ceil", x)


def trunc(x: Value) -> Value:
    """Return the integer part."""
    return x.body.call("trunc", x)


def rint(x: Value) -> Value:
    """Return the nearest integer; ties go to the even one."""
    return x.body.call("nearbyint", x)


def fmod(x: Value, y: Value) -> Value:
    """Return the exact remainder, with the sign of x."""
    return x.body.emit("rem", x.kind, x, y)


def fmod_of_moderate(x: Value, y: Value) -> Value:
    """Return `fmod(x, y)` if `has_large_quotient` is false; one exact product suffices."""
    size, divisor = abs(x), abs(y)
    count = trunc(size / divisor)
    product = two_product(count, divisor)
    rest = (size - product.high) - product.low
    # The quotient may have been rounded up to an integer.
    rest = where(rest < 0.0, rest + divisor, rest)
    return rest.with_sign_of(x)


def has_large_quotient(x: Value, y: Value) -> Value:
    """Return the test for a quotient that has too many digits or is not finite."""
    return ~((abs(x / y) < 2.0**26) & (abs(y) > 2.0**-900) & (abs(y) < 2.0**900))


def _remainder(x: Value, y: Value, rest: Value) -> Value:
    moved = where((rest < 0.0) ^ (y < 0.0), rest + y, rest)
    return where(rest.equals(0.0), rest.with_sign_of(y), moved)


def remainder(x: Value, y: Value) -> Value:
    """Return the remainder with the sign of y, as Python's `%`."""
    return _remainder(x, y, fmod(x, y))


def remainder_of_moderate(x: Value, y: Value) -> Value:
    """Return `remainder(x, y)` if `has_large_quotient` is false."""
    return _remainder(x, y, fmod_of_moderate(x, y))


def _floor_divide(x: Value, y: Value, rest: Value) -> Value:
    turned = (~rest.equals(0.0)) & ((rest < 0.0) ^ (y < 0.0))
    quotient = where(turned, (x - rest) / y - 1.0, (x - rest) / y)
    whole = floor(quotient)
    whole = where(quotient - whole > 0.5, whole + 1.0, whole)
    return where(y.equals(0.0), x / y, where(quotient.equals(0.0), x.like(0.0).with_sign_of(x / y), whole))


def floor_divide(x: Value, y: Value) -> Value:
    """Return the quotient rounded down, computed from the remainder, as Python's `//`."""
    return _floor_divide(x, y, fmod(x, y))


def floor_divide_of_moderate(x: Value, y: Value) -> Value:
    """Return `floor_divide(x, y)` if `has_large_quotient` is false."""
    return _floor_divide(x, y, fmod_of_moderate(x, y))


def absolute(x: Value) -> Value:
    """Return the absolute value."""
    return abs(x)


def sign(x: Value) -> Value:
    """Return -1, 0 or 1; NaN for NaN."""
    return where(x > 0.0, x.like(1.0), where(x < 0.0, x.like(-1.0), where(x.is_nan(), x, 0.0)))


def copysign(x: Value, y: Value) -> Value:
    """Return the magnitude of x with the sign of y."""
    return x.with_sign_of(y)


def maximum(x: Value, y: Value) -> Value:
    """Return the larger of two numbers, `y` if they are equal; NaN if either is NaN."""
    return where((x > y) | x.is_nan(), x, y)


def minimum(x: Value, y: Value) -> Value:
    """Return the smaller of two numbers, `y` if they are equal; NaN if either is NaN."""
    return where((x < y) | x.is_nan(), x, y)


def fmax(x: Value, y: Value) -> Value:
    """Return the larger of two numbers; ignore NaN if the other is a number."""
    return where((x > y) | y.is_nan(), x, y)


def fmin(x: Value, y: Value) -> Value:
    """Return the smaller of two numbers; ignore NaN if the other is a number."""
    return where((x < y) | y.is_nan(), x, y)


def heaviside(x: Value, y: Value) -> Value:
    """Return 0 if x is negative, 1 if x is positive, y if x is 0; NaN for NaN."""
    return where(x.is_nan(), x, where(x < 0.0, x.like(0.0), where(x > 0.0, x.like(1.0), y)))
