"""Lévy's stable distribution and the studentized range. SciPy integrates their densities in compiled code.

This module integrates them by sums over fixed nodes, which have derivatives by the point and all parameters. The values are
SciPy's own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy import special
from scipy.stats import _levy_stable

from functad.adoption.scipy_functions import of_methods, plain_value
from functad.errors import UnsupportedError
from functad.expressions.spec import shape_of
from functad.places import here
from functad.primitives.operands import known_values
from functad.scipy._integrals import outside, valued, within
from functad.scipy.distributions.continuous import like_scipy, of_class, quantile
from functad.transforms.grad import stop_gradient


@cache
def _legendre(count: int) -> Any:
    """Return Gauss-Legendre nodes between 0 and 1, and their weights."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1) / 2, weights / 2


# The studentized range: the range of k normal variables over their standard deviation with df degrees of freedom


def _range_of_normal(w: Any, k: Any, order: int) -> Any:
    """Return the distribution function of the range of k normal variables at w, or its derivative for `order` 1."""
    nodes, weights = _legendre(160)
    z = nodes * 18 - 9 - w[..., None] / 2  # centres the range at zero
    gap = special.ndtr(z + w[..., None]) - special.ndtr(z)
    gap = np.where(stop_gradient(gap) > 1e-290, gap, 1e-290)
    rest = np.exp((k[..., None] - 1 - order) * np.log(gap) - z * z / 2) / np.sqrt(2 * np.pi)
    if order:
        rest = rest * (k[..., None] - 1) * np.exp(-((z + w[..., None]) ** 2) / 2) / np.sqrt(2 * np.pi)
    return np.sum(k[..., None] * rest * (weights * 18), -1)


def _range(order: int) -> Callable[..., Any]:
    def of(original: Any, self: Any, q: Any, k: Any, df: Any) -> Any:
        shape = np.broadcast_shapes(*map(shape_of, (q, k, df)))
        normal = np.broadcast_to(plain_value(df), shape) >= 100000  # SciPy's threshold
        q, k, df = [np.broadcast_to(a, shape) for a in (q, k, np.where(normal, 10.0, df))]
        half = df[..., None] / 2
        norm = half * np.log(half) - special.gammaln(half) + np.log(2.0)

        def mean(s: Any) -> Any:
            density = np.exp(norm + special.xlogy(2 * half - 1, s) - half * s * s)
            return density * s**order * _range_of_normal(q[..., None] * s, k[..., None] + 0 * s, order)

        width = 9 / np.sqrt(2 * stop_gradient(df))
        found = within(mean, np.maximum(1 - width, 0.0), 1 + width)
        if np.any(normal):
            found = np.where(normal, _range_of_normal(q, k, order), found)
        return like_scipy(original, found, self, q, k, np.where(normal, np.inf, df))

    return of


of_class("studentized_range", "_cdf")(_range(0))
of_class("studentized_range", "_pdf")(_range(1))


# Stable distributions, by the characteristic function `exp(-t^alpha + i phase(t))`


def _phase(self: Any, t: Any, alpha: Any, beta: Any) -> Any:
    return beta * np.tan(np.pi / 2 * alpha) * (t**alpha - (t if self._parameterization() == "S0" else 0.0))


def _stable(original: Any, self: Any, x: Any, alpha: Any, beta: Any, term: Callable[[Any, Any], Any]) -> Any:
    """Return SciPy's value with the derivatives of an integral over t; raise if the two disagree."""
    known = known_values(x, alpha, beta)
    if known is None:
        raise UnsupportedError(
            f"scipy.stats.levy_stable needs values, which are not known in jit or vmap, at {here()}. Call it outside of them."
        )
    if np.any(known[1] == 1):
        raise UnsupportedError(
            f"scipy.stats.levy_stable with alpha = 1 has no derivative, at {here()}: {AT_ONE}. Use cauchy where beta is 0, or "
            f"functad.stop_gradient."
        )
    wide = [np.expand_dims(a, -1) for a in (x, alpha, beta)]
    nodes, weights = _legendre(800)
    last = 40 ** (1 / stop_gradient(wide[1]))
    t = last * nodes**4
    angle = _phase(self, t, wide[1], wide[2]) - t * wide[0]
    found = np.sum(np.exp(-(t ** wide[1])) * term(angle, t) * (last * 4 * nodes**3 * weights), -1) / np.pi
    found = found + (0.5 if term is _sine else 0.0)
    with outside():
        value = np.reshape(original(self, *known), shape_of(found))
    if not np.all(np.abs(plain_value(found) - value) <= 1e-6 * np.abs(value) + 1e-9):
        raise UnsupportedError(
            f"scipy.stats.levy_stable is {value}, at {here()}, and a sum over points, which has derivatives, gives "
            f"{plain_value(found)}: for alpha near 0 or 1, or far from the middle, too much cancels. Use functad.stop_gradient."
        )
    return valued(value, found)


AT_ONE = "there its formula is another one, in which SciPy mixes the parameters with the point"
"""The reason why a stable distribution with alpha = 1 raises."""


def _cosine(angle: Any, t: Any) -> Any:
    return np.cos(angle)


def _sine(angle: Any, t: Any) -> Any:
    return -np.sin(angle) / t


@of_methods(_levy_stable.levy_stable_gen, "_pdf")
def _stable_pdf(original: Any, self: Any, x: Any, alpha: Any, beta: Any) -> Any:
    """Return the density, the Fourier integral of the characteristic function."""
    return _stable(original, self, x, alpha, beta, _cosine)


@of_methods(_levy_stable.levy_stable_gen, "_cdf")
def _stable_cdf(original: Any, self: Any, x: Any, alpha: Any, beta: Any) -> Any:
    """Return the distribution function, by the formula of Gil-Pelaez (1951)."""
    return _stable(original, self, x, alpha, beta, _sine)


if "_ppf" in vars(_levy_stable.levy_stable_gen):
    of_methods(_levy_stable.levy_stable_gen, "_ppf")(quantile)
