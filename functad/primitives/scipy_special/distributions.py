"""Distribution functions of statistics with their complements and inverses, differentiated in their continuous variables.

All are incomplete gamma or beta functions of transformed arguments; the derivative is the density. Counts and degrees of
freedom are parameters, in which there is no closed form.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from functad.primitives.primitive import Rule
from functad.primitives.safe import product, quotient
from functad.primitives.scipy_special.declaration import special_function, unknown
from functad.primitives.scipy_special.incomplete import beta_density, gamma_density

_UNIT = (0.15, 0.85)
_POSITIVE = (0.5, 3.0)
_COUNTS = [2, 0, 1]
_TRIALS = [np.int64(5), np.int64(4), np.int64(6)]  # SciPy warns of a Python number among float32
_FREEDOM = [2.5, 4.0, 3.0]
_MORE_FREEDOM = [3.0, 5.0, 2.5]


def _enter(name: str, parameters: str, density: Any, arguments: Any, doc: str, *, complement: bool = False) -> None:
    """Enter a distribution function of parameters and a variable, or its complement.

    Args:
        name: of the function.
        parameters: one parameter or two.
        density: `density(*parameters, x)`, the derivative.
        arguments: where samples are drawn from.
        doc: the density.
        complement: the function is one minus that of the density.
    """
    sign = -1 if complement else 1
    one: Rule = lambda g, a, x: product(g, density(a, x)) * sign  # noqa: E731 - the signature says what is read
    two: Rule = lambda g, a, b, x: product(g, density(a, b, x)) * sign  # noqa: E731
    _enter_rule(name, parameters, one, two, arguments, f"{'minus ' if complement else ''}{doc} dx")


def _enter_inverse(name: str, parameters: str, density: Any, arguments: Any, doc: str, *, complement: bool = False) -> None:
    """Enter the inverse of such a function in its variable."""
    sign = -1 if complement else 1
    one: Rule = lambda g, a, out: quotient(g, density(a, out)) * sign  # noqa: E731
    two: Rule = lambda g, a, b, out: quotient(g, density(a, b, out)) * sign  # noqa: E731
    _enter_rule(name, parameters, one, two, arguments, f"the inverse in x: dy / ({'minus ' if complement else ''}{doc})")


def _enter_rule(name: str, parameters: str, one: Rule, two: Rule, arguments: Any, doc: str) -> None:
    named = parameters.split()
    special_function(
        name,
        *[unknown(name, parameter) for parameter in named],
        one if len(named) == 1 else two,
        arguments=arguments,
        names=("a", "x") if len(named) == 1 else ("a", "b", "x"),
        doc=doc,
    )


def _binomial_density(k: Any, n: Any, p: Any) -> Any:
    return -beta_density(k + 1, n - k, p)


def _negative_binomial_density(k: Any, n: Any, p: Any) -> Any:
    return beta_density(n, k + 1, p)


def _chi_square_density(v: Any, x: Any) -> Any:
    return gamma_density(v / 2, x / 2) / 2


def _poisson_density(k: Any, m: Any) -> Any:
    return -gamma_density(k + 1, m)


def _f_density(dfn: Any, dfd: Any, x: Any) -> Any:
    """The beta density at `u = dfn x / (dfd + dfn x)` times `du/dx`."""
    whole = dfd + dfn * x
    return beta_density(dfn / 2, dfd / 2, dfn * x / whole) * (dfn * dfd / (whole * whole))


def _student_density(v: Any, t: Any) -> Any:
    return np.exp(np.log1p(t * t / v) * (-(v + 1) / 2) - special.betaln(0.5, v / 2)) / np.sqrt(v)


for _names, _parameters, _density, _arguments, _doc in (
    (
        "bdtr bdtrc bdtri",
        "k n",
        _binomial_density,
        [[np.int64(2), np.int64(0)], _TRIALS, _UNIT],
        "(-p^k (1-p)^(n-k-1) / B(k+1, n-k))",
    ),
    (
        "nbdtr nbdtrc nbdtri",
        "k n",
        _negative_binomial_density,
        [_COUNTS, _TRIALS, _UNIT],
        "p^(n-1) (1-p)^k / B(n, k+1)",
    ),
    ("fdtr fdtrc fdtri", "dfn dfd", _f_density, [_FREEDOM, _MORE_FREEDOM, _POSITIVE], "the density of F"),
    ("pdtr pdtrc pdtri", "k", _poisson_density, [_COUNTS, _POSITIVE], "(-m^k exp(-m) / k!)"),
    ("chdtr chdtrc chdtri", "v", _chi_square_density, [_FREEDOM, _POSITIVE], "the density of chi squared"),
    ("stdtr - stdtrit", "df", _student_density, [_FREEDOM, (-2.0, 2.0)], "the density of t"),
):
    _function, _complement, _inverse = _names.split()
    _enter(_function, _parameters, _density, _arguments, _doc)
    _enter(_complement, _parameters, _density, _arguments, _doc, complement=True)
    _enter_inverse(
        _inverse, _parameters, _density, [*_arguments[:-1], _UNIT], _doc, complement=_inverse == "chdtri"
    )  # fmt: skip

# The gamma distribution, with a rate

special_function(
    "gdtr",
    lambda g, a, b, x: product(g, gamma_density(b, a * x) * x),
    unknown("gdtr", "b"),
    lambda g, a, b, x: product(g, gamma_density(b, a * x) * a),
    arguments=[_POSITIVE, _FREEDOM, _POSITIVE],
    names=("a", "b", "x"),
    doc="f(b, a x) (x da + a dx) with f(b, u) = u^(b-1) exp(-u) / gamma(b)",
)
special_function(
    "gdtrc",
    lambda g, a, b, x: -product(g, gamma_density(b, a * x) * x),
    unknown("gdtrc", "b"),
    lambda g, a, b, x: -product(g, gamma_density(b, a * x) * a),
    arguments=[_POSITIVE, _FREEDOM, _POSITIVE],
    names=("a", "b", "x"),
    doc="-f(b, a x) (x da + a dx) with f(b, u) = u^(b-1) exp(-u) / gamma(b)",
)
special_function(
    "gdtria",
    lambda g, p, b, x, out: quotient(g, gamma_density(b, out * x) * x),
    unknown("gdtria", "b"),
    lambda g, x, out: -product(g, out / x),
    arguments=[_UNIT, _FREEDOM, _POSITIVE],
    names=("p", "b", "x"),
    doc="the inverse of gdtr in a: da = dp / (x f(b, a x)) - a/x dx",
)
special_function(
    "gdtrix",
    lambda g, a, out: -product(g, out / a),
    unknown("gdtrix", "b"),
    lambda g, a, b, out: quotient(g, gamma_density(b, a * out) * a),
    arguments=[_POSITIVE, _FREEDOM, _UNIT],
    names=("a", "b", "p"),
    doc="the inverse of gdtr in x: dx = dp / (a f(b, a x)) - x/a da",
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
