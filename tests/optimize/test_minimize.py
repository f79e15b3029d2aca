"""`minimize`: every method of SciPy takes what it is handed, without a warning, and finds what it should."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize as scipy_optimize

import functad
from functad.errors import ImplicitError, InputError, NonScalarError
from functad.optimize import minimize
from tests.optimize.problems import Counted, logistic_problem, rosenbrock

WITHOUT_GRADIENT = ("Nelder-Mead", "Powell", "COBYLA", "COBYQA")
FIRST_ORDER = ("CG", "BFGS", "L-BFGS-B", "TNC", "SLSQP")
SECOND_ORDER = ("Newton-CG", "trust-ncg", "trust-krylov", "trust-constr", "dogleg", "trust-exact")
METHODS = WITHOUT_GRADIENT + FIRST_ORDER + SECOND_ORDER
ENOUGH = {"COBYLA": {"maxiter": 4000}, "TNC": {"maxfun": 1000}, "Nelder-Mead": {"maxiter": 4000}}
ROUGH = {"TNC": 5e-4}


def test_all_methods_of_scipy_are_here():
    names = scipy_optimize._minimize.MINIMIZE_METHODS
    assert {name.lower() for name in METHODS} == set(names)


@pytest.mark.parametrize("method", [method for method in METHODS if method != "COBYLA"])
def test_rosenbrock(method):
    # Dogleg needs a positive definite Hessian throughout, so it starts near the solution.
    start = np.array([1.05, 1.08, 1.15]) if method == "dogleg" else np.array([-0.5, 0.5, 0.2])
    result = minimize(rosenbrock, start, method=method, tol=1e-9, options=ENOUGH.get(method))
    assert isinstance(result, scipy_optimize.OptimizeResult)
    np.testing.assert_allclose(result.x, np.ones(3), atol=ROUGH.get(method, 1e-4))
    assert result.fun < 1e-3


def test_rosenbrock_by_cobyla():
    """It goes along the valley in small steps, so it is only asked to get far."""
    result = minimize(rosenbrock, np.array([-0.5, 0.5]), method="COBYLA", options={"maxiter": 500})
    assert result.fun < 0.5 < rosenbrock(np.array([-0.5, 0.5]))


@pytest.mark.parametrize("method", METHODS)
def test_logistic_regression_of_a_tree(method):
    _, _, loss = logistic_problem()
    x0 = {"weights": np.zeros(3), "bias": 0.0}
    result = minimize(loss, x0, method=method, tol=1e-8, options=ENOUGH.get(method))
    reference = scipy_optimize.minimize(
        lambda x: loss({"weights": x[1:], "bias": x[0]}), np.zeros(4), method="Nelder-Mead", tol=1e-10
    )
    assert list(result.x) == ["bias", "weights"]
    np.testing.assert_allclose(result.x["weights"], reference.x[1:], atol=2e-4)
    np.testing.assert_allclose(result.x["bias"], reference.x[0], atol=2e-4)
    if method not in WITHOUT_GRADIENT and method != "trust-constr":
        rounding = 1e-3 if method == "SLSQP" else 1e-12  # SLSQP gives the gradient of the step before
        assert list(result.jac) == ["bias", "weights"]
        np.testing.assert_allclose(result.jac["weights"], functad.grad(loss)(result.x)["weights"], atol=rounding)
    if method == "trust-constr":
        assert result.grad["weights"].shape == (3,)


@pytest.mark.parametrize("method", FIRST_ORDER)
def test_value_and_gradient_share_one_run(method):
    f = Counted(rosenbrock)
    result = minimize(f, np.array([-0.5, 0.5, 0.2]), method=method)
    assert f.calls == result.nfev


@pytest.mark.parametrize("method", WITHOUT_GRADIENT)
def test_methods_without_gradient_run_the_plain_function(method):
    seen = []

    def f(x):
        seen.append(type(x))
        return rosenbrock(x)

    minimize(f, np.array([0.9, 0.8]), method=method)
    assert set(seen) == {np.ndarray}


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "CG", "SLSQP"])
def test_fewer_calls_than_by_finite_differences(method):
    start = np.full(10, 0.5)
    exact, differences = Counted(rosenbrock), Counted(rosenbrock)
    result = minimize(exact, start, method=method)
    reference = scipy_optimize.minimize(differences, start, method=method)
    assert 3 * exact.calls < differences.calls
    np.testing.assert_allclose(result.x, reference.x, atol=1e-3)
    assert np.abs(result.x - 1).max() <= 2 * np.abs(reference.x - 1).max() + 1e-6


@pytest.mark.parametrize("method", ["Newton-CG", "trust-ncg", "trust-krylov", "trust-constr"])
@pytest.mark.parametrize("hess", ["auto", "product", "dense"])
def test_hessian_dense_or_by_products(method, hess):
    f = Counted(rosenbrock)
    result = minimize(f, np.array([0.5, 0.5, 0.2]), method=method, hess=hess)
    np.testing.assert_allclose(result.x, np.ones(3), atol=1e-4)
    # A run for each value and another for all the products at a point, not one for each product.
    assert f.calls <= 2 * result.nfev + 2


def test_quasi_newton_strategy():
    result = minimize(rosenbrock, np.array([0.5, 0.5]), method="trust-constr", hess=scipy_optimize.SR1())
    np.testing.assert_allclose(result.x, np.ones(2), atol=1e-4)


def test_custom_method_gets_everything():
    def newton(fun, x0, args, jac, hess, hessp, **options):
        x = x0
        for _ in range(options["steps"]):
            x = x - np.linalg.solve(hess(x), jac(x))
            np.testing.assert_allclose(hessp(x, np.ones(2)), hess(x) @ np.ones(2), rtol=1e-12)
        return scipy_optimize.OptimizeResult(x=x, fun=fun(x), success=True)

    result = minimize(lambda p: (p["a"] - 3.0) ** 2 + p["b"] ** 2, {"a": 0.0, "b": 1.0}, method=newton, options={"steps": 1})
    assert result.x == {"a": 3.0, "b": 0.0}


@pytest.mark.parametrize(
    ("given", "method"), [({}, "BFGS"), ({"bounds": [(0, 1), (0, 1)]}, "L-BFGS-B"), ({"constraints": []}, "BFGS")]
)
def test_default_method_is_that_of_scipy(given, method):
    result = minimize(rosenbrock, [0.5, 0.5], **given)
    named = minimize(rosenbrock, [0.5, 0.5], method=method, **{k: v for k, v in given.items() if v})
    assert result.message == named.message
    assert result.nfev == named.nfev


def test_default_method_with_constraints():
    result = minimize(rosenbrock, [0.5, 0.5], constraints={"type": "eq", "fun": lambda x: x[0] - 0.5})
    assert result.message == "Optimization terminated successfully"
    np.testing.assert_allclose(result.x, [0.5, 0.25], atol=1e-6)


# The start


@pytest.mark.parametrize(
    ("x0", "x"),
    [
        (2.0, np.float64(1.0)),
        (3, np.float64(1.0)),
        (np.float32(2.0), np.float32(1.0)),
        (np.array(2.0), np.array(1.0)),
        ([2, 3.0], np.array([1.0, 1.0])),
        ((2, 3), np.array([1.0, 1.0])),
        ([[2, 3], [4, 5]], np.ones((2, 2))),
        (np.array([2, 3]), np.ones(2)),
        (np.zeros((2, 1), np.float32), np.ones((2, 1), np.float32)),
        ({"a": np.zeros(2, np.float16), "b": 0.5, "c": None}, {"a": np.ones(2, np.float16), "b": np.float64(1.0), "c": None}),
        ([np.zeros(1), 2.0], [np.ones(1), np.float64(1.0)]),
        (np.zeros(2, np.longdouble), np.ones(2, np.longdouble)),
    ],
    ids=str,
)
def test_start_of_any_kind(x0, x):
    dtypes = set()

    def f(t):
        leaves = functad.tree_leaves(t)
        dtypes.update(np.result_type(leaf).name for leaf in leaves)
        return sum([np.sum((leaf - 1.0) ** 2) for leaf in leaves])

    result = minimize(f, x0)
    assert result.success
    assert dtypes == {"float64"}
    found, structure = functad.tree_flatten(result.x)
    expected, same = functad.tree_flatten(x)
    assert structure == same
    for a, b in zip(found, expected, strict=True):
        assert (type(a), np.shape(a), a.dtype) == (type(b), np.shape(b), b.dtype)
        np.testing.assert_allclose(a.astype(float), b.astype(float), atol=2e-3 if b.dtype == np.float16 else 1e-5)


def test_float32_start_converges_as_float64_does():
    low, high = (minimize(rosenbrock, np.full(4, 0.5, dtype), tol=1e-8) for dtype in (np.float32, np.float64))
    assert low.success
    assert low.nfev == high.nfev
    np.testing.assert_allclose(low.x, np.ones(4), atol=1e-6)


def test_start_is_not_changed():
    x0 = {"w": np.full(2, 0.5)}
    result = minimize(lambda p: rosenbrock(p["w"]), x0)
    assert x0["w"].tolist() == [0.5, 0.5]
    result.x["w"][0] = 7.0
    assert x0["w"].tolist() == [0.5, 0.5]


def test_arguments_are_handed_on():
    result = minimize(lambda x, a, b: np.sum((x - a) ** 2) * b, np.zeros(2), (np.array([1.0, 2.0]), 3.0))
    np.testing.assert_allclose(result.x, [1.0, 2.0], atol=1e-6)
    np.testing.assert_allclose(minimize(lambda x, a: np.sum((x - a) ** 2), np.zeros(2), 4.0).x, [4.0, 4.0], atol=1e-6)


def test_function_that_writes_into_its_argument():
    def f(x):
        x[0] = x[0] - 1.0
        return np.sum(x**2)

    for method in ("BFGS", "Nelder-Mead"):
        np.testing.assert_allclose(minimize(f, np.array([3.0, 1.0]), method=method).x, [1.0, 0.0], atol=1e-4)


def test_branches_on_values():
    result = minimize(lambda x: (x - 2.0) ** 2 if x > 0 else 4.0 - x, -3.0)
    np.testing.assert_allclose(result.x, 2.0, atol=1e-6)


def test_all_steps_are_trees():
    result = minimize(lambda p: p["a"] ** 2, {"a": 1.0}, method="BFGS", options={"return_all": True})
    assert result.allvecs[0] == {"a": 1.0}
    assert abs(result.allvecs[-1]["a"]) < 1e-6


# What is refused


@pytest.mark.parametrize("method", ["BFGS", "Nelder-Mead", "trust-exact"])
@pytest.mark.parametrize(
    ("f", "found"),
    [
        (lambda x: x, r"returned float64\[2\]"),
        (lambda x: (x[0], x[1]), "returned a tuple"),
        (lambda x: x[:1], r"returned float64\[1\]"),
        (lambda x: x[0] + 1j, r"returned complex128\[\]"),
        (lambda x: None, "returned a NoneType"),
    ],
)
def test_result_that_is_no_number(method, f, found):
    with pytest.raises(NonScalarError, match=rf"minimize needs .*<lambda>, called at .*test_minimize.py:\d+, {found}. Red"):
        minimize(f, np.ones(2), method=method)


@pytest.mark.parametrize(
    ("x0", "message"),
    [
        ({"n": 3, "w": 1.0}, r"x0\['n'\] is an integer: pass a float"),
        ([np.ones(2), True], r"x0\[1\] is an integer"),
        (np.array([1j]), "x0 is complex"),
        ([1.0, "a"], r"x0\[1\] is a str, not an array"),
        (np.array(["a"]), "x0 is of dtype <U1, not a number"),
    ],
)
def test_start_that_is_refused(x0, message):
    with pytest.raises(InputError, match=rf"minimize of .*<lambda>, called at .*test_minimize.py:\d+: {message}"):
        minimize(lambda x: 0.0, x0)


def test_outer_transform_is_told_of_argmin():
    with pytest.raises(InputError, match=r"x0 is a Tensor of an outer transform.*functad\.argmin"):
        functad.grad(lambda a: minimize(lambda x: (x - a) ** 2, a).fun)(1.0)
    with pytest.raises(functad.errors.ConversionError):
        functad.grad(lambda a: minimize(lambda x: (x - a) ** 2, 0.0).fun)(1.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "BFGS", "hess": "dense"}, "BFGS does not take hess='dense'; it takes no Hessian"),
        ({"method": "trust-exact", "hess": "product"}, "trust-exact does not take hess='product'; it takes 'dense'"),
        ({"method": "BFGS", "hess": scipy_optimize.BFGS()}, "it takes no Hessian"),
        ({"hess": np.eye}, "functad computes the Hessian itself"),
        ({"method": "BFGS", "sparse": True}, "BFGS takes no sparse Hessian; Newton-CG and trust-constr do"),
        ({"method": "nonsense"}, "Unknown solver nonsense|nonsense"),
    ],
)
def test_what_a_method_does_not_take(given, message):
    with pytest.raises(ValueError, match=message):
        minimize(rosenbrock, np.ones(2), **given)


def test_error_of_the_function_comes_through():
    def f(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        minimize(f, 1.0)


# Solvers that fail inside


def _solved(p):
    """Return a function that has no value from 2.4 on, as a differential equation that blows up has none."""
    if functad.stop_gradient(p[0]) >= 2.4:
        raise ImplicitError("no solution")
    return (0.4 / (1 - 0.4 * p[0]) - 5.0) ** 2 + (p[1] - p[0]) ** 2


@pytest.mark.parametrize(
    "method",
    ["BFGS", "CG", "SLSQP", "Newton-CG", "trust-ncg", "trust-krylov", "trust-constr", "Nelder-Mead", "Powell"],
)
def test_steps_that_a_solver_fails_at_are_made_shorter(method):
    tried = []

    def f(p):
        tried.append(bool(functad.stop_gradient(p[0]) >= 2.4))
        return _solved(p)

    with np.errstate(all="ignore"):
        result = minimize(f, np.array([1.0, 0.0]), method=method)
    assert any(tried)
    assert result.success
    np.testing.assert_allclose(result.x, [2.3, 2.3], atol=2e-3)


@pytest.mark.parametrize("method", ["L-BFGS-B", "TNC", "trust-exact"])
def test_methods_that_cannot_say_what_to_do(method):
    with pytest.raises(ImplicitError, match=rf"(?s)no solution.*BFGS, SLSQP and trust-constr.*; {method} cannot"):
        minimize(_solved, np.array([2.2, -3.0]), method=method)


def test_a_solver_that_fails_at_the_start():
    with pytest.raises(ImplicitError, match=r"(?s)at its start.*no solution"):
        minimize(_solved, np.array([2.5, 0.0]), method="BFGS")


def test_failures_are_told_where_there_is_no_success():
    def f(p):  # the minimum lies where there is no value
        if functad.stop_gradient(p[0]) >= 1.0:
            raise ImplicitError("no solution")
        return (p[0] - 2.0) ** 2

    with np.errstate(all="ignore"):
        result = minimize(f, np.array([0.0]))
    assert not result.success
    assert "points a solver failed: no solution" in result.message


def test_over_a_differential_equation_that_blows_up():
    def f(p):
        y = functad.odeint(lambda y, t, p: p * y**2, 0.4, np.array([0.0, 1.0]), p[0], rtol=1e-6, atol=1e-6)[-1]
        return (y - 5.0) ** 2

    with np.errstate(all="ignore"):
        result = minimize(f, np.array([1.0]))
    np.testing.assert_allclose(result.x, [2.3], atol=1e-4)
