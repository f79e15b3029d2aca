"""Densities with a limit formula at special parameters, such as zero.

SciPy's limit formula holds at the special parameter only, so it has no derivative with respect to the parameter. The formulas
here hold near the special parameter too. The values are SciPy's own.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import special

from functad.scipy.distributions.continuous import like_scipy, of_class, quantile
from functad.scipy.distributions.densities import density
from functad.transforms.grad import stop_gradient


def log1p_over(k: Any, x: Any) -> Any:
    """Return `log(1 + k x) / k`, which is x for k = 0; near zero by a power series."""
    z = k * x
    near = np.abs(stop_gradient(z)) < 0.03
    few = np.where(near, z, 0.0)
    series: Any = 0.0
    for j in range(10, 0, -1):
        series = 1.0 / j - few * series
    return np.where(near, x * series, np.log1p(np.where(near, 1.0, z)) / np.where(near, 1.0, k))


def expm1_over(k: Any, x: Any) -> Any:
    """Return `(exp(k x) - 1) / k`, which is x for k = 0; near zero by a power series."""
    z = k * x
    near = np.abs(stop_gradient(z)) < 0.03
    few = np.where(near, z, 0.0)
    series: Any = 1.0
    for j in range(10, 1, -1):
        series = 1.0 + few * series / j
    return np.where(near, x * series, np.expm1(np.where(near, 1.0, z)) / np.where(near, 1.0, k))


def log_i0(z: Any) -> Any:
    """Return the logarithm of the Bessel function `I_0`; unlike `i0e`, it is smooth at 0."""
    return np.log(special.i0e(z)) + np.abs(z)


# Generalised Pareto, extreme value, and Hosking's four-parameter distribution (1994)


@density("genpareto")
def _genpareto(x: Any, c: Any) -> Any:
    """`(1 + c x)^(-1 - 1/c)`."""
    return -(c + 1) * log1p_over(c, x)


@of_class("genpareto", "_logsf")
def _genpareto_logsf(original: Any, self: Any, x: Any, c: Any) -> Any:
    """`(1 + c x)^(-1/c)`."""
    return like_scipy(original, -log1p_over(c, x), self, x, c)


def _kappa4_logcdf(x: Any, h: Any, k: Any) -> Any:
    """Return the logarithm of `(1 - h (1 - k x)^(1/k))^(1/h)`."""
    return log1p_over(h, -np.exp(-log1p_over(-k, x)))


@density("kappa4")
def _kappa4(x: Any, h: Any, k: Any) -> Any:
    """`(1 - k x)^(1/k - 1) F^(1 - h)`."""
    return (k - 1) * log1p_over(-k, x) + (1 - h) * _kappa4_logcdf(x, h, k)


@density("genextreme")
def _genextreme(x: Any, c: Any) -> Any:
    """`(1 - c x)^(1/c - 1) exp(-(1 - c x)^(1/c))`."""
    u = log1p_over(-c, x)
    return (c - 1) * u - np.exp(-u)


def _methods_of_logcdf(name: str, logcdf: Any) -> None:
    """Register a formula for the logarithm of a distribution function and for the methods that follow from it."""

    def entered(original: Any, self: Any, x: Any, *args: Any, of: Any) -> Any:
        return like_scipy(original, of(logcdf(x, *args)), self, x, *args)

    of_class(name, "_logcdf")(partial(entered, of=lambda y: y))
    of_class(name, "_cdf")(partial(entered, of=np.exp))
    if name == "genextreme":
        of_class(name, "_sf")(partial(entered, of=lambda y: -np.expm1(y)))


_methods_of_logcdf("kappa4", _kappa4_logcdf)
_methods_of_logcdf("genextreme", lambda x, c: -np.exp(-log1p_over(-c, x)))
of_class("kappa4", "_ppf")(quantile)


@of_class("genextreme", "_ppf")
def _genextreme_ppf(original: Any, self: Any, q: Any, c: Any) -> Any:
    """`(1 - (-log q)^c) / c`."""
    return like_scipy(original, expm1_over(-c, -np.log(-np.log(q))), self, q, c)


@of_class("genextreme", "_isf")
def _genextreme_isf(original: Any, self: Any, q: Any, c: Any) -> Any:
    """`(1 - (-log(1 - q))^c) / c`."""
    return like_scipy(original, expm1_over(-c, -np.log(-np.log1p(-q))), self, q, c)


# Densities with a Bessel function, and the skew normal density


@density("rice")
def _rice(x: Any, b: Any) -> Any:
    """`x exp(-(x^2 + b^2) / 2) I_0(x b)`."""
    return np.log(x) - (x * x + b * b) / 2 + log_i0(x * b)


@density("vonmises")
def _vonmises(x: Any, kappa: Any) -> Any:
    """`exp(kappa cos x) / (2 pi I_0(kappa))`."""
    return kappa * np.cos(x) - np.log(2 * np.pi) - log_i0(kappa)


@of_class("vonmises", "_entropy")
def _vonmises_entropy(original: Any, self: Any, kappa: Any) -> Any:
    """The logarithm of `2 pi I_0(kappa)`, minus the mean of `kappa cos x`."""
    mean = kappa * special.i1e(kappa) / special.i0e(kappa)
    return like_scipy(original, np.log(2 * np.pi) + log_i0(kappa) - mean, self, kappa)


@density("skewnorm")
def _skewnorm(x: Any, a: Any) -> Any:
    """`2 phi(x) Phi(a x)`."""
    return np.log(2.0) - x * x / 2 - np.log(2 * np.pi) / 2 + special.log_ndtr(a * x)


# Pearson type III; SciPy uses the normal distribution for small skew


def _log_gap(x: Any, t: Any) -> Any:
    """Return the lowest terms in `t = skew / 2` of the logarithm of the density, by Stirling's series."""
    return t * (x**3 / 3 - x) + t * t * (x * x / 2 - x**4 / 4 - 1 / 12)


def _cdf_gap(x: Any, t: Any) -> Any:
    """Return the lowest terms in `t` of the distribution function, by Edgeworth's series."""
    third, fifth = x**3 - 3 * x, x**5 - 10 * x**3 + 15 * x
    return -np.exp(-x * x / 2) / np.sqrt(2 * np.pi) * (t * (x * x - 1) / 3 + t * t * (third / 4 + fifth / 18))


def _with_gap(original: Any, self: Any, x: Any, skew: Any, gap: Any) -> Any:
    """Return SciPy's value, with the derivative terms that SciPy omits near the normal distribution."""
    near = np.abs(stop_gradient(skew)) < 0.000016
    missing = gap(x, np.where(near, skew, 0.0) / 2)
    return original(self, x, skew) + (missing - stop_gradient(missing))


of_class("pearson3", "_logpdf")(partial(_with_gap, gap=_log_gap))
of_class("pearson3", "_cdf")(partial(_with_gap, gap=_cdf_gap))
of_class("pearson3", "_sf")(partial(_with_gap, gap=lambda x, t: -_cdf_gap(x, t)))
of_class("pearson3", "_ppf")(quantile)


# The triangular distribution, with its mode possibly at an end


@of_class("triang", "_pdf")
def _triang_pdf(original: Any, self: Any, x: Any, c: Any) -> Any:
    """`2 x / c` up to c, `2 (1 - x) / (1 - c)` beyond c."""
    left = x < c
    return like_scipy(
        original, np.where(left, 2 * x / np.where(left, c, 1.0), 2 * (1 - x) / (1 - np.where(left, 0.0, c))), self, x, c
    )


@of_class("triang", "_cdf")
def _triang_cdf(original: Any, self: Any, x: Any, c: Any) -> Any:
    """`x^2 / c` up to c, `1 - (1 - x)^2 / (1 - c)` beyond c."""
    left = x < c
    right = 1 - (1 - x) ** 2 / (1 - np.where(left, 0.0, c))
    return like_scipy(original, np.where(left, x * x / np.where(left, c, 1.0), right), self, x, c)
