"""Programs of statistics, econometrics and machine learning."""

from __future__ import annotations

import numpy as np

from .catalogue import Made, program

RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(20), RNG.normal(size=(20, 2))])
Y = X @ [1.0, 2.0, -1.0] + RNG.normal(size=20)
POSITIVE = (Y > 1).astype(float)
COUNTS = np.round(np.exp(POSITIVE))
POINT = np.array([0.1, 0.5, -0.5])


@program("statsmodels")
def statsmodels_least_squares() -> Made:
    import statsmodels.api as sm

    return sm.OLS(Y, X).loglike, POINT


@program("statsmodels", 1)
def statsmodels_logit() -> Made:
    import statsmodels.api as sm

    return sm.Logit(POSITIVE, X).loglike, POINT


@program("statsmodels")
def statsmodels_probit() -> Made:
    import statsmodels.api as sm

    return sm.Probit(POSITIVE, X).loglike, POINT


@program("statsmodels")
def statsmodels_poisson_glm() -> Made:
    import statsmodels.api as sm

    return sm.GLM(COUNTS, X, family=sm.families.Poisson()).loglike, POINT


@program("statsmodels")
def statsmodels_negative_binomial() -> Made:
    import statsmodels.api as sm

    return sm.NegativeBinomial(COUNTS, X).loglike, np.array([0.1, 0.5, -0.5, 0.4])


@program("statsmodels", 1)
def statsmodels_robust_norms() -> Made:
    from statsmodels.robust.norms import HuberT, TukeyBiweight

    return lambda p: np.sum(HuberT(1.3).rho(Y - X @ p)) + np.sum(TukeyBiweight(4.0).rho(Y - X @ p)), POINT


@program("statsmodels", 1)
def statsmodels_links() -> Made:
    from statsmodels.genmod.families import links

    return lambda p: sum(np.sum(link.inverse(p)) for link in (links.Logit(), links.CLogLog(), links.Log())), POINT


@program("statsmodels")
def statsmodels_kernel_density() -> Made:
    from statsmodels.nonparametric.kernels import gaussian

    return lambda h: np.sum(gaussian(h, Y, 0.5)), np.array([0.7])


@program("statsmodels", 1)
def statsmodels_autocovariance() -> Made:
    from statsmodels.tsa.stattools import acovf

    return lambda y: np.sum(acovf(y, fft=False)[:3]), Y[:8]


@program("sklearn", 1)
def sklearn_mean_squared_error() -> Made:
    from sklearn.metrics import mean_squared_error

    return lambda p: mean_squared_error(Y, X @ p), POINT


@program("sklearn", 1)
def sklearn_pairwise_kernels() -> Made:
    from sklearn.metrics.pairwise import cosine_similarity, rbf_kernel

    return lambda p: np.sum(rbf_kernel(p.reshape(2, 3), X[:3])) + np.sum(cosine_similarity(p.reshape(2, 3), X[:3])), RNG.random(
        6
    )


@program("sklearn", 1)
def sklearn_gaussian_process_kernel() -> Made:
    from sklearn.gaussian_process.kernels import RBF, RationalQuadratic

    return lambda p: np.sum(RBF(p[0])(X[:5], X[5:8])) + np.sum(RationalQuadratic(p[1], p[2])(X[:5], X[5:8])), np.array(
        [1.1, 0.8, 1.4]
    )


@program("arch")
def arch_normal_likelihood() -> Made:
    from arch.univariate import Normal, StudentsT

    return (
        lambda p: (
            Normal().loglikelihood([], Y - p[0], np.full(20, 1.0) * p[1], individual=False)
            + StudentsT().loglikelihood(p[2:], Y, np.ones(20))
        ),
        np.array([0.2, 1.3, 6.0]),
    )


@program("lifetimes")
def lifetimes_beta_geo() -> Made:
    from lifetimes import BetaGeoFitter

    frequency, recency, age = np.array([2.0, 0.0, 5.0]), np.array([30.0, 0.0, 40.0]), np.array([38.0, 38.0, 45.0])
    return (
        lambda p: BetaGeoFitter._negative_log_likelihood(p, frequency, recency, age, np.ones(3), 0.0),
        np.array([0.2, 0.5, 0.1, 0.3]),
    )


@program("reliability")
def reliability_distributions() -> Made:
    from reliability.Fitters import Fit_Weibull_2P

    return lambda p: Fit_Weibull_2P.LL(p, np.array([3.0, 5.0, 8.0]), np.array([9.0])), np.array([6.0, 1.7])


@program("numpy_financial", 1)
def numpy_financial_present_value() -> Made:
    import numpy_financial as npf

    return (
        lambda p: npf.npv(p[0], [-100.0, 39.0, 59.0, 55.0, 20.0]) + npf.pmt(p[0] / 12, 48, p[1]) + npf.fv(p[0], 10, -1, -p[1]),
        np.array([0.08, 150.0]),
    )


@program("py_vollib", 1, "vollib", "py_lets_be_rational", "cody_special")
def py_vollib_black_scholes() -> Made:
    from py_vollib.black_scholes import black_scholes

    return lambda p: black_scholes("c", p[0], 100.0, 0.5, p[1], p[2]), np.array([102.0, 0.01, 0.2])


@program("quantecon", 1)
def quantecon_lq() -> Made:
    from quantecon import LinearStateSpace

    return lambda p: np.sum(LinearStateSpace(np.eye(2) * p[0], np.ones((2, 1)), np.ones((1, 2))).A ** 2), np.array([0.8])


@program("pykalman")
def pykalman_filter() -> Made:
    from pykalman.standard import _filter_predict

    return (
        lambda p: np.sum(_filter_predict(np.eye(2) * p[0], np.eye(2) * p[1], np.zeros(2), np.ones(2) * p[2], np.eye(2))[0]),
        np.array([0.9, 0.1, 1.5]),
    )


@program("simdkalman")
def simdkalman_predict() -> Made:
    from simdkalman.primitives import predict, update

    def f(p):
        m, q = predict(np.ones((1, 2, 1)), np.eye(2)[None], np.array([[[1.0, 1.0], [0.0, 1.0]]]), np.eye(2)[None] * p[0])
        m, q = update(m, q, np.array([[[1.0, 0.0]]]), np.eye(1)[None] * p[1], np.array([[[1.5]]]))
        return np.sum(m) + np.sum(q)

    return f, np.array([0.3, 0.5])


@program("filterpy")
def filterpy_kalman_filter() -> Made:
    from filterpy.kalman import KalmanFilter

    def f(p):
        k = KalmanFilter(dim_x=2, dim_z=1)
        k.F, k.H = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])
        k.R, k.Q = k.R * np.exp(p[0]), np.eye(2) * np.exp(p[1])
        k.P = k.P * 10.0
        total = 0.0
        for z in (1.0, 2.0, 2.9, 4.2):
            k.predict()
            k.update(z)
            total = total + k.y[0, 0] ** 2 / k.S[0, 0] + np.log(k.S[0, 0])
        return total

    return f, np.array([0.1, -0.5])


@program("filterpy", 1)
def filterpy_likelihood() -> Made:
    from filterpy.kalman import KalmanFilter

    def f(p):
        k = KalmanFilter(dim_x=2, dim_z=1)
        k.F, k.H = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])
        k.R, k.Q = k.R * np.exp(p[0]), np.eye(2) * np.exp(p[1])
        total = 0.0
        for z in (1.0, 2.0, 2.9):
            k.predict()
            k.update(z)
            total = total + k.log_likelihood
        return total

    return f, np.array([0.1, -0.5])


@program("filterpy")
def filterpy_gh_filter() -> Made:
    from filterpy.gh import GHFilter

    def f(p):
        g = GHFilter(0.0, 1.0, 1.0, p[0], p[1])
        return sum(g.update(z)[0] for z in (1.1, 2.3, 2.9))

    return f, np.array([0.8, 0.2])


@program("numdifftools")
def numdifftools_fornberg() -> Made:
    from numdifftools.fornberg import fd_weights_all

    return lambda x: np.sum(x * fd_weights_all(np.arange(3.0), 1.0, 1)[1]), POINT


@program("emcee")
def emcee_autocorrelation() -> Made:
    from emcee.autocorr import auto_window

    return lambda x: np.sum(x**2) + auto_window(np.cumsum(np.abs(x)), 5), POINT


@program("tensorly")
def tensorly_products() -> Made:
    import tensorly as tl
    from tensorly.tenalg import khatri_rao, mode_dot

    return (
        lambda a: (
            np.sum(mode_dot(a.reshape(2, 3, 2), np.ones((4, 3)), 1) ** 2)
            + np.sum(khatri_rao([a.reshape(6, 2), a.reshape(6, 2)]))
            + np.sum(tl.unfold(a.reshape(2, 3, 2), 1)[0])
        ),
        RNG.random(12),
    )


@program("opt_einsum")
def opt_einsum_contraction() -> Made:
    import opt_einsum

    a, b = RNG.random((3, 4)), RNG.random((4, 2))
    return lambda x: np.sum(opt_einsum.contract("i,ij,jk->k", x, a, b) ** 2), POINT


@program("einops")
def einops_rearrange() -> Made:
    import einops

    weights = np.arange(6).reshape(3, 2)
    return (
        lambda a: (
            np.sum(einops.rearrange(a, "(a b) -> b a", a=2) ** 2 * weights)
            + np.sum(einops.reduce(a**2, "(a b) -> b", "max", a=2))
        ),
        np.arange(6.0) + 0.1,
    )


@program("ot")
def pot_sinkhorn() -> Made:
    import ot

    a = np.ones(4) / 4
    return lambda m: np.sum(ot.sinkhorn(a, a, m.reshape(4, 4), 0.5, numItermax=20, warn=False) * m.reshape(4, 4)), RNG.random(
        16
    )


@program("ot")
def pot_distances() -> Made:
    import ot

    return lambda x: np.sum(ot.dist(x.reshape(4, 2), np.ones((3, 2)))), RNG.random(8)


@program("ot")
def pot_gromov() -> Made:
    from ot.gromov import init_matrix

    return lambda x: np.sum(init_matrix(x.reshape(2, 2), np.eye(2), np.ones(2) / 2, np.ones(2) / 2)[0]), RNG.random(4)


@program("pymanopt")
def pymanopt_sphere() -> Made:
    import pymanopt

    manifold, north = pymanopt.manifolds.Sphere(3), np.array([1.0, 0.0, 0.0])
    return (
        lambda x: manifold.dist(x / np.linalg.norm(x), north) + np.sum(manifold.exp(north, np.stack([0 * x[0], x[1], x[2]]))),
        np.array([0.3, 0.4, 0.5]),
    )


@program("pymanopt")
def pymanopt_positive_definite() -> Made:
    import pymanopt

    manifold = pymanopt.manifolds.SymmetricPositiveDefinite(2)
    return lambda x: manifold.inner_product(np.eye(2) * x[0], np.ones((2, 2)), np.diag(x[1:])), np.array([1.3, 0.4, 0.5])


@program("similaritymeasures", 1)
def similaritymeasures_area() -> Made:
    import similaritymeasures

    one = np.column_stack([np.arange(4.0), [0.0, 1.0, 0.5, 2.0]])
    return (
        lambda y: (
            similaritymeasures.frechet_dist(np.stack([np.arange(4.0), y], 1), one)
            + similaritymeasures.mae(np.stack([np.arange(4.0), y], 1), one)
        ),
        np.array([0.3, 0.8, 1.5, 1.7]),
    )


@program("nashpy", 1)
def nashpy_payoffs() -> Made:
    import nashpy

    game = nashpy.Game(np.array([[1.0, 2.0], [3.0, 0.5]]))
    return lambda p: np.sum(game[p, np.array([0.4, 0.6])]), np.array([0.3, 0.7])
