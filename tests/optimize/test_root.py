"""`root` and `root_scalar`: exact derivatives, for systems of trees and for one number."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize as scipy_optimize

from functad.errors import InputError, NonScalarError
from functad.optimize import root, root_scalar
from tests.optimize.problems import Counted


def system(p):
    """A circle of radius 2 and a curve, which meet near (1.2, 1.6)."""
    return {"circle": p["x"] ** 2 + p["y"] ** 2 - 4.0, "curve": np.exp(p["x"]) + p["y"] - 5.0}


def flat_system(x):
    return np.array([x[0] ** 2 + x[1] ** 2 - 4.0, np.exp(x[0]) + x[1] - 5.0])


START = {"x": 1.0, "y": 1.5}


@pytest.mark.parametrize(
    "method",
    ["hybr", "lm", "broyden1", "broyden2", "anderson", "krylov", "df-sane", "diagbroyden", "linearmixing", "excitingmixing"],
)
def test_every_method(method):
    """On a system like g(x) - x = 0 with a small g, since the mixing methods are for such only."""
    result = root(lambda p: (1.0 - p["x"] - 0.2 * np.sin(p["y"]), 1.0 - p["y"] - 0.2 * np.cos(p["x"])), START, method=method)
    reference = scipy_optimize.root(lambda x: [x[0] + 0.2 * np.sin(x[1]) - 1.0, x[1] + 0.2 * np.cos(x[0]) - 1.0], [1.0, 1.5])
    assert isinstance(result, scipy_optimize.OptimizeResult)
    assert result.success, result.message
    np.testing.assert_allclose([result.x["x"], result.x["y"]], reference.x, atol=1e-4)


@pytest.mark.parametrize("method", ["hybr", "lm"])
def test_exact_jacobian_saves_calls(method):
    exact, differences = Counted(system), Counted(flat_system)
    result = root(exact, START, method=method)
    reference = scipy_optimize.root(differences, [1.0, 1.5], method=method)
    assert exact.calls < differences.calls
    np.testing.assert_allclose([result.x["x"], result.x["y"]], reference.x, atol=1e-7)


def test_array_and_arguments():
    result = root(lambda x, a: np.sinh(x) - a, np.zeros((2, 2)), np.arange(4.0).reshape(2, 2))
    np.testing.assert_allclose(result.x, np.arcsinh(np.arange(4.0)).reshape(2, 2), atol=1e-8)


def test_callback_gets_the_tree():
    seen = []
    root(system, START, method="broyden1", callback=lambda p, value: seen.append((sorted(p), value.shape)))
    assert seen
    assert set(map(str, seen)) == {"(['x', 'y'], (2,))"}


def test_start_that_is_refused():
    with pytest.raises(InputError, match=r"root of system, called at .*test_root.py:\d+: x0\['x'\] is an integer"):
        root(system, {"x": 1, "y": 2.0})


def cubic(x, a=2.0):
    return x**3 - a


@pytest.mark.parametrize("method", ["newton", "halley", "bisect", "brentq", "brenth", "ridder", "toms748", "secant", None])
def test_every_scalar_method(method):
    start = (
        {"x0": 1.5}
        if method in ("newton", "halley", None)
        else {"x0": 1.0, "x1": 1.5}
        if method == "secant"
        else {"bracket": [0, 2]}
    )
    result = root_scalar(cubic, method=method, **start)
    assert result.converged
    assert result.root == pytest.approx(2 ** (1 / 3), abs=1e-8)


@pytest.mark.parametrize(("method", "runs"), [("newton", 1), ("halley", 1)])
def test_value_and_derivatives_in_one_run(method, runs):
    f = Counted(cubic)
    result = root_scalar(f, method=method, x0=1.5)
    assert f.calls <= runs * (result.iterations + 1)


def test_halley_needs_fewer_steps_than_newton():
    halley, newton = (root_scalar(cubic, method=method, x0=30.0) for method in ("halley", "newton"))
    reference = scipy_optimize.root_scalar(cubic, method="halley", x0=30.0, fprime=lambda x: 3 * x**2, fprime2=lambda x: 6 * x)
    assert halley.iterations == reference.iterations < newton.iterations


def test_default_with_a_bracket_and_arguments():
    assert root_scalar(cubic, 27.0, bracket=[0, 10]).root == pytest.approx(3.0)
    assert root_scalar(cubic, (27.0,), x0=1.0, maxiter=100, xtol=1e-12).root == pytest.approx(3.0)
    assert root_scalar(lambda x: 2 * x - 1, x0=5).root == 0.5


@pytest.mark.parametrize(("f", "found"), [(lambda x: np.array([x, x]), "float64.2."), (lambda x: None, "a NoneType")])
def test_scalar_function_that_is_none(f, found):
    with pytest.raises((NonScalarError, TypeError), match=f"returned {found}|np.array"):
        root_scalar(f, bracket=[0, 2])
    with pytest.raises(NonScalarError, match=r"root_scalar needs a function that returns one number.*float64\[1\]"):
        root_scalar(lambda x: np.stack([x]), x0=1.0)
