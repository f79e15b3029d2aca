"""Distribution functions of statistics with their complements and inverses, differentiable in their continuous variables.

All are incomplete gamma or beta functions of transformed arguments. The derivative with respect to the variable is the
density. Degrees of freedom and shapes are also continuous. Counts are not, except as the result of an inverse.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from functad.primitives.safe import product, quotient
from functad.primitives.scipy_special.declaration import special_function
from functad.primitives.scipy_special.densities import beta_density, betainc_by_a, betainc_by_b, gamma_density, gammainc_by_a
from functad.primitives.scipy_special.inverses import Partials

_UNIT = (0.15, 0.85)
_INNER = (0.25, 0.75)
_POSITIVE = (0.5, 3.0)
_SHAPE = (1.0, 3.0)
_COUNTS = [2, 0, 1]
_FEW = [np.int64(2), np.int64(0)]
_TRIALS = [np.int64(5), np.int64(4), np.int64(6)]  # SciPy warns about a Python number with float32
_FREEDOM = (1.5, 5.0)


def _counted(k: Any) -> Any:
    """Return the integer part of a count; SciPy ignores the fraction."""
    return k - k % 1


def chi_square_density(v: Any, x: Any) -> Any:
    """Return the derivative of `chdtr` with respect to x."""
    return gamma_density(v / 2, x / 2) / 2


def f_density(dfn: Any, dfd: Any, x: Any) -> Any:
    """Return the derivative of `fdtr` with respect to x: the beta density at `u = dfn x / (dfd + dfn x)` times `du/dx`."""
    whole = dfd + dfn * x
    return beta_density(dfn / 2, dfd / 2, dfn * x / whole) * (dfn * dfd / (whole * whole))


def _student_density(v: Any, t: Any) -> Any:
    """Return the derivative of `stdtr` with respect to t, the normal density for infinite degrees of freedom."""
    normal = np.isinf(v)
    v = np.where(normal, 1.0, v)
    density = np.exp(np.log1p(t * t / v) * (-(v + 1) / 2) - special.betaln(0.5, v / 2)) / np.sqrt(v)
    return np.where(normal, np.exp(t * t / -2) / np.sqrt(2 * np.pi), density)


def _beta_slope(a: Any, b: Any, x: Any, y: Any) -> Any:
    """Return `dI_x(a, b)/da` for `y = 1 - x`, computed from the smaller, more exact one of x and y."""
    below = x < 0.5
    return np.where(below, betainc_by_a(a, b, np.where(below, x, 0.25)), -betainc_by_b(b, a, np.where(below, 0.25, y)))


def _f_by_numerator(dfn: Any, dfd: Any, x: Any) -> Any:
    """Return the derivative of `fdtr` with respect to dfn.

    It is the derivative of the incomplete beta function plus the density times `x / dfn`, because u is a function of
    `dfn x / dfd`.
    """
    whole = dfd + dfn * x
    slope = _beta_slope(dfn / 2, dfd / 2, dfn * x / whole, dfd / whole)
    return slope / 2 + product(f_density(dfn, dfd, x), x) / dfn


def _f_by_denominator(dfn: Any, dfd: Any, x: Any) -> Any:
    """Return the derivative of `fdtr` with respect to dfd in the same way."""
    whole = dfd + dfn * x
    slope = _beta_slope(dfd / 2, dfn / 2, dfd / whole, dfn * x / whole)
    return slope / -2 - product(f_density(dfn, dfd, x), x) / dfd


def _student_by_freedom(v: Any, t: Any) -> Any:
    """Return the derivative of `stdtr` with respect to df; `stdtr` is `1 - I_u(v/2, 1/2) / 2`, `u = v / (v + t^2)`, for t > 0.

    The incomplete beta function contains `sqrt(1 - u)`, which is 0 at t = 0. An offset of 1e-18, below rounding, keeps its
    derivative finite there.
    """
    normal = np.isinf(v)
    v = np.where(normal, 1.0, v)
    square = (t + (t == 0) * 1e-18) ** 2
    slope = _beta_slope(v / 2, 0.5, v / (v + square), square / (v + square))
    return np.where(normal, 0.0, np.where(t < 0, slope, -slope) / 4 - _student_density(v, t) * t / (2 * v))


_BINOMIAL = Partials(
    "bdtr(k, n, p)",
    "It is a count",
    "It is a count",
    lambda k, n, p: -beta_density(_counted(k) + 1, _counted(n) - _counted(k), p),
)
_BINOMIAL.enter([_FEW, _TRIALS, _UNIT], "-p^k (1-p)^(n-k-1) / B(k+1, n-k) dp", "bdtrc")
_BINOMIAL.invert("bdtri", "p", [_FEW, _TRIALS, _UNIT])

_NEGATIVE_BINOMIAL = Partials(
    "nbdtr(k, n, p)", "It is a count", "It is a count", lambda k, n, p: beta_density(_counted(n), _counted(k) + 1, p)
)
_NEGATIVE_BINOMIAL.enter([_COUNTS, _TRIALS, _UNIT], "p^(n-1) (1-p)^k / B(n, k+1) dp", "nbdtrc")
_NEGATIVE_BINOMIAL.invert("nbdtri", "p", [_COUNTS, _TRIALS, _UNIT])

_POISSON = Partials("pdtr(k, m)", "It is a count", lambda k, m: -gamma_density(_counted(k) + 1, m))
_POISSON.enter([_COUNTS, _POSITIVE], "-m^k exp(-m) / k! dm", "pdtrc")
_POISSON.invert("pdtri", "m", [_COUNTS, _UNIT])

_F = Partials("fdtr(dfn, dfd, x)", _f_by_numerator, _f_by_denominator, f_density)
_F.enter([_FREEDOM, _FREEDOM, _POSITIVE], "the density of F dx; by dfn, dfd integrals over a tail", "fdtrc")
_F.invert("fdtri", "x", [_FREEDOM, _FREEDOM, _UNIT])
_F.invert("fdtridfd", "dfd", [(3.0, 5.0), (0.73, 0.77), (1.6, 1.8)], limit=1e99)

_CHI_SQUARE = Partials("chdtr(v, x)", lambda v, x: gammainc_by_a(v / 2, x / 2) / 2, chi_square_density)
_CHI_SQUARE.enter(
    [_FREEDOM, _POSITIVE],
    "the density of chi squared dx; by v an integral over a tail",
    "chdtrc",
    decomposition=lambda v, x: special.gammainc(v / 2, x / 2),
)
_CHI_SQUARE.invert("chdtri", "x", [_FREEDOM, _UNIT], complement=True)
_CHI_SQUARE.invert("chdtriv", "v", [_INNER, _SHAPE], limit=1e99)

_STUDENT = Partials("stdtr(df, t)", _student_by_freedom, _student_density)
_STUDENT.enter([_FREEDOM, (-2.0, 2.0)], "the density of t dt; by df an integral over a tail")
_STUDENT.invert("stdtrit", "t", [_FREEDOM, _UNIT])
_STUDENT.invert("stdtridf", "df", [(0.91, 0.94), (2.8, 3.2)], limit=1e10)

# The gamma distribution, with a rate

_GAMMA = Partials(
    "gdtr(a, b, x)",
    lambda a, b, x: product(gamma_density(b, a * x), x),
    lambda a, b, x: gammainc_by_a(b, a * x),
    lambda a, b, x: product(gamma_density(b, a * x), a),
)
_GAMMA.enter(
    [_POSITIVE, _FREEDOM, _POSITIVE],
    "f(b, a x) (x da + a dx) + dP(b, a x)/db db with f(b, u) = u^(b-1) exp(-u) / gamma(b)",
    "gdtrc",
)
_GAMMA.invert("gdtria", "a", [_UNIT, _FREEDOM, _POSITIVE], x=lambda g, x, out: -product(g, out / x))
_GAMMA.invert("gdtrib", "b", [_SHAPE, _INNER, _SHAPE], limit=1e99)
_GAMMA.invert("gdtrix", "x", [_POSITIVE, _FREEDOM, _UNIT], a=lambda g, a, out: -product(g, out / a))

# Inverses for a count, which are not always integers

_POISSON_OF_ANY = Partials("pdtr(k, m)", lambda k, m: -gammainc_by_a(k + 1, m), lambda k, m: -gamma_density(k + 1, m))
_POISSON_OF_ANY.invert("pdtrik", "k", [(0.3, 0.6), (3.0, 6.0)], limit=1e99)

_BINOMIAL_OF_ANY = Partials(
    "bdtr(k, n, p)",
    lambda k, n, p: betainc_by_b(k + 1, n - k, p) - betainc_by_a(k + 1, n - k, p),
    lambda k, n, p: -betainc_by_b(k + 1, n - k, p),
    lambda k, n, p: -beta_density(k + 1, n - k, p),
)
_BINOMIAL_OF_ANY.invert("bdtrik", "k", [(0.3, 0.7), (8.0, 12.0), (0.4, 0.6)], limit=1e99)
_BINOMIAL_OF_ANY.invert("bdtrin", "n", [(2.0, 4.0), (0.3, 0.7), (0.4, 0.6)], limit=1e99)

_NEGATIVE_BINOMIAL_OF_ANY = Partials(
    "nbdtr(k, n, p)",
    lambda k, n, p: betainc_by_b(n, k + 1, p),
    lambda k, n, p: betainc_by_a(n, k + 1, p),
    lambda k, n, p: beta_density(n, k + 1, p),
)
_NEGATIVE_BINOMIAL_OF_ANY.invert("nbdtrik", "k", [(0.4, 0.7), (3.0, 5.0), (0.3, 0.5)], limit=1e99)
_NEGATIVE_BINOMIAL_OF_ANY.invert("nbdtrin", "n", [(2.0, 4.0), (0.3, 0.7), (0.4, 0.6)], limit=1e99)

# The normal distribution with mean and standard deviation: x = mean + std ndtri(p)


def _quantile_slope(p: Any) -> Any:
    """Return the derivative of `ndtri`."""
    z = special.ndtri(p)
    return np.exp(z * z / 2) * math.sqrt(2 * math.pi)


special_function(
    "nrdtrimn",
    lambda g, x, y: -product(g, y * _quantile_slope(x)),
    lambda g, x: -product(g, special.ndtri(x)),
    lambda g: g,
    arguments=[_UNIT, _POSITIVE, (-2.0, 2.0)],
    doc="mean = x - std ndtri(p)",
)
special_function(
    "nrdtrisd",
    lambda g, y: -quotient(g, special.ndtri(y)),
    lambda g, y, out: -product(g, out * _quantile_slope(y) / special.ndtri(y)),
    lambda g, y: quotient(g, special.ndtri(y)),
    arguments=[(-2.0, -1.0), (0.6, 0.9), (0.5, 2.0)],
    doc="std = (x - mean) / ndtri(p)",
)

# Kolmogorov's distribution


def _kolmogorov_slope(x: Any) -> Any:
    """The derivative of `2 sum (-1)^(k-1) exp(-2 k^2 x^2)`.

    For small x it uses the form by Poisson summation, `1 - sqrt(2 pi) / x sum exp(-c / x^2)` with `c = ((2k-1) pi)^2 / 8`.
    The function is 1 for x below 0, and to rounding far beyond 0.02.
    """
    flat, small = x <= 0.02, x < 0.8
    y, z = np.where(small & (x > 0.02), x, 0.5), np.where(small, 1.0, x)
    square = y * y
    left: Any = 0.0
    right: Any = 0.0
    for k in range(1, 7):
        c = ((2 * k - 1) * math.pi) ** 2 / 8
        left = left + np.exp(-c / square) * (1 - 2 * c / square) / square
        right = right + (-1) ** k * k * k * np.exp(z * z * (-2 * k * k))
    return np.where(flat, 0.0, np.where(small, left * math.sqrt(2 * math.pi), right * z * 8))


_KOLMOGOROV = Partials("kolmogorov(x)", _kolmogorov_slope)
_KOLMOGOROV.enter([(0.4, 1.6)], "-8x sum (-1)^(k-1) k^2 exp(-2 k^2 x^2) dx", "_kolmogc")
_KOLMOGOROV.invert("kolmogi", "x", [_UNIT])
_KOLMOGOROV.invert("_kolmogci", "x", [_UNIT], complement=True)


def _kolmogorov_curvature(x: Any) -> Any:
    """The derivative of `_kolmogorov_slope`, from both forms."""
    flat, small = x <= 0.02, x < 0.8
    y, z = np.where(small & (x > 0.02), x, 0.5), np.where(small, 1.0, x)
    square = y * y
    left: Any = 0.0
    right: Any = 0.0
    for k in range(1, 7):
        c = ((2 * k - 1) * math.pi) ** 2 / 8
        left = left + np.exp(-c / square) * (10 * c * square - 4 * c * c - 2 * square * square) / (square**3 * y)
        right = right + (-1) ** k * k * k * np.exp(z * z * (-2 * k * k)) * (1 - 4 * k * k * z * z)
    return np.where(flat, 0.0, np.where(small, left * math.sqrt(2 * math.pi), right * 8))


special_function(
    "_kolmogp",
    lambda g, x: product(g, _kolmogorov_curvature(x)),
    arguments=[(0.4, 1.6)],
    doc="the second derivative of kolmogorov(x)",
)


def _tukey_slope(p: Any, lmbda: Any) -> Any:
    """Return the derivative of Tukey's quantile function `(p^l - (1-p)^l) / l` with respect to p."""
    return p ** (lmbda - 1) + (1 - p) ** (lmbda - 1)


def _tukey_by_lambda(p: Any, lmbda: Any) -> Any:
    """Return the derivative with respect to l; near zero by its power series."""
    a, b = np.log(p), np.log1p(-p)
    small = np.abs(lmbda) < 1e-3
    power = np.where(small, 1.0, lmbda)
    exact = ((a * power - 1) * np.exp(a * power) - (b * power - 1) * np.exp(b * power)) / (power * power)
    s = np.where(small, lmbda, 0.0)
    series = (a**2 - b**2) / 2 + s * (a**3 - b**3) / 3 + s * s * (a**4 - b**4) / 8
    return np.where(small, series, exact)


_TUKEY = Partials("tukey_quantile(p, lmbda)", _tukey_slope, _tukey_by_lambda)
_TUKEY.invert("tklmbda", "p", [(-1.0, 1.0), (0.2, 0.8)])


# The binomial distribution of `scipy.stats`: only the probability has derivatives

_BY_PROBABILITY: Any = {"arguments": [[2.0, 0.0, 3.0], [5.0, 4.0, 7.0], (0.2, 0.8)], "names": ("k", "n", "p")}
special_function(
    "_binom_pmf",
    lambda g, k, n, p, out: product(g, out * (k - n * p) / (p * (1 - p))),
    doc="df(k; n, p) = f (k - n p) / (p (1 - p)) dp",
    **_BY_PROBABILITY,
)
special_function(
    "_binom_cdf",
    lambda g, k, n, p: product(g, -special._ufuncs._binom_pmf(k, n, p) * (n - k) / (1 - p)),
    doc="dF(k; n, p) = -f(k; n, p) (n - k) / (1 - p) dp, for whole k",
    **_BY_PROBABILITY,
)
special_function(
    "_binom_sf",
    lambda g, k, n, p: product(g, special._ufuncs._binom_pmf(k, n, p) * (n - k) / (1 - p)),
    doc="minus that of the distribution function",
    **_BY_PROBABILITY,
)
