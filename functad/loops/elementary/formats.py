"""The formats float64 and float32: bit layout, and constants in the precision of the format."""

from __future__ import annotations

from typing import NamedTuple

from functad.loops.values import Value


class Format(NamedTuple):
    """A floating-point format, for formulas that run in either precision.

    Attributes:
        mantissa: the number of bits of the fraction.
        bias: the exponent bias.
        least_exponent: a bound below which powers of two are 0.
        largest_exponent: a bound above which powers of two are infinite.
        log2_high: the leading digits of log(2); its product with an exponent is exact.
        log2_low: `log(2) - log2_high`.
        root_half: the bits of the square root of 1/2.
        tiny: a bound below which an odd function with slope 1 at 0 equals its argument.
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
        """The constant that, added to a number, puts the nearest integer into the last bits."""
        return 1.5 * 2.0**self.mantissa

    @property
    def one(self) -> int:
        """The bits of 1."""
        return self.bias << self.mantissa

    @property
    def fraction(self) -> int:
        """The bit mask of the fraction."""
        return (1 << self.mantissa) - 1

    @property
    def least_normal(self) -> float:
        """The least normal number."""
        return 2.0 ** (1 - self.bias)


FORMATS = {
    "double": Format(52, 1023, -1080.0, 1030.0, 0.6931471805598903, 5.497923018708371e-14, 0x3FE6A09E667F3BCD, 2.0**-27),
    "float": Format(23, 127, -155.0, 130.0, 0.693359375, -0.00021219444005471377, 0x3F3504F3, 2.0**-13),
}


def format_of(x: Value) -> Format:
    """Return the format of a value."""
    return FORMATS[x.kind]
