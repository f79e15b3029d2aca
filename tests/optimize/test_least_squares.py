"""`least_squares`: exact Jacobians for residuals and unknowns that are trees."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize as scipy_optimize

import functad
from functad.errors import InputError, OutputError, StructureError
from functad.optimize import least_squares
from tests.optimize.problems import Counted

T = np.linspace(0.0, 3.0, 40)
DATA = 2.5 * np.exp(-1.3 * T) + 0.5 + 0.01 * np.cos(37 * T)
START = {"height": 1.0, "rate": 1.0, "floor": 0.0}


def residuals(p):
    return p["height"] * np.exp(-p["rate"] * T) + p["floor"] - DATA


def flat_residuals(x):
    return x[1] * np.exp(-x[2] * T) + x[0] - DATA


REFERENCE = scipy_optimize.least_squares(flat_residuals, [0.0, 1.0, 1.0], xtol=1e-12, ftol=1e-12, gtol=1e-12)


@pytest.mark.parametrize("method", ["trf", "dogbox", "lm"])
@pytest.mark.parametrize("jac", ["dense", "product"])
def test_fit_of_a_tree(method, jac):
    if (method, jac) == ("lm", "product"):
        pytest.skip("lm takes no products with the Jacobian; that it is refused is tested below")
    f = Counted(residuals)
    result = least_squares(f, START, method=method, jac=jac, xtol=1e-12, ftol=1e-12, gtol=1e-12)
    assert isinstance(result, scipy_optimize.OptimizeResult)
    assert list(result.x) == ["floor", "height", "rate"]
    np.testing.assert_allclose(list(result.x.values()), REFERENCE.x, atol=1e-6)
    assert list(result.grad) == ["floor", "height", "rate"]
    if jac == "dense":
        assert result.jac.shape == (40, 3)
        np.testing.assert_allclose(result.jac, REFERENCE.jac, atol=1e-5)
        assert f.calls <= result.nfev + 1  # lm counts otherwise


def test_residuals_and_jacobian_share_one_run():
    exact, differences = Counted(residuals), Counted(flat_residuals)
    result = least_squares(exact, START)
    reference = scipy_optimize.least_squares(differences, [0.0, 1.0, 1.0])
    assert exact.calls == result.nfev
    assert 3 * exact.calls < differences.calls
    np.testing.assert_allclose(list(result.x.values()), reference.x, atol=1e-6)


@pytest.mark.parametrize("loss", ["soft_l1", "huber", "cauchy", "arctan"])
def test_robust_losses(loss):
    data = DATA.copy()
    data[::7] += 2.0
    result = least_squares(lambda p: residuals(p) + DATA - data, START, loss=loss, f_scale=0.1)
    reference = scipy_optimize.least_squares(lambda x: flat_residuals(x) + DATA - data, [0.0, 1.0, 1.0], loss=loss, f_scale=0.1)
    np.testing.assert_allclose(list(result.x.values()), reference.x, atol=1e-4)


def test_residuals_that_are_a_tree():
    def f(p):
        return {"data": residuals(p), "prior": 0.1 * p["rate"], "more": [np.float64(0.0)]}

    result = least_squares(f, START)
    reference = scipy_optimize.least_squares(lambda x: np.append(flat_residuals(x), 0.1 * x[2]), [0.0, 1.0, 1.0])
    np.testing.assert_allclose(list(result.x.values()), reference.x, atol=1e-5)
    assert result.fun.shape == (42,)


def test_fewer_residuals_than_unknowns():
    result = least_squares(lambda x: np.stack([np.sum(x) - 1.0, x[0] - x[1]]), np.zeros(5))
    assert result.cost < 1e-14
    assert result.jac.shape == (2, 5)


@pytest.mark.parametrize(
    ("bounds", "low", "high"),
    [
        ({"rate": (None, 1.0)}, [-np.inf] * 3, [np.inf, np.inf, 1.0]),
        ({"rate": (0.5, 1.0), "floor": (0.6, None)}, [0.6, -np.inf, 0.5], [np.inf, np.inf, 1.0]),
        ((-5, 2), [-5] * 3, [2] * 3),
    ],
)
@pytest.mark.parametrize("method", ["trf", "dogbox"])
def test_bounds_on_a_tree(bounds, low, high, method):
    start = {"height": 1.0, "rate": 0.9, "floor": 0.7}
    result = least_squares(residuals, start, bounds=bounds, method=method)
    reference = scipy_optimize.least_squares(flat_residuals, [0.7, 1.0, 0.9], bounds=(low, high), method=method)
    np.testing.assert_allclose(list(result.x.values()), reference.x, atol=1e-4)


@pytest.mark.parametrize("bounds", [(0, [1, 2, 3]), (None, [1, 2, 3]), scipy_optimize.Bounds(-1, [1, 2, 3])])
def test_bounds_on_an_array(bounds):
    result = least_squares(lambda x: x - 5.0, np.full(3, 0.5), bounds=bounds)
    np.testing.assert_allclose(result.x, [1, 2, 3], atol=1e-6)


def test_matrix_as_unknown():
    target = np.arange(6.0).reshape(2, 3)
    result = least_squares(lambda x: np.sinh(x) - target, np.zeros((2, 3)))
    np.testing.assert_allclose(np.sinh(result.x), target, atol=1e-8)


def test_arguments_are_handed_on():
    result = least_squares(lambda x, a, *, b: x - a * b, np.zeros(2), (3.0,), {"b": np.array([1.0, 2.0])})
    np.testing.assert_allclose(result.x, [3.0, 6.0])


def test_float32_start():
    result = least_squares(lambda x: x - np.float32([1.0, 2.0]), np.zeros(2, np.float32))
    assert result.x.dtype == np.float32
    assert result.x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("error", "f", "x0", "given", "message"),
    [
        (ValueError, residuals, START, {"jac": "product", "method": "lm"}, "jac is 'dense', or 'product' for the methods"),
        (ValueError, residuals, START, {"jac": "2-point"}, "not '2-point'; functad computes the Jacobian itself"),
        (ValueError, residuals, START, {"sparse": True, "method": "lm"}, "lm takes no sparse Jacobian"),
        (ValueError, residuals, START, {"sparse": True, "jac": "product"}, "without sparse="),
        (StructureError, residuals, START, {"bounds": {"rat": (0, 1)}}, "bounds should be like x0"),
        (StructureError, lambda x: x, np.zeros(2), {"bounds": [(0, 1)] * 3}, "a pair .low, high. of numbers or arrays"),
        (InputError, residuals, {"height": 1}, {}, r"least_squares of residuals, .*x0\['height'\] is an integer"),
        (OutputError, lambda x: x * 1j, np.zeros(2), {}, "least_squares of .*the result is complex"),
        (InputError, lambda x: "text", np.zeros(2), {}, "tree is a str"),
    ],
)
def test_what_is_refused(error, f, x0, given, message):
    with pytest.raises(error, match=message):
        least_squares(f, x0, **given)


def test_agrees_with_the_derivative_of_half_the_sum_of_squares():
    result = least_squares(residuals, START, max_nfev=2)
    gradient = functad.grad(lambda p: 0.5 * np.sum(residuals(p) ** 2))(result.x)
    for key in START:
        np.testing.assert_allclose(result.grad[key], gradient[key], rtol=1e-10, atol=1e-12)
