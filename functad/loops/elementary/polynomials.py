"""Evaluation of polynomials, with even and odd powers in parallel, which halves the latency."""

from __future__ import annotations

from collections.abc import Sequence

from functad.loops.elementary.coefficients import Coefficients
from functad.loops.values import Value, fused


def polynomial(x: Value, table: Coefficients, square: Value | None = None) -> Value:
    """Evaluate a polynomial in the precision of the body of `x`.

    Args:
        x: the argument.
        table: the coefficients for both precisions.
        square: the square of `x`, if it is already computed.
    """
    coefficients = table.short if x.body.short else table.wide
    if len(coefficients) <= 4:
        return horner(x, coefficients)
    squared = x * x if square is None else square
    return fused(horner(squared, coefficients[1::2]), x, horner(squared, coefficients[::2]))


def horner(x: Value, coefficients: Sequence[float]) -> Value:
    """Evaluate a polynomial by Horner's rule; the coefficients begin with the least power."""
    *rest, last = coefficients
    total = x.like(last)
    for coefficient in reversed(rest):
        total = fused(total, x, coefficient)
    return total
