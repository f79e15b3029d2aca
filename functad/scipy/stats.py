"""`scipy.stats`: distributions, estimates and tests that SciPy computes by compiled code or by a search.

Most functions of `scipy.stats` are differentiated through SciPy's Python code. The values are SciPy's own.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from scipy import special
from scipy import stats as _stats
from scipy.optimize import linprog as _linprog
from scipy.stats import _qmvnt
from scipy.stats._ansari_swilk_statistics import swilk as _swilk
from scipy.stats._distn_infrastructure import rv_generic as _rv_generic

from functad.adoption.arrays import asarray
from functad.adoption.compiled import is_writeable_array
from functad.adoption.scipy_functions import of_methods, of_tensors, outside_traces, plain_value, refuse, stands_for, with_value
from functad.errors import ConversionError, UnsupportedError
from functad.expressions.spec import shape_of
from functad.places import here
from functad.scipy import _discrepancy, _masked
from functad.scipy._integrals import outside
from functad.scipy.distributions import (  # noqa: F401 - registers rules
    batches,
    densities,
    discrete,
    fits,
    integrated,
    limits,
    moments,
    normal_mass,
    several_variables,
)
from functad.scipy.distributions.continuous import UNKNOWN_DENSITIES
from functad.scipy.distributions.discrete import COMPILED
from functad.scipy.distributions.integrated import AT_ONE
from functad.scipy.distributions.several_variables import RANDOM_POINTS
from functad.transforms.grad import stop_gradient

REFUSED: dict[str, str] = {
    **{f"{name}.pdf": reason for name, reason in UNKNOWN_DENSITIES.items()},
    "levy_stable(alpha=1)": AT_ONE,
    "nchypergeom_wallenius": COMPILED,
    "multivariate_t.cdf": RANDOM_POINTS,
}
"""Functions without derivatives, and the reasons. Counts, such as n of `binom`, have no derivative either."""


of_tensors("scipy._lib.array_api_compat.common._helpers")(is_writeable_array)

for _original in (getattr(_stats, "make_distribution", None), getattr(_qmvnt, "_cbc_lattice", None)):
    if _original is not None:  # their results hold no Tensors; a lattice depends on rounding
        stands_for(_original, functools.wraps(_original)(functools.partial(outside_traces, _original)))


# Distances between samples


@of_tensors("scipy.stats._stats_py")
def _cdf_distance(p: Any, u_values: Any, v_values: Any, u_weights: Any = None, v_weights: Any = None) -> Any:
    """Return the distance of order p of two empirical distribution functions, `(integral |U - V|^p)^(1/p)`."""
    samples, cumulated = [], []
    for values, weights in ((u_values, u_weights), (v_values, v_weights)):
        values = np.ravel(np.stack(values) if isinstance(values, list) else values)
        if values.size == 0:
            raise ValueError("Distribution can't be empty.")
        weights = np.full(values.size, 1.0) if weights is None else np.ravel(weights)
        if np.size(weights) != values.size:
            raise ValueError("Value and weight array-likes for the same empirical distribution must be of the same size.")
        order = np.argsort(values)
        sums = np.cumsum(weights[order])
        samples.append(values[order])
        cumulated.append(np.concatenate([np.zeros(1), sums]) / sums[-1])
    every = np.sort(np.concatenate(samples))
    steps = [
        c[np.searchsorted(stop_gradient(s), stop_gradient(every[:-1]), "right")]
        for s, c in zip(samples, cumulated, strict=True)
    ]
    gap = np.abs(steps[0] - steps[1])
    return np.sum(gap**p * np.diff(every)) ** (1 / p)


@of_tensors("scipy.stats")
def wasserstein_distance_nd(u_values: Any, v_values: Any, u_weights: Any = None, v_weights: Any = None) -> Any:
    """Return the least mean transport distance between samples; the dual solution is the derivative in the weights."""
    u, v = asarray(u_values), asarray(v_values)
    if len(shape_of(u)) == 1:
        return _stats.wasserstein_distance(u, v, u_weights, v_weights)
    plains = [plain_value(part) for part in (u, v, u_weights, v_weights)]
    value = outside_traces(_stats.wasserstein_distance_nd, *plains)
    shares = [
        np.full(shape_of(a)[0], 1 / shape_of(a)[0]) if w is None else asarray(w) / np.sum(asarray(w))
        for a, w in ((u, u_weights), (v, v_weights))
    ]
    m, n = shape_of(u)[0], shape_of(v)[0]
    gaps = u[:, None, :] - v[None, :, :]
    lengths = np.sqrt(np.sum(gaps**2, -1))
    sums = np.concatenate([np.kron(np.eye(m), np.ones(n)), np.kron(np.ones(m), np.eye(n))])
    ends = np.concatenate([plain_value(part) for part in shares])
    plan = outside_traces(_linprog, plain_value(lengths).reshape(-1), A_eq=sums, b_eq=ends)
    prices = plan.eqlin.marginals
    changed = prices @ np.concatenate([part - stop_gradient(part) for part in shares])
    return with_value(np.sum(plan.x.reshape(m, n) * lengths) + changed, value)


# Tests of samples


@of_tensors("scipy.stats")
def anderson_ksamp(samples: Any, *args: Any, **options: Any) -> Any:
    """Return a rank test, which is constant as long as the order of the samples is."""
    return outside_traces(_stats.anderson_ksamp, [plain_value(asarray(sample)) for sample in samples], *args, **options)


@of_tensors("scipy.stats")
def weightedtau(x: Any, y: Any, *args: Any, **options: Any) -> Any:
    """Return a rank correlation, which is constant as long as the order of the samples is."""
    return outside_traces(_stats.weightedtau, plain_value(asarray(x)), plain_value(asarray(y)), *args, **options)


@of_tensors("scipy.stats._stats_pythran")
def siegelslopes(y: Any, x: Any, method: str) -> Any:
    """Return the median of the median slopes from each point to the others, and of the intercepts."""
    slopes, intercepts = [], []
    for j in range(shape_of(x)[0]):
        others = np.flatnonzero(plain_value(x[j] - x))
        run = (x[j] - x)[others]
        slopes.append(np.median((y[j] - y)[others] / run))
        intercepts.append(np.median((y * x[j] - y[j] * x)[others] / run))
    slope = np.median(np.stack(slopes))
    return slope, np.median(np.stack(intercepts)) if method == "separate" else np.median(y - slope * x)


_CENTRES = {False: (0.5440, -0.39978, 0.025054, -6.714e-4), True: (-1.5861, -0.31082, -0.083751, 0.0038915)}
_SPREADS = {False: (1.3822, -0.77857, 0.062767, -0.0020322), True: (-0.4803, -0.082676, 0.0030302)}


@of_tensors("scipy.stats._ansari_swilk_statistics")
def swilk(x: Any, a: Any, init: Any) -> Any:
    """Return the Shapiro-Wilk statistic, and its p-value by Royston's approximation (1995)."""
    n = shape_of(x)[0]
    weights = np.zeros(n // 2)
    with outside():
        w, p, fault = _swilk(np.array(plain_value(x)), weights, 0)
    centred = x - np.mean(x)
    contrast = np.sum((x[::-1] - x)[: n // 2] * weights)
    statistic = contrast**2 / (2 * np.sum(weights**2) * np.sum(centred**2))
    if n == 3:
        return with_value(statistic, w), with_value(6 / np.pi * np.arcsin(np.sqrt(statistic)) - 2, p), fault
    many, level = n > 11, np.log(1 - statistic)
    level = level if many else -np.log(0.459 * n - 2.273 - level)
    size = np.log(n) if many else float(n)
    centre, spread = np.polyval(_CENTRES[many][::-1], size), np.exp(np.polyval(_SPREADS[many][::-1], size))
    return with_value(statistic, w), with_value(special.ndtr((centre - level) / spread), p), fault


_COUNTS = "it takes counts: pass integers"

refuse("scipy.stats", dict.fromkeys(("barnard_exact", "boschloo_exact", "fisher_exact"), _COUNTS))

REFUSED |= {
    **dict.fromkeys(("barnard_exact", "boschloo_exact", "fisher_exact"), _COUNTS),
    "dunnett": RANDOM_POINTS,
    "rvs": "it draws numbers by a method without derivatives",
    "qmc.MultinomialQMC": _discrepancy.COUNTED,
    **{f"mstats.{name}": reason for name, reason in _masked.REFUSED.items()},
}


@of_methods(_rv_generic, "rvs")
def _rvs(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Return random numbers, differentiable in the parameters where SciPy transforms standard random numbers."""
    try:
        return original(self, *args, **kwargs)
    except ConversionError as error:
        cure = (
            "functad.stop_gradient for the parameters" if hasattr(self, "pmf") else f"{self.name}.ppf(rng.uniform(size=n), ...)"
        )
        raise UnsupportedError(
            f"scipy.stats.{self.name}.rvs of a Tensor, at {here()}: {REFUSED['rvs']}. Use {cure}."
        ) from error
