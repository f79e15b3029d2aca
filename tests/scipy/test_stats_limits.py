"""`functad.scipy.stats`: parameters at which SciPy takes another formula, moments, entropies and expectations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

import functad
from functad.errors import UnsupportedError
from functad.scipy import stats
from functad.testing import check_grads

LIMITS = {
    "genpareto": (0.0,),
    "genextreme": (0.0,),
    "kappa4": (0.0, 0.0),
    "kappa4, one": (0.2, 0.0),
    "skewnorm": (0.0,),
    "triang": (0.4,),
}
"""Distributions, with parameters at which SciPy takes the formula of a limit, that are defined on both sides."""

METHODS = ("logpdf", "pdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf")


@pytest.mark.parametrize("name", LIMITS)
def test_limits(name: str) -> None:
    shapes, name = LIMITS[name], name.partition(",")[0]
    own = getattr(scipy.stats, name)
    x = float(own.ppf(0.37, *shapes)) * 1.01 + 0.01
    for method in METHODS:
        p = np.array([0.37 if method in ("ppf", "isf") else x, *shapes, 0.05, 1.3])

        def f(kind: Any, p: Any, method: str = method) -> Any:
            return getattr(kind, method)(p[0], *[p[i] for i in range(1, len(p) - 2)], loc=p[-2], scale=p[-1])

        value, pull = functad.vjp(lambda p, f=f: f(getattr(stats, name), p), p)
        assert value == pytest.approx(f(own, p), rel=1e-13)
        gradient = np.reshape(pull(1.0), -1)
        for i in range(len(p)):
            h = np.eye(len(p))[i] * 1e-3  # SciPy's own formulas lose digits near the limit
            with np.errstate(all="ignore"):
                near, far = f(own, p + h) - f(own, p - h), f(own, p + 2 * h) - f(own, p - 2 * h)
            if np.isfinite(far):
                assert gradient[i] == pytest.approx((8 * near - far) / 12e-3, rel=1e-7, abs=1e-7), (method, i)


def test_limits_at_an_end() -> None:
    for name, shapes, i in (
        ("rice", (0.0,), 0),
        ("ncx2", (4.0, 0.0), 1),
        ("ncf", (4.0, 5.0, 0.0), 2),
        ("vonmises", (0.0,), 0),
    ):
        for method in ("logpdf", "cdf", "ppf"):
            if (name, method) in (("rice", "cdf"), ("rice", "ppf")):
                continue
            where = 0.6 if method == "ppf" else 0.9

            def f(
                kind: Any,
                a: Any,
                name: str = name,
                method: str = method,
                where: float = where,
                shapes: Any = shapes,
                i: int = i,
            ) -> Any:
                return getattr(getattr(kind, name), method)(where, *shapes[:i], a)

            steps = [f(scipy.stats, k * 1e-3) for k in range(4)]
            slope = (-11 * steps[0] + 18 * steps[1] - 9 * steps[2] + 2 * steps[3]) / 6e-3
            assert functad.grad(lambda a, f=f: f(stats, a))(0.0) == pytest.approx(slope, rel=1e-5, abs=1e-6), (name, method)


def test_a_small_skew() -> None:
    mpmath = pytest.importorskip("mpmath")

    def density(s: Any, x: Any) -> Any:
        a = 4 / s**2
        return mpmath.log(2 / s) + (a - 1) * mpmath.log(2 / s * (x + 2 / s)) - 2 / s * (x + 2 / s) - mpmath.loggamma(a)

    def gap(t: Any) -> Any:
        return mpmath.exp(density(mpmath.mpf(10) ** -8, t)) - mpmath.npdf(t)

    with mpmath.workdps(60):
        for x in (-0.7, 1.4):
            slope = float(
                (density(mpmath.mpf(2) / 10**8, mpmath.mpf(x)) - density(mpmath.mpf(1) / 10**8, mpmath.mpf(x))) * 10**8
            )
            assert functad.grad(lambda s, x=x: stats.pearson3.logpdf(x, s))(0.0) == pytest.approx(slope, rel=1e-6)
            mass = float(mpmath.quad(gap, [-12, x]) * 10**8)
            assert functad.grad(lambda s, x=x: stats.pearson3.cdf(x, s))(0.0) == pytest.approx(mass, rel=1e-5)


def test_freedom_without_end() -> None:
    for x in (-0.4, 1.3):
        assert functad.grad(lambda x: stats.t.cdf(x, np.inf))(x) == pytest.approx(scipy.stats.norm.pdf(x), rel=1e-12)
        assert functad.grad(lambda v, x=x: stats.t.cdf(x, v))(np.inf) == 0.0


MOMENTS: dict[str, tuple[float, ...]] = {
    "gamma": (2.3,),
    "gennorm": (2.3,),
    "halfgennorm": (2.3,),
    "nct": (9.0, 0.3),
    "geninvgauss": (2.3, 1.5),
    "crystalball": (2.0, 6.0),
    "nbinom": (2.5, 0.4),
    "poisson": (2.3,),
    "invgauss": (0.7,),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_moments(name: str) -> None:
    for method in ("mean", "var", "entropy"):

        def f(kind: Any, p: Any, method: str = method) -> Any:
            return getattr(getattr(kind, name), method)(*[p[i] for i in range(len(MOMENTS[name]))])

        p = np.array(MOMENTS[name])
        value, pull = functad.vjp(lambda p, f=f: f(stats, p), p)
        assert value == pytest.approx(f(scipy.stats, p), rel=1e-12)
        slopes = [(f(scipy.stats, p + h) - f(scipy.stats, p - h)) / 2e-4 for h in np.eye(len(p)) * 1e-4]
        np.testing.assert_allclose(np.reshape(pull(1.0), -1), slopes, rtol=1e-5, atol=1e-6)


def test_moments_of_arrays() -> None:
    a = np.array([[1.4, 2.0], [3.1, 0.7]])
    check_grads(lambda a: stats.gamma.stats(a, moments="mvsk")[2], [a], order=1)
    check_grads(lambda a: np.stack(stats.nct.stats(a + 6, 0.4, moments="mv")), [a], order=1)
    check_grads(lambda a: stats.gamma.entropy(a), [a], order=1)


def test_expectations() -> None:
    check_grads(lambda m, s: stats.norm.expect(lambda x: x**2 + 1, loc=m, scale=s), [0.3, 1.2], order=1)
    check_grads(lambda a: stats.norm.expect(lambda x: np.cos(a * x)), [0.3], order=1)
    check_grads(lambda a, low: stats.gamma.expect(np.cos, args=(a,), lb=low, ub=3.0), [2.3, 0.4], order=1)
    check_grads(lambda a: stats.poisson.expect(np.cos, args=(a,)), [2.3], order=1)
    assert stats.norm.expect(np.cos, loc=0.3) == scipy.stats.norm.expect(np.cos, loc=0.3)


def test_moments_need_values() -> None:
    with pytest.raises(UnsupportedError, match="outside of them"):
        functad.vmap(stats.exponpow.mean)(np.array([2.0, 2.3]))


def test_matrices_and_counts() -> None:
    root = np.array([[1.4, 0.0], [0.3, 1.0]])
    check_grads(lambda x, c, d: stats.invwishart.logpdf(x @ x.T, d, c @ c.T), [root + 0.1, root, 4.5], order=1)
    np.testing.assert_array_equal(
        stats.invwishart.logpdf(root @ root.T, 4, root), scipy.stats.invwishart.logpdf(root @ root.T, 4, root)
    )
    for k in (-1, 2):
        check_grads(lambda a, b, k=k: stats.skellam.logpmf(k, a, b) + stats.skellam.cdf(k, a, b), [2.3, 1.4], order=1)
    check_grads(
        lambda p: stats.poisson_binom.pmf(1, p) + stats.poisson_binom.cdf(2, p), [np.array([0.3, 0.5, 0.2, 0.6])], order=1
    )


@pytest.mark.skipif(not hasattr(scipy.stats, "Normal"), reason="SciPy has it since 1.15")
def test_distributions_that_are_objects() -> None:
    check_grads(lambda x, m, s: stats.Normal(mu=m, sigma=s).logpdf(x), [0.3, 0.2, 1.3], order=1)
    check_grads(lambda x, b: stats.Uniform(a=0.1, b=b).cdf(x), [0.3, 1.3], order=1)
    check_grads(lambda x, a: stats.make_distribution(stats.gamma)(a=a).logpdf(x), [0.7, 2.3], order=1)
    check_grads(lambda m: stats.Mixture([stats.Normal(mu=m, sigma=1.0), stats.Normal()]).logpdf(0.2), [0.1], order=1)
