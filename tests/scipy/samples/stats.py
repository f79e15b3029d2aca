"""Samples of `scipy.stats`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy.optimize
import scipy.stats
from scipy.stats._distr_params import distcont, distdiscrete

from tests.scipy.samples.sample import Sample, call, search, use

RNG = np.random.default_rng(0)
X, Y, Z = RNG.normal(size=9), RNG.normal(size=9), RNG.normal(size=11)
POSITIVE, OTHERS = np.abs(X) + 0.2, np.abs(Y) + 0.3
ANGLES = np.array([0.3, 0.5, 1.2, 0.8, 2.0])
POINTS = RNG.normal(size=(5, 3))
TABLE = np.array([[10.3, 20.1, 30.2], [6.4, 9.2, 17.7]])
COUNTS = np.array([[7.0, 12.0], [8.0, 3.0]])
SHARES = np.array([0.01, 0.2, 0.3, 0.04])
ROOT = np.linalg.cholesky(np.array([[2.0, 0.5, 0.2], [0.5, 1.0, 0.1], [0.2, 0.1, 1.5]]))
V = np.array([0.3, 0.4, -0.2])


def take(*names: str, **options: Any) -> Callable[..., Any]:
    """Return a function that calls SciPy's and takes attributes of what that gives."""

    def called(function: Any, *args: Any) -> Any:
        found = function(*args, **options)
        return [getattr(found, name) for name in names]

    return called


TEST = take("statistic", "pvalue")


def methods(d: Any, x: Any, *shapes: Any) -> list[Any]:
    """Return what methods of a distribution give at a point, and its quantile, by shape parameters, `loc` and `scale`."""
    *shapes, loc, scale = shapes  # type: ignore[assignment]
    return [f(at, *shapes, loc=loc, scale=scale) for f, at in ((d.logpdf, x), (d.cdf, x), (d.ppf, 0.37 + 0 * x))]


@cache
def gamma(make: Any) -> Any:
    """Return the class of gamma distributions that SciPy makes, which takes long."""
    return make(scipy.stats.gamma)


def own(kind: Any, x: Any, a: Any) -> list[Any]:
    """Return what methods of a distribution give that a class of its own defines by its density."""
    d = type("Own", (kind,), {"_pdf": lambda self, x, a: a * np.exp(-a * x)})(a=0.0, name="own")
    return [d.logpdf(x, a), d.cdf(x, a)]


def continuous() -> dict[str, Sample | list[Sample]]:
    """Return samples of all continuous distributions, by the point and all parameters."""
    found: dict[str, Sample | list[Sample]] = {}
    parameters = {**{name: shapes for name, shapes in reversed(distcont) if isinstance(name, str)}, **_OWN}
    for name, shapes in parameters.items():
        if not hasattr(scipy.stats, name):
            continue
        by_x = name in _ONLY_BY_X
        shapes = shapes if by_x or name in ("irwinhall", "ksone") else tuple(map(float, shapes))
        x = float(getattr(scipy.stats, name).ppf(0.4, *shapes)) * 1.3 + 0.13
        if by_x:
            found[name] = use(lambda d, x, scale, shapes=shapes: d.cdf(x, *shapes, scale=scale), x, 1.3)
            found[f"{name}.pdf"] = use(lambda d, x, shapes=shapes: d.pdf(x, *shapes), x)
        else:
            found[name] = use(methods, x, *shapes, 0.1, 1.3)
    found["levy_stable(alpha=1)"] = use(lambda d, x: d.pdf(x, 1.0, 0.5), 0.3)
    return found


_OWN: dict[str, tuple[Any, ...]] = {
    "kappa4": (0.3, 0.2),
    "rel_breitwigner": (2.5,),
    "irwinhall": (4,),
    "ksone": (5,),
    "kstwo": (7,),
    "studentized_range": (3.0, 10.0),
    "levy_stable": (1.8, -0.5),
    "gausshyper": (1.8, 2.1, 1.5, 0.6),
    "reciprocal": (0.3, 2.5),
    "erlang": (4,),
    "wald": (),
}
_ONLY_BY_X = ("kstwo",)


def discrete() -> dict[str, Sample | list[Sample]]:
    """Return samples of all discrete distributions, by their parameters; integers among these are counts."""
    found: dict[str, Sample | list[Sample]] = {}
    parameters = {name: shapes for name, shapes in distdiscrete if isinstance(name, str)}
    parameters |= {"skellam": (2.3, 1.4), "nbinom": (2.5, 0.4), "zipfian": (1.3, 10), "yulesimon": (2.5,), "planck": (0.5,)}
    for name, shapes in parameters.items():
        if not hasattr(scipy.stats, name) or name == "poisson_binom":
            continue
        k = int(getattr(scipy.stats, name).ppf(0.6, *shapes))
        found[name] = use(lambda d, *shapes, k=k: [d.pmf(k, *shapes), d.cdf(k, *shapes)], *shapes)
    found["poisson_binom"] = use(lambda d, p: [d.pmf(1, p), d.cdf(2, p)], np.array([0.3, 0.5, 0.2]))
    return found


SEVERAL_VARIABLES: dict[str, Sample | list[Sample]] = {
    "dirichlet": use(lambda d, a: [d.logpdf(np.array([0.2, 0.3, 0.5]), a), d.var(a), d.entropy(a)], np.array([1.5, 2.0, 3.0])),
    "dirichlet_multinomial": use(lambda d, a: [d.logpmf([1, 2, 3], a, 6), d.var(a, 6)], np.array([1.5, 2.0, 3.0])),
    "invwishart": use(lambda d, x, c, n: [d.logpdf(x @ x.T, n, c @ c.T), d.mean(n, c @ c.T)], ROOT + 0.1, ROOT, 5.5),
    "matrix_normal": use(lambda d, x, c: d.logpdf(x, 0.5 * x**2, c @ c.T, np.eye(2)), POINTS[:3, :2], ROOT),
    "matrix_t": use(lambda d, x, c, n: d.logpdf(x, 0.5 * x**2, c @ c.T, np.eye(2), n), POINTS[:3, :2], ROOT, 4.3),
    "multinomial": use(
        lambda d, p: [d.logpmf([1, 2, 3], 6, p / np.sum(p)), d.cov(6, p / np.sum(p))], np.array([0.2, 0.3, 0.5])
    ),
    "multivariate_hypergeom": use(lambda d: d.logpmf([1, 2], [4, 5], 3)),
    "multivariate_normal": [
        use(lambda d, x, m, c: [d.logpdf(x, m, c @ c.T), d.entropy(m, c @ c.T)], V, V + 0.1, ROOT),
        use(lambda d, x, c: d.cdf(x, 0 * x, c @ c.T), V[:2], ROOT[:2, :2]),
    ],
    "multivariate_t": use(lambda d, x, m, c, n: d.logpdf(x, m, c @ c.T, n), V, V + 0.1, ROOT, 4.0),
    "multivariate_t.cdf": use(lambda d, x: d.cdf(x, V, np.eye(3), 4, random_state=np.random.default_rng(0)), V + 0.1),
    "normal_inverse_gamma": use(lambda d, *args: d.logpdf(*args), 0.3, 1.2, 0.1, 1.3, 2.0, 1.5),
    "ortho_group": use(lambda d: d.rvs(3, random_state=0)),
    "special_ortho_group": use(lambda d: d.rvs(3, random_state=0)),
    "unitary_group": use(lambda d: d.rvs(3, random_state=0)),
    "uniform_direction": use(lambda d: d.rvs(3, random_state=0)),
    "random_correlation": use(lambda d: d.rvs([0.5, 1.0, 1.5], random_state=0)),
    "random_table": use(lambda d: d.logpmf(np.array([[1, 2], [3, 1]]), [3, 4], [4, 3])),
    "vonmises_fisher": use(lambda d, x, m, k: d.logpdf(x / np.linalg.norm(x), m / np.linalg.norm(m), k), V, V + 0.1, 1.7),
    "wishart": use(lambda d, x, c, n: [d.logpdf(x @ x.T, n, c @ c.T), d.var(n, c @ c.T)], ROOT + 0.1, ROOT, 4.5),
}

OBJECTS: dict[str, Sample | list[Sample]] = {
    "Binomial": use(lambda kind, p: kind(n=10, p=p).logpmf(4), 0.3),
    "Covariance": use(
        lambda kind, c, x: scipy.stats.multivariate_normal.logpdf(x, np.zeros(3), kind.from_cholesky(c)), ROOT, V
    ),
    "Logistic": use(lambda kind, x: [kind().logpdf(x), kind().cdf(x)], 0.3),
    "Mixture": use(
        lambda kind, x: kind([scipy.stats.Normal(), scipy.stats.Normal(mu=1.0, sigma=2.0)], weights=[0.3, 0.7]).logpdf(x), 0.3
    ),
    "Normal": use(lambda kind, x, m, s: [f(x) for f in (kind(mu=m, sigma=s).logpdf, kind(mu=m, sigma=s).cdf)], 0.3, 0.2, 1.3),
    "Uniform": use(lambda kind, x, a, b: [f(x) for f in (kind(a=a, b=b).pdf, kind(a=a, b=b).cdf)], 0.3, 0.2, 1.3),
    "make_distribution": use(lambda make, x, a: gamma(make)(a=a).logpdf(x), 0.7, 2.3),
    "truncate": use(lambda f, x: f(scipy.stats.Normal(mu=0.2, sigma=1.0), lb=-1, ub=2).pdf(x), 0.7),
    "abs": use(lambda f, x: f(scipy.stats.Normal(mu=0.3, sigma=1.0)).pdf(x), 0.7),
    "exp": use(lambda f, x: f(scipy.stats.Normal(mu=0.0, sigma=1.0)).pdf(x), 0.7),
    "log": use(lambda f, x: f(gamma(scipy.stats.make_distribution)(a=2.0)).pdf(x), 0.7),
    "order_statistic": use(lambda f, x: f(scipy.stats.Normal(), r=2, n=5).pdf(x), 0.3),
    "CensoredData": use(lambda kind: len(kind([1.0, 2.0]))),
    "gaussian_kde": use(lambda kind, d, x: [kind(d)(x), kind(d).logpdf(x)], X, np.array([0.3, -0.2])),
    "rv_continuous": use(own, 0.3, 1.4),
    "rv_discrete": use(lambda kind: kind(values=([1, 2], [0.3, 0.7])).pmf(1)),
    "rv_histogram": use(lambda kind, h, x: kind((h, np.arange(5.0))).pdf(x), np.array([1.0, 2.0, 3.0, 1.0]), 1.3),
    "BootstrapMethod": use(lambda kind: kind(n_resamples=9).n_resamples),
    "MonteCarloMethod": use(lambda kind: kind(n_resamples=9).n_resamples),
    "PermutationMethod": use(lambda kind: kind(n_resamples=9).n_resamples),
}

TESTS: dict[str, Sample | list[Sample]] = {
    **{
        name: use(TEST, X, Z)
        for name in (
            "ansari",
            "bartlett",
            "brunnermunzel",
            "cramervonmises_2samp",
            "epps_singleton_2samp",
            "f_oneway",
            "fligner",
            "kruskal",
            "ks_2samp",
            "levene",
            "mannwhitneyu",
            "mood",
            "ranksums",
            "ttest_ind",
            "alexandergovern",
            "logrank",
        )
    },
    **{
        name: use(TEST, X, Y)
        for name in ("kendalltau", "pearsonr", "somersd", "spearmanr", "spearmanrho", "ttest_rel", "wilcoxon")
    },
    **{name: use(TEST, X) for name in ("jarque_bera", "kurtosistest", "shapiro", "skewtest")},
    "anderson": use(lambda f, x: f(x, "norm", method="interpolate").statistic, X),
    "anderson_ksamp": use(lambda f, x: f([x, Z]).statistic, X),
    "barnard_exact": use(take("pvalue"), COUNTS),
    "boschloo_exact": use(take("pvalue"), COUNTS),
    "fisher_exact": use(take("pvalue"), COUNTS),
    "binomtest": use(lambda f, p: f(3, 10, p).pvalue, 0.4),
    "bws_test": use(lambda f, x: f(x, Z[:5]).statistic, X[:5]),
    "chatterjeexi": use(take("statistic"), X, Y),
    "chi2_contingency": use(TEST, TABLE),
    "chisquare": use(TEST, POSITIVE),
    "combine_pvalues": [use(take("pvalue", method=m), SHARES) for m in ("fisher", "stouffer", "tippett", "mudholkar_george")],
    "cramervonmises": use(lambda f, x: [f(x, "norm").statistic, f(x, "norm").pvalue], X),
    "dunnett": use(lambda f, x: f(x, control=Z, rng=0).pvalue, X),
    "friedmanchisquare": use(lambda f, x: f(x, Y, Z[:9]).statistic, X),
    "goodness_of_fit": use(lambda f, x: f(scipy.stats.norm, x, n_mc_samples=9, rng=0).statistic, X),
    "ks_1samp": use(lambda f, x: [f(x, scipy.stats.norm.cdf).statistic, f(x, scipy.stats.norm.cdf).pvalue], X),
    "kstest": use(lambda f, x: f(x, "norm").statistic, X),
    "linregress": use(lambda f, x, y: list(f(x, y)), X, Y),
    "median_test": use(lambda f, x: f(x, Z).statistic, X),
    "monte_carlo_test": use(lambda f, x: f(x, lambda size: np.zeros(size), np.mean, n_resamples=9).statistic, X),
    "multiscale_graphcorr": use(lambda f: f(POINTS[:, :1], POINTS[:, 1:2], reps=1, random_state=1).statistic),
    "normaltest": use(TEST, np.concatenate([X, Z])),
    "page_trend_test": use(lambda f, x: f(x).statistic, POINTS),
    "permutation_test": use(lambda f, x: f((x, Z), lambda a, b: np.mean(a) - np.mean(b), n_resamples=9, rng=0).statistic, X),
    "pointbiserialr": use(lambda f, x: [f(np.arange(9) % 2, x).statistic, f(np.arange(9) % 2, x).pvalue], X),
    "poisson_means_test": use(lambda f, t: f(3, 10.0, 5, t).statistic, 12.0),
    "power": use(
        lambda f: (
            f(scipy.stats.ttest_1samp, lambda size: np.resize(X, size) + 0.1, 9, n_resamples=5, kwargs={"popmean": 0}).power
        )
    ),
    "power_divergence": use(lambda f, x, y: f(x, y * np.sum(x) / np.sum(y), lambda_=0.7).pvalue, POSITIVE, OTHERS),
    "quantile_test": use(lambda f, x: f(x, q=0.1).pvalue, X),
    "siegelslopes": use(take("slope", "intercept"), X, Y),
    "theilslopes": use(lambda f, x, y: list(f(x, y)), X, Y),
    "ttest_1samp": use(TEST, X, 0.3),
    "ttest_ind_from_stats": use(lambda f, a, b, c, d: list(f(a, b, 9, c, d, 10)), 0.3, 1.0, 0.5, 1.2),
    "tukey_hsd": use(lambda f, x: [f(x, Z).statistic, f(x, Z).pvalue[0, 1]], X),
    "weightedtau": use(take("statistic"), X, Y),
}

ESTIMATES: dict[str, Sample | list[Sample]] = {
    **{
        name: call(X)
        for name in (
            "differential_entropy",
            "iqr",
            "kstat",
            "kstatvar",
            "kurtosis",
            "lmoment",
            "median_abs_deviation",
            "sem",
            "skew",
            "tmean",
            "tmax",
            "tmin",
            "tsem",
            "tstd",
            "tvar",
            "zscore",
            "rankdata",
        )
    },
    **{name: call(POSITIVE) for name in ("entropy", "gmean", "gstd", "gzscore", "hmean", "tiecorrect", "variation")},
    **{name: call(ANGLES) for name in ("circmean", "circstd", "circvar")},
    "bayes_mvs": use(lambda f, x: [part.statistic for part in f(x)], X),
    "binned_statistic": use(lambda f, x: f(POSITIVE, x, bins=3).statistic, X),
    "binned_statistic_2d": use(lambda f, x: f(POSITIVE, Y, x, statistic="sum", bins=2).statistic, X),
    "binned_statistic_dd": use(lambda f, x: f([POSITIVE, Y], x, statistic="sum", bins=2).statistic, X),
    "bootstrap": use(lambda f, x: f((x,), np.mean, n_resamples=9, rng=0).standard_error, X),
    "boxcox": call(POSITIVE, lmbda=0.3),
    "boxcox_llf": call(0.4, POSITIVE),
    "boxcox_normmax": search(lambda f, x: f(x, method="mle"), POSITIVE),
    "boxcox_normplot": call(POSITIVE, -1, 1, N=4),
    "cumfreq": use(lambda f, w: f(X, 4, weights=w).cumcount, POSITIVE),
    "describe": use(lambda f, x: list(f(x)[2:]), X),
    "directional_stats": use(take("mean_direction", "mean_resultant_length"), POINTS),
    "ecdf": use(lambda f, x: f(x).cdf.quantiles, X),
    "energy_distance": call(X, Z),
    "expectile": call(X, alpha=0.3),
    "false_discovery_control": call(SHARES),
    "fit": search(lambda f, x: f(scipy.stats.norm, x, {"loc": (-2, 2)}, optimizer=_search).params.loc, X),
    "mode": use(take("mode"), X),
    "moment": [call(X, order=3), call(X, order=[1, 2, 3], center=0.2)],
    "mvsdist": use(lambda f, x: [part.mean() for part in f(x)], X),
    "obrientransform": call(X, Y),
    "percentileofscore": use(lambda f, x: f(x, 0.1), X),
    "pmean": call(POSITIVE, 1.7),
    "ppcc_max": search(lambda f, x: f(x, brack=(0.0, 0.5)), X),
    "ppcc_plot": call(X, -0.5, 0.5, N=4),
    "probplot": use(lambda f, x: list(f(x)[1]), X),
    "quantile": call(X, np.array([0.23, 0.57])),
    "relfreq": use(lambda f, w: f(X, 4, weights=w).frequency, POSITIVE),
    "scoreatpercentile": call(X, per=30),
    "sigmaclip": use(lambda f, x: f(x, 1.5, 1.5).clipped, X),
    "sobol_indices": use(
        lambda f, a: (
            f(func=lambda x: x[0] ** 2 * a + x[1], n=8, dists=[scipy.stats.uniform(), scipy.stats.uniform()], rng=0).first_order
        ),
        1.3,
    ),
    "trim1": call(X, proportiontocut=0.2),
    "trim_mean": call(X, proportiontocut=0.2),
    "trimboth": call(X, proportiontocut=0.2),
    "wasserstein_distance": call(X, Z),
    "wasserstein_distance_nd": call(POINTS[:3] + 0.4, POINTS),
    "yeojohnson": call(X, lmbda=0.3),
    "yeojohnson_llf": call(0.4, X),
    "yeojohnson_normmax": search(lambda f, x: f(x, brack=(-2, 2)), X),
    "yeojohnson_normplot": call(X, -1, 1, N=4),
    "zmap": call(X, Z),
}


def _search(f: Any, bounds: Any = (), **options: Any) -> Any:
    return scipy.optimize.differential_evolution(f, bounds, seed=1)


SAMPLES: dict[str, Sample | list[Sample]] = {**continuous(), **discrete(), **SEVERAL_VARIABLES, **OBJECTS, **TESTS, **ESTIMATES}
