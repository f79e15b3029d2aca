"""Densities and distribution functions that SciPy compiles, by their formulas. The values are SciPy's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy import special
from scipy.stats import _continuous_distns as continuous

from functad.expressions.spec import shape_of
from functad.scipy._integrals import log_kve, log_mixture, within
from functad.scipy.distributions.continuous import constant_shape, like_scipy, of_class


@cache
def _legendre(count: int) -> Any:
    return np.polynomial.legendre.leggauss(count)


@of_class("landau", "_pdf")
def _landau_pdf(original: Any, self: Any, x: Any) -> Any:
    """Return the density of Landau (1944), by a Fourier integral for x <= 0 and a rotated one for x > 0.

    The integrands are `exp(-t) cos(t x + 2/pi t log t) / pi` and, with `y = pi x / 2 + log(pi / 2)`,
    `exp(-y t - t log t) sin(pi t) / 2`.
    """
    large = x > 0
    y = np.expand_dims(np.where(large, x, 1.0) * (np.pi / 2) + np.log(np.pi / 2), -1)
    z = np.expand_dims(np.where(large, 0.0, x), -1)
    nodes, weights = _legendre(400)
    t, w = (nodes + 1) * 21, weights * 21
    left = np.sum(np.exp(-t) * np.cos(t * z + (2 / np.pi) * t * np.log(t)) * w, -1) / np.pi
    u = t / y
    right = np.sum(np.exp(-t - u * np.log(u)) * np.sin(np.pi * u) * (w / y), -1) / 2
    return like_scipy(original, np.where(large, right, left), self, x)


def density(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that registers a formula for the log-density as methods `_logpdf` and `_pdf`."""

    def enter(formula: Callable[..., Any]) -> Callable[..., Any]:
        def logpdf(original: Any, self: Any, x: Any, *args: Any) -> Any:
            return like_scipy(original, formula(x, *args), self, x, *args)

        def pdf(original: Any, self: Any, x: Any, *args: Any) -> Any:
            return like_scipy(original, np.exp(formula(x, *args)), self, x, *args)

        kind = getattr(continuous, f"{name}_gen", None)
        if kind is not None:
            if "_logpdf" in vars(kind):
                of_class(name, "_logpdf")(logpdf)
            if "_pdf" in vars(kind):
                of_class(name, "_pdf")(pdf)
        return formula

    return enter


@density("beta")
def _beta(x: Any, a: Any, b: Any) -> Any:
    """`x^(a-1) (1-x)^(b-1) / B(a, b)`."""
    return special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - special.betaln(a, b)


@density("geninvgauss")
def _geninvgauss(x: Any, p: Any, b: Any) -> Any:
    """`x^(p-1) exp(-b (x + 1/x) / 2) / (2 K_p(b))`."""
    return (p - 1) * np.log(x) - b * ((x + 1 / x) / 2 - 1) - np.log(2.0) - log_kve(p, b)


@density("genhyperbolic")
def _genhyperbolic(x: Any, p: Any, a: Any, b: Any) -> Any:
    """The density of Barndorff-Nielsen (1977), with Bessel functions of orders `p` and `p - 1/2`."""
    d = np.sqrt((a - b) * (a + b))
    root = np.sqrt(1 + x * x)
    norm = p * np.log(d) - np.log(2 * np.pi) / 2 - (p - 0.5) * np.log(a) - log_kve(p, d) + d
    return norm + (p - 0.5) * np.log(root) + log_kve(p - 0.5, a * root) - a * root + b * x


@density("gausshyper")
def _gausshyper(x: Any, a: Any, b: Any, c: Any, z: Any) -> Any:
    """`x^(a-1) (1-x)^(b-1) (1+zx)^(-c)` over its integral, computed in two halves because of the powers at the ends."""
    wide = [np.expand_dims(v, -1) for v in (a, b, c, z)]
    zero, half = np.zeros(np.broadcast_shapes(*map(shape_of, (a, b, c, z)))), 0.5

    def left(t: Any) -> Any:
        return t ** (wide[0] - 1) * (1 - t) ** (wide[1] - 1) * (1 + wide[3] * t) ** -wide[2]

    def right(t: Any) -> Any:
        return (1 - t) ** (wide[0] - 1) * t ** (wide[1] - 1) * (1 + wide[3] * (1 - t)) ** -wide[2]

    norm = within(left, zero, zero + half) + within(right, zero, zero + half)
    return special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - c * np.log1p(z * x) - np.log(norm)


@density("ncx2")
def _ncx2(x: Any, df: Any, nc: Any) -> Any:
    """The mean of the chi-squared densities for `df + 2j`, where j has a Poisson distribution of mean nc/2."""
    y, v = np.expand_dims(x, -1), np.expand_dims(df, -1)

    def log_term(j: Any) -> Any:
        a = v / 2 + j
        return special.xlogy(a - 1, y / 2) - y / 2 - special.gammaln(a) - np.log(2.0)

    return log_mixture(log_term, nc / 2)


@density("ncf")
def _ncf(x: Any, dfn: Any, dfd: Any, nc: Any) -> Any:
    """The mean of the densities of `u / (1 - u)`, with u of the beta distribution for `dfn/2 + j, dfd/2`; j as in `_ncx2`."""
    ratio = np.expand_dims(x * dfn / dfd, -1)
    m, n = np.expand_dims(dfn, -1), np.expand_dims(dfd, -1)

    def log_term(j: Any) -> Any:
        a, b = m / 2 + j, n / 2
        return special.xlogy(a - 1, ratio) - (a + b) * np.log1p(ratio) - special.betaln(a, b) + np.log(m / n)

    return log_mixture(log_term, nc / 2)


@of_class("nct", "_pdf")
def _nct_pdf(original: Any, self: Any, x: Any, df: Any, nc: Any) -> Any:
    """The derivative of the distribution function: a mean over the chi distribution."""
    from functad.primitives.scipy_special.noncentral import T_EXPECTATION  # noqa: PLC0415 - not every import needs it

    return like_scipy(original, T_EXPECTATION(df, nc, x, order=1, power=1, scores=0), self, x, df, nc)


def _splines(x: Any, n: Any, add: int) -> Any:
    """Return cardinal B-splines of degree `n - 1 + add` at x, by the recursion of de Boor (1972).

    With `add`, return their sum over x, x - 1, ... instead.
    """
    counts = np.asarray(n).astype(int)
    out: Any = 0.0
    for count in np.unique(counts):
        m = int(count) + add
        shifted = np.expand_dims(x, -1) - np.arange(m + 1)
        values = np.where((shifted >= 0) & (shifted < 1), 1.0, 0.0)
        for k in range(2, m + 1):
            after = np.concatenate([values[..., 1:], np.zeros_like(values[..., :1])], -1)
            values = (shifted * values + (k - shifted) * after) / (k - 1)
        total = values[..., 0] if add == 0 else np.sum(values, -1)
        out = np.where(counts == count, total, out)
    return out


@of_class("irwinhall", "_pdf")
def _irwinhall_pdf(original: Any, self: Any, x: Any, n: Any) -> Any:
    """A cardinal B-spline of degree n - 1."""
    return like_scipy(original, _splines(x, constant_shape(self, n), 0), self, x, n)


@of_class("irwinhall", "_cdf")
def _irwinhall_cdf(original: Any, self: Any, x: Any, n: Any) -> Any:
    """The sum of cardinal B-splines of degree n at x, x - 1, ..."""
    return like_scipy(original, _splines(x, constant_shape(self, n), 1), self, x, n)


@of_class("irwinhall", "_sf")
def _irwinhall_sf(original: Any, self: Any, x: Any, n: Any) -> Any:
    """The distribution function at n - x."""
    n = constant_shape(self, n)
    return like_scipy(original, _splines(n - x, n, 1), self, x, n)
