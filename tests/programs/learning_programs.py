"""Programs of machine learning."""

from __future__ import annotations

import numpy as np

from .catalogue import Made, program

RNG = np.random.default_rng(9)
X = np.column_stack([np.ones(20), RNG.normal(size=(20, 2))])
Y = X @ [1.0, 2.0, -1.0] + RNG.normal(size=20)
POSITIVE = (Y > 1).astype(float)
POINT = np.array([0.1, 0.5, -0.5])


@program("sklearn", 1)
def sklearn_classification_metrics() -> Made:
    from sklearn.metrics import log_loss

    return lambda p: log_loss(POSITIVE, 1 / (1 + np.exp(-X @ p))), POINT


@program("sklearn", 1)
def sklearn_regression_metrics() -> Made:
    from sklearn.metrics import explained_variance_score, mean_absolute_error, r2_score

    return lambda p: mean_absolute_error(Y, X @ p) + r2_score(Y, X @ p) + explained_variance_score(Y, X @ p), POINT


@program("sklearn", 1)
def sklearn_kernels() -> Made:
    from sklearn.metrics.pairwise import euclidean_distances, polynomial_kernel, sigmoid_kernel

    return (
        lambda p: (
            np.sum(polynomial_kernel(p.reshape(2, 3), X[:3]))
            + np.sum(sigmoid_kernel(p.reshape(2, 3)))
            + np.sum(euclidean_distances(p.reshape(2, 3), X[:3]))
        ),
        RNG.random(6),
    )


@program("sklearn", 1)
def sklearn_matern() -> Made:
    from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, ExpSineSquared, Matern

    return lambda p: np.sum(
        (ConstantKernel(p[0]) * Matern(p[1], nu=2.5) + DotProduct(p[2]) + ExpSineSquared(p[1], p[0]))(X[:5], X[5:8])
    ), np.array([1.1, 0.8, 1.4])


@program("sklearn", 1)
def sklearn_gpr_likelihood() -> Made:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel

    g = GaussianProcessRegressor(RBF() + WhiteKernel(), optimizer=None).fit(X, Y)
    return lambda t: g.log_marginal_likelihood(t), np.array([0.2, -0.5])


@program("sklearn", 1)
def sklearn_gpr_predict() -> Made:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel

    g = GaussianProcessRegressor(RBF() + WhiteKernel(), optimizer=None).fit(X, Y)
    return lambda x: sum(part[0] for part in g.predict(x.reshape(1, 3), return_std=True)), np.array([1.0, 0.2, -0.5])


@program("sklearn", 1)
def sklearn_logistic_predict() -> Made:
    from sklearn.linear_model import LogisticRegression

    m = LogisticRegression().fit(X, POSITIVE)
    return lambda x: m.predict_proba(x.reshape(1, 3))[0, 1] + m.decision_function(x.reshape(1, 3))[0], np.array(
        [1.0, 0.2, -0.5]
    )


@program("sklearn", 1)
def sklearn_mlp_predict() -> Made:
    from sklearn.neural_network import MLPRegressor

    m = MLPRegressor(hidden_layer_sizes=(4,), activation="tanh", max_iter=5, random_state=0).fit(X, Y)
    return lambda x: m.predict(x.reshape(1, 3))[0], np.array([1.0, 0.2, -0.5])


@program("sklearn", 1)
def sklearn_pca() -> Made:
    from sklearn.decomposition import PCA

    m = PCA(1).fit(X[:, 1:])
    return lambda x: np.sum(m.transform(x.reshape(1, 2)) ** 2), np.array([0.2, -0.5])


@program("sklearn", 1)
def sklearn_gaussian_mixture() -> Made:
    from sklearn.mixture import GaussianMixture

    m = GaussianMixture(2, random_state=0).fit(X[:, 1:])
    return lambda x: m.score_samples(x.reshape(1, 2))[0], np.array([0.2, -0.5])


@program("sklearn", 1)
def sklearn_scaler_pipeline() -> Made:
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    m = make_pipeline(StandardScaler(), Ridge()).fit(X, Y)
    return lambda x: m.predict(x.reshape(1, 3))[0], np.array([1.0, 0.2, -0.5])


@program("sklearn", 1)
def sklearn_polynomial_features() -> Made:
    from sklearn.preprocessing import PolynomialFeatures

    m = PolynomialFeatures(2).fit(X)
    return lambda x: np.sum(m.transform(x.reshape(1, 3)) ** 2), np.array([1.0, 0.2, -0.5])


@program("sklearn", 1)
def sklearn_power_transformer() -> Made:
    from sklearn.preprocessing import normalize, scale

    return lambda x: np.sum(normalize(x.reshape(2, 3))[0]) + np.sum(scale(x.reshape(2, 3))[0] ** 3), RNG.random(6)


@program("sklearn", 1)
def sklearn_naive_bayes() -> Made:
    from sklearn.naive_bayes import GaussianNB

    m = GaussianNB().fit(X[:, 1:], POSITIVE)
    return lambda x: m.predict_proba(x.reshape(1, 2))[0, 0], np.array([0.2, -0.5])


@program("sklearn", 1)
def sklearn_lda() -> Made:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

    m = LinearDiscriminantAnalysis().fit(X[:, 1:], POSITIVE)
    q = QuadraticDiscriminantAnalysis().fit(X[:, 1:], POSITIVE)
    return lambda x: m.decision_function(x.reshape(1, 2))[0] + q.decision_function(x.reshape(1, 2))[0], np.array([0.2, -0.5])


@program("sklearn", 1)
def sklearn_random_features() -> Made:
    from sklearn.kernel_approximation import RBFSampler

    m = RBFSampler(n_components=5, random_state=0).fit(X)
    return lambda x: np.sum(m.transform(x.reshape(1, 3))), np.array([1.0, 0.2, -0.5])


@program("sklearn", 1)
def sklearn_covariance() -> Made:
    from sklearn.covariance import empirical_covariance, log_likelihood

    return (
        lambda x: (
            np.sum(empirical_covariance(x.reshape(4, 2)) ** 2)
            + log_likelihood(np.eye(2), empirical_covariance(x.reshape(4, 2)))
        ),
        RNG.random(8),
    )


@program("sklearn", 1)
def sklearn_linear_algebra() -> Made:
    from sklearn.utils.extmath import safe_sparse_dot, softmax

    return lambda x: np.sum(softmax(x.reshape(2, 3))[0] ** 2) + np.sum(safe_sparse_dot(x.reshape(2, 3), X.T)), RNG.random(6)


@program("sklearn", 1)
def sklearn_kernel_ridge() -> Made:
    from sklearn.kernel_ridge import KernelRidge

    m = KernelRidge(kernel="rbf", gamma=0.5).fit(X, Y)
    return lambda x: m.predict(x.reshape(1, 3))[0], np.array([1.0, 0.2, -0.5])


@program("sklearn", 1)
def sklearn_svm_decision() -> Made:
    from sklearn.svm import LinearSVC

    m = LinearSVC().fit(X, POSITIVE)
    return lambda x: m.decision_function(x.reshape(1, 3))[0], np.array([1.0, 0.2, -0.5])


@program("sklearn")
def sklearn_activation() -> Made:
    from sklearn.neural_network._base import ACTIVATIONS, squared_loss

    def f(p):
        h = p.reshape(2, 3).copy()
        ACTIVATIONS["tanh"](h)
        return squared_loss(np.ones((2, 3)), h)

    return f, RNG.random(6)


@program("metric_learn", 1, "sklearn")
def metric_learn_nca() -> Made:
    from metric_learn import NCA

    nca = NCA()
    nca.n_iter_ = 0
    nca.verbose = False
    mask = (POSITIVE[:6, None] == POSITIVE[:6]).astype(float)
    return lambda p: nca._loss_grad_lbfgs(p, X[:6, 1:], mask, -1.0)[0], np.array([1.0, 0.2, 0.1, 0.8])


@program("mlxtend")
def mlxtend_scaling() -> Made:
    from mlxtend.preprocessing import minmax_scaling

    return lambda p: np.sum(minmax_scaling(p.reshape(4, 2), columns=[0, 1])[1] ** 2), RNG.random(8)


@program("hmmlearn")
def hmmlearn_density() -> Made:
    from hmmlearn.stats import log_multivariate_normal_density

    return lambda p: np.sum(
        log_multivariate_normal_density(X[:4, 1:], p[:4].reshape(2, 2), np.ones((2, 2)) * p[4], "diag")
    ), RNG.random(5) + 0.3


@program("hmmlearn", 1)
def hmmlearn_full_density() -> Made:
    from hmmlearn.stats import log_multivariate_normal_density

    return lambda p: np.sum(
        log_multivariate_normal_density(X[:4, 1:], p[:4].reshape(2, 2), np.stack([np.eye(2) * p[4], np.eye(2)]), "full")
    ), RNG.random(5) + 0.3


@program("tslearn", 1, "sklearn")
def tslearn_scaling() -> Made:
    from tslearn.preprocessing import TimeSeriesScalerMeanVariance

    return lambda p: np.sum(TimeSeriesScalerMeanVariance().fit_transform(p.reshape(1, 6))[0] ** 3), RNG.random(6)


@program("pyriemann")
def pyriemann_distance() -> Made:
    from pyriemann.utils.distance import distance_logeuclid, distance_riemann

    return (
        lambda p: (
            distance_riemann(np.eye(2) + np.outer(p, p), np.diag([1.0, 2.0]))
            + distance_logeuclid(np.eye(2) + np.outer(p, p), np.diag([1.0, 2.0]))
        ),
        np.array([0.3, 0.8]),
    )


@program("pyriemann")
def pyriemann_mean() -> Made:
    from pyriemann.utils.base import expm
    from pyriemann.utils.mean import mean_riemann

    return (
        lambda p: (
            np.sum(mean_riemann(np.stack([np.eye(2) + np.outer(p, p), np.diag([1.0, 2.0])]))[0])
            + np.sum(expm(np.outer(p, p))[0])
        ),
        np.array([0.3, 0.8]),
    )


@program("bayespy", 1)
def bayespy_linalg() -> Made:
    from bayespy.utils import linalg, misc

    return (
        lambda p: (
            np.sum(linalg.chol_solve(linalg.chol(np.eye(2) + np.outer(p, p)), p))
            + linalg.chol_logdet(linalg.chol(np.eye(2) + np.outer(p, p)))
            + misc.logsumexp(p)
        ),
        np.array([0.3, 0.4]),
    )


@program("bayespy")
def bayespy_moments() -> Made:
    from bayespy.utils.random import gaussian_logpdf

    return lambda p: gaussian_logpdf(p[0], p[1], p[2], -0.3, 2), np.array([0.3, 0.4, 0.7])
