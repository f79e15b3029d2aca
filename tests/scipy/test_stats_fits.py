"""`functad.scipy.stats`: fits of distributions, differentiated by the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

import functad
from functad.errors import UnsupportedError
from functad.scipy import stats
from functad.testing import check_grads

RNG = np.random.default_rng(3)
DATA = RNG.gamma(2.4, size=14) + 0.2
WAY = RNG.normal(size=14)

VALUES_WITHIN = {"test_the_usual_tolerance_is_enough": 1e-3, "test_any_distribution_within_bounds": 1e-5}
"""SciPy's search ends with fewer digits than the equation that the solution is refined with."""


def search(f: Any, x0: Any, args: Any = (), disp: Any = 0) -> Any:
    """Return a minimum to more digits than SciPy's own search does."""
    return scipy.optimize.fmin(f, x0, args=args, disp=0, xtol=1e-12, ftol=1e-14, maxiter=4000, maxfun=4000)


def slopes(fit: Any, data: Any) -> Any:
    """Return the derivatives of fitted parameters along a direction, by differences."""
    near = fit(data + 2e-3 * WAY) - fit(data - 2e-3 * WAY)
    return (8 * near - (fit(data + 4e-3 * WAY) - fit(data - 4e-3 * WAY))) / 24e-3


SEARCHED: dict[str, dict[str, Any]] = {
    "gamma": {"fscale": 0.9},
    "weibull_min": {"floc": 0.1},
    "nakagami": {"floc": 0.0},
    "t": {"f0": 5.0},
    "fatiguelife": {"floc": 0.0},
}


@pytest.mark.parametrize("name", SEARCHED)
def test_fits_by_a_search(name: str) -> None:
    options = {**SEARCHED[name], "optimizer": search}
    value, along = functad.jvp(lambda t: np.stack(list(getattr(stats, name).fit(t, **options))), (DATA,), (WAY,))
    np.testing.assert_array_equal(value, getattr(scipy.stats, name).fit(DATA, **options))
    by_differences = slopes(lambda t: np.array(getattr(scipy.stats, name).fit(t, **options)), DATA)
    np.testing.assert_allclose(along, by_differences, rtol=2e-4, atol=2e-5)
    backward = [functad.grad(lambda t, i=i: getattr(stats, name).fit(t, **options)[i])(DATA) @ WAY for i in range(len(along))]
    np.testing.assert_allclose(backward, along, rtol=1e-8, atol=1e-10)


def test_the_usual_tolerance_is_enough() -> None:
    rough, exact = (
        functad.grad(lambda t, o=o: stats.gamma.fit(t, fscale=0.9, **o)[0])(DATA) for o in ({}, {"optimizer": search})
    )
    np.testing.assert_allclose(rough, exact, rtol=1e-6)
    again = stats.gamma.fit(DATA, fscale=0.9)
    assert again == scipy.stats.gamma.fit(DATA, fscale=0.9)
    assert type(again[0]) is type(scipy.stats.gamma.fit(DATA, fscale=0.9)[0])


def test_plain_data_in_a_trace() -> None:
    for fit in (
        lambda: stats.gamma.fit(DATA, fscale=0.9)[0],
        lambda: stats.nakagami.fit(DATA, floc=0.0)[0],
        lambda: stats.fit(stats.norm, DATA, {"loc": (0, 9)}, optimizer=evolution).params.loc,
    ):
        assert functad.grad(lambda x, fit=fit: x * fit())(1.0) == fit()


def test_what_is_fixed_may_be_a_tensor() -> None:
    def f(scale: Any, kind: Any = stats) -> Any:
        return kind.gamma.fit(DATA, fscale=scale, optimizer=search)[0]

    slope = (f(0.902, scipy.stats) - f(0.898, scipy.stats)) / 4e-3
    assert functad.grad(f)(0.9) == pytest.approx(slope, rel=1e-4)


def test_second_derivatives_of_a_fit() -> None:
    def f(t: Any) -> Any:
        return stats.weibull_min.fit(t, floc=0.1, optimizer=search)[0]

    along = functad.jvp(functad.grad(f), (DATA,), (WAY,))[1]
    by_differences = (functad.grad(f)(DATA + 1e-4 * WAY) - functad.grad(f)(DATA - 1e-4 * WAY)) / 2e-4
    np.testing.assert_allclose(along, by_differences, rtol=1e-4, atol=1e-6)


def test_fits_by_formulas() -> None:
    for name in ("norm", "expon", "laplace", "pareto", "rayleigh", "uniform", "gumbel_r", "logistic", "invgauss", "lognorm"):
        options = {"floc": 0.0} if name in ("invgauss", "lognorm") else {}
        check_grads(lambda t, n=name, o=options: np.stack(list(getattr(stats, n).fit(t, **o)[-2:])), [DATA], order=1)
        np.testing.assert_array_equal(
            getattr(stats, name).fit(DATA, **options), getattr(scipy.stats, name).fit(DATA, **options)
        )
    check_grads(lambda t: stats.multivariate_normal.fit(t)[1], [RNG.normal(size=(7, 2))], order=1)
    check_grads(lambda p: stats.gamma.nnlf(p, DATA), [np.array([2.0, 0.05, 1.0])], order=1)


def evolution(f: Any, bounds: Any = (), **options: Any) -> Any:
    """Return a minimum within bounds, the same in every call."""
    return scipy.optimize.differential_evolution(f, bounds, seed=1, tol=1e-6)


def test_any_distribution_within_bounds() -> None:
    def f(t: Any, kind: Any = stats) -> Any:
        params = kind.fit(kind.gamma, t, {"a": (0.1, 20), "loc": (0, 0), "scale": (0.01, 10)}, optimizer=evolution).params
        return np.stack([params.a, params.scale])

    value, along = functad.jvp(f, (DATA,), (WAY,))
    np.testing.assert_array_equal(value, f(DATA, scipy.stats))
    np.testing.assert_allclose(value, scipy.stats.gamma.fit(DATA, floc=0)[::2], rtol=1e-4)
    expected = [functad.jvp(lambda t, i=i: stats.gamma.fit(t, floc=0)[i], (DATA,), (WAY,))[1] for i in (0, 2)]
    np.testing.assert_allclose(along, expected, rtol=1e-6)
    counts = np.array([3, 4, 2, 5, 3, 4])

    def g(p: Any, kind: Any = stats) -> Any:
        return kind.fit(kind.binom, counts * p, {"n": (8, 8), "p": (0, 1)}, optimizer=evolution).params.p

    assert functad.grad(g)(1.0) == 0.0  # counts are constant
    assert stats.fit(stats.poisson, counts, {"mu": (0, 9)}, optimizer=evolution).params.mu == pytest.approx(3.5, rel=1e-6)


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:The iteration")
def test_fits_without_derivatives() -> None:
    for fit in (
        lambda t: stats.beta.fit(t / 20)[0],
        lambda t: stats.loguniform.fit(t)[0],
        lambda t: stats.powerlaw.fit(t)[0],
    ):
        with pytest.raises(UnsupportedError, match="no smooth maximum"):
            functad.grad(fit)(DATA)
    check_grads(lambda t: stats.powerlaw.fit(t, floc=0.0)[0], [DATA], order=1)
    with pytest.raises(UnsupportedError, match="by moments"):
        functad.grad(lambda t: stats.nakagami.fit(t, method="MM")[0])(DATA)
    with pytest.raises(UnsupportedError, match="one sample after another"):
        functad.vmap(lambda t: stats.gamma.fit(t, fscale=1.0)[0])(np.stack([DATA, DATA]))
