"""Programs of econometrics, survival and finance."""

from __future__ import annotations

import numpy as np

from .catalogue import Made, program

RNG = np.random.default_rng(8)
T = np.linspace(0.1, 2.0, 7)
X = np.column_stack([np.ones(20), RNG.normal(size=(20, 2))])
Y = X @ [1.0, 2.0, -1.0] + RNG.normal(size=20)
POSITIVE = (Y > 1).astype(float)
POINT = np.array([0.1, 0.5, -0.5])


@program("statsmodels")
def statsmodels_autoreg() -> Made:
    from statsmodels.tsa.ar_model import AutoReg

    return lambda p: np.sum((Y[1:] - AutoReg(Y, 1)._x @ p) ** 2), np.array([0.2, 0.5])


@program("statsmodels")
def statsmodels_gamma_glm() -> Made:
    import statsmodels.api as sm

    return sm.GLM(np.exp(Y / 3), X, family=sm.families.Gamma(sm.families.links.Log())).loglike, POINT


@program("statsmodels")
def statsmodels_mnlogit() -> Made:
    import statsmodels.api as sm

    return lambda p: sm.MNLogit(np.digitize(Y, [0, 2]), X).loglike(p.reshape(3, 2, order="F")), np.array(
        [0.1, 0.5, -0.5, 0.2, 0.1, 0.3]
    )


@program("statsmodels", 1)
def statsmodels_ordered() -> Made:
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    m = OrderedModel(np.digitize(Y, [0, 2]), X[:, 1:], distr="logit")
    return m.loglike, np.array([0.5, -0.5, 0.2, 0.3])


@program("statsmodels", 1)
def statsmodels_zero_inflated() -> Made:
    import statsmodels.api as sm

    return sm.ZeroInflatedPoisson(np.round(np.abs(Y)), X, exog_infl=X[:, :1]).loglike, np.array([0.3, 0.1, 0.5, -0.5])


@program("statsmodels")
def statsmodels_poisson_scores() -> Made:
    import statsmodels.api as sm

    m = sm.Poisson(np.round(np.abs(Y)), X)
    return lambda p: np.sum(m.score_obs(p) ** 2), POINT


@program("statsmodels", 1)
def statsmodels_beta() -> Made:
    from statsmodels.othermod.betareg import BetaModel

    y = 1 / (1 + np.exp(-Y / 3))
    return BetaModel(y, X).loglike, np.array([0.1, 0.5, -0.5, 1.0])


@program("statsmodels", 1)
def statsmodels_weighted_stats() -> Made:
    from statsmodels.stats.weightstats import DescrStatsW

    w = np.arange(1.0, 9)
    return (
        lambda y: DescrStatsW(y, weights=w).std + DescrStatsW(y, weights=w).mean + DescrStatsW(y, weights=w).tconfint_mean()[0],
        Y[:8],
    )


@program("statsmodels", 1)
def statsmodels_stattools() -> Made:
    from statsmodels.stats.stattools import durbin_watson, jarque_bera

    return lambda y: durbin_watson(y) + jarque_bera(y)[0], Y[:8]


@program("statsmodels", 1)
def statsmodels_acf() -> Made:
    from statsmodels.tsa.stattools import acf, pacf_yw

    return lambda y: np.sum(acf(y, nlags=3, fft=True)) + np.sum(pacf_yw(y, 2)), Y[:10]


@program("statsmodels", 1)
def statsmodels_kde_multivariate() -> Made:
    from statsmodels.nonparametric.kernel_density import KDEMultivariate

    k = KDEMultivariate(Y.reshape(-1, 1), "c", bw=[0.5])
    return lambda p: k.pdf(p), np.array([0.4])


@program("statsmodels", 1)
def statsmodels_kernel_regression() -> Made:
    from statsmodels.nonparametric.kernel_regression import KernelReg

    k = KernelReg(Y, X[:, 1], "c", bw=[0.5])
    return lambda p: k.fit(p)[0][0], np.array([0.4])


@program("statsmodels")
def statsmodels_gmm() -> Made:
    from statsmodels.sandbox.regression.gmm import IVGMM

    m = IVGMM(Y, X, X)
    return lambda p: m.gmmobjective(p, np.eye(3)), POINT


@program("statsmodels", 1)
def statsmodels_hp_filter() -> Made:
    from statsmodels.tsa.filters.hp_filter import hpfilter

    return lambda y: np.sum(hpfilter(y, 10.0)[1] ** 3), Y[:9]


@program("statsmodels", 1)
def statsmodels_filters() -> Made:
    from statsmodels.tsa.filters.filtertools import convolution_filter, recursive_filter

    return lambda y: np.sum(recursive_filter(y, np.array([0.5])) ** 2) + np.sum(convolution_filter(y, [0.5, 0.5])[1:8] ** 2), Y[
        :9
    ]


@program("statsmodels", 1)
def statsmodels_arma_process() -> Made:
    from statsmodels.tsa.arima_process import arma_impulse_response

    return lambda p: np.sum(arma_impulse_response([1.0, -p[0]], [1.0, p[1]], leads=5)), np.array([0.4, 0.3])


@program("statsmodels")
def statsmodels_copula() -> Made:
    from statsmodels.distributions.copula.api import ClaytonCopula, FrankCopula

    u = RNG.random((5, 2))
    return lambda p: np.sum(ClaytonCopula().logpdf(u, args=(p[0],))) + np.sum(FrankCopula().cdf(u, args=(p[1],))), np.array(
        [1.5, 2.0]
    )


@program("statsmodels", 1)
def statsmodels_exponential_smoothing() -> Made:
    from statsmodels.tsa.holtwinters import SimpleExpSmoothing

    m = SimpleExpSmoothing(Y, initialization_method="known", initial_level=1.0)
    return lambda p: m.fit(smoothing_level=p[0], optimized=False).sse, np.array([0.4])


@program("statsmodels", 1)
def statsmodels_var() -> Made:
    from statsmodels.tsa.vector_ar.var_model import forecast, ma_rep

    return (
        lambda p: np.sum(ma_rep(p.reshape(1, 2, 2), 4)) + np.sum(forecast(np.ones((1, 2)), p.reshape(1, 2, 2), np.zeros(2), 3)),
        RNG.random(4),
    )


@program("statsmodels", 1)
def statsmodels_multivariate() -> Made:
    from statsmodels.multivariate.factor_rotation._gpa_rotation import oblimin_objective

    return lambda p: oblimin_objective(L=p.reshape(4, 2), gamma=0.3, return_gradient=False), RNG.random(8)


@program("statsmodels")
def statsmodels_conditional() -> Made:
    from statsmodels.discrete.conditional_models import ConditionalLogit

    m = ConditionalLogit(POSITIVE, X[:, 1:], groups=np.arange(20) // 5)
    return m.loglike, np.array([0.4, -0.3])


@program("statsmodels")
def statsmodels_phreg() -> Made:
    from statsmodels.duration.hazard_regression import PHReg

    m = PHReg(np.exp(Y / 3), X[:, 1:], status=POSITIVE, ties="breslow")
    return m.loglike, np.array([0.4, -0.3])


@program("statsmodels", 1)
def statsmodels_glm_score() -> Made:
    import statsmodels.api as sm

    return lambda p: np.sum(sm.GLM(POSITIVE, X, family=sm.families.Binomial()).score(p)), POINT


@program("lifelines")
def lifelines_weibull() -> Made:
    from lifelines import WeibullFitter

    w = WeibullFitter()
    return lambda p: np.sum(w._cumulative_hazard(p, np.array([1.0, 2.0]))), np.array([2.0, 1.3])


@program("lifelines", 1)
def lifelines_fitter() -> Made:
    from lifelines import LogLogisticFitter, LogNormalFitter

    return (
        lambda p: (
            np.sum(LogNormalFitter()._cumulative_hazard(p, np.array([1.0, 2.0])))
            + np.sum(LogLogisticFitter()._cumulative_hazard(p, np.array([1.0, 2.0])))
        ),
        np.array([2.0, 1.3]),
    )


@program("pingouin", 1)
def pingouin_effect_sizes() -> Made:
    import pingouin

    return lambda p: pingouin.compute_effsize(p[:4], p[4:], eftype="cohen"), RNG.random(9)


@program("pingouin", 1)
def pingouin_circular() -> Made:
    import pingouin

    return lambda p: pingouin.circ_mean(p) + pingouin.circ_r(p), RNG.random(5)


@program("nelson_siegel_svensson")
def nelson_siegel_curve() -> Made:
    from nelson_siegel_svensson import NelsonSiegelSvenssonCurve

    return lambda p: np.sum(NelsonSiegelSvenssonCurve(*p)(T)) + np.sum(NelsonSiegelSvenssonCurve(*p).forward(T)), np.array(
        [0.03, -0.01, 0.02, 0.01, 1.5, 3.0]
    )


@program("nelson_siegel_svensson")
def nelson_siegel_calibrate() -> Made:
    from nelson_siegel_svensson.calibrate import errorfn_ns_ols

    y = np.array([0.01, 0.012, 0.015, 0.018, 0.02, 0.021, 0.022])
    return lambda p: errorfn_ns_ols(p[0], T, y) * 1e4, np.array([1.2])


@program("lmoments3", 1)
def lmoments_ratios() -> Made:
    import lmoments3

    return lambda p: sum(lmoments3.lmom_ratios(p, nmom=3)), RNG.random(7)


@program("lmoments3", 1)
def lmoments_distribution() -> Made:
    from lmoments3 import distr

    return (
        lambda p: distr.gev._lmom_ratios(p[0], 0.0, p[1], nmom=3)[1] if hasattr(distr.gev, "_lmom_ratios") else p[0],
        np.array([0.1, 1.2]),
    )
