"""The multivariate normal distribution function, with derivatives from distribution functions of fewer variables.

The formula is in R. Plackett, "A reduction formula for normal multivariate integrals" (1954). The values are SciPy's own.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy import special
from scipy import stats as _stats
from scipy.stats import _multivariate

from functad.adoption.arrays import asarray
from functad.adoption.scipy_functions import of_methods, plain_value
from functad.errors import UnsupportedError
from functad.expressions.spec import shape_of
from functad.places import here
from functad.primitives.operands import known_values
from functad.rules.custom import custom_jvp
from functad.scipy._integrals import outside, valued

_NORMAL = _stats.multivariate_normal


def _mass(x: Any, cov: Any) -> Any:
    """Return the probability that normal variables of mean zero are all below `x`, of shape `(n,)`."""
    n = shape_of(x)[0]
    if n == 0:
        return 1.0
    return special.ndtr(x[0] / np.sqrt(cov[0, 0])) if n == 1 else _integrated(x, cov)


def _at(x: Any, cov: Any, chosen: list[int]) -> Any:
    """Return the density of the chosen variables at `x`, times the conditional mass of the other variables."""
    rest = [i for i in range(shape_of(x)[0]) if i not in chosen]
    block, between = cov[np.ix_(chosen, chosen)], cov[np.ix_(chosen, rest)]
    solved = np.linalg.solve(block, x[chosen])
    density = np.exp(-0.5 * (x[chosen] @ solved)) / np.sqrt(np.linalg.det(2 * np.pi * block))
    given = cov[np.ix_(rest, rest)] - between.T @ np.linalg.solve(block, between)
    return density * _mass(x[rest] - between.T @ solved, given)


@custom_jvp
def _integrated(x: Any, cov: Any) -> Any:
    """Return the mass, as SciPy integrates it."""
    with outside():
        return np.float64(_NORMAL.cdf(plain_value(x), cov=plain_value(cov)))


@_integrated.defjvp
def _rule(primals: Any, tangents: Any) -> Any:
    """Return the mass and its tangent; variances follow from the other derivatives by invariance to scaling."""
    x, cov = primals
    n = shape_of(x)[0]
    slopes = [_at(x, cov, [i]) for i in range(n)]
    total: Any = 0.0
    if tangents[0] is not None:
        total = total + sum(slopes[i] * tangents[0][i] for i in range(n))
    if tangents[1] is not None:
        pairs = {(i, j): _at(x, cov, [i, j]) for i in range(n) for j in range(i)}
        for (i, j), slope in pairs.items():
            total = total + slope * (tangents[1][i, j] + tangents[1][j, i]) / 2
        for i in range(n):
            others = sum(cov[i, j] * pairs[max(i, j), min(i, j)] for j in range(n) if j != i)
            total = total - (x[i] * slopes[i] + others) / (2 * cov[i, i]) * tangents[1][i, i]
    return _integrated(x, cov), total


def _between(low: Any, high: Any, cov: Any) -> Any:
    """Return the mass of a box: an alternating sum over its finite corners."""
    finite = [i for i in range(shape_of(high)[0]) if np.isfinite(plain_value(low[i]))]
    total: Any = 0.0
    for below in itertools.product((False, True), repeat=len(finite)):
        at = [high[i] for i in range(shape_of(high)[0])]
        for i, chosen in zip(finite, below, strict=True):
            at[i] = low[i] if chosen else at[i]
        total = total + (-1) ** sum(below) * _mass(np.stack(at), cov)
    return total


@of_methods(_multivariate.multivariate_normal_gen, "_cdf")
def _normal_cdf(original: Any, self: Any, x: Any, mean: Any, cov: Any, *rest: Any) -> Any:
    """Return the multivariate normal distribution function."""
    limit = rest[3] if len(rest) > 3 and rest[3] is not None else -np.inf
    known = known_values(x, mean, cov, limit)
    if known is None:
        raise UnsupportedError(
            f"scipy.stats.multivariate_normal.cdf is integrated at values, which are not known in jit or vmap, at {here()}. "
            f"Call it outside of them, for all points at once."
        )
    with outside():
        limits = known[3] if len(rest) > 3 and rest[3] is not None else None
        value = original(self, *known[:3], *rest[:3], limits, *rest[4:])
    high, low = np.broadcast_arrays(x, asarray(limit))
    n = shape_of(mean)[0]
    high, low = np.reshape(high - mean, (-1, n)), np.reshape(low - mean, (-1, n))
    masses = np.stack([_between(low[i], high[i], cov) for i in range(shape_of(high)[0])])
    return valued(value, np.reshape(masses, np.shape(value)))
