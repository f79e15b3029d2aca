"""Argument reduction of angles: `x = k pi / 2 + r` with `|r| <= pi / 4`, r as a pair.

Below 2^30, pi / 2 in three parts suffices (Cody and Waite). Above, x is an integer times a power of two. A table gives each
power of two in quarter turns modulo 4 (after Payne and Hanek, Radian reduction for trigonometric functions, 1983).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from functad.loops.elementary.exponential import ROUNDING
from functad.loops.elementary.formats import format_of
from functad.loops.elementary.pairs import Pair, quick_sum, two_product, two_sum
from functad.loops.values import Value, fused, where

TWO_OVER_PI = 0.6366197723675814
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)

HALF_PI_FLOAT = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)

MODERATE = {"double": 2.0**30, "float": 2.0**15}
"""Below this bound, pi / 2 in three parts suffices."""

_EXPONENT_BIAS = 1023 + 52
_FIRST_EXPONENT = 30 - 52
"""The exponent of the first power of two in the table; the integer factor is the mantissa."""

_LENGTH = 1024 - 30
_PARTS = 4


class Angle(NamedTuple):
    """The reduced angle, and an integer that is the number of quarter turns modulo 4."""

    r: Pair
    quarters: Value


def moderate(x: Value) -> Angle:
    """Reduce an angle of moderate size."""
    rounding = format_of(x).rounding
    shifted = fused(x, TWO_OVER_PI, rounding)
    k = shifted - rounding
    half_pi = HALF_PI if x.kind == "double" else HALF_PI_FLOAT
    # The difference is exact: it is below 1 and a multiple of the last digit of pi / 2 or x.
    if x.body.fused:
        rest = x.body.call("fma", k, x.like(-half_pi[0]), x)
    else:
        whole = two_product(k, -half_pi[0])
        rest = (x + whole.high) + whole.low
    if x.is_spare:
        return Angle(Pair(fused(k, -half_pi[1], rest), x.like(0.0)), shifted.bits)
    # `quick_sum` is exact, because `rest` is a multiple of the last digit of the second product.
    second = two_product(k, -half_pi[1])
    r, low = quick_sum(rest, second.high)
    return Angle(Pair(r, fused(k, -half_pi[2], low + second.low)), shifted.bits)


def any_angle(x: Value) -> Angle:
    """Reduce an angle of any size."""
    below = moderate(x)
    huge = abs(x) >= MODERATE[x.kind]
    above = _huge(where(huge, x, x.like(MODERATE[x.kind])))
    r = Pair(where(huge, above.r.high, below.r.high), where(huge, above.r.low, below.r.low))
    return Angle(r, where(huge, above.quarters, below.quarters))


def _huge(x: Value) -> Angle:
    bits = abs(x).bits
    integer = ((bits & ((1 << 52) - 1)) | (_EXPONENT_BIAS << 52)).real  # the digits of x as an integer of 53 bits
    index = (bits >> 52) - (_EXPONENT_BIAS + _FIRST_EXPONENT)
    index = where(index > _LENGTH - 1, index.like(0), index)  # infinity and NaN: the result is NaN for any entry
    products = [two_product(integer, part) for part in _turns(x, index)]
    # The first product is up to 2^54 quarter turns; multiples of 4 do not matter.
    first = _without_turns(products[0].high)
    total, rest = two_sum(first, products[0].low)
    terms = [products[1].high, products[1].low, products[2].high, products[2].low, products[3].high]
    exact: list[Value] = [rest]
    for term in terms:
        total, error = two_sum(total, term)
        exact.append(error)
    shifted = total + ROUNDING
    near = quick_sum_all(total - (shifted - ROUNDING), exact)
    again = near.times(Pair(x.like(HALF_PI[0]), x.like(HALF_PI[1])))
    negative = x < 0.0
    sign = where(negative, x.like(-1.0), 1.0)
    quarters = where(negative, 0 - shifted.bits, shifted.bits)
    return Angle(again.times_number(sign), quarters)


def _without_turns(product: Value) -> Value:
    """Subtract multiples of 4 from a number of at most 2^54."""
    less = product - where(abs(product) > 2.0**53, product.like(2.0**53).with_sign_of(product), 0.0)
    large = 1.5 * 2.0**54  # its last digit is 4, also after the addition
    return less - ((less + large) - large)


def quick_sum_all(first: Value, rest: list[Value]) -> Pair:
    """Return the sum of numbers that may cancel each other."""
    total = first
    errors: list[Value] = []
    for term in rest:
        total, error = two_sum(total, term)
        errors.append(error)
    correction = errors[0]
    for error in errors[1:]:
        correction = correction + error
    return quick_sum(total, correction)


def _turns(x: Value, index: Value) -> list[Value]:
    body, parts = x.body, turns_of_powers()
    return [body.element(body.table(f"functad.turns.{n}", numbers), index) for n, numbers in enumerate(parts)]


@lru_cache(maxsize=1)
def turns_of_powers() -> tuple[tuple[float, ...], ...]:
    """Return `2^e 2 / pi` modulo 4 for each exponent of the table, as a sum of four numbers."""
    digits = 1400
    two_over_pi = (2 << (2 * digits)) // _pi(digits)
    rows = []
    for exponent in range(_FIRST_EXPONENT, _FIRST_EXPONENT + _LENGTH):
        rest = _shifted(two_over_pi, exponent) % (4 << digits)
        if rest >= 2 << digits:
            rest -= 4 << digits
        parts = []
        for _ in range(_PARTS):
            part = rest / (1 << digits)  # Python divides integers of any size with one rounding
            parts.append(part)
            numerator, denominator = part.as_integer_ratio()
            rest -= (numerator << digits) // denominator
        rows.append(parts)
    return tuple(zip(*rows, strict=True))


def _shifted(number: int, places: int) -> int:
    return number << places if places >= 0 else number >> -places


def _pi(digits: int) -> int:
    """Return `pi * 2^digits` by Machin's formula, `pi / 4 = 4 arctan(1/5) - arctan(1/239)`."""
    guard = 64
    one = 1 << (digits + guard)

    def arctan_of_inverse(n: int) -> int:
        power, total, k = one // n, 0, 0
        while power:
            total += (power // (2 * k + 1)) * (-1) ** k
            power //= n * n
            k += 1
        return total

    return 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239)) >> guard
