"""Polynomials: even and odd powers side by side, which halves the time until the result is there."""

from __future__ import annotations

from collections.abc import Sequence

from functad.backends.llvm.coefficients import Coefficients
from functad.backends.llvm.values import Value, fused


def polynomial(x: Value, table: Coefficients, square: Value | None = None) -> Value:
    """Evaluate the polynomial of a table for the precision of a body.

    Args:
        x: where.
        table: the coefficients for either precision.
        square: of `x`, if that is known.
    """
    coefficients = table.short if x.body.short else table.wide
    if len(coefficients) <= 4:
        return horner(x, coefficients)
    squared = x * x if square is None else square
    return fused(horner(squared, coefficients[1::2]), x, horner(squared, coefficients[::2]))


def horner(x: Value, coefficients: Sequence[float]) -> Value:
    """Evaluate a polynomial by Horner's rule, least power first."""
    *rest, last = coefficients
    total = x.like(last)
    for coefficient in reversed(rest):
        total = fused(total, x, coefficient)
    return total
