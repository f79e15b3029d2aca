"""Elliptic integrals of Legendre and Carlson, Jacobi's elliptic functions, the arithmetic-geometric mean.

The derivatives with respect to the parameter m have a removable singularity at m = 0; near 0 they are power series.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

from functad.primitives.safe import product
from functad.primitives.scipy_special.declaration import several_functions, special_function

_M = (-0.9, 0.9)
_POSITIVE = (0.5, 3.0)
_TERMS = 26
# (1/2)_n / n!, the coefficients of (1 - m)^(-1/2).
_BINOMIAL = [math.comb(2 * n, n) / 4.0**n for n in range(_TERMS)]


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """Return `sum c_k x^k`."""
    total: Any = coefficients[-1]
    for c in coefficients[-2::-1]:
        total = total * x + c
    return total


_K_SLOPE = [math.pi / 2 * n * _BINOMIAL[n] ** 2 for n in range(1, _TERMS)]
_E_SLOPE = [-math.pi / 2 * n * _BINOMIAL[n] ** 2 / (2 * n - 1) for n in range(1, _TERMS)]


def ellipk_slope(m: Any, p: Any) -> Any:
    """Return `dK/dm = (E - (1-m) K) / (2 m (1-m))` from m and p = 1 - m; a caller may know one of them more exactly."""
    near = np.absolute(m) < 0.15
    y, z = np.where(near, m, 0), np.where(near, 0.5, p)
    far = (special.ellipe(1 - z) - z * special.ellipkm1(z)) / ((1 - z) * z * 2)
    return np.where(near, _polynomial(y, _K_SLOPE), far)


def _ellipe_slope(m: Any) -> Any:
    near = np.absolute(m) < 0.15
    y, z = np.where(near, m, 0), np.where(near, 0.5, m)
    return np.where(near, _polynomial(y, _E_SLOPE), (special.ellipe(z) - special.ellipk(z)) / (z * 2))


special_function(
    "ellipk", lambda g, x: product(g, ellipk_slope(x, 1 - x)), arguments=[_M], doc="dK(m) = (E - (1-m) K) / (2m (1-m)) dm"
)
special_function(
    "ellipkm1", lambda g, x: -product(g, ellipk_slope(1 - x, x)), arguments=[(0.1, 1.9)], doc="dK(1-p) = -K'(1-p) dp"
)
special_function("ellipe", lambda g, x: product(g, _ellipe_slope(x)), arguments=[_M], doc="dE(m) = (E - K) / (2m) dm")

# Incomplete integrals


def _from_period(phi: Any) -> tuple[Any, Any, Any]:
    """Return the number of periods in an amplitude, and the sine and the squared cosine of the rest, between -pi/2 and pi/2."""
    periods = np.rint(phi / math.pi)
    rest = phi - periods * math.pi
    return periods, np.sin(rest), np.cos(rest) ** 2


def ellipkinc_by_parameter(phi: Any, m: Any) -> Any:
    """Return `dF/dm`, half the integral of `sin^2 / (1 - m sin^2)^(3/2)`: `s^3 R_D(c^2, 1, 1 - m s^2) / 6` up to pi/2.

    (B. Carlson, "Numerical computation of real or complex elliptic integrals", 1995.) Unlike the quotient with E and F it has
    no cancellation for small amplitudes, or where m is near 0 or 1.
    """
    periods, s, square = _from_period(phi)
    inner = s**3 * special.elliprd(square, 1.0, square + (1 - m) * s**2) / 6
    return inner + product(2 * periods, ellipk_slope(m, 1 - m))


def _ellipeinc_by_parameter(phi: Any, m: Any) -> Any:
    """Return `dE/dm`, minus half the integral of `sin^2 / sqrt(1 - m sin^2)`: `-s^3 R_D(c^2, 1 - m s^2, 1) / 6` likewise."""
    periods, s, square = _from_period(phi)
    inner = s**3 * special.elliprd(square, square + (1 - m) * s**2, 1.0) / -6
    return inner + product(2 * periods, _ellipe_slope(m))


special_function(
    "ellipkinc",
    lambda g, x, y: product(g, 1 / np.sqrt(1 - y * np.sin(x) ** 2)),
    lambda g, x, y: product(g, ellipkinc_by_parameter(x, y)),
    arguments=[(-1.5, 1.5), (-0.8, 0.8)],
    doc="dF(phi, m) = d phi / s + (E/(2m(1-m)) - F/(2m) - sin(2 phi)/(4(1-m)s)) dm, s = sqrt(1 - m sin(phi)^2)",
)
special_function(
    "ellipeinc",
    lambda g, x, y: product(g, np.sqrt(1 - y * np.sin(x) ** 2)),
    lambda g, x, y: product(g, _ellipeinc_by_parameter(x, y)),
    arguments=[(-1.5, 1.5), (-0.8, 0.8)],
    doc="dE(phi, m) = sqrt(1 - m sin(phi)^2) d phi + (E - F) / (2m) dm",
)


def _jacobi_by_parameter(x: Any, y: Any, out: Any) -> tuple[Any, ...]:
    """The derivatives with respect to m, from the amplitude: `F(phi, m) = u` gives `d phi/dm = -dn dF/dm`."""
    sn, cn, dn, phi = out
    slope = -dn * ellipkinc_by_parameter(phi, y)
    return cn * slope, -sn * slope, -(sn * sn + 2 * y * sn * cn * slope) / (2 * dn), slope


several_functions(
    "ellipj",
    lambda y, out: (out[1] * out[2], -out[0] * out[2], -y * out[0] * out[1], out[2]),
    _jacobi_by_parameter,
    arguments=[(-1.5, 1.5), (0.05, 0.8)],
    doc="by u: cn dn, -sn dn, -m sn cn, dn; by m through the amplitude, d phi/dm = -dn dF(phi, m)/dm",
)

# The arithmetic-geometric mean: pi/4 (a + b) / K(((a - b) / (a + b))^2)


def _agm_slope(a: Any, b: Any, out: Any) -> Any:
    """Return the derivative with respect to a."""
    total = a + b
    ratio = (a - b) / total
    p = 4 * a * b / (total * total)
    # K from the result: pi/4 (a + b) / out.
    return out / total - out * out * ellipk_slope(ratio * ratio, p) * ratio * b / (total * total * total) * (16 / math.pi)


special_function(
    "agm",
    lambda g, x, y, out: product(g, _agm_slope(x, y, out)),
    lambda g, x, y, out: product(g, _agm_slope(y, x, out)),
    arguments=[_POSITIVE, _POSITIVE],
    doc="by agm(a, b) = pi/4 (a + b) / K(((a - b) / (a + b))^2)",
)

# Carlson's symmetric integrals


_ARCTANGENT = [(-1.0) ** n / (2 * n + 1) for n in range(_TERMS)]
_ARCTANGENT_SLOPE = [n * c for n, c in enumerate(_ARCTANGENT)][1:]


def _elliprc_slopes(x: Any, y: Any, out: Any) -> tuple[Any, Any]:
    """Return both derivatives of `R_C = S(r) / sqrt(x)`, `r = y/x - 1`, `S(r) = arctan(sqrt(r)) / sqrt(r)`.

    Near r = 0, where the closed form is 0 / 0, the function uses the power series of S.
    """
    root = np.sqrt(x)
    near = np.absolute(y / x - 1) < 0.15
    r = np.where(near, y / x - 1, 0)
    slope = _polynomial(r, _ARCTANGENT_SLOPE) / (x * root)
    twice = np.where(near, 1, (y - x) * 2)
    by_x = np.where(near, -out / (2 * x) - slope * y / x, (out - 1 / root) / twice)
    return by_x, np.where(near, slope, (root / y - out) / twice)


_DUPLICATIONS = 14


def _duplicated(x: Any, y: Any, z: Any, p: Any) -> tuple[Any, ...]:
    """Return the arguments after one step of the duplication theorem, and the derivative of the added term to x."""
    rx, ry, rz = np.sqrt(x), np.sqrt(y), np.sqrt(z)
    added = rx * ry + ry * rz + rz * rx
    return x + added, y + added, z + added, p + added, (ry + rz) / (2 * rx)


def _elliprd_slope(x: Any, y: Any, z: Any) -> Any:
    """Return the derivative of `R_D(x, y, z)` with respect to x, without cancellation: all terms have the same sign.

    The function differentiates the duplication theorem, `R_D = 2 R_D(x', y', z') + 3 / (sqrt(z) z')` (DLMF 19.26.20). The sum
    of the derivatives with respect to x', y' and z' is the integrand, `-3/2 / (sqrt(x' y') z'^(3/2))`. After the last step the
    arguments are nearly equal.
    """
    total, factor = 0.0, 1.0
    for _ in range(_DUPLICATIONS):
        root = np.sqrt(z)
        x, y, z, _, slope = _duplicated(x, y, z, z)
        total = total - (3 * factor) * slope * (1 / (np.sqrt(x) * np.sqrt(y) * z * np.sqrt(z)) + 1 / (root * z * z))
        factor *= 2
    mean = (3 * x + y + 3 * z) / 7
    return total - 0.3 * factor / (mean * mean * np.sqrt(mean))


def _elliprd_slope_last(x: Any, y: Any, z: Any, out: Any) -> Any:
    """The derivative with respect to z: R_D is homogeneous of degree -3/2."""
    return -(1.5 * out + product(x, _elliprd_slope(x, y, z)) + product(y, _elliprd_slope(y, x, z))) / z


def _turned(x: Any, y: Any, z: Any, count: int) -> list[tuple[Any, Any, Any]]:
    """Return the first `count` cyclic permutations of x, y, z."""
    return [(x, y, z), (y, z, x), (z, x, y)][:count]


def _elliprj_slopes(x: Any, y: Any, z: Any, p: Any, out: Any, count: int) -> list[Any]:
    """Return the derivatives of `R_J(x, y, z, p)` with respect to the first `count` of x, y, z.

    The derivative of a principal value (p <= 0) with respect to x is `(R_J - R_D(y, z, x)) / (2 (p - x))`.
    Otherwise the method is the same as for R_D, with `R_J = 2 R_J(x', y', z', p') + 3 R_C(a^2, b^2)` (DLMF 19.26.18),
    `b = sqrt(p) p'` and `a = p (sqrt(x) + sqrt(y) + sqrt(z)) + sqrt(x y z)`.
    """
    principal = np.real(p) > 0
    far = [(out - special.elliprd(s, t, r)) / np.where(principal, 1, 2 * (p - r)) for r, s, t in _turned(x, y, z, count)]
    p = np.where(principal, p, 1)
    totals, factor = [0.0] * count, 1.0
    for _ in range(_DUPLICATIONS):
        rx, ry, rz, rp = np.sqrt(x), np.sqrt(y), np.sqrt(z), np.sqrt(p)
        a, before = p * (rx + ry + rz) + rx * ry * rz, p
        x, y, z, p, _ = _duplicated(x, y, z, p)
        b = rp * p
        first, second = _elliprc_slopes(a * a, b * b, special.elliprc(a * a, b * b))
        whole = np.sqrt(x) * np.sqrt(y) * np.sqrt(z) * p
        for i, (r, s, t) in enumerate(_turned(rx, ry, rz, count)):
            by_one, slope = (before + s * t) / (2 * r), (s + t) / (2 * r)
            totals[i] = totals[i] + (3 * factor) * (2 * (first * a * by_one + second * b * rp * slope) - slope / whole)
        factor *= 2
    means = [(3 * r + s + t + 2 * p) / 7 for r, s, t in _turned(x, y, z, count)]
    near = [total - 0.3 * factor / (mean * mean * np.sqrt(mean)) for total, mean in zip(totals, means, strict=True)]
    return [np.where(principal, *both) for both in zip(near, far, strict=True)]


def _elliprj_slope(x: Any, y: Any, z: Any, p: Any, out: Any) -> Any:
    """Return the derivative with respect to x."""
    return _elliprj_slopes(x, y, z, p, out, 1)[0]


def _elliprj_slope_last(x: Any, y: Any, z: Any, p: Any, out: Any) -> Any:
    """The derivative with respect to p: R_J is homogeneous of degree -3/2."""
    slopes = _elliprj_slopes(x, y, z, p, out, 3)
    return -(1.5 * out + product(x, slopes[0]) + product(y, slopes[1]) + product(z, slopes[2])) / p


special_function(
    "elliprf",
    lambda g, x, y, z: product(g, special.elliprd(y, z, x)) / -6,
    lambda g, x, y, z: product(g, special.elliprd(x, z, y)) / -6,
    lambda g, x, y, z: product(g, special.elliprd(x, y, z)) / -6,
    arguments=[_POSITIVE, _POSITIVE, _POSITIVE],
    complex=True,
    doc="dR_F(x, y, z) = -R_D(y, z, x) / 6 dx, and likewise",
)
special_function(
    "elliprg",
    lambda g, x, y, z: product(g, special.elliprf(x, y, z) - product(x, special.elliprd(y, z, x)) / 3) / 4,
    lambda g, x, y, z: product(g, special.elliprf(x, y, z) - product(y, special.elliprd(x, z, y)) / 3) / 4,
    lambda g, x, y, z: product(g, special.elliprf(x, y, z) - product(z, special.elliprd(x, y, z)) / 3) / 4,
    arguments=[_POSITIVE, _POSITIVE, _POSITIVE],
    complex=True,
    doc="dR_G(x, y, z) = (R_F - x R_D(y, z, x) / 3) / 4 dx, and likewise",
)
special_function(
    "elliprc",
    lambda g, x, y, out: product(g, _elliprc_slopes(x, y, out)[0]),
    lambda g, x, y, out: product(g, _elliprc_slopes(x, y, out)[1]),
    arguments=[_POSITIVE, _POSITIVE],
    complex=True,
    doc="dR_C(x, y) = (R_C - 1/sqrt(x)) / (2 (y - x)) dx + (R_C - sqrt(x)/y) / (2 (x - y)) dy",
)
special_function(
    "elliprd",
    lambda g, x, y, z: product(g, _elliprd_slope(x, y, z)),
    lambda g, x, y, z: product(g, _elliprd_slope(y, x, z)),
    lambda g, x, y, z, out: product(g, _elliprd_slope_last(x, y, z, out)),
    arguments=[(0.2, 0.6), (1.0, 1.4), (2.0, 3.0)],
    complex=True,
    doc="by x: (R_D(y, z, x) - R_D) / (2 (x - z)), summed by duplication; by z from homogeneity",
)
special_function(
    "elliprj",
    lambda g, x, y, z, p, out: product(g, _elliprj_slope(x, y, z, p, out)),
    lambda g, x, y, z, p, out: product(g, _elliprj_slope(y, z, x, p, out)),
    lambda g, x, y, z, p, out: product(g, _elliprj_slope(z, x, y, p, out)),
    lambda g, x, y, z, p, out: product(g, _elliprj_slope_last(x, y, z, p, out)),
    arguments=[(0.2, 0.6), (0.8, 1.1), (1.4, 1.7), (2.3, 3.0)],
    names=("x", "y", "z", "p"),
    complex=True,
    doc="by x: (R_J - R_D(y, z, x)) / (2 (p - x)), summed by duplication; by p from homogeneity",
)
