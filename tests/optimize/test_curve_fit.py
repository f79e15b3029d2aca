"""`curve_fit`: the exact Jacobian of a model, with everything that SciPy's takes."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from scipy import optimize as scipy_optimize

from functad.errors import InputError, StructureError
from functad.optimize import curve_fit
from tests.optimize.problems import Counted

RNG = np.random.default_rng(1)
T = np.linspace(0.0, 4.0, 50)
NOISE = 0.05 * RNG.normal(size=50)
DATA = 2.5 * np.exp(-1.3 * T) + 0.5 + NOISE
SIGMA = 0.02 + 0.05 * RNG.random(50)


def model(t, height, rate, floor):
    return height * np.exp(-rate * t) + floor


def tree_model(t, p):
    return p["height"] * np.exp(-p["rate"] * t) + p["floor"]


def covariances():
    a = 0.01 * RNG.normal(size=(50, 50))
    return np.diag(SIGMA**2) + a @ a.T


@pytest.mark.parametrize("method", ["lm", "trf", "dogbox", None])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"p0": [2.0, 1.0, 0.0]},
        {"sigma": SIGMA},
        {"sigma": SIGMA, "absolute_sigma": True},
        {"sigma": covariances(), "absolute_sigma": True},
        {"p0": np.float32([2, 1, 0])},
        {"p0": (2, 1, 0)},
    ],
    ids=["plain", "p0", "sigma", "absolute", "covariances", "float32", "integers"],
)
def test_agrees_with_scipy(method, given):
    found, covariance = curve_fit(model, T, DATA, method=method, **given)
    expected, reference = scipy_optimize.curve_fit(model, T, DATA, method=method, **given)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_allclose(covariance, reference, rtol=1e-4)


@pytest.mark.parametrize(
    "bounds", [(0, [3.0, 1.2, 1.0]), ([0, 0, 0.6], np.inf), scipy_optimize.Bounds([0, 0, 0.6], [3.0, 1.2, 1.0])]
)
@pytest.mark.parametrize("p0", [None, [1.0, 1.0, 0.7]])
def test_bounds(bounds, p0):
    found, covariance = curve_fit(model, T, DATA, p0, bounds=bounds)
    expected, reference = scipy_optimize.curve_fit(model, T, DATA, p0, bounds=bounds)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    np.testing.assert_allclose(covariance, reference, rtol=1e-3, atol=1e-9)


def test_exact_jacobian_saves_calls():
    exact, differences = inspect_as(model), inspect_as(model)
    curve_fit(exact, T, DATA)
    scipy_optimize.curve_fit(differences, T, DATA)
    assert 2 * exact.calls < differences.calls


def inspect_as(f):
    """Return a counting function with the signature of another one."""
    counted = Counted(f)
    counted.__signature__ = inspect.signature(f)
    return counted


def test_jacobian_is_exact_where_differences_are_not():
    """With a parameter of 1e-9 beside one of 1, the covariance is exact to rounding: it is (J^T J)^-1."""
    t = np.linspace(1.0, 2.0, 20)
    data = 3.0 * t + 2e-9 * t**2

    def line(t, a, b):
        return a * t + b * 1e-9 * t**2

    found, covariance = curve_fit(line, t, data, sigma=np.full(20, 0.1), absolute_sigma=True)
    design = np.stack([t, 1e-9 * t**2], 1) / 0.1
    scale = np.array([1.0, 1e-9])
    expected = np.linalg.inv((design / scale).T @ (design / scale)) / np.outer(scale, scale)
    np.testing.assert_allclose(covariance, expected, rtol=1e-6)
    np.testing.assert_allclose(found[0], 3.0, rtol=1e-6)


@pytest.mark.parametrize("method", ["lm", "trf"])
def test_parameters_that_are_a_tree(method):
    p0 = {"height": 1.0, "rate": 1.0, "floor": 0.0}
    found, covariance = curve_fit(tree_model, T, DATA, p0, method=method)
    expected, reference = scipy_optimize.curve_fit(model, T, DATA, method=method)
    assert list(found) == ["floor", "height", "rate"]
    np.testing.assert_allclose([found[k] for k in p0], expected, rtol=1e-5)
    order = [2, 0, 1]
    np.testing.assert_allclose(covariance, reference[np.ix_(order, order)], rtol=1e-4)


def test_bounds_on_a_tree():
    p0 = {"height": 1.0, "rate": 1.0, "floor": 0.0}
    found, _ = curve_fit(tree_model, T, DATA, p0, bounds={"rate": (None, 1.2)})
    expected, _ = scipy_optimize.curve_fit(model, T, DATA, [1.0, 1.0, 0.0], bounds=(-np.inf, [np.inf, 1.2, np.inf]))
    np.testing.assert_allclose([found[k] for k in p0], expected, rtol=1e-4)


def test_full_output_and_missing_data():
    data = DATA.copy()
    data[5] = np.nan
    found = curve_fit(model, T, data, nan_policy="omit", full_output=True)
    expected = scipy_optimize.curve_fit(model, T, data, nan_policy="omit", full_output=True)
    assert len(found) == 5
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    assert found[2]["fvec"].shape == (49,)


def test_several_independent_variables():
    xdata = np.stack([T, np.sin(T)])
    found, _ = curve_fit(lambda x, a, b: a * x[0] + b * np.exp(x[1]), xdata, 2.0 * T + 3.0 * np.exp(np.sin(T)))
    np.testing.assert_allclose(found, [2.0, 3.0], rtol=1e-10)
    frame = {"t": T}  # any object is handed on
    found, _ = curve_fit(lambda x, a: a * x["t"], frame, 2.0 * T)
    np.testing.assert_allclose(found, [2.0])


def test_what_is_refused():
    with pytest.raises(ValueError, match="Unable to determine number of fit parameters"):
        curve_fit(lambda t, *p: p[0] * t, T, DATA)
    with pytest.raises(InputError, match=r"curve_fit of tree_model, .*x0\['rate'\] is an integer"):
        curve_fit(tree_model, T, DATA, {"height": 1.0, "rate": 1, "floor": 0.0})
    with pytest.raises(StructureError, match="bounds should be like x0"):
        curve_fit(tree_model, T, DATA, {"height": 1.0, "rate": 1.0, "floor": 0.0}, bounds={"r": (0, 1)})
