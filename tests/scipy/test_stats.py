"""`functad.scipy.stats`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

import functad
from functad.errors import UnsupportedError
from functad.scipy import stats
from functad.testing import check_grads

BY_ALL = {
    "norm": (),
    "gamma": (2.3,),
    "beta": (2.3, 0.9),
    "argus": (1.2,),
    "cauchy": (),
    "cosine": (),
    "invgauss": (0.7,),
    "skewnorm": (1.4,),
    "norminvgauss": (1.3, 0.5),
    "geninvgauss": (1.3, 0.8),
    "genhyperbolic": (0.5, 1.5, -0.5),
    "gausshyper": (1.8, 2.1, 1.5, 0.6),
    "ncf": (5.0, 8.0, 0.6),
    "nct": (8.0, 0.3),
    "ncx2": (4.0, 1.1),
    "tukeylambda": (0.4,),
    "vonmises": (1.7,),
    "landau": (),
    "kstwobign": (),
    "dpareto_lognorm": (3.0, 1.2, 1.5, 2.0),
}
"""Distributions, with values of their shape parameters."""

VALUES_WITHIN = {"test_the_mass_of_normal_variables": 1e-3}
"""SciPy integrates over three variables by random points."""

COUNTED = {"ksone": (5,), "irwinhall": (4,)}
"""Those whose shape parameters are counts."""

METHODS = ("pdf", "logpdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf")


def point(name: str, method: str, shapes: tuple[Any, ...]) -> float:
    """Return where a method is differentiated."""
    return 0.37 if method in ("ppf", "isf") else float(getattr(scipy.stats, name).ppf(0.37, *shapes)) * 1.3 + 0.05


@pytest.mark.parametrize("name", BY_ALL)
def test_continuous_distributions(name: str) -> None:
    shapes = BY_ALL[name]
    for method in METHODS:

        def f(p: Any, method: str = method) -> Any:
            return getattr(getattr(stats, name), method)(p[0], *[p[i] for i in range(1, len(p) - 2)], loc=p[-2], scale=p[-1])

        p = np.array([point(name, method, shapes), *shapes, 0.05, 1.3])
        g = functad.grad(f)(p)
        for i in range(len(p)):
            h = np.zeros(len(p))
            h[i] = 1e-5
            slope = (f(p + h) - f(p - h)) / 2e-5
            assert g[i] == pytest.approx(slope, rel=2e-5, abs=2e-6), (method, i)
        along = functad.jvp(f, (p,), (np.ones(len(p)),))[1]
        assert along == pytest.approx(np.sum(g), rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("name", COUNTED)
def test_distributions_of_counts(name: str) -> None:
    for method in METHODS:

        def f(x: Any, scale: Any, method: str = method) -> Any:
            return getattr(getattr(stats, name), method)(x, *COUNTED[name], loc=0.05, scale=scale)

        check_grads(f, [point(name, method, COUNTED[name]), 1.3], order=2 if method in ("pdf", "cdf") else 1)


@pytest.mark.parametrize("name", ["gamma", "skewnorm", "ncx2", "nct", "geninvgauss"])
def test_quantiles_have_second_derivatives(name: str) -> None:
    shapes = BY_ALL[name]

    def f(q: Any, a: Any) -> Any:
        return getattr(stats, name).ppf(q, a, *shapes[1:])

    check_grads(f, [0.3, shapes[0]], order=2)


def test_arrays_and_values() -> None:
    x, q, a = np.array([0.4, 1.1, 2.0]), np.array([0.1, 0.5, 0.9]), np.array([[1.5], [2.5]])
    for name, points, shapes in (
        ("gamma", x, (a,)),
        ("geninvgauss", x[:2], (a, 0.8)),
        ("ncx2", x, (a, 1.1)),
        ("norminvgauss", x[:2], (1.3, 0.5)),
    ):
        for method in METHODS:
            where = q[: len(points)] if method in ("ppf", "isf") else points
            plain = getattr(getattr(scipy.stats, name), method)(where, *shapes)

            def f(b: Any, method: str = method, where: Any = where, shapes: Any = shapes, name: str = name) -> Any:
                return getattr(getattr(stats, name), method)(where * b, *shapes)

            value, _ = functad.vjp(f, 1.0)
            np.testing.assert_allclose(value, plain, rtol=1e-13)
            slope = (f(1 + 1e-6) - f(1 - 1e-6)) / 2e-6
            np.testing.assert_allclose(functad.jvp(f, (1.0,), (1.0,))[1], slope, rtol=1e-4, atol=1e-7)
            again = getattr(getattr(stats, name), method)(where, *shapes)
            np.testing.assert_array_equal(again, plain)
            assert type(again) is type(plain)


def test_distributions_without_derivatives() -> None:
    for name, shapes in (("kstwo", (7,)),):
        x = point(name, "cdf", shapes)
        d = getattr(stats, name)
        check_grads(lambda x, scale, d=d, shapes=shapes: d.cdf(x, *shapes, scale=scale), [x / 1.4, 1.01], order=1)
        check_grads(lambda x, d=d, shapes=shapes: d.sf(x, *shapes), [x / 1.4], order=1)
        with pytest.raises(UnsupportedError, match="density of"):
            functad.grad(lambda x, d=d, shapes=shapes: d.pdf(x, *shapes))(x)
        with pytest.raises(UnsupportedError, match="with respect to its shape parameters"):
            functad.grad(lambda a, d=d, shapes=shapes, x=x: d.cdf(x, a, *shapes[1:]))(float(shapes[0]))
        np.testing.assert_array_equal(d.cdf(x, *shapes), getattr(scipy.stats, name).cdf(x, *shapes))
    with pytest.raises(UnsupportedError, match="they are counts"):
        functad.grad(lambda n: stats.irwinhall.pdf(1.2, n))(4.0)
    with pytest.raises(UnsupportedError, match="found by a search"):
        functad.vmap(lambda q: stats.skewnorm.ppf(q, 2.0))(np.array([0.3, 0.4]))


def test_distributions_that_are_integrated() -> None:
    def f(kind: Any, p: Any, name: str, method: str) -> Any:
        return getattr(getattr(kind, name), method)(p[0], p[1], p[2], loc=p[3], scale=p[4])

    for name, shapes in (("levy_stable", (1.8, -0.5)), ("levy_stable", (0.7, 0.2)), ("studentized_range", (3.0, 10.0))):
        for method in ("logpdf", "cdf", "sf", "ppf") if shapes[0] == 1.8 else ("logpdf", "cdf"):
            p = np.array([0.4 if method == "ppf" else 1.3, *shapes, 0.05, 1.2])
            value, pull = functad.vjp(lambda p, n=name, m=method: f(stats, p, n, m), p)
            assert value == f(scipy.stats, p, name, method)
            slopes = [
                (f(scipy.stats, p + h, name, method) - f(scipy.stats, p - h, name, method)) / 2e-4 for h in np.eye(5) * 1e-4
            ]
            np.testing.assert_allclose(np.reshape(pull(1.0), -1), slopes, rtol=1e-5, atol=1e-6)
    check_grads(lambda x, a: stats.levy_stable.pdf(x, a, 0.3), [0.4, 1.5], order=2)
    check_grads(lambda x: stats.studentized_range.cdf(x, 3, 200000.0), [2.8], order=1)
    with pytest.raises(UnsupportedError, match="alpha = 1"):
        functad.grad(lambda x: stats.levy_stable.pdf(x, 1.0, 0.5))(0.3)
    with pytest.raises(UnsupportedError, match="too much cancels"):
        functad.grad(lambda x: stats.levy_stable.pdf(x, 0.99, 0.9))(0.3)


DISCRETE = {
    "bernoulli": ((0.3,), 1, ()),
    "binom": ((0.3,), 2, (5,)),
    "nbinom": ((2.5, 0.4), 3, ()),
    "poisson": ((2.2,), 2, ()),
    "geom": ((0.3,), 2, ()),
    "betabinom": ((2.3, 0.6), 2, (5,)),
    "zipf": ((3.2,), 2, ()),
    "logser": ((0.6,), 2, ()),
    "planck": ((0.5,), 2, ()),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distributions(name: str) -> None:
    parameters, k, counts = DISCRETE[name]
    for method in ("pmf", "logpmf", "cdf", "sf"):
        if (name, method) == ("bernoulli", "sf"):
            continue
        check_grads(lambda *p, m=method: getattr(getattr(stats, name), m)(k, *counts, *p), list(parameters), order=1)
    check_grads(lambda loc: getattr(stats, name).ppf(0.4, *counts, *parameters) * loc, [1.2], order=1)


def test_distributions_of_urns() -> None:
    for method in ("pmf", "cdf", "sf"):
        check_grads(lambda w, m=method: getattr(stats.nchypergeom_fisher, m)(4, 20, 7, 12, w), [1.5], order=1)
        check_grads(lambda a, m=method: getattr(stats.zipfian, m)(3, a, 10), [1.3], order=1)
        value, _ = functad.vjp(lambda w, m=method: getattr(stats.nchypergeom_fisher, m)(4, 20, 7, 12, w), 1.5)
        assert value == pytest.approx(getattr(scipy.stats.nchypergeom_fisher, method)(4, 20, 7, 12, 1.5), rel=1e-12)
    with pytest.raises(UnsupportedError, match="compiled code"):
        functad.grad(lambda w: stats.nchypergeom_wallenius.pmf(4, 20, 7, 12, w))(1.5)


A = np.array([[2.0, 0.5, 0.2], [0.5, 1.0, 0.1], [0.2, 0.1, 1.5]])
X = np.array([0.3, 0.4, -0.2])
RNG = np.random.default_rng(0)
DATA, OTHERS = RNG.normal(size=9), RNG.normal(size=11)


def test_several_variables() -> None:
    check_grads(lambda x, m: stats.multivariate_normal.logpdf(x, m, A), [X, X + 0.1])
    check_grads(lambda x: stats.multivariate_t.logpdf(x, np.zeros(3), A, df=4), [X])
    check_grads(lambda d: stats.multivariate_t.logpdf(X, np.zeros(3), A, df=d), [4.0], order=1)
    check_grads(lambda a: stats.dirichlet.logpdf(np.array([0.2, 0.3, 0.5]), a), [np.array([1.5, 2.0, 3.0])])
    check_grads(lambda a: stats.dirichlet.pdf(a / np.sum(a), [1.5, 2.0, 3.0]), [np.array([0.2, 0.3, 0.5])], order=1)
    with pytest.raises(UnsupportedError, match="random points"):
        functad.grad(lambda x: stats.multivariate_t.cdf(x, X, A, df=4))(X)


def test_the_mass_of_normal_variables() -> None:
    root = np.linalg.cholesky(A)

    def f(x: Any, m: Any, r: Any) -> Any:
        return stats.multivariate_normal.cdf(x, m, r @ r.T)

    check_grads(f, [X[:2], X[:2] / 3, root[:2, :2]], order=2)  # SciPy has a formula for two
    check_grads(
        lambda x, low: stats.multivariate_normal.cdf(x, X[:2], A[:2, :2], lower_limit=low), [X[:2] + 1, X[:2] - 1], order=1
    )
    check_grads(lambda d: stats.gaussian_kde(d).integrate_box([0.0, 0.0], [1.0, 1.0]), [RNG.normal(size=(2, 7))], order=1)
    t, w = np.polynomial.legendre.leggauss(60)

    def mass(h: float) -> float:
        """Return the mass of three variables: the integral over one of that of the two others, given that."""
        x, cov = X + h * way[0], (root + h * way[1]) @ (root + h * way[1]).T
        u = (x[0] + 12) / 2 * t + (x[0] - 12) / 2
        given = cov[1:, 1:] - np.outer(cov[1:, 0], cov[1:, 0]) / cov[0, 0]
        each = [scipy.stats.multivariate_normal.cdf(x[1:] - cov[1:, 0] / cov[0, 0] * v, cov=given) for v in u]
        return float(np.sum(w * scipy.stats.norm.pdf(u, scale=np.sqrt(cov[0, 0])) * each) * (x[0] + 12) / 2)

    way = RNG.normal(size=3), RNG.normal(size=(3, 3))
    along = functad.jvp(lambda x, r: f(x, 0 * X, r), (X, root), way)[1]
    assert along == pytest.approx((mass(1e-4) - mass(-1e-4)) / 2e-4, rel=1e-5)
    value, _ = functad.vjp(lambda x: f(x, 0 * X, root), X[:2].repeat(2)[:3])
    assert value == pytest.approx(scipy.stats.multivariate_normal.cdf(X[:2].repeat(2)[:3], 0 * X, A), rel=1e-4)


def test_kernel_estimates() -> None:
    points = np.array([0.3, -0.2])
    check_grads(lambda d, p: stats.gaussian_kde(d)(p), [DATA, points], order=1)
    check_grads(lambda d, p: stats.gaussian_kde(d).logpdf(p), [DATA, points], order=1)
    check_grads(lambda w: stats.gaussian_kde(DATA, bw_method=w)(points), [0.4], order=1)
    check_grads(lambda p: stats.gaussian_kde(np.stack([DATA, DATA**2]))(p), [points], order=1)
    for method in ("evaluate", "logpdf"):
        plain = getattr(scipy.stats.gaussian_kde(DATA), method)(points)
        value, _ = functad.vjp(lambda p, m=method: getattr(stats.gaussian_kde(DATA), m)(p), points)
        np.testing.assert_allclose(value, plain, rtol=1e-12)


def test_statistics_of_samples() -> None:
    positive = np.abs(DATA) + 0.2
    for f in (
        stats.skew,
        stats.kurtosis,
        stats.gmean,
        stats.hmean,
        stats.entropy,
        stats.sem,
        lambda t: stats.zscore(t)[:3],
        lambda t: stats.moment(t, 3),
        lambda t: stats.ttest_ind(t, OTHERS).pvalue,
        lambda t: stats.entropy(t, np.abs(OTHERS[:9]) + 0.1),
        lambda t: stats.wasserstein_distance(t, OTHERS),
        lambda t: stats.energy_distance(t, OTHERS),
    ):
        check_grads(f, [positive], order=1)
    weights = np.linspace(0.5, 1.5, 9)
    check_grads(lambda t, w: stats.wasserstein_distance(t, OTHERS, w), [positive, weights], order=1)
    assert stats.wasserstein_distance(positive, OTHERS) == scipy.stats.wasserstein_distance(positive, OTHERS)
    value, _ = functad.vjp(lambda t: stats.wasserstein_distance(t, OTHERS), positive)
    assert value == pytest.approx(scipy.stats.wasserstein_distance(positive, OTHERS), rel=1e-13)


def test_the_test_of_a_proportion() -> None:
    for k, alternative in ((3, "two-sided"), (3, "less"), (3, "greater"), (0, "greater"), (10, "less")):
        check_grads(lambda p, k=k, a=alternative: stats.binomtest(k, 10, p, a).pvalue, [0.4], order=1)
