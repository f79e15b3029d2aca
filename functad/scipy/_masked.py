"""`scipy.stats.mstats` for Tensors: statistics of all elements, because a Tensor has no mask.

Functions that omit elements, such as `trimmed_mean`, omit the elements that SciPy omits for the values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.stats as _stats
from scipy.stats import distributions as _distributions
from scipy.stats import mstats as _mstats

from functad.adoption.arrays import apply_along_axis, asarray
from functad.adoption.scipy_functions import of_tensors, plain_value, refuse, replacement_of
from functad.expressions.spec import shape_of
from functad.trees import tree_map

PART = "scipy.stats.mstats"

_MASKED = "its result leaves elements out by a mask, which a Tensor has not"
REFUSED: dict[str, str] = {
    "argstoarray": f"{_MASKED}; use np.stack for groups of one length",
    "find_repeats": "values that occur twice are no numbers that change; use functad.stop_gradient",
    "mode": f"{_MASKED}; use scipy.stats.mode",
    "trim": f"{_MASKED}; use trimmed_mean, or scipy.stats.trimboth",
    "trima": f"{_MASKED}; use trimmed_mean(a, limits, relative=False), or scipy.stats.tmean",
    "trimboth": f"{_MASKED}; use scipy.stats.trimboth",
    "trimr": f"{_MASKED}; use trimmed_mean, or scipy.stats.trimboth",
    "trimtail": f"{_MASKED}; use scipy.stats.trim1",
}
"""Functions without derivatives, and the reasons."""

refuse(PART, REFUSED)


# Functions equal to those of `scipy.stats` without a mask, and functions with derivative zero


def _as_in_stats(name: str) -> Callable[..., Any]:
    original = getattr(_stats, name)

    def called(*args: Any, **kwargs: Any) -> Any:
        return (replacement_of(original) or original)(*args, **kwargs)

    return called


for _name in (
    "f_oneway", "ks_1samp", "kstest", "kurtosis", "kurtosistest", "linregress", "normaltest", "pearsonr", "sem", "siegelslopes",
    "skew", "skewtest", "theilslopes", "tmax", "tmean", "tmin", "tsem", "ttest_1samp", "ttest_ind", "ttest_rel", "tvar",
    "variation",
):  # fmt: skip
    of_tensors(PART, _name)(_as_in_stats(_name))
of_tensors(PART, "ttest_onesamp")(_as_in_stats("ttest_1samp"))


def _of_ranks(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes on plain values: ranks and signs are piecewise constant."""

    def called(*args: Any, **kwargs: Any) -> Any:
        return original(*tree_map(plain_value, args), **tree_map(plain_value, kwargs))

    return called


for _name in (
    "brunnermunzel", "count_tied_groups", "friedmanchisquare", "kendalltau", "kendalltau_seasonal", "kruskal", "kruskalwallis",
    "ks_2samp", "ks_twosamp", "mannwhitneyu", "meppf", "msign", "plotting_positions", "rankdata", "spearmanr",
):  # fmt: skip
    of_tensors(PART, _name)(_of_ranks(getattr(_mstats, _name)))


@of_tensors(PART)
def moment(a: Any, moment: Any = 1, axis: Any = 0) -> Any:
    """Return central moments of one or several orders."""
    return _stats.moment(a, moment, axis=axis)


@of_tensors(PART)
def describe(a: Any, axis: Any = 0, ddof: int = 0, bias: bool = True) -> Any:
    """Return the number, the extremes and the moments of the elements."""
    return _stats.describe(a, axis=axis, ddof=ddof, bias=bias)


@of_tensors(PART)
def pointbiserialr(x: Any, y: Any) -> Any:
    """Return the correlation of booleans with numbers."""
    return _stats.pearsonr(np.asarray(plain_value(x)).astype(bool).astype(float), y)


@of_tensors(PART)
def obrientransform(*args: Any) -> Any:
    """Return O'Brien's transform, one column for each group; all groups must have the same length."""
    data = np.stack([asarray(arg) for arg in args]).T
    n, centred = float(len(args[0])), data - data.mean(0)
    return ((n - 1.5) * n * centred**2 - 0.5 * data.var(0, ddof=1) * (n - 1)) / ((n - 1) * (n - 2))


@of_tensors(PART)
def sen_seasonal_slopes(x: Any) -> Any:
    """Return the medians of slopes, for each season and over all seasons."""
    x = asarray(x)
    x = x[None] if len(shape_of(x)) == 1 else x
    n = shape_of(x)[0]
    slopes = np.concatenate([(x[i + 1 :] - x[i]) / np.arange(1, n - i)[:, None] for i in range(n)])
    return np.median(slopes, axis=0), np.median(slopes)


# Quantiles of sorted values


def _by_rows(row: Callable[..., Any], data: Any, axis: Any) -> Any:
    """Apply a function of one sorted sample to all elements, or along an axis."""
    data = asarray(data)
    if axis is None:
        return row(np.sort(data, axis=None))
    if len(shape_of(data)) > 2:
        raise ValueError(f"Array 'data' must be at most two dimensional, but got data.ndim = {len(shape_of(data))}")
    return apply_along_axis(lambda x: row(np.sort(x)), axis, data)


@of_tensors(PART)
def mquantiles(
    a: Any, prob: Any = (0.25, 0.5, 0.75), alphap: Any = 0.4, betap: Any = 0.4, axis: Any = None, limit: Any = ()
) -> Any:
    """Return quantiles by interpolation between neighbours."""
    p = np.atleast_1d(asarray(prob))
    m = alphap + p * (1.0 - alphap - betap)

    def row(x: Any) -> Any:
        if limit:
            x = x[(x > limit[0]) & (x < limit[1])]
        n = len(x)
        if n < 2:
            return np.broadcast_to(x if n else np.nan, shape_of(p))
        aleph = n * p + m
        k = np.floor(np.clip(plain_value(aleph), 1, n - 1)).astype(int)
        gamma = np.clip(aleph - k, 0, 1)
        return (1.0 - gamma) * x[k - 1] + gamma * x[k]

    return _by_rows(row, a, axis)


@of_tensors(PART)
def scoreatpercentile(data: Any, per: Any, limit: Any = (), alphap: Any = 0.4, betap: Any = 0.4) -> Any:
    """Return one quantile, given in percent."""
    return mquantiles(data, asarray(per)[None] / 100.0, alphap, betap, 0, limit).squeeze()


@of_tensors(PART)
def hdquantiles(data: Any, prob: Any = (0.25, 0.5, 0.75), axis: Any = None, var: bool = False) -> Any:
    """Return Harrell and Davis quantiles, weighted means of all values, with their variances if `var`."""
    ps = np.atleast_1d(np.asarray(prob))

    def row(x: Any) -> Any:
        n, means, variances = len(x), [], []
        for p in ps:
            w = np.diff(_distributions.beta.cdf(np.arange(n + 1) / float(n), (n + 1) * p, (n + 1) * (1 - p)))
            end = {0: x[0], 1: x[-1]}.get(p)
            means.append(np.dot(w, x) if end is None else end)
            variances.append(np.dot(w, (x - np.dot(w, x)) ** 2) if end is None else np.nan)
        return np.stack([np.stack(means), np.stack(variances)]) if var else np.stack(means)

    return _by_rows(row, data, axis)


@of_tensors(PART)
def hdmedian(data: Any, axis: Any = -1, var: bool = False) -> Any:
    """Return the Harrell and Davis median."""
    return hdquantiles(data, [0.5], axis=axis, var=var).squeeze()


@of_tensors(PART)
def hdquantiles_sd(data: Any, prob: Any = (0.25, 0.5, 0.75), axis: Any = None) -> Any:
    """Return jackknife standard errors of the Harrell and Davis quantiles."""
    ps = np.atleast_1d(np.asarray(prob))

    def row(x: Any) -> Any:
        n, found = len(x), []
        for p in ps:
            w = np.diff(_distributions.beta.cdf(np.arange(n) / float(n - 1), n * p, n * (1 - p)))
            left, right = np.cumsum(w * x[:-1]), np.cumsum(w[::-1] * x[:0:-1])[::-1]
            zero = np.zeros(1)
            found.append(np.sqrt((np.concatenate([zero, left]) + np.concatenate([right, zero])).var() * (n - 1)))
        return np.stack(found)

    return _by_rows(row, data, axis).reshape(-1)


@of_tensors(PART)
def mjci(data: Any, prob: Any = (0.25, 0.5, 0.75), axis: Any = None) -> Any:
    """Return the Maritz and Jarrett standard errors of quantiles."""
    ps = np.atleast_1d(np.asarray(prob))

    def row(x: Any) -> Any:
        n, found = len(x), []
        high = np.arange(1, n + 1) / n
        for m in (ps * n + 0.5).astype(int):
            w = _distributions.beta.cdf(high, m - 1, n - m) - _distributions.beta.cdf(high - 1.0 / n, m - 1, n - m)
            found.append(np.sqrt(np.dot(w, x**2) - np.dot(w, x) ** 2))
        return np.stack(found)

    return _by_rows(row, data, axis)


@of_tensors(PART)
def mquantiles_cimj(data: Any, prob: Any = (0.25, 0.5, 0.75), alpha: float = 0.05, axis: Any = None) -> Any:
    """Return confidence limits of quantiles, from the Maritz and Jarrett standard errors."""
    z = _distributions.norm.ppf(1 - min(alpha, 1 - alpha) / 2.0)
    middle, error = mquantiles(data, prob, 0, 0, axis), mjci(data, prob, axis)
    return middle - z * error, middle + z * error


@of_tensors(PART)
def median_cihs(data: Any, alpha: float = 0.05, axis: Any = None) -> Any:
    """Return the Hettmansperger and Sheather confidence limits of the median: weighted means of two neighbours."""

    def row(x: Any) -> Any:
        n = len(x)
        low, high = _mstats.median_cihs(np.arange(float(n)), alpha)  # positions: the limits are linear in the values
        k, m = int(np.floor(low)), int(np.floor(high))
        found = x[k] + (low - k) * (x[min(k + 1, n - 1)] - x[k]), x[m] + (high - m) * (x[min(m + 1, n - 1)] - x[m])
        return found if axis is None else np.stack(found)

    return _by_rows(row, data, axis)


@of_tensors(PART)
def idealfourths(data: Any, axis: Any = None) -> Any:
    """Return the quartiles by ideal fourths."""

    def row(x: Any) -> Any:
        n = len(x)
        j, h = divmod(n / 4.0 + 5 / 12.0, 1)
        j = int(j)
        found = [(1 - h) * x[j - 1] + h * x[j], (1 - h) * x[n - j] + h * x[n - j - 1]]
        return found if axis is None else np.stack(found)

    return _by_rows(row, data, axis)


@of_tensors(PART)
def rsh(data: Any, points: Any = None) -> Any:
    """Return Rosenblatt's density estimate: counts of neighbours within a width derived from the quartiles."""
    values = plain_value(data)
    at = values if points is None else np.atleast_1d(np.asarray(plain_value(points)))
    low, high = idealfourths(data)
    h = 1.2 * (high - low) / len(values) ** 0.2
    width = plain_value(h)
    count = (values[:, None] <= at + width).sum(0) - (values[:, None] < at - width).sum(0)
    return count / (2.0 * len(values) * h)


@of_tensors(PART)
def compare_medians_ms(group_1: Any, group_2: Any, axis: Any = None) -> Any:
    """Return the McKean and Schrader p-value for the difference of two medians."""
    z = 2.5758293035489004

    def row(x: Any) -> Any:
        n = len(x)
        k = int(np.round((n + 1) / 2.0 - z * np.sqrt(n / 4.0), 0))
        return (x[n - k] - x[k - 1]) / (2.0 * z)

    difference = np.median(group_1, axis=axis) - np.median(group_2, axis=axis)
    errors = _by_rows(row, group_1, axis), _by_rows(row, group_2, axis)
    return 1 - _distributions.norm.cdf(np.abs(difference) / np.sqrt(errors[0] ** 2 + errors[1] ** 2))


# Functions that omit elements


def _both(limits: Any) -> Any:
    return (limits, limits) if isinstance(limits, float) else limits


def _kept(a: Any, limits: Any, inclusive: Any, relative: bool, axis: Any) -> Any:
    found = _mstats.trim(np.array(plain_value(a)), limits=_both(limits), inclusive=inclusive, relative=relative, axis=axis)
    return ~np.ma.getmaskarray(found)


@of_tensors(PART)
def trimmed_mean(
    a: Any,
    limits: Any = (0.1, 0.1),
    inclusive: Any = (1, 1),
    relative: bool = True,
    axis: Any = None,
) -> Any:
    """Return the mean without the smallest and largest elements."""
    return np.mean(a, axis=axis, where=_kept(a, limits, inclusive, relative, axis))


@of_tensors(PART)
def trimmed_var(
    a: Any,
    limits: Any = (0.1, 0.1),
    inclusive: Any = (1, 1),
    relative: bool = True,
    axis: Any = None,
    ddof: int = 0,
) -> Any:
    """Return the variance without the smallest and largest elements."""
    return np.var(a, axis=axis, ddof=ddof, where=_kept(a, limits, inclusive, relative, axis))


@of_tensors(PART)
def trimmed_std(a: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the standard deviation without the smallest and largest elements."""
    return np.sqrt(trimmed_var(a, *args, **kwargs))


@of_tensors(PART)
def trimmed_stde(a: Any, limits: Any = (0.1, 0.1), inclusive: Any = (1, 1), axis: Any = None) -> Any:
    """Return the standard error of the trimmed mean, from the deviation of the winsorized values."""
    if limits is None:
        size = len(np.ravel(plain_value(a))) if axis is None else shape_of(a)[axis]
        return np.std(a, axis=axis, ddof=1) / np.sqrt(size)
    low, up = _both(limits)

    def row(x: Any) -> Any:
        n = len(x)
        first = int(low * n) if inclusive[0] else int(np.round(low * n))
        last = n - (int(n * up) if inclusive[1] else int(np.round(n * up)))
        return np.std(np.clip(x, x[first], x[last - 1]), ddof=1) / ((1 - low - up) * np.sqrt(n))

    return _by_rows(row, a, axis)


@of_tensors(PART)
def trimmed_mean_ci(
    data: Any, limits: Any = (0.2, 0.2), inclusive: Any = (True, True), alpha: float = 0.05, axis: Any = None
) -> Any:
    """Return the confidence limits of the trimmed mean."""
    kept = _kept(data, limits, inclusive, True, axis)
    mean, error = np.mean(data, axis=axis, where=kept), trimmed_stde(data, limits, inclusive, axis)
    width = _distributions.t.ppf(1 - alpha / 2.0, kept.sum(axis) - 1) * error
    return np.stack([mean - width, mean + width])


@of_tensors(PART)
def winsorize(a: Any, limits: Any = None, inclusive: Any = (True, True), **options: Any) -> Any:
    """Replace the smallest and largest elements by their neighbours; return a new Tensor even with `inplace`."""
    values = np.array(plain_value(a))
    axis = options.get("axis")
    order = np.argsort(values, axis=axis, kind="stable")
    ranks = np.argsort(order, axis=axis, kind="stable").astype(float)
    options["inplace"] = False
    of_ranks = np.ma.getdata(_mstats.winsorize(ranks.reshape(values.shape), limits, inclusive, **options)).astype(int)
    if axis is None:
        return np.reshape(a, -1)[order[of_ranks]]
    return np.take_along_axis(a, np.take_along_axis(order, of_ranks, axis), axis)
