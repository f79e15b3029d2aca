"""Elementary functions: powers, exponentials, angles in degrees, Box-Cox transformations, entropies, losses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from functad.expressions.spec import dtype_of, spec_of
from functad.primitives.entry import Primitive
from functad.primitives.kinds import constant, elementwise, linear
from functad.primitives.safe import inverse, product, quotient
from functad.primitives.scipy_special.declaration import find_ufunc, samples_of, special_function

_REAL = (-2.0, 2.0)
_POSITIVE = (0.5, 2.0)
_UNIT = (0.1, 0.9)
_LOG_10 = math.log(10.0)
_DEGREE = math.pi / 180

# Exponentials, logarithms, roots

special_function("cbrt", lambda g, out: quotient(g, out * out) / 3, arguments=[_POSITIVE], doc="d cbrt(x) = dx / (3 cbrt(x)^2)")
special_function("exp2", lambda g, out: product(g, out) * math.log(2.0), arguments=[_REAL], doc="d 2^x = 2^x log(2) dx")
special_function(
    "exp10",
    lambda g, out: product(g, out) * _LOG_10,
    arguments=[_REAL],
    doc="d 10^x = 10^x log(10) dx",
    decomposition=lambda x: np.power(10.0, x),
)
special_function("expm1", lambda g, out: product(g, out + 1), arguments=[_REAL], complex=True, doc="d expm1(x) = exp(x) dx")
special_function("log1p", lambda g, x: quotient(g, 1 + x), arguments=[_POSITIVE], complex=True, doc="d log1p(x) = dx / (1 + x)")
special_function(
    "cosm1",
    lambda g, x: -(g * np.sin(x)),
    arguments=[_REAL],
    doc="d(cos(x) - 1) = -sin(x) dx",
    decomposition=lambda x: -2 * np.sin(x / 2) ** 2,
)
special_function(
    "powm1",
    lambda g, x, y: product(g, product(y, np.power(x, y - 1))),
    lambda g, x, out: product(g, product(out + 1, np.log(x + (x == 0)))),
    arguments=[_POSITIVE, _REAL],
    doc="d(x^y - 1) = y x^(y-1) dx + x^y log(x) dy; at x = 0 the second term is 0",
)


def _exprel_derivative(x: Any, *, order: int) -> Any:
    """Return the k-th derivative of `special.exprel` (order k >= 1), `M_k(x) = int_0^1 t^k exp(x t) dt`.

    The function uses the power series near 0, and `M_k = (exp(x) - k M_(k-1)) / x` elsewhere.
    """
    near = np.absolute(x) < 3 + order
    far = np.where(near, 4.0, x)
    recursive = special.exprel(far)
    for k in range(1, order + 1):
        recursive = (np.exp(far) - k * recursive) / far
    small = np.where(near, x, 0)
    series = small * 0
    for m in range(30 + 4 * order, -1, -1):
        series = series * small + 1 / (math.factorial(m) * (m + order + 1))
    return np.where(near, series, recursive).astype(dtype_of(x))[()]


EXPREL_DERIVATIVE: Primitive = elementwise(
    _exprel_derivative,
    lambda g, x, order: product(g, EXPREL_DERIVATIVE(x, order=order + 1)),
    name="exprel_derivative",
    spec=lambda x, order: spec_of(x),
    samples=lambda array: [((array(3, low=low, high=low + 3),), {"order": k}) for k, low in ((1, -2), (2, -6), (1, 4))],
    complex=False,
    internal=True,
    doc="the derivative of the next order",
    decomposition=True,
)


def _exprel(x: Any) -> Any:
    return np.where((np.abs(x) < 1e-16) | (x == np.inf), np.maximum(x, 1), np.expm1(x) / np.where(x == 0, 1, x))


special_function(
    "exprel",
    lambda g, x: product(g, EXPREL_DERIVATIVE(x, order=1)),
    arguments=[_REAL],
    doc="d((e^x - 1) / x) = (e^x (x - 1) + 1) / x^2 dx; 1/2 at x = 0",
    decomposition=_exprel,
)

# Angles in degrees

special_function("sindg", lambda g, x: g * special.cosdg(x) * _DEGREE, arguments=[(-50.0, 50.0)], doc="d = pi/180 cosdg(x) dx")
special_function(
    "cosdg", lambda g, x: g * special.sindg(x) * -_DEGREE, arguments=[(-50.0, 50.0)], doc="d = -pi/180 sindg(x) dx"
)
special_function(
    "tandg", lambda g, out: product(g, 1 + out * out) * _DEGREE, arguments=[(-40.0, 40.0)], doc="d = pi/180 (1 + tandg(x)^2) dx"
)
special_function(
    "cotdg",
    lambda g, out: product(g, 1 + out * out) * -_DEGREE,
    arguments=[(40.0, 100.0)],
    doc="d = -pi/180 (1 + cotdg(x)^2) dx",
)


linear(
    find_ufunc("radian"),
    lambda g, shapes: [g * (_DEGREE / 60**i) for i, _ in enumerate(shapes)],
    compute=lambda *angles: special.radian(*angles),
    samples=samples_of([_REAL, _REAL, _REAL]),
    name="special.radian",
    complex=False,
    doc="linear: pi/180 (dd + dm/60 + ds/3600)",
    broadcasts=True,
)
constant(
    special.round,
    samples=samples_of([_REAL]),
    complex=False,
    name="special.round",
    doc="piecewise constant: the derivative is 0",
)

# Logistic functions

special_function(
    "expit",
    lambda g, x, out: g * (out * special.expit(-x)),
    arguments=[_REAL],
    doc="d expit(x) = expit(x) expit(-x) dx",
)
special_function(
    "log_expit",
    lambda g, x: g * special.expit(-x),
    arguments=[_REAL],
    doc="d log_expit(x) = expit(-x) dx",
    decomposition=lambda x: -np.logaddexp(-x, 0),
)
special_function("logit", lambda g, x: quotient(g, x * (1 - x)), arguments=[_UNIT], doc="d logit(x) = dx / (x (1 - x))")

# Entropies

special_function(
    "xlogy",
    lambda g, y: product(g, np.log(y)),
    lambda g, x, y: quotient(product(g, x), y),
    arguments=[_REAL, _POSITIVE],
    complex=True,
    doc="d(x log y) = log(y) dx + x/y dy; the second term is 0 at x = 0",
)
special_function(
    "xlog1py",
    lambda g, y: product(g, np.log1p(y)),
    lambda g, x, y: quotient(product(g, x), 1 + y),
    arguments=[_REAL, _POSITIVE],
    complex=True,
    doc="d(x log(1 + y)) = log1p(y) dx + x/(1 + y) dy; the second term is 0 at x = 0",
)
special_function("entr", lambda g, x: -product(g, np.log(x) + 1), arguments=[_POSITIVE], doc="d(-x log x) = -(log(x) + 1) dx")


def _log_ratio(x: Any, y: Any) -> Any:
    """`log(x / y)`, 0 where both are 0."""
    both = (x == 0) & (y == 0)
    return np.log((x + both) / (y + both))


special_function(
    "rel_entr",
    lambda g, x, y: product(g, _log_ratio(x, y) + 1),
    lambda g, x, y: -quotient(product(g, x), y),
    arguments=[_POSITIVE, _POSITIVE],
    doc="d(x log(x/y)) = (log(x/y) + 1) dx - x/y dy; at (0, 0): dx",
)
special_function(
    "kl_div",
    lambda g, x, y: product(g, _log_ratio(x, y)),
    lambda g, x, y: g - quotient(product(g, x), y),
    arguments=[_POSITIVE, _POSITIVE],
    doc="d(x log(x/y) - x + y) = log(x/y) dx + (1 - x/y) dy; at (0, 0): dy",
)

# Losses


def _huber(delta: Any, r: Any) -> Any:
    size = np.abs(r)
    return np.where(delta < 0, np.inf, np.where(size <= delta, 0.5 * r * r, delta * (size - 0.5 * delta)))


special_function(
    "huber",
    lambda g, x, y: g * np.maximum(np.absolute(y) - x, 0.0),
    lambda g, x, y: g * np.where(np.absolute(y) < x, y, np.sign(y) * x),
    arguments=[(0.6, 1.0), _REAL],
    doc="d huber(delta, r) = max(|r| - delta, 0) d delta + clip(r, -delta, delta) dr",
    decomposition=_huber,
)


def _pseudo_huber_root(x: Any, y: Any) -> Any:
    """`1 / sqrt(1 + (r / delta)^2)`, and 0 for delta = 0."""
    over = y * inverse(x)
    return (x != 0) / np.sqrt(1 + over * over)


def _pseudo_huber(delta: Any, r: Any) -> Any:
    share = r / np.where(delta == 0, 1, delta)
    found = np.where((delta == 0) | (r == 0), 0, delta * delta * np.expm1(0.5 * np.log1p(share * share)))
    return np.where(delta < 0, np.inf, found)


special_function(
    "pseudo_huber",
    lambda g, x, y, out: g * (out * out * inverse(x * x * x) * _pseudo_huber_root(x, y)),
    lambda g, x, y: g * (y * _pseudo_huber_root(x, y)),
    arguments=[_POSITIVE, _REAL],
    doc="d delta^2 (s - 1) = delta (s - 1)^2 / s d delta + r / s dr with s = sqrt(1 + (r / delta)^2)",
    decomposition=_pseudo_huber,
)

# Box-Cox transformations: (x^p - 1) / p = L exprel(p L), L = log(x), is smooth in p at 0


def _by_power(log: Any, power: Any) -> Any:
    """Return the derivative of `L exprel(p L)` with respect to p; where L is minus infinity, the derivative of `-1 / p`."""
    zero = log == -np.inf
    log = np.where(zero, 0.0, log)
    return np.where(zero, inverse(power * power), log * log * EXPREL_DERIVATIVE(power * log, order=1))


special_function(
    "boxcox",
    lambda g, x, y: product(g, np.power(x, y - 1)),
    lambda g, x, y: product(g, _by_power(np.log(x), y)),
    arguments=[_POSITIVE, _REAL],
    doc="d((x^p - 1) / p) = x^(p-1) dx + L^2 exprel'(p L) dp with L = log(x)",
)
special_function(
    "boxcox1p",
    lambda g, x, y: product(g, np.power(1 + x, y - 1)),
    lambda g, x, y: product(g, _by_power(np.log1p(x), y)),
    arguments=[_POSITIVE, _REAL],
    doc="as boxcox, of 1 + x",
)


def _inv_boxcox(x: Any, power: Any) -> Any:
    return np.where(power == 0, np.exp(x), np.exp(np.log1p(power * x) / np.where(power == 0, 1, power)))


def _inv_boxcox1p(x: Any, power: Any) -> Any:
    found = np.expm1(np.log1p(power * x) / np.where(power == 0, 1, power))
    return np.where(power == 0, np.expm1(x), np.where(np.abs(power * x) < 1e-154, x, found))


special_function(
    "inv_boxcox",
    lambda g, y, out: product(g, np.power(out, 1 - y)),
    lambda g, y, out: -product(g, _by_power(np.log(out), y) * np.power(out, 1 - y)),
    arguments=[(0.1, 0.9), (-0.9, 0.9)],
    doc="the inverse of boxcox: dx = x^(1-p) (dy - L^2 exprel'(p L) dp)",
    decomposition=_inv_boxcox,
)
special_function(
    "inv_boxcox1p",
    lambda g, y, out: product(g, np.power(1 + out, 1 - y)),
    lambda g, y, out: -product(g, _by_power(np.log1p(out), y) * np.power(1 + out, 1 - y)),
    arguments=[(0.1, 0.9), (-0.9, 0.9)],
    doc="as inv_boxcox, for boxcox1p",
    decomposition=_inv_boxcox1p,
)

special_function(
    "_log1mexp",
    lambda g, x: -quotient(g, np.expm1(-x)),
    arguments=[(-3.0, -0.3)],
    doc="-1 / (exp(-x) - 1) dx",
)
