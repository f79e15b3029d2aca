"""Inverses of distribution functions in a parameter: the implicit function theorem with the derivatives of what they invert."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.primitives.entry import Rule
from functad.primitives.safe import product, quotient
from functad.primitives.scipy_special.declaration import special_function
from functad.primitives.scipy_special.densities import beta_density, betainc_by_a, betainc_by_b, gamma_density, gammainc_by_a
from functad.primitives.scipy_special.distributions import (
    chi_square_by_freedom,
    chi_square_density,
    f_by_denominator,
    f_by_numerator,
    f_density,
    student_by_freedom,
    student_density,
)

_UNIT = (0.25, 0.75)
_POSITIVE = (1.0, 3.0)


def _rule(slope: Any, partial: Any, count: int) -> Rule:
    """Return the rule by an argument: minus its partial derivative over that by the parameter; `None` is the probability."""
    if count == 2:
        return lambda g, a, b, out: quotient(
            g if partial is None else -product(g, partial(a, b, out)), slope(a, b, out)
        )  # fmt: skip
    return lambda g, a, b, c, out: quotient(
        g if partial is None else -product(g, partial(a, b, c, out)), slope(a, b, c, out)
    )  # fmt: skip


def unless_clipped(derivative: Any, limit: float = 1e99, at_ends: float = np.inf) -> Any:
    """Return a derivative, and another value where SciPy stopped at an end of the range of the parameter that it sought.

    There the result stays what it is: the derivative by the parameter is taken to be infinite, and those by others zero.
    """

    def guarded(*values: Any) -> Any:
        size = np.absolute(values[-1])
        return np.where((size < 1e-99) | (size >= limit), at_ends, derivative(*values))

    return guarded


def _enter(name: str, inverted: str, slope: Any, partials: list[Any], arguments: list[Any], *, limit: float = 1e99) -> None:
    """Enter an inverse.

    Args:
        name: of the function.
        inverted: the function that it inverts, as a call.
        slope: `slope(*arguments, out)`, the derivative of that by the parameter which is sought.
        partials: for each argument its derivative by it, likewise; `None` for the probability.
        arguments: where samples are drawn from.
        limit: where SciPy stops looking.
    """
    slope = unless_clipped(slope, limit)
    partials = [partial and unless_clipped(partial, limit, 0.0) for partial in partials]
    special_function(
        name,
        *[_rule(slope, partial, len(arguments)) for partial in partials],
        arguments=arguments,
        names=("a", "b", "c")[: len(arguments)],
        doc=f"by the implicit function theorem from the derivatives of {inverted}",
    )


def _binomial_by_count(k: Any, n: Any, p: Any) -> Any:
    """Of `1 - I_p(k+1, n-k)` by k."""
    return betainc_by_b(k + 1, n - k, p) - betainc_by_a(k + 1, n - k, p)


def _binomial_by_trials(k: Any, n: Any, p: Any) -> Any:
    return -betainc_by_b(k + 1, n - k, p)


def _binomial_by_p(k: Any, n: Any, p: Any) -> Any:
    return -beta_density(k + 1, n - k, p)


_enter(
    "chdtriv",
    "chdtr(v, x)",
    lambda p, x, v: chi_square_by_freedom(v, x),
    [None, lambda p, x, v: chi_square_density(v, x)],
    [_UNIT, _POSITIVE],
)
_enter(
    "gdtrib",
    "gdtr(a, b, x)",
    lambda a, p, x, b: gammainc_by_a(b, a * x),
    [lambda a, p, x, b: gamma_density(b, a * x) * x, None, lambda a, p, x, b: gamma_density(b, a * x) * a],
    [_POSITIVE, _UNIT, _POSITIVE],
)
_enter(
    "pdtrik",
    "pdtr(k, m)",
    lambda p, m, k: -gammainc_by_a(k + 1, m),
    [None, lambda p, m, k: -gamma_density(k + 1, m)],
    [(0.3, 0.6), (3.0, 6.0)],
)
_enter(
    "btdtria",
    "betainc(a, b, x)",
    lambda p, b, x, a: betainc_by_a(a, b, x),
    [None, lambda p, b, x, a: betainc_by_b(a, b, x), lambda p, b, x, a: beta_density(a, b, x)],
    [_UNIT, _POSITIVE, _UNIT],
)
_enter(
    "btdtrib",
    "betainc(a, b, x)",
    lambda a, p, x, b: betainc_by_b(a, b, x),
    [lambda a, p, x, b: betainc_by_a(a, b, x), None, lambda a, p, x, b: beta_density(a, b, x)],
    [_POSITIVE, _UNIT, _UNIT],
)
_enter(
    "stdtridf",
    "stdtr(df, t)",
    lambda p, t, v: student_by_freedom(v, t),
    [None, lambda p, t, v: student_density(v, t)],
    [(0.91, 0.94), (2.8, 3.2)],
    limit=1e10,
)
_enter(
    "fdtridfd",
    "fdtr(dfn, dfd, x)",
    lambda a, p, x, b: f_by_denominator(a, b, x),
    [lambda a, p, x, b: f_by_numerator(a, b, x), None, lambda a, p, x, b: f_density(a, b, x)],
    [(3.0, 5.0), (0.73, 0.77), (1.6, 1.8)],
)
_enter(
    "bdtrik",
    "bdtr(k, n, p)",
    lambda y, n, p, k: _binomial_by_count(k, n, p),
    [None, lambda y, n, p, k: _binomial_by_trials(k, n, p), lambda y, n, p, k: _binomial_by_p(k, n, p)],
    [(0.3, 0.7), (8.0, 12.0), (0.4, 0.6)],
)
_enter(
    "bdtrin",
    "bdtr(k, n, p)",
    lambda k, y, p, n: _binomial_by_trials(k, n, p),
    [lambda k, y, p, n: _binomial_by_count(k, n, p), None, lambda k, y, p, n: _binomial_by_p(k, n, p)],
    [(2.0, 4.0), (0.3, 0.7), (0.4, 0.6)],
)
_enter(
    "nbdtrik",
    "nbdtr(k, n, p)",
    lambda y, n, p, k: betainc_by_b(n, k + 1, p),
    [None, lambda y, n, p, k: betainc_by_a(n, k + 1, p), lambda y, n, p, k: beta_density(n, k + 1, p)],
    [(0.4, 0.7), (3.0, 5.0), (0.3, 0.5)],
)
_enter(
    "nbdtrin",
    "nbdtr(k, n, p)",
    lambda k, y, p, n: betainc_by_a(n, k + 1, p),
    [lambda k, y, p, n: betainc_by_b(n, k + 1, p), None, lambda k, y, p, n: beta_density(n, k + 1, p)],
    [(2.0, 4.0), (0.3, 0.7), (0.4, 0.6)],
)
