"""Densities of the gamma and beta distributions; derivatives of incomplete integrals with respect to their parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from functad.expressions.spec import ArraySpec, shape_of
from functad.primitives.kinds import elementwise, ufunc_spec
from functad.primitives.safe import product
from functad.primitives.scipy_special import log_moments
from functad.primitives.scipy_special.declaration import find_ufunc
from functad.primitives.scipy_special.gamma import polygamma

_gamma_spec = ufunc_spec(find_ufunc("gammainc"), keeps_weak=False)
_beta_spec = ufunc_spec(find_ufunc("betainc"), keeps_weak=False)


def gamma_density(a: Any, x: Any) -> Any:
    """Return `x^(a-1) exp(-x) / gamma(a)`."""
    return np.exp(special.xlogy(a - 1, x) - x - special.gammaln(a))


def beta_density(a: Any, b: Any, x: Any) -> Any:
    """Return `x^(a-1) (1-x)^(b-1) / beta(a, b)`."""
    return np.exp(special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - special.betaln(a, b))


def log_or_zero(x: Any) -> Any:
    """Return `log x`, and 0 where x is 0, as a factor of a power of x."""
    return np.log(np.where(x > 0, x, 1))


# Moments of the logarithm over a tail; `side` is 1 for the tail below x and -1 for the tail above


def _gamma_moment(a: Any, x: Any, side: Any, order: int) -> Any:
    """The moment of an order; order 0 is the incomplete integral."""
    if order == 0:
        return np.where(side > 0, special.gammainc(a, x), special.gammaincc(a, x))
    return GAMMA_MOMENT(a, x, side, order=order)


def _gamma_moment_by_a(g: Any, a: Any, x: Any, side: Any, order: int) -> Any:
    """`dM_k/da = M_(k+1) - k psi'(a) M_(k-1)`; the derivative of the log density is `log t - psi(a)`."""
    slope = _gamma_moment(a, x, side, order + 1) - polygamma(a, order=1) * _gamma_moment(a, x, side, order - 1) * order
    return product(g, slope)


def _gamma_moment_by_x(g: Any, a: Any, x: Any, side: Any, order: int) -> Any:
    """The integrand at the end of the tail."""
    return product(g, gamma_density(a, x) * (log_or_zero(x) - special.psi(a)) ** order * side)


GAMMA_MOMENT = elementwise(
    log_moments.gamma_moment,
    _gamma_moment_by_a,
    _gamma_moment_by_x,
    None,
    names=("a", "x", "side"),
    operator=lambda a, x, side, *, order: log_moments.gamma_moment(a, x, side, order, _gamma_spec(a, x).dtype),
    spec=lambda a, x, side, *, order: _shaped(_gamma_spec(a, x), side),
    doc="dM_k = (M_(k+1) - k psi'(a) M_(k-1)) da + the integrand at x dx",
    samples=lambda array: [
        ((array(low=0.6, high=3.0), array(low=0.5, high=4.0), 1), {"order": 1}),
        ((array(3, low=0.6, high=3.0), array(3, low=0.5, high=4.0), -1), {"order": 1}),
        ((array(2, 1, low=0.6, high=3.0), array(3, low=0.5, high=4.0), np.array([1, -1, 1])), {"order": 2}),
        ((array(0, low=0.6, high=3.0), array(low=0.5, high=4.0), 1), {"order": 1}),
    ],
    complex=False,
    internal=True,
)


def _shaped(spec: ArraySpec, side: Any) -> ArraySpec:
    return ArraySpec(np.broadcast_shapes(spec.shape, shape_of(side)), spec.dtype)


def _beta_moment(a: Any, b: Any, x: Any, side: Any, order_a: int, order_b: int) -> Any:
    """The moment of two orders; orders 0, 0 are the incomplete integral."""
    if order_a < 0 or order_b < 0:
        return 0.0  # its factor is zero
    if order_a == order_b == 0:
        return np.where(side > 0, special.betainc(a, b, x), special.betaincc(a, b, x))
    return BETA_MOMENT(a, b, x, side, order_a=order_a, order_b=order_b)


def _beta_moment_by_a(g: Any, a: Any, b: Any, x: Any, side: Any, order_a: int, order_b: int) -> Any:
    """`dM_jk/da = M_(j+1)k - j (psi'(a) - psi'(a+b)) M_(j-1)k + k psi'(a+b) M_j(k-1)`."""
    both = polygamma(a + b, order=1)
    first = _beta_moment(a, b, x, side, order_a - 1, order_b) * (both - polygamma(a, order=1)) * order_a
    second = _beta_moment(a, b, x, side, order_a, order_b - 1) * both * order_b
    return product(g, _beta_moment(a, b, x, side, order_a + 1, order_b) + first + second)


def _beta_moment_by_b(g: Any, a: Any, b: Any, x: Any, side: Any, order_a: int, order_b: int) -> Any:
    """As `_beta_moment_by_a`, with the two logarithms exchanged."""
    both = polygamma(a + b, order=1)
    first = _beta_moment(a, b, x, side, order_a - 1, order_b) * both * order_a
    second = _beta_moment(a, b, x, side, order_a, order_b - 1) * (both - polygamma(b, order=1)) * order_b
    return product(g, _beta_moment(a, b, x, side, order_a, order_b + 1) + first + second)


def _beta_moment_by_x(g: Any, a: Any, b: Any, x: Any, side: Any, order_a: int, order_b: int) -> Any:
    """The integrand at the end of the tail."""
    both = special.psi(a + b)
    left = (log_or_zero(x) - special.psi(a) + both) ** order_a
    right = (log_or_zero(1 - x) - special.psi(b) + both) ** order_b
    return product(g, beta_density(a, b, x) * left * right * side)


BETA_MOMENT = elementwise(
    log_moments.beta_moment,
    _beta_moment_by_a,
    _beta_moment_by_b,
    _beta_moment_by_x,
    None,
    names=("a", "b", "x", "side"),
    operator=lambda a, b, x, side, *, order_a, order_b: log_moments.beta_moment(
        a, b, x, side, order_a, order_b, _beta_spec(a, b, x).dtype
    ),
    spec=lambda a, b, x, side, *, order_a, order_b: _shaped(_beta_spec(a, b, x), side),
    doc="moments of higher order da and db, the integrand at x dx",
    samples=lambda array: (
        [
            ((array(low=0.6, high=3.0), array(low=0.6, high=3.0), array(low=0.15, high=0.85), side), orders)
            for side, orders in ((1, {"order_a": 1, "order_b": 0}), (-1, {"order_a": 0, "order_b": 1}))
        ]
        + [
            (
                (array(2, 1, low=0.6, high=3.0), array(low=0.6, high=3.0), array(3, low=0.15, high=0.85), np.array([1, -1, 1])),
                {"order_a": 2, "order_b": 1},
            ),
            ((array(0, low=0.6, high=3.0), 1.5, array(low=0.15, high=0.85), 1), {"order_a": 1, "order_b": 1}),
        ]
    ),
    complex=False,
    internal=True,
)


# Derivatives of the incomplete integrals


def gammainc_by_a(a: Any, x: Any) -> Any:
    """Return `dP(a, x)/da`: the first moment of `log t - psi(a)` over (0, x), or minus the first moment over (x, inf).

    Both are equal, because the sum of the two moments is zero. The function uses the tail in which the logarithm does not
    change its sign. For small a it uses `P(a, x) = P(a+1, x) + x^a exp(-x) / gamma(a+1)`.
    """
    small = (a < 1) & (x < 2)
    p = np.where(small, a + 1, a)
    mean = special.psi(p)
    side = np.where(x < np.exp(mean), 1, -1)
    rise = product(gamma_density(p, x), log_or_zero(x) - mean)
    return GAMMA_MOMENT(p, x, side, order=1) * side + np.where(small, rise, 0)


def betainc_by_a(a: Any, b: Any, x: Any) -> Any:
    """Return `dI_x(a, b)/da` in the same way.

    For small a it uses `I_x(a, b) = I_x(a+1, b) + x^a (1-x)^b / (a B(a, b))`; both terms decrease with a.
    """
    small = (a < 1) & (x < np.exp(special.psi(a + 1) - special.psi(a + b)))
    p = np.where(small, a + 1, a)
    side = np.where(x < np.exp(special.psi(p) - special.psi(p + b)), 1, -1)
    center = log_or_zero(x) - special.psi(p) + special.psi(a + b)
    rise = product(product(beta_density(p, b, x), 1 - x), center / (a + b))
    return BETA_MOMENT(p, b, x, side, order_a=1, order_b=0) * side + np.where(small, rise, 0)


def betainc_by_b(a: Any, b: Any, x: Any) -> Any:
    """Return `dI_x(a, b)/db`; for small b from `I_x(a, b) = I_x(a, b+1) - x^a (1-x)^b / (b B(a, b))`."""
    small = (b < 1) & (1 - x < np.exp(special.psi(b + 1) - special.psi(a + b)))
    q = np.where(small, b + 1, b)
    side = np.where(x < -np.expm1(special.psi(q) - special.psi(a + q)), 1, -1)
    center = log_or_zero(1 - x) - special.psi(q) + special.psi(a + b)
    rise = product(product(beta_density(a, q, x), x), center / (a + b))
    return BETA_MOMENT(a, q, x, side, order_a=0, order_b=1) * side - np.where(small, rise, 0)
