"""Exponentials and logarithms."""

from __future__ import annotations

import numpy as np

from functad.primitives.kinds import elementwise
from functad.primitives.safe import product, quotient

_POSITIVE = ((0.5, 2.0),)

EXP = elementwise(np.exp, lambda g, out: product(g, out), doc="d exp(x) = exp(x) dx")
EXP2 = elementwise(np.exp2, lambda g, out: product(g, out * float(np.log(2.0))), doc="d 2^x = 2^x log(2) dx")
EXPM1 = elementwise(np.expm1, lambda g, out: product(g, out + 1), doc="d expm1(x) = exp(x) dx")
LOG = elementwise(np.log, lambda g, x: quotient(g, x), domain=_POSITIVE, doc="d log(x) = dx / x")
LOG2 = elementwise(
    np.log2, lambda g, x: quotient(g, x * float(np.log(2.0))), domain=_POSITIVE, doc="d log2(x) = dx / (x log 2)"
)
LOG10 = elementwise(
    np.log10, lambda g, x: quotient(g, x * float(np.log(10.0))), domain=_POSITIVE, doc="d log10(x) = dx / (x log 10)"
)
LOG1P = elementwise(np.log1p, lambda g, x: quotient(g, 1 + x), domain=_POSITIVE, doc="d log1p(x) = dx / (1 + x)")
SQRT = elementwise(
    np.sqrt, lambda g, out: quotient(g, 2 * out), domain=_POSITIVE, doc="d sqrt(x) = dx / (2 sqrt(x))"
)
CBRT = elementwise(
    np.cbrt, lambda g, out: quotient(g, 3 * out * out), domain=_POSITIVE, complex=False,
    doc="d cbrt(x) = dx / (3 cbrt(x)^2)",
)  # fmt: skip
