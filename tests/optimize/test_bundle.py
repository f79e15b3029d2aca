"""The raw bundle, and the derivatives that all of `functad.optimize` hands on, against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize as scipy_optimize

import functad
from functad.errors import OutputError, StructureError
from functad.optimize import scipy_bundle
from functad.optimize.derivatives import Linearised, Objective, Residuals
from tests.differences import numerical_jacobian
from tests.optimize.problems import Counted, logistic_problem, rosenbrock

X = np.array([0.3, -0.7, 1.2, 0.4])


def mixed(p):
    return np.sum(np.sin(p["a"]) * p["b"]) + np.exp(p["b"] * p["a"][0]) + np.linalg.norm(p["a"]) ** 3


TREE = {"a": X[1:], "b": X[0]}


def test_every_derivative_of_a_tree():
    bundle = scipy_bundle(mixed, TREE)
    assert bundle.x0.tolist() == X[[1, 2, 3, 0]].tolist()
    x, p = bundle.x0 + 0.1, np.array([0.5, -1.0, 2.0, 0.3])
    np.testing.assert_allclose(bundle.jac(x), numerical_jacobian(bundle.fun, x), rtol=1e-7)
    hessian = numerical_jacobian(bundle.jac, x)
    np.testing.assert_allclose(bundle.hess(x), hessian, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(bundle.hessp(x, p), hessian @ p, rtol=1e-6)
    value, gradient = bundle.value_and_grad(x)
    assert value == mixed(bundle.unravel(x))
    assert np.array_equal(gradient, bundle.jac(x))
    assert [type(value), bundle.hess(x).dtype] == [float, np.float64]


def test_dense_hessian_is_that_of_rosenbrock():
    """Against SciPy's own."""
    bundle = scipy_bundle(rosenbrock, X)
    np.testing.assert_allclose(bundle.hess(X), scipy_optimize.rosen_hess(X), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(bundle.hessp(X, X), scipy_optimize.rosen_hess_prod(X, X), rtol=1e-12)
    np.testing.assert_allclose(bundle.jac(X), scipy_optimize.rosen_der(X), rtol=1e-12)


def test_runs_of_the_function():
    f = Counted(rosenbrock)
    bundle = scipy_bundle(f, X)
    assert f.calls == 0
    bundle.fun(X)
    bundle.jac(X.copy())
    bundle.value_and_grad(X)
    assert f.calls == 1
    bundle.hessp(X, X)
    bundle.hessp(X, 2 * X)
    bundle.hess(X)
    assert f.calls == 2
    bundle.jac(X + 1)
    assert f.calls == 3
    bundle.fun(X)
    assert f.calls == 4


def test_point_that_is_overwritten_is_another_point():
    bundle, x = scipy_bundle(rosenbrock, X), X.copy()
    before = bundle.fun(x), bundle.jac(x), bundle.hessp(x, X)
    x += 0.5
    assert bundle.fun(x) != before[0]
    assert not np.array_equal(bundle.jac(x), before[1])
    assert not np.array_equal(bundle.hessp(x, X), before[2])
    bundle.jac(x)[:] = 0.0
    assert np.array_equal(bundle.jac(x), scipy_bundle(rosenbrock, X).jac(x))


def test_point_that_fails_is_not_kept():
    def f(x):
        if x[0] > 1:
            raise ValueError("too far")
        return x[0] ** 2

    bundle = scipy_bundle(f, np.zeros(1))
    assert bundle.fun(np.array([0.5])) == 0.25
    for _ in range(2):
        with pytest.raises(ValueError, match="too far"):
            bundle.fun(np.array([2.0]))
    assert bundle.fun(np.array([0.5])) == 0.25


def test_nan_is_a_new_point_every_time():
    bundle = scipy_bundle(lambda x: np.sum(x * x), np.zeros(2))
    assert np.isnan(bundle.fun(np.array([np.nan, 1.0])))
    assert np.isnan(bundle.jac(np.array([np.nan, 1.0]))[0])


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "trust-ncg"])
def test_bundle_is_what_scipy_takes(method):
    _, _, loss = logistic_problem()
    bundle = scipy_bundle(loss, {"weights": np.zeros(3), "bias": 0.0})
    hessp = {"hessp": bundle.hessp} if method == "trust-ncg" else {}
    one = scipy_optimize.minimize(bundle.fun, bundle.x0, jac=bundle.jac, method=method, **hessp)
    two = scipy_optimize.minimize(bundle.value_and_grad, bundle.x0, jac=True, method=method, **hessp)
    assert np.array_equal(one.x, two.x)
    np.testing.assert_allclose(
        functad.ravel(functad.optimize.minimize(loss, bundle.unravel(bundle.x0), method=method).x)[0], one.x
    )


def test_tree_there_and_back():
    bundle = scipy_bundle(mixed, TREE)
    assert np.array_equal(bundle.ravel(bundle.unravel(X)), X)
    assert repr(bundle) == "ScipyBundle(n=4, x0=dict(['a']: *, ['b']: *))"
    with pytest.raises(StructureError, match=r"tree should be a dict with keys \['a', 'b'\], not a dict with keys \['a'\]"):
        bundle.ravel({"a": X[1:]})
    with pytest.raises(StructureError, match=r"tree\['b'\] has shape \(2,\), but that of x0 has \(\)"):
        bundle.ravel({"a": X[1:], "b": X[:2]})


def test_further_arguments():
    bundle = scipy_bundle(lambda x, a, *, b: np.sum((x - a) ** 2) * b, X, (X,), {"b": 3.0})
    assert bundle.fun(X + 1) == pytest.approx(12.0)


# Residuals


def wide(x):
    """Fewer results than unknowns."""
    return {"p": np.prod(x), "s": np.sin(x[:2])}


def tall(x):
    return np.outer(x, x) + np.exp(x)


@pytest.mark.parametrize("f", [wide, tall, lambda x: np.sum(x**3), lambda x: x, lambda x: np.ones(3), lambda x: x[:0]])
def test_jacobian_of_residuals(f):
    residuals = Residuals(f, f, "test")
    for x in (X, X + 0.5):
        m = len(residuals.fun(x))
        matrix = residuals.jac(x)
        assert matrix.shape == (m, 4)
        np.testing.assert_allclose(matrix, numerical_jacobian(residuals.fun, x).reshape(m, 4), rtol=1e-6, atol=1e-9)
        g, t = np.arange(1.0, m + 1), np.array([0.5, -1.0, 2.0, 0.3])
        np.testing.assert_allclose(residuals.forward(x)(t), matrix @ t, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(residuals.backward(x)(g), matrix.T @ g, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("f", "first"), [(wide, 2), (tall, 1)])
def test_residuals_and_jacobian_share_one_run(f, first):
    counted = Counted(f)
    residuals = Residuals(counted, f, "test")
    residuals.fun(X)
    residuals.jac(X)
    assert counted.calls == first  # how many results there are is known only after the first run
    residuals.fun(X + 1)
    residuals.jac(X + 1)
    residuals.jac(X + 1)
    assert counted.calls == first + 1


def test_complex_residuals_are_refused():
    with pytest.raises(OutputError, match=r"test of wide, called at .*the result is complex.*z\.real, z\.imag"):
        Residuals(lambda x: x * 1j, wide, "test").fun(X)


def test_linearised_at_one_point():
    push = Linearised(lambda x: np.sin(x) * x[0], X, wide, "test")
    assert np.array_equal(push.value, np.sin(X) * X[0])
    for t in (X, np.ones(4)):
        np.testing.assert_allclose(push(t), functad.jvp(lambda x: np.sin(x) * x[0], (X,), (t,))[1], rtol=1e-14)


def test_linearised_keeps_what_the_user_overwrites():
    data = np.array([1.0, 2.0, 3.0, 4.0])
    push = Linearised(lambda x: x * data * data, X, wide, "test")
    before = push(X)
    data[:] = 0.0
    assert np.array_equal(push(X), before)


def test_under_debug_nans():
    with functad.debug_nans():
        bundle = scipy_bundle(mixed, TREE)
        for _ in range(2):
            np.testing.assert_allclose(bundle.hessp(X, X), numerical_jacobian(bundle.jac, X) @ X, rtol=1e-6)
        bad = Objective(lambda x: np.sum(np.log(x)), rosenbrock, "test")
        with np.errstate(invalid="ignore"), pytest.raises(functad.errors.NotFiniteError, match="log"):
            bad.fun(np.array([-1.0, 1.0]))


def test_constant_function():
    bundle = scipy_bundle(lambda x: 3.0, X)
    assert (bundle.fun(X), bundle.jac(X).tolist(), bundle.hessp(X, X).tolist()) == (3.0, [0.0] * 4, [0.0] * 4)
    assert not bundle.hess(X).any()
