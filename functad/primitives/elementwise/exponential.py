"""Exponentials, logarithms and roots.

The rules multiply constant factors after `product` and `quotient`. NumPy then multiplies in place, with a single temporary.
"""

from __future__ import annotations

import math

import numpy as np

from functad.primitives.kinds import elementwise
from functad.primitives.safe import product, quotient

_POSITIVE = ((0.5, 2.0),)
_LOG_2 = math.log(2.0)
_LOG_10 = math.log(10.0)

EXP = elementwise(np.exp, lambda g, out: product(g, out), doc="d exp(x) = exp(x) dx")
EXP2 = elementwise(np.exp2, lambda g, out: product(g, out) * _LOG_2, doc="d 2^x = 2^x log(2) dx")
EXPM1 = elementwise(np.expm1, lambda g, out: product(g, out + 1), doc="d expm1(x) = exp(x) dx")
LOG = elementwise(np.log, lambda g, x: quotient(g, x), domain=_POSITIVE, doc="d log(x) = dx / x")
LOG2 = elementwise(np.log2, lambda g, x: quotient(g, x) / _LOG_2, domain=_POSITIVE, doc="d log2(x) = dx / (x log 2)")
LOG10 = elementwise(np.log10, lambda g, x: quotient(g, x) / _LOG_10, domain=_POSITIVE, doc="d log10(x) = dx / (x log 10)")
LOG1P = elementwise(np.log1p, lambda g, x: quotient(g, 1 + x), domain=_POSITIVE, doc="d log1p(x) = dx / (1 + x)")
SQRT = elementwise(
    np.sqrt, lambda g, out: quotient(g, out) * 0.5, domain=_POSITIVE, doc="d sqrt(x) = dx / (2 sqrt(x))", cost=5.0
)
CBRT = elementwise(
    np.cbrt,
    lambda g, out: quotient(g, out * out) / 3,
    domain=_POSITIVE,
    complex=False,
    doc="d cbrt(x) = dx / (3 cbrt(x)^2)",
)
