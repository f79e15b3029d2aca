"""Modified Bessel functions of the first kind: `np.i0`, and the higher orders that its derivatives need."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec, dtype_of, shape_of
from functad.primitives.arranging.reshape import same_spec
from functad.primitives.entry import Primitive
from functad.primitives.kinds import elementwise
from functad.primitives.operands import as_operand

_SERIES_UP_TO = 30.0
"""Limit between the power series (60 terms) and the asymptotic series (25 terms). At the limit both are exact to rounding."""


def _power_series(x: Any, n: int) -> Any:
    """Return `sum_k (x / 2)^(2 k + n) / (k! (k + n)!)` (Abramowitz and Stegun 9.6.10), for x >= 0: no term cancels."""
    half = 0.5 * x
    term = half**n / math.factorial(n)
    total = term
    for k in range(1, 60):
        term = term * (half * half) / (k * (k + n))
        total = total + term
    return total


def _asymptotic_series(x: Any, n: int) -> Any:
    """Return `e^x / sqrt(2 pi x) (1 - (4 n^2 - 1) / (8 x) + ...)` (Abramowitz and Stegun 9.7.1)."""
    term = total = np.ones_like(x)
    for k in range(1, 25):
        term = term * ((2 * k - 1) ** 2 - 4 * n * n) / (8 * k * x)
        total = total + term
    return total * np.exp(x) / np.sqrt(2 * math.pi * x)


def bessel_i(x: Any, *, order: int) -> Any:
    """Return the modified Bessel function of the first kind of integer order.

    Args:
        x: real numbers.
        order: an integer, 0 or above.

    Example:
        >>> bessel_i(np.float64(1.0), order=1).round(12)
        np.float64(0.565159103992)
    """
    return BESSEL_I(x, order=order)


def _bessel_i(x: Any, *, order: int) -> Any:
    x = x if hasattr(x, "astype") else np.float64(x)
    size = np.absolute(x.astype(np.float64))
    near = _power_series(np.minimum(size, _SERIES_UP_TO), order)
    value = np.where(size <= _SERIES_UP_TO, near, _asymptotic_series(np.maximum(size, _SERIES_UP_TO), order))
    return (np.where(np.less(x, 0), -value, value) if order % 2 else value).astype(x.dtype)[()]


BESSEL_I: Primitive = elementwise(
    bessel_i,
    lambda g, x, order: g * (0.5 * (BESSEL_I(x, order=abs(order - 1)) + BESSEL_I(x, order=order + 1))),
    operator=_bessel_i,
    samples=lambda array: [((array(3),), {"order": order}) for order in (0, 1, 2)] + [((array(),), {"order": 1})],
    spec=same_spec,
    complex=False,
    internal=True,
    doc="d I_n = (I_(n-1) + I_(n+1)) / 2",
    decomposition=True,
)


I0: Primitive = elementwise(
    np.i0,
    lambda g, x: g * BESSEL_I(x, order=1),
    spec=lambda x: ArraySpec(shape_of(x), dtype_of(x) if dtype_of(x).kind == "f" else np.dtype(np.float64)),
    complex=False,
    doc="d I_0 = I_1",
    front=lambda x: I0(as_operand(x)),
)
