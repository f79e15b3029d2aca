"""The two formats of real numbers: how their bits are laid out, and constants in as many digits as fit."""

from __future__ import annotations

from typing import NamedTuple

from functad.backends.llvm.values import Value


class Format(NamedTuple):
    """What formulas for either precision need to know.

    Attributes:
        mantissa: bits of the fraction.
        bias: what is added to exponents.
        least_exponent: below it, powers of two are 0.
        largest_exponent: above it, they are infinite.
        log2_high: the first digits of log(2), so few that its product with an exponent is exact.
        log2_low: the rest of log(2).
        root_half: the square root of 1/2.
        tiny: below it, odd functions of slope 1 are their argument.
    """

    mantissa: int
    bias: int
    least_exponent: float
    largest_exponent: float
    log2_high: float
    log2_low: float
    root_half: int
    tiny: float

    @property
    def rounding(self) -> float:
        """What is added to a number so that the nearest integer is left in the last bits."""
        return 1.5 * 2.0**self.mantissa

    @property
    def one(self) -> int:
        """The bits of 1."""
        return self.bias << self.mantissa

    @property
    def fraction(self) -> int:
        """The bits of the fraction, all set."""
        return (1 << self.mantissa) - 1

    @property
    def least_normal(self) -> float:
        """The least number with all digits."""
        return 2.0 ** (1 - self.bias)


FORMATS = {
    "double": Format(52, 1023, -1080.0, 1030.0, 0.6931471805598903, 5.497923018708371e-14, 0x3FE6A09E667F3BCD, 2.0**-27),
    "float": Format(23, 127, -155.0, 130.0, 0.693359375, -0.00021219444005471377, 0x3F3504F3, 2.0**-13),
}


def format_of(x: Value) -> Format:
    """Return the format of a value."""
    return FORMATS[x.kind]
