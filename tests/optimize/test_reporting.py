"""Callbacks and bars of progress: what they are told, and how they stop a method."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize as scipy_optimize

from functad.optimize import extras, least_squares, minimize
from functad.optimize.least_squares import _check_callback
from tests.optimize.problems import rosenbrock
from tests.optimize.test_minimize import METHODS

ROOT = Path(__file__).parents[2]


def f(p):
    return rosenbrock(p["x"]) + (p["y"] - 1.0) ** 2


START = {"x": np.array([1.1, 1.15]), "y": 0.5}


@pytest.mark.parametrize("method", METHODS)
def test_each_method_tells_its_steps(method):
    states = []
    result = minimize(f, START, method=method, callback=states.append, options={"maxiter": 60} if method == "COBYLA" else None)
    assert [state.nit for state in states] == list(range(1, len(states) + 1))
    assert states
    for state in states:
        assert isinstance(state, scipy_optimize.OptimizeResult)
        assert state.x["x"].shape == (2,)
        assert state.fun == pytest.approx(f(state.x), rel=1e-12)
    assert states[-1].fun == pytest.approx(result.fun, abs=1e-2)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("how", ["raise", "return"])
def test_each_method_can_be_stopped(method, how):
    states = []

    def callback(state):
        states.append(state)
        if state.nit == 2:
            if how == "raise":
                raise StopIteration
            return True
        return False

    result = minimize(f, START, method=method, callback=callback)
    assert len(states) == 2
    assert method == "COBYQA" or not result.success  # COBYQA takes being stopped for success
    assert "callback" in result.message
    assert result.x["x"].shape == (2,)


def test_error_of_a_callback_comes_through():
    def callback(state):
        raise KeyError("mine")

    for method in ("BFGS", "TNC", "trust-constr"):
        with pytest.raises(KeyError, match="mine"):
            minimize(f, START, method=method, callback=callback)


def test_stop_iteration_of_the_function_is_not_taken_for_the_callback():
    def broken(p):
        return next(iter([]))

    with pytest.raises(StopIteration):
        minimize(broken, START, method="TNC", callback=lambda state: None)


@pytest.mark.parametrize("method", ["BFGS", "TNC"])
def test_bar_counts_the_steps(method, capsys):
    states = []
    minimize(f, START, method=method, callback=states.append, progress=True)
    bar = capsys.readouterr().err
    assert f"minimize: {len(states)} steps" in bar
    assert f"value={states[-1].fun:.6g}" in bar.split("\r")[-1]


def test_bar_knows_the_number_of_steps(capsys):
    minimize(f, START, method="BFGS", progress=True, options={"maxiter": 2})
    assert "2/2" in capsys.readouterr().err


def test_bar_is_closed_when_the_function_fails(capsys):
    def broken(p):
        raise KeyError("mine")

    with pytest.raises(KeyError):
        minimize(broken, START, progress=True)
    assert capsys.readouterr().err.endswith("\n")


def test_least_squares_tells_its_steps(capsys):
    states = []
    result = least_squares(
        lambda p: np.append(10 * (p["x"][1] - p["x"][0] ** 2), 1 - p["x"][0]), START, callback=states.append, progress=True
    )
    assert [state.nit for state in states] == list(range(1, len(states) + 1))
    assert states[-1].x["x"].shape == (2,)
    assert states[-1].cost == pytest.approx(result.cost, abs=1e-8)
    assert f"least_squares: {len(states)} steps" in capsys.readouterr().err


def test_least_squares_can_be_stopped():
    result = least_squares(lambda x: np.exp(x) - 2.0, np.full(2, 5.0), callback=lambda state: state.nit == 2)
    assert result.status == -2
    assert "callback" in result.message


def test_least_squares_of_older_scipy_has_no_callback(monkeypatch):
    monkeypatch.setattr(scipy_optimize, "least_squares", lambda fun, x0, jac: None)
    with pytest.raises(ImportError, match=r"callback and progress of least_squares need SciPy 1\.16"):
        _check_callback()


# What is optional


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(ImportError, match=r"progress=True, at .*, needs tqdm: pip install tqdm"):
        minimize(f, START, progress=True)
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(ImportError, match=r"functad\.optimize, at .*, needs SciPy: pip install 'functad\[scipy\]'"):
        extras.scipy_optimize()
    with pytest.raises(ImportError, match="needs SciPy"):
        minimize(f, START)


def test_scipy_is_imported_when_it_is_needed():
    code = "import sys, functad.optimize; print([name for name in ('scipy', 'tqdm') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True).stdout == "[]\n"
