"""`functad.scipy.stats`: distributions in `vmap` and in abstract traces, their second derivatives, and single precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats
from scipy.stats._distr_params import distcont

import functad
from functad.errors import UnsupportedError
from functad.scipy import stats

SHAPES = {name: tuple(map(float, shapes)) for name, shapes in reversed(distcont) if isinstance(name, str)}
SHAPES |= {"kappa4": (0.3, 0.2), "rel_breitwigner": (2.5,), "genhyperbolic": (0.5, 1.5, -0.5)}
UNKNOWN = ("kstwo", "levy_stable", "studentized_range", "irwinhall", "ksone")
"""Those without a density that has derivatives, or with counts."""

BY_VALUES = ("pearson3", "truncnorm", "landau")
"""Those that choose points by their values."""

POINTS = {
    "norm": (),
    "gamma": (2.3,),
    "beta": (2.0, 3.0),
    "uniform": (),
    "poisson": (2.2,),
    "binom": (5, 0.3),
}


@pytest.mark.parametrize("name", POINTS)
def test_points_inside_and_outside_of_the_support(name: str) -> None:
    x = np.array([-1.0, 0.0, 0.3, 1.0, 2.0, 7.0, np.nan])
    for method in ("pdf", "logpdf", "pmf", "logpmf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf"):
        if not hasattr(getattr(scipy.stats, name), method) or (method in ("ppf", "isf") and name not in ("norm", "gamma")):
            continue

        def f(x: Any, kind: Any = stats, method: str = method) -> Any:
            return getattr(getattr(kind, name), method)(x, *POINTS[name])

        with np.errstate(all="ignore"):
            expected = f(x, scipy.stats)
            np.testing.assert_allclose(functad.vmap(f)(x), expected, rtol=1e-12)
            np.testing.assert_allclose(functad.make_expressions(f)(x)(x), expected, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:The shape parameter of the erlang")
@pytest.mark.parametrize("name", [name for name in SHAPES if name not in UNKNOWN])
def test_examples_and_second_derivatives(name: str) -> None:
    d, own, shapes = getattr(stats, name), getattr(scipy.stats, name), SHAPES[name]
    x = float(own.ppf(0.4, *shapes)) * 1.02 + 0.02

    def f(p: Any) -> Any:
        at = [p[i] for i in range(len(shapes) + 3)]
        return d.logpdf(at[0], *at[1:-2], loc=at[-2], scale=at[-1]) * d.cdf(at[0], *at[1:-2], loc=at[-2], scale=at[-1])

    p = np.array([x, *shapes, 0.01, 1.1])
    way = np.random.default_rng(0).normal(size=len(p))
    along = functad.jvp(functad.grad(f), (p,), (way,))[1]
    by_differences = (functad.grad(f)(p + 1e-5 * way) - functad.grad(f)(p - 1e-5 * way)) / 2e-5
    np.testing.assert_allclose(along, by_differences, rtol=1e-3, atol=1e-4 * max(1.0, np.max(np.abs(by_differences))))

    def g(x: Any) -> Any:
        return d.logpdf(x, *shapes, loc=0.01, scale=1.1)

    single = functad.grad(g)(np.float32(x))
    assert np.asarray(single).dtype == np.float32
    assert single == pytest.approx(functad.grad(g)(float(np.float32(x))), rel=2e-3, abs=1e-4)
    if name not in BY_VALUES:
        points = np.array([x, x * 1.05 + 0.01])
        each = [functad.value_and_grad(g)(point) for point in points]
        np.testing.assert_allclose(functad.vmap(functad.value_and_grad(g))(points), np.transpose(each), rtol=1e-8)


def test_searches_need_values() -> None:
    with pytest.raises(UnsupportedError, match="found by a search"):
        functad.vmap(lambda q: stats.skewnorm.ppf(q, 1.4))(np.array([0.3, 0.4]))
    with pytest.raises(UnsupportedError, match="outside of them"):
        functad.vmap(stats.landau.cdf)(np.array([0.3, 0.4]))
