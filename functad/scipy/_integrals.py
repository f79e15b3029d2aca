"""Integrals and sums behind distributions, in NumPy functions, so that derivatives of every order exist.

The values are SciPy's own wherever the arguments are known. The formulas here serve derivatives and abstract traces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from functad.adoption.scipy_functions import VALUE_OBSERVERS, with_infinite_value
from functad.primitives.operands import known_values
from functad.tracing.trace import new_arrays_recorded_by
from functad.transforms.grad import stop_gradient

_STEPS = np.linspace(-3.3, 3.3, 167)
_BETWEEN = np.pi / 2 * np.sinh(_STEPS)
_SHARES = 1 / (1 + np.exp(-2 * _BETWEEN))
_SHARE_WEIGHTS = (np.pi / 2 * np.cosh(_STEPS)) * _SHARES * (1 - _SHARES) * 2 * (_STEPS[1] - _STEPS[0])
_AWAY = np.linspace(-3.6, 2.8, 161)
_DISTANCES = np.exp(np.pi / 2 * np.sinh(_AWAY))
_DISTANCE_WEIGHTS = (np.pi / 2 * np.cosh(_AWAY)) * _DISTANCES * (_AWAY[1] - _AWAY[0])
_FAR_AWAY = np.linspace(-3.6, 4.4, 241)
_FAR = np.exp(np.pi / 2 * np.sinh(_FAR_AWAY))
_FAR_WEIGHTS = (np.pi / 2 * np.cosh(_FAR_AWAY)) * _FAR * (_FAR_AWAY[1] - _FAR_AWAY[0])


@contextmanager
def outside() -> Iterator[None]:
    """Return a context in which SciPy computes with plain values outside all traces."""
    with new_arrays_recorded_by(None):
        yield


def valued(value: Any, formula: Any) -> Any:
    """Return `value` with the derivatives of `formula`."""
    known, change = known_values(formula), formula - stop_gradient(formula)
    if known is None:
        return value + change
    for observe in VALUE_OBSERVERS:
        observe(value, known[0])
    if np.isfinite(known[0]).all():
        return value + change
    return with_infinite_value(formula, change, known[0], value)


def within(f: Callable[[Any], Any], low: Any, high: Any) -> Any:
    """Return the integral of a function over a finite interval (H. Takahasi and M. Mori, 1974).

    Args:
        f: the integrand; it takes nodes along an additional last axis.
        low: the lower limit, of shape `(...)`. `f` may contain a power of the distance from it.
        high: the upper limit, with the same properties.
    """
    width = np.expand_dims(high - low, -1)
    nodes = np.expand_dims(low, -1) + width * _SHARES
    return np.sum(f(nodes) * (width * _SHARE_WEIGHTS), -1)


def beyond(f: Callable[[Any], Any], end: Any, side: Any, far: bool = False) -> Any:
    """Return the integral of a function from a finite end to infinity, or to minus infinity where `side` is -1.

    Args:
        f: the integrand; it takes nodes along an additional last axis.
        end: the finite end.
        side: 1 or -1.
        far: use nodes for integrands that fall as slowly as a power.
    """
    distances, weights = (_FAR, _FAR_WEIGHTS) if far else (_DISTANCES, _DISTANCE_WEIGHTS)
    nodes = np.expand_dims(end, -1) + np.expand_dims(side, -1) * distances
    return np.sum(f(nodes) * weights, -1)


def log_kve(order: Any, x: Any) -> Any:
    """Return the logarithm of `kve(order, x)`, the integral of `exp(-x (cosh t - 1)) cosh(order t)` over t > 0.

    The formula is 10.32.9 of the NIST Handbook of Mathematical Functions. The trapezoidal rule converges exponentially.
    """
    order = order * np.where(stop_gradient(order) < 0, -1.0, 1.0)  # the function is even and smooth in the order
    order, x = np.expand_dims(order, -1), np.expand_dims(x, -1)
    size, scale = stop_gradient(order), stop_gradient(x)
    last = np.arccosh(1 + 40 / scale)
    last = np.arccosh(1 + (40 + size * last) / scale)
    last = np.arccosh(1 + (40 + size * last) / scale)
    nodes = last * np.linspace(0, 1, 201)
    exponent = order * nodes - x * (2 * np.sinh(nodes / 2) ** 2)
    top = np.max(stop_gradient(exponent), -1, keepdims=True)
    terms = np.exp(exponent - top) * ((1 + np.exp(-2 * order * nodes)) / 2)
    total = np.sum(terms, -1) - terms[..., 0] / 2
    return np.log(total * last[..., 0] / 200) + top[..., 0]


def log_mixture(log_term: Callable[[Any], Any], mean: Any) -> Any:
    """Return the logarithm of the mean of `exp(log_term(j))`, where j has a Poisson distribution.

    Args:
        log_term: takes the numbers j along an additional last axis.
        mean: the mean of the distribution.
    """
    from scipy import special  # noqa: PLC0415 - SciPy is already imported

    known = known_values(mean)
    most = 1000.0 if known is None else float(np.max(known[0], initial=0))
    j = np.arange(int(most * 2 + 20 * np.sqrt(most) + 60)) * 1.0
    m = np.expand_dims(mean, -1)
    unit = np.where(stop_gradient(m) > 0, stop_gradient(m), 1.0)
    logs = log_term(j) + (j * np.log(unit) - m - special.gammaln(j + 1))
    top = np.max(np.where(stop_gradient(m) > 0, stop_gradient(logs), stop_gradient(logs)[..., :1]), -1, keepdims=True)
    return np.log(np.sum(np.exp(logs - top) * (m / unit) ** j, -1)) + top[..., 0]  # the power gives the derivative at mean zero
