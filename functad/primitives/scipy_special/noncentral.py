"""The noncentral distributions, chi squared, F and t, and their inverses.

The derivatives of chi squared and F with respect to the noncentrality and the variable have closed forms. All derivatives of t
are expectations of one form, integrated numerically. The inverses follow by the implicit function theorem. SciPy computes the
inverses of t for a parameter to 8 digits, and to fewer where the probability hardly depends on the parameter; the samples avoid
these arguments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from functad.primitives.kinds import elementwise, ufunc_spec
from functad.primitives.safe import product
from functad.primitives.scipy_special.declaration import special_function, unknown
from functad.primitives.scipy_special.densities import beta_density
from functad.primitives.scipy_special.distributions import chi_square_density, f_density
from functad.primitives.scipy_special.gamma import polygamma
from functad.primitives.scipy_special.inverses import Partials

_FREEDOM = (1.5, 5.0)
_POSITIVE = (0.5, 3.0)
_UNIT = (0.2, 0.8)
_ONE_TO_FOUR = [2.5, 1.5, 4.0]
_BLOCK = 1024
_MOST_NODES = 10_000


def _enter_unknown(name: str, parameters: str, why: str = "") -> None:
    """Enter an inverse without derivatives; default reason: no closed form of the derivative with respect to the parameter."""
    names = parameters.split()
    rules = [unknown(name, parameter, why) for parameter in names]
    doc = why or "not known: the derivative by the degrees of freedom has no closed form"
    special_function(name, *rules, arguments=[_ONE_TO_FOUR] * len(names), names=names, doc=doc)


# Chi squared


def chi_square_noncentral_density(x: Any, df: Any, nc: Any) -> Any:
    """Return the derivative of `chndtr` with respect to x: the density of chi squared times `exp(-nc/2) 0F1(; df/2; nc x/4)`.

    Source: Johnson, Kotz, Balakrishnan, Continuous Univariate Distributions 2, 29.4. Where 0F1 would overflow, the function
    uses the form `exp(-(x+nc)/2) (x/nc)^(df/4-1/2) I_(df/2-1)(sqrt(nc x)) / 2`.
    """
    large = nc * x > 4e4
    moderate = np.where(large, 0, nc)
    series = chi_square_density(df, x) * np.exp(moderate / -2) * special.hyp0f1(df / 2, moderate * x / 4)
    y, shift = np.where(large, x, 1), np.where(large, nc, 1)
    distance = np.sqrt(y) - np.sqrt(shift)
    order = df / 2 - 1
    bessel = np.exp(distance * distance / -2 + np.log(y / shift) * (order / 2)) * special.ive(order, np.sqrt(y * shift)) / 2
    return np.where(large, bessel, series)


# The derivative with respect to nc is `(P(x; df+2, nc) - P(x; df, nc)) / 2`, minus the density for `df + 2`.
_CHI_SQUARE = Partials(
    "chndtr(x, df, nc)",
    chi_square_noncentral_density,
    "",
    lambda x, df, nc: -chi_square_noncentral_density(x, df + 2, nc),
)
_CHI_SQUARE.enter([_POSITIVE, _ONE_TO_FOUR, _POSITIVE], "f(x; df, nc) dx - f(x; df+2, nc) dnc with f the density")
_CHI_SQUARE.invert("chndtrix", "x", [_UNIT, _ONE_TO_FOUR, _POSITIVE])
_CHI_SQUARE.invert("chndtrinc", "nc", [(5.0, 6.0), _ONE_TO_FOUR, (0.2, 0.5)], limit=1e99)
_enter_unknown("chndtridf", "x p nc")

# F: a sum of incomplete beta functions `I_y(dfn/2 + j, dfd/2)`, with Poisson weights of mean nc/2


def _confluent(a: Any, b: Any, x: Any) -> Any:
    """Return `1F1(a; b; x)`, or NaN for large arguments, where SciPy's series would take hours."""
    small = (np.abs(a) < 1e5) & (np.abs(b) < 1e5) & (np.abs(x) < 1e4)
    value = special.hyp1f1(np.where(small, a, 1), np.where(small, b, 1), np.where(small, x, 0))
    return np.where(small, value, np.nan)


def _f_noncentral_density(dfn: Any, dfd: Any, nc: Any, f: Any) -> Any:
    """Return the derivative of `ncfdtr` with respect to f: the density of F times `exp(-nc/2) 1F1((dfn+dfd)/2; dfn/2; nc y/2)`.

    `y = dfn f / (dfd + dfn f)` (Johnson, Kotz, Balakrishnan, 30.4).
    """
    y = dfn * f / (dfd + dfn * f)
    return f_density(dfn, dfd, f) * np.exp(nc / -2) * _confluent((dfn + dfd) / 2, dfn / 2, nc * y / 2)


def _f_by_nc(dfn: Any, dfd: Any, nc: Any, f: Any) -> Any:
    """Return the derivative of `ncfdtr` with respect to nc: half the sum of `I_y(a+j+1, b) - I_y(a+j, b)`, Poisson-weighted.

    `I_y(a+1, b) = I_y(a, b) - y^a (1-y)^b / (a B(a, b))`, so this sum is also a series of 1F1.
    """
    a, b = dfn / 2, dfd / 2
    whole = dfd + dfn * f
    y, rest = dfn * f / whole, dfd / whole
    terms = _confluent(a + b, a + 1, nc * y / 2) * np.exp(nc / -2)
    return beta_density(a, b, y) * (y * rest) / a * terms / -2


_F = Partials("ncfdtr(dfn, dfd, nc, f)", "", "", _f_by_nc, _f_noncentral_density)
_F.enter(
    [_ONE_TO_FOUR, _ONE_TO_FOUR, _POSITIVE, _POSITIVE],
    "the density df + a series dnc, both by 1F1, which overflows for nc > 1400",
)
_F.invert("ncfdtri", "f", [_ONE_TO_FOUR, _ONE_TO_FOUR, _POSITIVE, _UNIT])
_enter_unknown("ncfdtrinc", "dfn dfd p f", "SciPy finds the noncentrality to 4 digits only, which no difference confirms")
_enter_unknown("ncfdtridfn", "p dfd nc f")
_enter_unknown("ncfdtridfd", "dfn p nc f")

# t: the probability of `(Z + nc) / w <= t`, with Z normal and `df w^2` chi squared, is the mean of `Phi(t w - nc)`

_t_spec = ufunc_spec(special.nctdtr, keeps_weak=False)


def _score_constant(df: Any) -> Any:
    """The constant of the score, so that its mean is zero: `(log(df/2) + 1 - psi(df/2)) / 2`."""
    return (np.log(df / 2) + 1 - special.psi(df / 2)) / 2


def _expectation(df: Any, nc: Any, t: Any, order: int, power: int, scores: int) -> Any:
    """Return the mean of `Phi^(order)(t w - nc) w^power s^scores`.

    The score s is the derivative of the log density of w with respect to df: `s = log w - w^2/2 + c(df)`.
    """
    dtype, orders = _t_spec(df, nc, t).dtype, (order, power, scores)
    given = np.broadcast_arrays(*[np.asarray(v, np.float64) for v in (df, nc, t)])
    rows = [v.reshape(-1, 1) for v in given]
    parts = [
        _integral(rows[0][start : start + _BLOCK], rows[1][start : start + _BLOCK], rows[2][start : start + _BLOCK], *orders)
        for start in range(0, len(rows[0]), _BLOCK)
    ]
    return np.concatenate([np.zeros(0), *parts]).reshape(given[0].shape).astype(dtype)[()]


def _integral(df: Any, nc: Any, t: Any, order: int, power: int, scores: int) -> Any:
    """Return the integrals for columns of arguments, by the trapezoidal rule in `u = log w`.

    The rule converges exponentially, because the integrand is analytic. The density of u has the width `1 / sqrt(2 df)`. It has
    fallen by exp(-40) at the ends. The other factor changes with `t w`, at most at the rate `|nc| + 9` where it is not 0 or 1.
    """
    tail = (40 + 3 * power) / df
    low = -tail - np.sqrt(tail)
    high = np.minimum(np.sqrt(tail), np.log(np.sqrt(1 + 2.25 * tail) + 1))
    width = (high - low) * (np.sqrt(2 * df) + np.abs(nc) + 9)
    feasible = width < _MOST_NODES / 2.2  # elsewhere the result is NaN
    u = low + (high - low) * np.linspace(0, 1, int(2.2 * np.max(width, initial=0, where=feasible)) + 64)
    w = np.exp(u)
    log_density = np.log(2.0) + (df / 2) * np.log(df / 2) - special.gammaln(df / 2) + df * (u - w * w / 2)
    z = t * w - nc
    if order == 0:
        smaller = (scores == 1) & (t > nc)  # the mean of the score itself is zero
        kernel = np.where(smaller, -special.ndtr(-z), special.ndtr(z))
    else:
        kernel = special.eval_hermitenorm(order - 1, z) * np.exp(z * z / -2) * ((-1) ** (order - 1) / np.sqrt(2 * np.pi))
    terms = kernel * np.exp(log_density + power * u) * (u - w * w / 2 + _score_constant(df)) ** scores
    return np.where(feasible[:, 0], terms.sum(1) * (u[:, 1] - u[:, 0]), np.nan)


def _mean(df: Any, nc: Any, t: Any, order: int, power: int, scores: int) -> Any:
    return T_EXPECTATION(df, nc, t, order=order, power=power, scores=scores)


def _mean_by_df(g: Any, df: Any, nc: Any, t: Any, order: int, power: int, scores: int) -> Any:
    """The derivative of the density is s times the density; `ds/ddf = c'(df) = (1/df - psi'(df/2)/2) / 2`."""
    slope = _mean(df, nc, t, order, power, scores + 1)
    if scores:
        slope = slope + _mean(df, nc, t, order, power, scores - 1) * (1 / df - polygamma(df / 2, order=1) / 2) * (scores / 2)
    return product(g, slope)


T_EXPECTATION = elementwise(
    _expectation,
    _mean_by_df,
    lambda g, df, nc, t, order, power, scores: -product(g, _mean(df, nc, t, order + 1, power, scores)),
    lambda g, df, nc, t, order, power, scores: product(g, _mean(df, nc, t, order + 1, power + 1, scores)),
    names=("df", "nc", "t"),
    spec=lambda df, nc, t, *, order, power, scores: _t_spec(df, nc, t),
    doc="E[order+1, power+1] dt - E[order+1] dnc + (E[scores+1] + scores c' E[scores-1]) ddf",
    samples=lambda array: [
        ((array(*s, low=1.5, high=5.0), array(*s, low=-1.0, high=1.0), array(*r, low=-2.0, high=2.0)), orders)
        for s, r, orders in (
            ((), (), {"order": 1, "power": 0, "scores": 0}),
            ((3,), (3,), {"order": 0, "power": 0, "scores": 1}),
            ((2, 1), (3,), {"order": 1, "power": 1, "scores": 2}),
            ((0,), (), {"order": 1, "power": 1, "scores": 0}),
        )
    ],
    name="noncentral_t_expectation",
    complex=False,
    internal=True,
)


_T = Partials(
    "nctdtr(df, nc, t)",
    lambda df, nc, t: _mean(df, nc, t, 0, 0, 1),
    lambda df, nc, t: -_mean(df, nc, t, 1, 0, 0),
    lambda df, nc, t: _mean(df, nc, t, 1, 1, 0),
)
_T.enter(
    [_FREEDOM, (-1.0, 1.5), (-2.0, 2.0)],
    "means over chi of w phi(t w - nc) dt, of -phi(t w - nc) dnc, and of Phi(t w - nc) times the score ddf",
)
_T.invert("nctdtrit", "t", [_FREEDOM, (-1.0, 1.5), _UNIT])
_T.invert("nctdtrinc", "nc", [(2.0, 3.0), (0.5, 0.55), (0.3, 0.4)])
_T.invert("nctdtridf", "df", [(0.8, 0.82), (0.0, 0.05), (1.3, 1.4)])
