"""`functad.scipy.stats`: tests and estimates of samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

import functad
from functad.errors import UnsupportedError
from functad.scipy import stats
from functad.testing import check_grads

RNG = np.random.default_rng(0)
X, Y, Z = RNG.normal(size=9), RNG.normal(size=9), RNG.normal(size=11)
POSITIVE = np.abs(X) + 0.2
POINTS = RNG.normal(size=(5, 3))

DIFFERENTIATED: dict[str, Any] = {
    "pearsonr": lambda s, t: s.pearsonr(t, Y).statistic,
    "pearsonr, interval": lambda s, t: s.pearsonr(t, Y).confidence_interval().low,
    "pointbiserialr": lambda s, t: s.pointbiserialr(np.arange(9) % 2, t).pvalue,
    "f_oneway": lambda s, t: s.f_oneway(t, Z, Y).pvalue,
    "ttest_ind, trimmed": lambda s, t: s.ttest_ind(t, Z, trim=0.2).pvalue,
    "epps_singleton_2samp": lambda s, t: s.epps_singleton_2samp(t, Z).statistic,
    "linregress": lambda s, t: s.linregress(t, Y).stderr,
    "shapiro": lambda s, t: s.shapiro(t).pvalue,
    "shapiro of many": lambda s, t: s.shapiro(np.concatenate([t, Z])).pvalue,
    "shapiro of three": lambda s, t: s.shapiro(t[:3]).pvalue,
    "siegelslopes": lambda s, t: s.siegelslopes(t, Y).slope,
    "siegelslopes, intercept": lambda s, t: s.siegelslopes(Y, t, method="separate").intercept,
    "theilslopes": lambda s, t: s.theilslopes(t, Y).high_slope,
    "tukey_hsd": lambda s, t: s.tukey_hsd(t, Z).pvalue[0, 1],
    "poisson_means_test": lambda s, t: s.poisson_means_test(3, 10.0, 5, 12 + t[0]).statistic,
    "wasserstein_distance_nd": lambda s, t: s.wasserstein_distance_nd(t.reshape(3, 3), POINTS),
}


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_statistics(name: str) -> None:
    f = DIFFERENTIATED[name]
    check_grads(lambda t: f(stats, t), [X], order=1)
    value, _ = functad.vjp(lambda t: f(stats, t), X)
    assert value == pytest.approx(f(scipy.stats, X), rel=1e-12)
    again = f(stats, X)
    assert again == f(scipy.stats, X)
    assert type(again) is type(f(scipy.stats, X))


def test_weights_of_a_distance() -> None:
    u, v = np.array([0.5, 1.0, 1.3]), np.array([0.2, 1.0, 0.7, 1.6, 0.9])
    check_grads(lambda u, v: stats.wasserstein_distance_nd(POINTS[:3] + 1, POINTS, u, v), [u, v], order=1)


@pytest.mark.filterwarnings("ignore:Parameter `variant`", "ignore:p-value capped")
@pytest.mark.parametrize("name", ["spearmanr", "spearmanrho", "kendalltau", "somersd", "weightedtau", "anderson_ksamp"])
def test_ranks_do_not_change(name: str) -> None:
    if not hasattr(scipy.stats, name):
        pytest.skip("the SciPy that is installed does not have it")

    def f(t: Any) -> Any:
        samples = ([t, Z],) if name == "anderson_ksamp" else (t, Y)
        return getattr(stats, name)(*samples).statistic * t[0]

    value, pull = functad.vjp(f, X)
    gradient = np.asarray(pull(1.0)).reshape(-1)
    np.testing.assert_allclose(gradient, np.eye(9)[0] * value / X[0], atol=1e-15)


def test_powers_that_are_fitted() -> None:
    for fit, data in ((stats.boxcox_normmax, POSITIVE), (stats.yeojohnson_normmax, X)):
        options = {"method": "mle"} if fit is stats.boxcox_normmax else {}
        gradient = functad.grad(lambda t, fit=fit, options=options: fit(t, **options))(data)
        for i in (0, 4):
            h = np.eye(9)[i] * 1e-3
            slope = (8 * (fit(data + h, **options) - fit(data - h, **options)) - fit(data + 2 * h, **options)) / 12e-3
            slope += fit(data - 2 * h, **options) / 12e-3
            assert gradient[i] == pytest.approx(slope, rel=2e-3, abs=2e-4)
    assert stats.boxcox(POSITIVE)[1] == scipy.stats.boxcox(POSITIVE)[1]


def test_random_numbers_of_a_trace() -> None:
    def f(m: Any) -> Any:
        points = stats.qmc.MultivariateNormalQMC(m, np.eye(2), rng=0).random(2)
        return points * stats.qmc.Sobol(2, rng=1).random(2)

    check_grads(f, [np.array([0.4, 0.6])], order=1)
    check_grads(lambda m, s: stats.norm.rvs(m, s, size=4, random_state=0), [0.3, 1.2], order=1)
    with pytest.raises(UnsupportedError, match=r"Use gamma.ppf\(rng.uniform"):
        functad.grad(lambda a: np.sum(stats.gamma.rvs(a, size=4, random_state=0)))(2.3)


def test_tests_without_derivatives() -> None:
    table = np.array([[7.0, 12.0], [8.0, 3.0]])
    for name in ("barnard_exact", "boschloo_exact", "fisher_exact"):
        with pytest.raises(UnsupportedError, match="pass integers"):
            functad.grad(lambda t, name=name: getattr(stats, name)(t).pvalue)(table)
    assert stats.fisher_exact(table) == scipy.stats.fisher_exact(table)
    with pytest.raises(UnsupportedError, match="random points"):
        functad.grad(lambda t: stats.dunnett(t, control=Z).pvalue[0])(X)
