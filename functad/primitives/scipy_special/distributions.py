"""Distribution functions of statistics with their complements and inverses, differentiated in their continuous variables.

All are incomplete gamma or beta functions of transformed arguments; by the variable the derivative is the density. Degrees of
freedom and shapes are continuous too; counts are not.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from functad.primitives.entry import Rule
from functad.primitives.safe import product, quotient
from functad.primitives.scipy_special.declaration import special_function, unknown
from functad.primitives.scipy_special.densities import beta_density, betainc_by_a, betainc_by_b, gamma_density, gammainc_by_a

_UNIT = (0.15, 0.85)
_POSITIVE = (0.5, 3.0)
_COUNTS = [2, 0, 1]
_TRIALS = [np.int64(5), np.int64(4), np.int64(6)]  # SciPy warns of a Python number among float32
_FREEDOM = (1.5, 5.0)


def _enter(
    name: str, parameters: str, slopes: Any, density: Any, arguments: Any, doc: str, *, complement: bool = False
) -> None:
    """Enter a distribution function of parameters and a variable, or its complement.

    Args:
        name: of the function.
        parameters: one parameter or two.
        slopes: for each the derivative by it, `slope(*parameters, x)`; none if it is a count.
        density: `density(*parameters, x)`, the derivative by the variable.
        arguments: where samples are drawn from.
        doc: the density.
        complement: the function is one minus that of the density.
    """
    sign = -1 if complement else 1
    rules = [_forward(slope, sign, len(arguments)) for slope in (*slopes, density)]
    _enter_rules(name, parameters, rules, arguments, f"{'minus ' if complement else ''}{doc} dx")


def _forward(slope: Any, sign: int, count: int) -> Rule:
    """Return the rule with a slope; its signature says what is read."""
    if count == 2:
        return lambda g, a, x: product(g, slope(a, x)) * sign
    return lambda g, a, b, x: product(g, slope(a, b, x)) * sign


def _enter_inverse(
    name: str, parameters: str, slopes: Any, density: Any, arguments: Any, doc: str, *, complement: bool = False
) -> None:
    """Enter the inverse of such a function in its variable: `dx = (dy - the slopes by parameters) / density`."""
    sign = -1 if complement else 1
    rules = [_backward(slope, density, len(arguments)) for slope in slopes]
    if len(arguments) == 2:
        rules.append(lambda g, a, out: quotient(g, density(a, out)) * sign)
    else:
        rules.append(lambda g, a, b, out: quotient(g, density(a, b, out)) * sign)
    _enter_rules(name, parameters, rules, arguments, f"the inverse in x: dy / ({'minus ' if complement else ''}{doc})")


def _backward(slope: Any, density: Any, count: int) -> Rule:
    if count == 2:
        return lambda g, a, out: -quotient(product(g, slope(a, out)), density(a, out))
    return lambda g, a, b, out: -quotient(product(g, slope(a, b, out)), density(a, b, out))


def _enter_rules(name: str, parameters: str, rules: list[Rule], arguments: Any, doc: str) -> None:
    """Enter the rules, of which those by counts are unknown."""
    named = parameters.split()
    continuous = len(rules) > 1
    special_function(
        name,
        *([] if continuous else [unknown(name, parameter, "It is a count") for parameter in named]),
        *rules,
        arguments=arguments,
        names=("a", "x") if len(named) == 1 else ("a", "b", "x"),
        doc=f"{doc}; by {', '.join(named)} an integral over a tail" if continuous else doc,
    )


def _counted(k: Any) -> Any:
    """Return the whole part of a count, which is all that SciPy looks at."""
    return k - k % 1


def _binomial_density(k: Any, n: Any, p: Any) -> Any:
    return -beta_density(_counted(k) + 1, _counted(n) - _counted(k), p)


def _negative_binomial_density(k: Any, n: Any, p: Any) -> Any:
    return beta_density(_counted(n), _counted(k) + 1, p)


def chi_square_density(v: Any, x: Any) -> Any:
    """Return the derivative of `chdtr` by x."""
    return gamma_density(v / 2, x / 2) / 2


def _poisson_density(k: Any, m: Any) -> Any:
    return -gamma_density(_counted(k) + 1, m)


def f_density(dfn: Any, dfd: Any, x: Any) -> Any:
    """Return the derivative of `fdtr` by x, the beta density at `u = dfn x / (dfd + dfn x)` times `du/dx`."""
    whole = dfd + dfn * x
    return beta_density(dfn / 2, dfd / 2, dfn * x / whole) * (dfn * dfd / (whole * whole))


def student_density(v: Any, t: Any) -> Any:
    """Return the derivative of `stdtr` by t."""
    return np.exp(np.log1p(t * t / v) * (-(v + 1) / 2) - special.betaln(0.5, v / 2)) / np.sqrt(v)


def chi_square_by_freedom(v: Any, x: Any) -> Any:
    """Return the derivative of `chdtr` by v."""
    return gammainc_by_a(v / 2, x / 2) / 2


def _beta_slope(a: Any, b: Any, x: Any, y: Any) -> Any:
    """Return the derivative of `I_x(a, b)` by a for `y = 1 - x`, by the smaller of the two, which is the more exact."""
    below = x < 0.5
    return np.where(below, betainc_by_a(a, b, np.where(below, x, 0.25)), -betainc_by_b(b, a, np.where(below, 0.25, y)))


def f_by_numerator(dfn: Any, dfd: Any, x: Any) -> Any:
    """Return the derivative of `fdtr` by dfn: that of the incomplete beta function, and the density times `x / dfn`.

    For u is a function of `dfn x / dfd`.
    """
    whole = dfd + dfn * x
    slope = _beta_slope(dfn / 2, dfd / 2, dfn * x / whole, dfd / whole)
    return slope / 2 + f_density(dfn, dfd, x) * x / dfn


def f_by_denominator(dfn: Any, dfd: Any, x: Any) -> Any:
    """Return the derivative of `fdtr` by dfd, likewise."""
    whole = dfd + dfn * x
    slope = _beta_slope(dfd / 2, dfn / 2, dfd / whole, dfn * x / whole)
    return slope / -2 - f_density(dfn, dfd, x) * x / dfd


def student_by_freedom(v: Any, t: Any) -> Any:
    """Return the derivative of `stdtr` by df, which is `1 - I_u(v/2, 1/2) / 2` with `u = v / (v + t^2)` for t > 0.

    The incomplete beta function has a root of `1 - u` at t = 0; a distance that no sum notices keeps its slope finite there.
    """
    square = (t + (t == 0) * 1e-18) ** 2
    slope = _beta_slope(v / 2, 0.5, v / (v + square), square / (v + square))
    return np.where(t < 0, slope, -slope) / 4 - student_density(v, t) * t / (2 * v)


for _names, _parameters, _slopes, _density, _arguments, _doc in (
    (
        "bdtr bdtrc bdtri",
        "k n",
        (),
        _binomial_density,
        [[np.int64(2), np.int64(0)], _TRIALS, _UNIT],
        "(-p^k (1-p)^(n-k-1) / B(k+1, n-k))",
    ),
    (
        "nbdtr nbdtrc nbdtri",
        "k n",
        (),
        _negative_binomial_density,
        [_COUNTS, _TRIALS, _UNIT],
        "p^(n-1) (1-p)^k / B(n, k+1)",
    ),
    (
        "fdtr fdtrc fdtri",
        "dfn dfd",
        (f_by_numerator, f_by_denominator),
        f_density,
        [_FREEDOM, _FREEDOM, _POSITIVE],
        "the density of F",
    ),
    ("pdtr pdtrc pdtri", "k", (), _poisson_density, [_COUNTS, _POSITIVE], "(-m^k exp(-m) / k!)"),
    (
        "chdtr chdtrc chdtri",
        "v",
        (chi_square_by_freedom,),
        chi_square_density,
        [_FREEDOM, _POSITIVE],
        "the density of chi squared",
    ),
    ("stdtr - stdtrit", "df", (student_by_freedom,), student_density, [_FREEDOM, (-2.0, 2.0)], "the density of t"),
):
    _function, _complement, _inverse = _names.split()
    _enter(_function, _parameters, _slopes, _density, _arguments, _doc)
    _enter(_complement, _parameters, _slopes, _density, _arguments, _doc, complement=True)
    _enter_inverse(
        _inverse, _parameters, _slopes, _density, [*_arguments[:-1], _UNIT], _doc, complement=_inverse == "chdtri"
    )  # fmt: skip

# The gamma distribution, with a rate

special_function(
    "gdtr",
    lambda g, a, b, x: product(g, gamma_density(b, a * x) * x),
    lambda g, a, b, x: product(g, gammainc_by_a(b, a * x)),
    lambda g, a, b, x: product(g, gamma_density(b, a * x) * a),
    arguments=[_POSITIVE, _FREEDOM, _POSITIVE],
    names=("a", "b", "x"),
    doc="f(b, a x) (x da + a dx) + dP(b, a x)/db db with f(b, u) = u^(b-1) exp(-u) / gamma(b)",
)
special_function(
    "gdtrc",
    lambda g, a, b, x: -product(g, gamma_density(b, a * x) * x),
    lambda g, a, b, x: -product(g, gammainc_by_a(b, a * x)),
    lambda g, a, b, x: -product(g, gamma_density(b, a * x) * a),
    arguments=[_POSITIVE, _FREEDOM, _POSITIVE],
    names=("a", "b", "x"),
    doc="-f(b, a x) (x da + a dx) - dP(b, a x)/db db with f(b, u) = u^(b-1) exp(-u) / gamma(b)",
)
special_function(
    "gdtria",
    lambda g, p, b, x, out: quotient(g, gamma_density(b, out * x) * x),
    lambda g, b, x, out: -quotient(product(g, gammainc_by_a(b, out * x)), gamma_density(b, out * x) * x),
    lambda g, x, out: -product(g, out / x),
    arguments=[_UNIT, _FREEDOM, _POSITIVE],
    names=("p", "b", "x"),
    doc="the inverse of gdtr in a: da = (dp - dP/db db) / (x f(b, a x)) - a/x dx",
)
special_function(
    "gdtrix",
    lambda g, a, out: -product(g, out / a),
    lambda g, a, b, out: -quotient(product(g, gammainc_by_a(b, a * out)), gamma_density(b, a * out) * a),
    lambda g, a, b, out: quotient(g, gamma_density(b, a * out) * a),
    arguments=[_POSITIVE, _FREEDOM, _UNIT],
    names=("a", "b", "p"),
    doc="the inverse of gdtr in x: dx = (dp - dP/db db) / (a f(b, a x)) - x/a da",
)

# The normal distribution with mean and standard deviation: x = mean + std ndtri(p)


def _quantile_slope(p: Any) -> Any:
    """Return the derivative of `ndtri`."""
    z = special.ndtri(p)
    return np.exp(z * z / 2) * math.sqrt(2 * math.pi)


special_function(
    "nrdtrimn",
    lambda g, x, y: -product(g, y * _quantile_slope(x)),
    lambda g, x: -product(g, special.ndtri(x)),
    lambda g: g,
    arguments=[_UNIT, _POSITIVE, (-2.0, 2.0)],
    doc="mean = x - std ndtri(p)",
)
special_function(
    "nrdtrisd",
    lambda g, y: -quotient(g, special.ndtri(y)),
    lambda g, y, out: -product(g, out * _quantile_slope(y) / special.ndtri(y)),
    lambda g, y: quotient(g, special.ndtri(y)),
    arguments=[(-2.0, -1.0), (0.6, 0.9), (0.5, 2.0)],
    doc="std = (x - mean) / ndtri(p)",
)

# Kolmogorov's distribution


def _kolmogorov_slope(x: Any) -> Any:
    """The derivative of `2 sum (-1)^(k-1) exp(-2 k^2 x^2)`; for small x of its other form by Poisson summation.

    That is `1 - sqrt(2 pi) / x sum exp(-c / x^2)` with `c = ((2k-1) pi)^2 / 8`.
    """
    small = x < 0.8
    y, z = np.where(small, x, 0.5), np.where(small, 1.0, x)
    square = y * y
    left: Any = 0.0
    right: Any = 0.0
    for k in range(1, 7):
        c = ((2 * k - 1) * math.pi) ** 2 / 8
        left = left + np.exp(-c / square) * (1 - 2 * c / square) / square
        right = right + (-1) ** k * k * k * np.exp(z * z * (-2 * k * k))
    return np.where(small, left * math.sqrt(2 * math.pi), right * z * 8)


special_function(
    "kolmogorov",
    lambda g, x: product(g, _kolmogorov_slope(x)),
    arguments=[(0.4, 1.6)],
    doc="-8x sum (-1)^(k-1) k^2 exp(-2 k^2 x^2) dx",
)
special_function(
    "kolmogi",
    lambda g, out: quotient(g, _kolmogorov_slope(out)),
    arguments=[_UNIT],
    doc="the inverse of kolmogorov: dx = dp / kolmogorov'(x)",
)
