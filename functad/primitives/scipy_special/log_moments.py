"""Moments of logarithms over tails of the gamma and beta distributions, for derivatives with respect to parameters.

The gamma density `f = t^(a-1) exp(-t) / gamma(a)` has the derivative `(log t - psi(a)) f` with respect to a. The derivative of
an incomplete integral with respect to its parameter is the integral of this product. Its series and continued fractions (R. J.
Moore, Algorithm AS 187, Applied Statistics 31, 1982; R. J. Boik and J. F. Robison-Cox, Journal of Statistical Software 3 (1),
1998, for the beta distribution) need a number of terms that depends on the arguments, and end at the second derivative.

This module integrates numerically, on the side of x where the integrand does not change its sign and falls monotonically. The
variable is `log t` (beta distribution: `log(t / (1 - t))`); the rule is the double-exponential rule of H. Takahasi and M. Mori
(Publ. RIMS 9, 1974). The number of points is the same for all arguments, and derivatives of every order are such integrals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import special

_POINTS = 112
_FIRST = -3.7  # the points start at exp(-44) times the scale, and end where the integrand has fallen by exp(-_FALL)
_FALL = 44.0
_BLOCK = 2048  # elements at a time: temporaries fit in the cache, which takes a quarter of the time
_LOG_ROOT = math.log(2 * math.pi) / 2
# B_2n / (2n (2n - 1)), the coefficients of Stirling's series
_STIRLING = [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360]


def stirling_error(a: Any) -> Any:
    """Return `log gamma(a) - ((a - 1/2) log a - a + log(2 pi) / 2)` for a > 0, without cancellation."""
    large = np.where(a < 10, 10.0, a)
    small = np.where(a < 10, a, 1.0)
    total: Any = 0.0
    for c in _STIRLING[::-1]:
        total = total / (large * large) + c
    return np.where(a < 10, special.gammaln(small) - ((small - 0.5) * np.log(small) - small + _LOG_ROOT), total / large)


def _excess(x: Any, mean: Any) -> Any:
    """Return `log(x / mean)`; near 1 from the exact difference `x - mean`."""
    ratio = (x - mean) / mean
    return np.where(np.absolute(ratio) < 0.5, np.log1p(ratio), np.log(x) - np.log(mean))


def psi_rise(a: Any, b: Any) -> Any:
    """Return `psi(a + b) - psi(a)`; for large a from `psi - log`, without cancellation."""
    large, small = np.where(a < 10, 10.0, a), np.where(a < 10, a, 1.0)
    far = np.log1p(b / large) + _psi_error(large + b) - _psi_error(large)
    return np.where(a < 10, special.psi(small + b) - special.psi(small), far)


def _psi_error(a: Any) -> Any:
    """Return `psi(a) - log a` for a >= 10."""
    total: Any = 0.0
    for n in range(len(_STIRLING), 0, -1):
        total = (total - _STIRLING[n - 1] * (2 * n - 1)) / (a * a)
    return total - 1 / (2 * a)


def _log(x: Any, y: Any) -> Any:
    """Return `log x` for `x = 1 - y`, from the smaller, more exact one of x and y."""
    return np.where(y < 0.5, np.log1p(-y), np.log(x))


def gamma_peak(a: Any, x: Any) -> Any:
    """Return `x^a exp(-x) / gamma(a)`, x times the density, from the distance of x from a."""
    return np.sqrt(a / (2 * math.pi)) * np.exp(a * _excess(x, a) - (x - a) - stirling_error(a))


def beta_peak(a: Any, b: Any, x: Any, y: Any) -> Any:
    """Return `x^a y^b / B(a, b)` for `y = 1 - x`, x y times the density, from the distance of x from `a / (a + b)`."""
    whole = a + b
    away = x * (b / whole) - y * (a / whole)
    left, right = away * (whole / a), -away * (whole / b)
    near = (np.absolute(left) < 0.5) & (np.absolute(right) < 0.5)
    by_a = np.where(near, np.log1p(left), _log(x, y) - np.log(a / whole))
    by_b = np.where(near, np.log1p(right), _log(y, x) - np.log(b / whole))
    error = stirling_error(whole) - stirling_error(a) - stirling_error(b)
    return np.sqrt(a / whole * (b / (2 * math.pi))) * np.exp(a * by_a + b * by_b + error)


def _integral(integrand: Callable[[Any], Any], scale: Any, end: Any) -> Any:
    """Return the integrals of a function from 0 to `end`, by the trapezoidal rule in s with `v = scale exp(s - exp(-s))`.

    Args:
        integrand: a function of points `v` along the last axis.
        scale: the smallest length scale of the integrand, shape (n, 1).
        end: the point beyond which the integrand is negligible, shape (n, 1).
    """
    scale = np.minimum(scale, end / _FALL)
    step = (np.log(end / scale) - _FIRST) / (_POINTS - 1)
    s = _FIRST + step * np.arange(_POINTS)
    shrink = np.exp(-s)
    v = scale * np.exp(s - shrink)
    return np.sum(integrand(v) * (v * (1 + shrink)), axis=-1) * step[..., 0]


def _in_blocks(compute: Callable[..., Any], start: Callable[..., Any], dtype: Any, *arrays: Any) -> Any:
    """Return `compute` of columns of the broadcast arrays; where `start` is not 1, the result is the value of `start`.

    The length of a block does not depend on values, so the function works for arrays of another library without values.
    """
    full = np.broadcast_arrays(*arrays)
    columns = [a.reshape(-1, 1).astype(np.float64) for a in full]
    parts = []
    with np.errstate(all="ignore"):
        for first in range(0, max(full[0].size, 1), _BLOCK):
            block = [a[first : first + _BLOCK] for a in columns]
            begun = start(*[a[:, 0] for a in block])
            parts.append(np.where(begun == 1, compute(*block), begun))
    out = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return out.reshape(full[0].shape).astype(dtype)[()]


def _start(good: Any, inner: Any, empty: Any) -> Any:
    """Return 1 at arguments to integrate, 0 where the tail is empty, and NaN outside of the domain."""
    return np.where(good & empty, 0.0, np.where(good & inner, 1.0, np.nan))


# Gamma


def _gamma_block(a: Any, x: Any, side: Any, order: int) -> Any:
    """Return the gamma moments, integrated over v with `log t = log x - side v`."""
    away = side * (a - x)
    ends = np.where(side > 0, (_FALL + x) / a, np.inf)
    bend = np.where(side > 0, 3.0, 2.0) * _FALL
    middle = np.sqrt(bend / x)
    ends = np.minimum(ends, np.where((side < 0) | (middle < 1), middle, np.inf))
    ends = np.minimum(ends, np.where(away > 0, _FALL / away, np.inf))
    center = np.log(x) - special.psi(a)

    def integrand(v: Any) -> Any:
        u = -side * v
        return np.exp(a * u - x * np.expm1(u)) * (center + u) ** order

    return gamma_peak(a, x)[:, 0] * _integral(integrand, 1 / (np.absolute(away) + np.sqrt(x)), ends)


def gamma_moment(a: Any, x: Any, side: Any, order: int, dtype: Any) -> Any:
    """Return the integral of `t^(a-1) exp(-t) / gamma(a) (log t - psi(a))^order` over a tail of `t > 0`.

    Args:
        a: the parameter.
        x: the start of the tail.
        side: 1 for the tail below x, -1 for the tail above.
        order: the order of the moment.
        dtype: the dtype of the result.
    """

    def start(a: Any, x: Any, side: Any) -> Any:
        empty = ((x == 0) & (side > 0)) | ((x == np.inf) & (side < 0))
        return _start((a > 0) & (a < np.inf), (x > 0) & (x < np.inf), empty)

    return _in_blocks(partial(_gamma_block, order=order), start, dtype, a, x, side)


# Beta


def _beta_block(a: Any, b: Any, x: Any, side: Any, order_a: int, order_b: int) -> Any:
    """Return the beta moments, integrated over v with `log(t / (1-t)) = log(x / (1-x)) - side v`; upper tails in `1 - t`."""
    y = 1 - x
    upper = side < 0
    p, q = np.where(upper, b, a), np.where(upper, a, b)
    near, far = np.where(upper, y, x), np.where(upper, x, y)
    whole = p + q
    away = p * far - q * near
    spread = whole * near * far
    ends = (_FALL - whole * _log(far, near)) / p
    middle = np.sqrt(2 * math.e * _FALL / spread)
    ends = np.minimum(ends, np.where(middle < 1, middle, np.inf))
    ends = np.minimum(ends, np.where(away > 0, _FALL / away, np.inf))
    center_p, center_q = _log(near, far) + psi_rise(p, q), _log(far, near) + psi_rise(q, p)
    order_p, order_q = np.where(upper, order_b, order_a), np.where(upper, order_a, order_b)

    def integrand(v: Any) -> Any:
        lost = -near * np.expm1(-v)
        shift = np.where(lost < 0.5, np.log1p(-lost), np.log(far + near * np.exp(-v)))
        return np.exp(-p * v - whole * shift) * (center_p - v - shift) ** order_p * (center_q - shift) ** order_q

    return beta_peak(p, q, near, far)[:, 0] * _integral(integrand, 1 / (np.absolute(away) + np.sqrt(spread)), ends)


def beta_moment(a: Any, b: Any, x: Any, side: Any, order_a: int, order_b: int, dtype: Any) -> Any:
    """Return the integral of the beta density times `(log t - A)^order_a (log(1-t) - B)^order_b` over a tail of `0 < t < 1`.

    A and B are the means of the two logarithms, `psi(a) - psi(a+b)` and `psi(b) - psi(a+b)`. Arguments: see `gamma_moment`.
    """

    def start(a: Any, b: Any, x: Any, side: Any) -> Any:
        empty = ((x == 0) & (side > 0)) | ((x == 1) & (side < 0))
        return _start((a > 0) & (a < np.inf) & (b > 0) & (b < np.inf), (x > 0) & (x < 1), empty)

    return _in_blocks(partial(_beta_block, order_a=order_a, order_b=order_b), start, dtype, a, b, x, side)
