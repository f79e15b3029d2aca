"""Every method of every distribution: the formula has the value of SciPy. The check stands in `conftest`."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import scipy.stats
from scipy.stats._distr_params import distcont, distdiscrete

import functad
from functad.errors import ConversionError, UnsupportedError
from functad.scipy import stats

CONTINUOUS = {name: shapes for name, shapes in reversed(distcont) if isinstance(name, str) and hasattr(scipy.stats, name)}
DISCRETE = {name: shapes for name, shapes in distdiscrete if isinstance(name, str) and hasattr(scipy.stats, name)}
AT_POINTS = ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf")
AT_SHARES = ("ppf", "isf")
ALONE = ("entropy", "mean", "var", "stats")
SLOW = {"levy_stable", "studentized_range"}  # each value takes SciPy seconds; `test_table` compares some


def compare(distribution: Any, shapes: tuple[Any, ...], calls: list[tuple[str, tuple[float, ...]]]) -> int:
    """Call methods with Tensors for their points and all real shape parameters, and return how many take Tensors."""
    real = [i for i, shape in enumerate(shapes) if isinstance(shape, float) or np.ndim(shape)]
    count = 0
    for method, before in calls:

        def f(*values: Any, method: str = method, before: Any = before) -> Any:
            own = list(shapes)
            for i, value in zip(real, values[len(before) :], strict=True):
                own[i] = value
            return getattr(distribution, method)(*values[: len(before)], *own)

        arguments = tuple(map(np.asarray, (*before, *[shapes[i] for i in real])))
        with suppress(UnsupportedError, ConversionError):
            if arguments:
                functad.jvp(f, arguments, tuple([np.ones(a.shape) for a in arguments]))
                count += 1
    return count


def calls(points: list[float], at_points: tuple[str, ...], at_shares: tuple[str, ...], alone: tuple[str, ...]) -> Any:
    """Return methods with their arguments."""
    there = [(method, (x,)) for method in at_points for x in points]
    return [*there, *[(method, (q,)) for method in at_shares for q in (0.2, 0.6)], *[(method, ()) for method in alone]]


@pytest.mark.parametrize("name", sorted(CONTINUOUS.keys() - SLOW))
def test_continuous(name: str) -> None:
    shapes = tuple([float(s) if name not in ("irwinhall", "ksone", "kstwo") else s for s in CONTINUOUS[name]])
    points = [float(getattr(scipy.stats, name).ppf(q, *shapes)) for q in (0.15, 0.7)]
    assert compare(getattr(stats, name), shapes, calls(points, AT_POINTS, AT_SHARES, ALONE)) > 4


@pytest.mark.parametrize("name", sorted(DISCRETE))
def test_discrete(name: str) -> None:
    shapes = DISCRETE[name]
    points = [float(getattr(scipy.stats, name).ppf(q, *shapes)) for q in (0.3, 0.8)]
    compare(getattr(stats, name), shapes, calls(points, ("pmf", "logpmf", *AT_POINTS[2:]), (), ALONE))


AT_ENDS: dict[str, tuple[float, ...]] = {
    "beta": (2.3, 0.6),
    "gausshyper": (0.8, 0.6, 1.0, 2.0),
    "ncx2": (1.0, 2.0),
    "ncf": (1.5, 3.0, 0.4),
    "geninvgauss": (2.3, 1.5),
    "genpareto": (0.1,),
    "rice": (0.7,),
}


@pytest.mark.parametrize("name", AT_ENDS)
def test_values_at_ends_of_the_support(name: str) -> None:
    """At an end of the support, densities and the formulas with their derivatives are infinite or zero."""
    x, shapes = np.array([0.0, 1.0, 0.5, 0.0]), AT_ENDS[name]
    for method in AT_POINTS:
        with np.errstate(all="ignore"):
            expected = getattr(getattr(scipy.stats, name), method)(x, *shapes)
            found = functad.jvp(getattr(getattr(stats, name), method), (x, *shapes), (np.ones(4), *[1.0] * len(shapes)))[0]
            alone = functad.jvp(getattr(getattr(stats, name), method), (x[0], *shapes), (1.0, *[1.0] * len(shapes)))[0]
            inside = functad.grad(lambda s, m=method: getattr(getattr(stats, name), m)(x, s, *shapes[1:])[2])(shapes[0])
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(alone, expected[0])
        assert type(alone) is np.float64
        assert np.isfinite(inside)
