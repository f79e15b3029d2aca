"""The gamma function, its logarithm and reciprocal, polygamma functions, Pochhammer symbol, binomial coefficient."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from functad.expressions.spec import dtype_of, spec_of
from functad.primitives.entry import Primitive
from functad.primitives.kinds import constant, elementwise
from functad.primitives.safe import product
from functad.primitives.scipy_special.declaration import find_ufunc, samples_of, special_function

POSITIVE = (0.6, 4.0)
_BERNOULLI = [float(b) for b in special.bernoulli(24)[2::2]]
_SHIFT = 16


def _polygamma(x: Any, *, order: int) -> Any:
    """Return the derivative of `special.psi` of an order (1 or more); unlike SciPy's `polygamma`, also for complex numbers."""
    if dtype_of(x).kind == "c":
        return _complex_polygamma(np.positive(x, dtype=np.complex128), order).astype(dtype_of(x))[()]
    return special._ufuncs._zeta(order + 1.0, x) * ((-1.0) ** (order + 1) * math.factorial(order))


def _complex_polygamma(z: Any, order: int) -> Any:
    """Return `psi^(n)(z)` from the reflection formula, the recurrence and the asymptotic series (DLMF 5.15)."""
    reflected = z.real < 0.5
    w = np.where(reflected, 1 - z, z)
    total: Any = sum((w + k) ** -(order + 1) for k in range(_SHIFT)) * math.factorial(order)
    a = w + _SHIFT
    total = total + math.factorial(order - 1) * a**-order + math.factorial(order) / 2 * a ** -(order + 1)
    for k, b in enumerate(_BERNOULLI, 1):
        total = total + b * (math.factorial(2 * k + order - 1) / math.factorial(2 * k)) * a ** -(2 * k + order)
    total = total * (-1) ** (order + 1)
    return np.where(reflected, (-1) ** order * total - _cotangent_derivative(z, order), total)


def _cotangent_derivative(z: Any, order: int) -> Any:
    """Return the derivative of an order of `pi cot(pi z)`, a polynomial in the cotangent c: `dc/dz = -pi (1 + c^2)`."""
    sign = np.where(z.imag < 0, 1j, -1j)
    q = np.exp(2 * math.pi * sign.conjugate() * z)
    cotangent = sign * (1 + q) / (1 - q)
    coefficients: Any = [0.0, 1.0]
    for _ in range(order):
        coefficients = np.polynomial.polynomial.polymul([-1.0, 0.0, -1.0], np.polynomial.polynomial.polyder(coefficients))
    return math.pi ** (order + 1) * np.polynomial.polynomial.polyval(cotangent, coefficients)


polygamma: Primitive = elementwise(
    _polygamma,
    lambda g, x, order: product(g, polygamma(x, order=order + 1)),
    name="polygamma",
    spec=lambda x, order: spec_of(x),
    samples=lambda array: (
        [((array(3, low=0.6, high=3.0),), {"order": order}) for order in (1, 2)]
        + [((array(2, low=-1.9, high=-1.1),), {"order": 1})]
    ),
    internal=True,
    doc="the polygamma function of the next order",
)


def rgamma_derivative(x: Any) -> Any:
    """Return the derivative of `1 / gamma(x)`, an entire function; the reflection formula avoids the poles of psi below 1/2."""
    left = np.real(x) < 0.5
    y = np.where(left, 0.5, x)
    right = -(special.rgamma(y) * special.psi(y))
    z = np.where(left, x, 0.25)
    nearest = np.rint(np.real(z))
    angle = (z - nearest) * math.pi
    reflected = special.gamma(1 - z) * (np.cos(angle) - np.sin(angle) * special.psi(1 - z) / math.pi)
    return np.where(left, (1 - 2 * (nearest % 2)) * reflected, right)


special_function(
    "gamma",
    lambda g, x, out: product(g, out * special.psi(x)),
    arguments=[POSITIVE],
    complex=True,
    doc="d gamma(x) = gamma(x) psi(x) dx",
)
special_function("gammaln", lambda g, x: product(g, special.psi(x)), arguments=[POSITIVE], doc="d log|gamma(x)| = psi(x) dx")
special_function(
    "loggamma",
    lambda g, x: product(g, special.psi(x)),
    arguments=[POSITIVE],
    complex=True,
    doc="d loggamma(x) = psi(x) dx",
    decomposition=lambda x: np.where(x < 0, np.nan, special.gammaln(x)) if dtype_of(x).kind == "f" else special.loggamma(x),
)
special_function(
    "rgamma",
    lambda g, x: product(g, rgamma_derivative(x)),
    arguments=[(-2.4, 2.4)],
    complex=True,
    doc="d(1 / gamma(x)) = -psi(x) / gamma(x) dx, finite at the poles of gamma too",
)
special_function(
    "psi",
    lambda g, x: product(g, polygamma(x, order=1)),
    arguments=[POSITIVE],
    complex=True,
    doc="d psi(x) = polygamma(1, x) dx",
)
constant(
    find_ufunc("gammasgn"),
    samples=samples_of([(-2.0, 2.0)]),
    complex=False,
    name="special.gammasgn",
    doc="piecewise constant: the derivative is 0",
)


def _rising(x: Any, y: Any) -> Any:
    """Return the derivative of `log poch(x, y)` with respect to x."""
    return special.psi(x + y) - special.psi(x)


special_function(
    "poch",
    lambda g, x, y, out: product(g, out * _rising(x, y)),
    lambda g, x, y, out: product(g, out * special.psi(x + y)),
    arguments=[POSITIVE, POSITIVE],
    doc="d poch(x, y) = poch(x, y) ((psi(x + y) - psi(x)) dx + psi(x + y) dy)",
)


def _binom_slopes(x: Any, y: Any, out: Any) -> tuple[Any, Any]:
    """Return the derivatives of `binom(x, y)`, which is `binom(x, x - y)`, so that only y above `x / 2` needs to be regarded.

    For y above x the value is `sin(pi (y-x)) B(x+1, y-x) / pi`, which is 0 for whole differences, and its derivatives are not.
    """
    mirrored = y < x - y
    y = np.where(mirrored, x - y, y)
    above = y - x > 0.5
    rest = np.where(above, y - x, x - y + 1)
    turn = np.where(
        above, special.beta(x + 1, np.where(above, y - x, 1.0)) * np.cos(math.pi * np.where(above, y - x, 0.0)), 0.0
    )
    by_x = out * (special.psi(x + 1) - special.psi(rest)) - turn
    by_y = out * (special.psi(rest) - special.psi(y + 1)) + turn
    return np.where(mirrored, by_x + by_y, by_x), np.where(mirrored, -by_y, by_y)


special_function(
    "binom",
    lambda g, x, y, out: product(g, _binom_slopes(x, y, out)[0]),
    lambda g, x, y, out: product(g, _binom_slopes(x, y, out)[1]),
    arguments=[(3.0, 6.0), (0.5, 2.5)],
    doc="d binom(n, k) = binom(n, k) ((psi(n+1) - psi(n-k+1)) dn + (psi(n-k+1) - psi(k+1)) dk)",
)
