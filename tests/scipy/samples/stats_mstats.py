"""Samples of `scipy.stats.mstats`: of arrays without a mask, as Tensors are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.stats

from tests.scipy.samples.sample import Sample, use

RNG = np.random.default_rng(0)
X, Y, Z = RNG.normal(size=12), RNG.normal(size=12), RNG.normal(size=12)
LONG = RNG.normal(size=(20, 2))
ROWS = RNG.normal(size=(9, 3))
POSITIVE = np.abs(X) + 0.2
KINDS = X > 0


def plain(*names: str, **options: Any) -> Callable[..., Any]:
    """Return a function that calls SciPy's and takes attributes of what that gives, as arrays without a mask."""

    def called(function: Any, *args: Any) -> Any:
        found = function(*args, **options)
        return [bare(getattr(found, name)) for name in names] if names else bare(found)

    return called


def bare(found: Any) -> Any:
    """Return a result without the mask that SciPy gives some results, which leaves nothing out."""
    if isinstance(found, tuple | list):
        return [bare(part) for part in found]
    return np.ma.getdata(found)[()] if isinstance(found, np.ma.MaskedArray) else found


TEST = plain("statistic", "pvalue")
VALUES = plain()


def quantiles(name: str) -> list[Sample]:
    """Return samples of a function of sorted values: of all, and along either axis."""
    return [use(VALUES, X), use(plain(axis=0), ROWS), use(plain(axis=1), ROWS.T)]


TRIMMED = [
    use(VALUES, X), use(plain(limits=(0.2, 0.15), axis=0), ROWS), use(plain(limits=0.2, inclusive=(False, False)), X),
]  # fmt: skip

SAMPLES: dict[str, Sample | list[Sample]] = {
    "argstoarray": use(VALUES, X, Y),
    "brunnermunzel": use(TEST, X, Y),
    "chisquare": use(TEST, POSITIVE),
    "compare_medians_ms": [use(VALUES, LONG[:, 0], LONG[:, 1] + 0.4), use(plain(axis=0), LONG, LONG[::-1] ** 2)],
    "count_tied_groups": use(VALUES, np.array([1.0, 2.0, 2.0])),
    "describe": use(plain("minmax", "mean", "variance", "skewness", "kurtosis"), ROWS),
    "f_oneway": use(TEST, X, Y),
    "find_repeats": use(VALUES, np.array([1.0, 2.0, 2.0])),
    "friedmanchisquare": use(TEST, X, Y, Z),
    "gmean": use(VALUES, POSITIVE),
    "hdmedian": [use(VALUES, X), use(plain(axis=0), ROWS), use(plain(var=True), X)],
    "hdquantiles": [*quantiles("hdquantiles"), use(plain(prob=[0.0, 0.4, 1.0]), X), use(plain(var=True), X)],
    "hdquantiles_sd": quantiles("hdquantiles_sd"),
    "hmean": use(VALUES, POSITIVE),
    "idealfourths": quantiles("idealfourths"),
    "kendalltau": use(TEST, X, Y),
    "kendalltau_seasonal": use(lambda f, x: bare(list(f(x).values())), ROWS),
    "kruskal": use(TEST, X, Y),
    "kruskalwallis": use(TEST, X, Y),
    "ks_1samp": use(lambda f, x: TEST(f, x, scipy.stats.norm.cdf), X),
    "ks_2samp": use(TEST, X, Y),
    "ks_twosamp": use(TEST, X, Y),
    "kstest": [use(TEST, X, Y), use(lambda f, x: TEST(f, x, "norm"), X)],
    "kurtosis": [use(VALUES, ROWS), use(plain(axis=1, fisher=False, bias=False), ROWS.T)],
    "kurtosistest": use(TEST, LONG[:, 0]),
    "linregress": use(plain("slope", "intercept", "rvalue", "pvalue", "stderr"), X, Y),
    "mannwhitneyu": use(TEST, X, Y),
    "median_cihs": quantiles("median_cihs"),
    "meppf": use(VALUES, X),
    "mjci": quantiles("mjci"),
    "mode": use(VALUES, X),
    "moment": [use(plain(moment=3), ROWS), use(plain(moment=[2, 3]), ROWS)],
    "mquantiles": [
        *quantiles("mquantiles"),
        use(plain(limit=(-1.0, 1.0)), X),
        use(lambda f, x, p: bare(f(x, p, 0.3, 0.2)), X, np.array([0.3, 0.6])),
    ],
    "mquantiles_cimj": quantiles("mquantiles_cimj"),
    "msign": use(VALUES, X),
    "normaltest": use(TEST, LONG[:, 0]),
    "obrientransform": use(VALUES, X, Y),
    "pearsonr": use(lambda f, x, y: bare([*f(x, y)]), X, Y),
    "plotting_positions": use(VALUES, X),
    "pointbiserialr": use(lambda f, y: bare([*f(KINDS, y)]), Y),
    "rankdata": use(VALUES, X),
    "rsh": [use(VALUES, X), use(plain(points=np.array([-0.5, 0.2])), X)],
    "scoreatpercentile": [use(plain(per=40), X), use(lambda f, x, p: bare(f(x, p)), X, 40.0)],
    "sem": use(VALUES, ROWS),
    "sen_seasonal_slopes": use(lambda f, x: bare([*f(x)]), ROWS),
    "siegelslopes": use(plain("slope", "intercept"), Y, X),
    "skew": [use(VALUES, ROWS), use(plain(axis=1, bias=False), ROWS.T)],
    "skewtest": use(TEST, LONG[:, 0]),
    "spearmanr": use(TEST, X, Y),
    "theilslopes": use(plain("slope", "intercept", "low_slope", "high_slope"), Y, X),
    "tmax": use(plain(upperlimit=1.0), X),
    "tmean": use(plain(limits=(-1.0, 1.0)), X),
    "tmin": use(plain(lowerlimit=-1.0), X),
    "trim": use(plain(limits=(-1.0, 1.0)), X),
    "trima": use(plain(limits=(-1.0, 1.0)), X),
    "trimboth": use(VALUES, X),
    "trimmed_mean": [*TRIMMED, use(plain(limits=(-1.0, 1.0), relative=False), X)],
    "trimmed_mean_ci": [use(VALUES, X), use(plain(axis=0), ROWS)],
    "trimmed_std": TRIMMED,
    "trimmed_stde": [use(VALUES, X), use(plain(axis=0, limits=(0.2, 0.3)), ROWS), use(plain(limits=None), X)],
    "trimmed_var": [*TRIMMED, use(plain(ddof=1), X)],
    "trimr": use(plain(limits=(0.2, 0.2)), X),
    "trimtail": use(VALUES, X),
    "tsem": use(plain(limits=(-1.0, 1.0)), X),
    "ttest_1samp": use(TEST, X, 0.2),
    "ttest_ind": [use(TEST, X, Y), use(plain("statistic", "pvalue", equal_var=False), X, Y)],
    "ttest_onesamp": use(TEST, X, 0.2),
    "ttest_rel": use(TEST, X, Y),
    "tvar": use(plain(limits=(-1.0, 1.0)), X),
    "variation": use(VALUES, ROWS + 3),
    "winsorize": [use(plain(limits=(0.2, 0.1)), X), use(plain(limits=0.2, axis=0), ROWS), use(plain(limits=(0.2, None)), ROWS)],
    "zmap": use(VALUES, X, Y),
    "zscore": use(VALUES, X),
}  # fmt: skip
