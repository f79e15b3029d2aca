"""Error functions, normal distribution, Dawson, Faddeeva and Voigt functions, Fresnel integrals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from functad.expressions.spec import dtype_of
from functad.primitives.entry import Primitive
from functad.primitives.kinds import elementwise, ufunc_spec
from functad.primitives.safe import product
from functad.primitives.scipy_special.declaration import find_ufunc, several_functions, special_function

_TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)
_SQRT_2 = math.sqrt(2.0)
_SQRT_2_PI = math.sqrt(2 * math.pi)
_REAL = (-2.0, 2.0)

# Derivatives of functions with f'(x) = s x f + c; the two terms cancel for large x.


def _from_equation(f: Any, x: Any, slope: float, constant: complex, order: int) -> Any:
    """Return the derivative of an order of `f` with `f' = s x f + c`, from `f^(k+1) = s (x f^(k) + k f^(k-1))`."""
    before, now = f, slope * x * f + constant
    for k in range(1, order):
        before, now = now, slope * (x * now + k * before)
    return now


def _from_series(x: Any, slope: float, constant: complex, order: int) -> Any:
    """Return the derivative of an order of the asymptotic series `f = sum a_m x^-(2m+1)`.

    The coefficients follow from the equation `f' = s x f + c`: `a_0 = -c / s` and `a_(m+1) = -(2m + 1) a_m / s`.
    """
    total: Any = 0.0
    a = -constant / slope
    for m in range(18):
        factor = (-1) ** order * math.factorial(2 * m + order) / math.factorial(2 * m)
        total = total + factor * a * x ** -(2 * m + 1.0 + order)
        a *= -(2 * m + 1) / slope
    return total


def _derivatives(
    function: Any, slope: float, constant: complex, far: Callable[[Any], Any], name: str, kind: complex = 1.0
) -> Primitive:
    """Return the primitive of the derivatives, by order, of a function with `f' = s x f + c`.

    `far(x)` is a mask of the arguments at which the series is exact; `kind` multiplies the samples.
    """

    def compute(x: Any, *, order: int) -> Any:
        out = function(x)
        wide = np.positive(x, dtype=np.complex128 if dtype_of(x).kind == "c" else np.float64)
        distant = far(wide)
        near = np.where(distant, 1.0, wide)
        result = _from_equation(function(near), near, slope, constant, order)
        if np.any(distant):
            result = np.where(distant, _from_series(np.where(distant, wide, 9.0), slope, constant, order), result)
        return result.astype(out.dtype)[()]

    like = ufunc_spec(function, keeps_weak=False)
    entry: Primitive = elementwise(
        compute,
        lambda g, x, order: product(g, entry(x, order=order + 1)),
        spec=lambda x, order: like(x),
        samples=lambda array: (
            [((array(3) * kind,), {"order": k}) for k in (1, 2)] + [((array(2, low=8, high=12) * kind,), {"order": 1})]
        ),
        internal=True,
        doc=f"the derivative of {function.__name__} of the next order",
        name=name,
    )
    return entry


ERFCX_DERIVATIVE = _derivatives(
    find_ufunc("erfcx"),
    2.0,
    -_TWO_OVER_SQRT_PI,
    lambda x: (np.absolute(x) > 6.5) & (x.real > -np.absolute(x.imag)) if x.dtype.kind == "c" else x > 6.5,
    "erfcx_derivative",
)
DAWSN_DERIVATIVE = _derivatives(
    special.dawsn,
    -2.0,
    1.0,
    lambda x: (np.absolute(x) > 6.5) & (x.real**2 - x.imag**2 > 40),
    "dawsn_derivative",
)
WOFZ_DERIVATIVE = _derivatives(
    special.wofz,
    -2.0,
    1j * _TWO_OVER_SQRT_PI,
    lambda x: (np.absolute(x) > 6.5) & (x.imag > -np.absolute(x.real) / 2),
    "wofz_derivative",
    kind=1 + 0j,  # the result is always complex
)


special_function(
    "erf",
    lambda g, x: product(g, np.exp(-(x * x))) * _TWO_OVER_SQRT_PI,
    arguments=[_REAL],
    complex=True,
    doc="d erf(x) = 2/sqrt(pi) exp(-x^2) dx",
)
special_function(
    "erfc",
    lambda g, x: product(g, np.exp(-(x * x))) * -_TWO_OVER_SQRT_PI,
    arguments=[_REAL],
    complex=True,
    doc="d erfc(x) = -2/sqrt(pi) exp(-x^2) dx",
)
special_function(
    "erfi",
    lambda g, x: product(g, np.exp(x * x)) * _TWO_OVER_SQRT_PI,
    arguments=[_REAL],
    complex=True,
    doc="d erfi(x) = 2/sqrt(pi) exp(x^2) dx",
)
special_function(
    "erfcx",
    lambda g, x: product(g, ERFCX_DERIVATIVE(x, order=1)),
    arguments=[_REAL],
    complex=True,
    doc="d erfcx(x) = (2 x erfcx(x) - 2/sqrt(pi)) dx; for large x by the asymptotic series, where these cancel",
)
special_function(
    "dawsn",
    lambda g, x: product(g, DAWSN_DERIVATIVE(x, order=1)),
    arguments=[_REAL],
    complex=True,
    doc="d dawsn(x) = (1 - 2 x dawsn(x)) dx; for large x by the asymptotic series, where these cancel",
)
special_function(
    "wofz",
    lambda g, x: product(g, WOFZ_DERIVATIVE(x + 0j, order=1)),
    arguments=[_REAL],
    complex=True,
    doc="d wofz(x) = (2i/sqrt(pi) - 2 x wofz(x)) dx; for large x by the asymptotic series, where these cancel",
)
special_function(
    "erfinv",
    lambda g, out: product(g, np.exp(product(out, out))) / _TWO_OVER_SQRT_PI,
    arguments=[(-0.9, 0.9)],
    doc="d erfinv(x) = sqrt(pi)/2 exp(erfinv(x)^2) dx",
)
special_function(
    "erfcinv",
    lambda g, out: product(g, np.exp(product(out, out))) / -_TWO_OVER_SQRT_PI,
    arguments=[(0.1, 1.9)],
    doc="d erfcinv(x) = -sqrt(pi)/2 exp(erfcinv(x)^2) dx",
    decomposition=lambda x: -special.ndtri(x / 2) / math.sqrt(2),
)
special_function(
    "ndtr",
    lambda g, x: product(g, np.exp(x * x * -0.5)) / _SQRT_2_PI,
    arguments=[_REAL],
    complex=True,
    doc="d ndtr(x) = exp(-x^2/2) / sqrt(2 pi) dx",
)
special_function(
    "log_ndtr",
    lambda g, x: product(g, 1 / special.erfcx(x / -_SQRT_2)) * (2 / _SQRT_2_PI),
    arguments=[_REAL],
    complex=True,
    doc="d log_ndtr(x) = sqrt(2/pi) / erfcx(-x / sqrt(2)) dx, which neither overflows nor cancels",
)
special_function(
    "ndtri",
    lambda g, out: product(g, np.exp(product(out, out) * 0.5)) * _SQRT_2_PI,
    arguments=[(0.05, 0.95)],
    doc="d ndtri(p) = sqrt(2 pi) exp(ndtri(p)^2 / 2) dp",
)
special_function(
    "ndtri_exp",
    lambda g, out: product(g, special.erfcx(out / -_SQRT_2)) * (_SQRT_2_PI / 2),
    arguments=[(-4.0, -0.2)],
    doc="d ndtri_exp(y) = sqrt(pi/2) erfcx(-ndtri_exp(y) / sqrt(2)) dy",
)
special_function(
    "owens_t",
    lambda g, x, y: product(g, np.exp(x * x * -0.5) * special.erf(x * y / _SQRT_2)) * (-0.5 / _SQRT_2_PI),
    lambda g, x, y: product(g, np.exp(x * x * (y * y + 1) * -0.5) / (y * y + 1)) * (0.5 / math.pi),
    arguments=[_REAL, _REAL],
    doc="dT(h, a) = -exp(-h^2/2) erf(a h / sqrt 2) / sqrt(8 pi) dh + exp(-h^2 (1+a^2)/2) / (2 pi (1+a^2)) da",
)


def _voigt(x: Any, sigma: Any, gamma: Any) -> tuple[Any, Any]:
    """Return `z = (x + i gamma) / (sigma sqrt 2)` and `w'(z) / (2 sigma^2 sqrt(pi))`; the profile is proportional to `Re w`."""
    z = (x + 1j * gamma) / (sigma * _SQRT_2)
    return z, WOFZ_DERIVATIVE(z, order=1) / (sigma * sigma * (2 * math.sqrt(math.pi)))


def _voigt_sigma(g: Any, x: Any, y: Any, z: Any, out: Any) -> Any:
    place, slope = _voigt(x, y, z)
    return product(g, -(out / y + (slope * place).real * _SQRT_2))


special_function(
    "voigt_profile",
    lambda g, x, y, z: product(g, _voigt(x, y, z)[1].real),
    _voigt_sigma,
    lambda g, x, y, z: -product(g, _voigt(x, y, z)[1].imag),
    arguments=[_REAL, (0.5, 2.0), (0.3, 2.0)],
    doc="by the Faddeeva function: V = Re w(z) / (sigma sqrt(2 pi)), z = (x + i gamma) / (sigma sqrt 2); sigma > 0",
)
several_functions(
    "fresnel",
    lambda x: (np.sin(x * x * (math.pi / 2)), np.cos(x * x * (math.pi / 2))),
    arguments=[_REAL],
    complex=True,
    doc="dS = sin(pi x^2 / 2) dx, dC = cos(pi x^2 / 2) dx",
)


# Modified Fresnel integrals (NIST Handbook of Mathematical Functions, 7.2.14), with `F' = -exp(+-i x^2)` by definition


def _enter_modified_fresnel(name: str, i: complex) -> None:
    several_functions(  # SciPy's F is not the integral for negative x
        name,
        lambda x, out: (-np.exp(i * (x * x)), -2 * i * x * out[1] - np.exp(-i * math.pi / 4) / math.sqrt(math.pi)),
        arguments=[(0.2, 2.0)],
        doc=f"dF = -exp({i.imag:+.0f}i x^2) dx, dK = ({-2 * i.imag:+.0f}i x K - exp({-i.imag:+.0f}i pi/4) / sqrt(pi)) dx",
    )


_enter_modified_fresnel("modfresnelp", 1j)
_enter_modified_fresnel("modfresnelm", -1j)
