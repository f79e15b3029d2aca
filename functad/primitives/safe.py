"""Products in which an exact zero wins: zero times anything, infinity and NaN included, is zero.

Rules of functions whose derivative is infinite somewhere multiply with these. So the branch that `np.where` did not take, whose
cotangent is exactly zero, does not poison the gradient with `0 * inf`. A product is bilinear, and its derivative with respect
to either factor is the same product; `where(g == 0, 0, g * d)` would lose the second derivative.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.primitives.kinds import elementwise

_ndarray = np.ndarray


def _has_nan(value: Any) -> bool:
    """Say whether an array holds a NaN; a sum of squares is one pass at the speed of memory, with no temporary.

    An overflow to infinity minus infinity in complex sums is a false alarm, which costs time and nothing else.
    """
    flat = value.ravel()
    total = flat.dot(flat)
    return bool(total != total)


def _product(x: Any, y: Any) -> Any:
    out = x * y
    if type(out) is _ndarray:
        if not _has_nan(out):
            return out
        return np.where((x == 0) | (y == 0), np.zeros((), out.dtype), out)
    if out != out and (x == 0 or y == 0):
        return out.dtype.type(0)
    return out


def _quotient(x: Any, y: Any) -> Any:
    out = x / y
    if type(out) is _ndarray:
        if not _has_nan(out):
            return out
        return np.where(x == 0, np.zeros((), out.dtype), out)
    if out != out and x == 0:
        return out.dtype.type(0)
    return out


def _sample_domain() -> tuple[tuple[float, float], tuple[float, float]]:
    return ((-2.0, 2.0), (0.5, 2.0))


def product(x: Any, y: Any) -> Any:
    """Return `x * y`, and zero where either is exactly zero."""
    return PRODUCT(x, y)


def quotient(x: Any, y: Any) -> Any:
    """Return `x / y`, and zero where `x` is exactly zero."""
    return QUOTIENT(x, y)


PRODUCT = elementwise(
    product,
    lambda g, y: product(g, y),
    lambda g, x: product(g, x),
    operator=_product,
    doc="d(x y) = y dx + x dy, where an exact zero wins over infinity and NaN",
    domain=_sample_domain(),
    internal=True,
)

QUOTIENT = elementwise(
    quotient,
    lambda g, y: quotient(g, y),
    lambda g, y, out: -product(g, quotient(out, y)),
    operator=_quotient,
    doc="d(x / y) = dx / y - x / y^2 dy, where a numerator of exactly zero wins",
    domain=_sample_domain(),
    internal=True,
)
