"""Exponential, trigonometric and hyperbolic integrals, the dilogarithm, and the inverses of `w exp(w)` and `w + log(w)`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from functad.expressions.spec import dtype_of
from functad.primitives.safe import product, quotient
from functad.primitives.scipy_special.declaration import several_functions, special_function, unknown

_POSITIVE = (0.5, 3.0)

special_function(
    "exp1",
    lambda g, x: -quotient(product(g, np.exp(-x)), x),
    arguments=[_POSITIVE],
    complex=True,
    doc="d E1(x) = -exp(-x)/x dx",
)
special_function(
    "expi", lambda g, x: quotient(product(g, np.exp(x)), x), arguments=[_POSITIVE], complex=True, doc="d Ei(x) = exp(x)/x dx"
)


def _expn(g: Any, n: Any, x: Any) -> Any:
    """`-g E_(n-1)(x)`; SciPy has no `E_(-1) = exp(-x) (1 + 1/x) / x`, so n < 2 uses formulas."""
    by_formula = np.exp(-x) * (1 + (n < 1) / x) / x
    return -product(g, np.where(n < 2, by_formula, special.expn(np.maximum(n, 2) - 1, x)))


special_function("expn", _expn, arguments=[[0, 1, 2, 3], _POSITIVE], names=("n", "x"), doc="d E_n(x) = -E_(n-1)(x) dx")


def _hyperbolic_sinc(x: Any) -> Any:
    """`sinh(x) / x`."""
    if dtype_of(x).kind == "c":
        return np.sinc(x * (1j / math.pi))
    return (special.exprel(x) + special.exprel(-x)) / 2


several_functions(
    "sici",
    lambda x: (np.sinc(x / math.pi), np.cos(x) / x),
    arguments=[_POSITIVE],
    complex=True,
    doc="d Si(x) = sin(x)/x dx, d Ci(x) = cos(x)/x dx",
)
several_functions(
    "shichi",
    lambda x: (_hyperbolic_sinc(x), np.cosh(x) / x),
    arguments=[_POSITIVE],
    complex=True,
    doc="d Shi(x) = sinh(x)/x dx, d Chi(x) = cosh(x)/x dx",
)


def _log_over(x: Any) -> Any:
    """`log(x) / (x - 1)`; near 1 from 20 terms of its power series, which is differentiable."""
    near = np.absolute(x - 1) < 0.15
    u = 1 - np.where(near, x, 1)
    series: Any = 1 / 20
    for k in range(19, 0, -1):
        series = series * u + 1 / k
    y = np.where(near, 2, x)
    return np.where(near, series, np.log(y) / (y - 1))


special_function(
    "spence",
    lambda g, x: -product(g, _log_over(x)),
    arguments=[_POSITIVE],
    complex=True,
    doc="d spence(x) = -log(x) / (x - 1) dx; -1 at x = 1",
)
special_function(
    "_lambertw",
    lambda g, out: quotient(product(g, np.exp(-out)), 1 + out),
    unknown("lambertw", "k", "k numbers the branches"),
    unknown("lambertw", "tol", "tol is a tolerance"),
    arguments=[_POSITIVE, [0, 1, -1], [1e-15]],
    complex=True,
    names=("x", "k", "tol"),
    doc="d W(x) = exp(-W) / (1 + W) dx",
)
special_function(
    "wrightomega",
    lambda g, out: product(g, out / (1 + out)),
    arguments=[_POSITIVE],
    complex=True,
    doc="d w(x) = w / (1 + w) dx",
)
