"""Double-double arithmetic: unevaluated sums of two numbers, with twice the digits of one.

The rounding error of a sum or a product of two numbers is itself a number, and a few operations compute it (Dekker, A
floating-point technique for extending the available precision, 1971; Knuth, The art of computer programming, volume 2, section
4.2.2).
"""

from __future__ import annotations

from typing import NamedTuple

from functad.loops.values import Operand, Value, fused

_LOWER = {"double": 27, "float": 12}
"""The number of low bits to round off so that products of two numbers are exact."""


class Pair(NamedTuple):
    """A number `high + low`; `low` is a correction below the last digit of `high`."""

    high: Value
    low: Value

    def plus(self, other: Pair) -> Pair:
        """Add two pairs of any size."""
        total = two_sum(self.high, other.high)
        return quick_sum(total.high, total.low + (self.low + other.low))

    def plus_number(self, other: Operand) -> Pair:
        """Add a number of any size."""
        total = two_sum(self.high, self.high.like(other))
        return quick_sum(total.high, total.low + self.low)

    def times(self, other: Pair) -> Pair:
        """Multiply two pairs; the product of the low parts is neglected."""
        product = two_product(self.high, other.high)
        return quick_sum(product.high, product.low + fused(self.high, other.low, self.low * other.high))

    def times_number(self, other: Operand) -> Pair:
        """Multiply by a number."""
        factor = self.high.like(other)
        product = two_product(self.high, factor)
        return quick_sum(product.high, fused(self.low, factor, product.low))

    def scaled(self, power: Operand) -> Pair:
        """Multiply by a power of two, exactly."""
        return Pair(self.high * power, self.low * power)

    def over(self, divisor: Pair) -> Pair:
        """Divide by a pair of moderate size, with a single division instruction."""
        inverse = 1.0 / divisor.high
        quotient = self.high * inverse
        if quotient.body.fused:
            rest = quotient.body.call("fma", -quotient, divisor.high, self.high) + self.low
        else:
            product = two_product(quotient, divisor.high)
            rest = (self.high - product.high) - product.low + self.low
        return quick_sum(quotient, fused(-quotient, divisor.low, rest) * inverse)

    def sqrt(self) -> Pair:
        """Return the square root of a nonzero pair."""
        root = self.high.sqrt()
        square = two_product(root, root)
        rest = (self.high - square.high) - square.low + self.low
        return quick_sum(root, rest / (root + root))

    def negated(self) -> Pair:
        """Return the pair with the opposite sign."""
        return Pair(-self.high, -self.low)

    def value(self) -> Value:
        """Round to one number."""
        return self.high + self.low


def quick_sum(a: Value, b: Value) -> Pair:
    """Add two numbers exactly; `a` must be 0 or the larger in magnitude."""
    total = a + b
    return Pair(total, b - (total - a))


def two_sum(a: Value, b: Operand) -> Pair:
    """Add two numbers of any size exactly."""
    b = a.like(b)
    total = a + b
    part = total - a
    return Pair(total, (a - (total - part)) + (b - part))


def two_product(a: Value, b: Operand) -> Pair:
    """Multiply two numbers exactly."""
    b = a.like(b)
    product = a * b
    if a.body.fused:
        return Pair(product, a.body.call("fma", a, b, -product))
    # Each number splits into two signed halves with half of the digits.
    lower = _LOWER[a.kind]
    a_high, b_high = (((x.bits + (1 << lower - 1)) & -(1 << lower)).real for x in (a, b))
    a_low, b_low = a - a_high, b - b_high
    return Pair(product, ((a_high * b_high - product) + (a_high * b_low + a_low * b_high)) + a_low * b_low)


def constant_pair(value: Value, high: float, low: float) -> Pair:
    """Return a constant pair in the body of a value."""
    return Pair(value.like(high), value.like(low))
