"""Unevaluated sums of two numbers, which carry twice the digits of one.

The error of a sum or a product of two numbers is a number itself, which a few more operations find (Dekker, A floating-point
technique for extending the available precision, 1971; Knuth, The art of computer programming, volume 2, section 4.2.2).
"""

from __future__ import annotations

from typing import NamedTuple

from functad.backends.llvm.values import Operand, Value, fused

_LOWER = {"double": 27, "float": 12}
"""The bits of the lower half of the digits: without them, a number has so few that products of two are exact."""


class Pair(NamedTuple):
    """A number as the sum of one and of a correction that is below its last digit."""

    high: Value
    low: Value

    def plus(self, other: Pair) -> Pair:
        """Add two, of which the first may have either size."""
        total = two_sum(self.high, other.high)
        return quick_sum(total.high, total.low + (self.low + other.low))

    def plus_number(self, other: Operand) -> Pair:
        """Add a number of either size."""
        total = two_sum(self.high, self.high.like(other))
        return quick_sum(total.high, total.low + self.low)

    def times(self, other: Pair) -> Pair:
        """Multiply two; what is below their last digits is left out."""
        product = two_product(self.high, other.high)
        return quick_sum(product.high, product.low + fused(self.high, other.low, self.low * other.high))

    def times_number(self, other: Operand) -> Pair:
        """Multiply by a number."""
        factor = self.high.like(other)
        product = two_product(self.high, factor)
        return quick_sum(product.high, fused(self.low, factor, product.low))

    def scaled(self, power: Operand) -> Pair:
        """Multiply by a power of two, which changes no digit."""
        return Pair(self.high * power, self.low * power)

    def over(self, divisor: Pair) -> Pair:
        """Divide two, the second of which is of moderate size: there is one division for both digits."""
        inverse = 1.0 / divisor.high
        quotient = self.high * inverse
        if quotient.body.fused:
            rest = quotient.body.call("fma", -quotient, divisor.high, self.high) + self.low
        else:
            product = two_product(quotient, divisor.high)
            rest = (self.high - product.high) - product.low + self.low
        return quick_sum(quotient, fused(-quotient, divisor.low, rest) * inverse)

    def sqrt(self) -> Pair:
        """The square root of what is not 0."""
        root = self.high.sqrt()
        square = two_product(root, root)
        rest = (self.high - square.high) - square.low + self.low
        return quick_sum(root, rest / (root + root))

    def negated(self) -> Pair:
        """Return the same with the other sign."""
        return Pair(-self.high, -self.low)

    def value(self) -> Value:
        """Round to one number."""
        return self.high + self.low


def quick_sum(a: Value, b: Value) -> Pair:
    """Add two numbers of which the first is the larger, or 0."""
    total = a + b
    return Pair(total, b - (total - a))


def two_sum(a: Value, b: Operand) -> Pair:
    """Add two numbers of any size."""
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
    # Rounded to half of the digits, each leaves at most as many, with a sign.
    lower = _LOWER[a.kind]
    a_high, b_high = (((x.bits + (1 << lower - 1)) & -(1 << lower)).real for x in (a, b))
    a_low, b_low = a - a_high, b - b_high
    return Pair(product, ((a_high * b_high - product) + (a_high * b_low + a_low * b_high)) + a_low * b_low)


def constant_pair(value: Value, high: float, low: float) -> Pair:
    """Return a constant in the body of a value."""
    return Pair(value.like(high), value.like(low))
