"""`odeint`: right-hand sides that are traced once, and those that cannot be."""

import numpy as np
import pytest

import functad
from functad.testing import check_grads

T = np.linspace(0.0, 3.0, 7)
Y0, P = np.array([1.0, 0.5]), np.array([1.1, 0.4, 0.9, 0.3])
TIGHT = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-11}


def lotka_volterra(y, t, p):
    a, b, c, d = p
    return np.stack([a * y[0] - b * y[0] * y[1], -c * y[1] + d * y[0] * y[1]])


def counted(f):
    def g(*args):
        g.calls += 1
        return f(*args)

    g.calls = 0
    return g


def test_the_backward_pass_runs_the_function_for_the_state_alone():
    f = counted(lotka_volterra)
    functad.odeint(f, Y0, T, P)
    forward, f.calls = f.calls, 0
    functad.grad(lambda p: np.sum(functad.odeint(f, Y0, T, p)))(P)
    assert f.calls < 2 * forward + 10  # the state once more, as a function of time


def test_forward_mode_runs_the_function_a_few_times():
    f = counted(lotka_volterra)
    functad.jvp(lambda p: functad.odeint(f, Y0, T, p), (P,), (np.ones(4),))
    state = counted(lotka_volterra)
    functad.odeint(state, Y0, T, P)
    assert f.calls < state.calls + 10


def branching(y, t, p):
    return -p[0] * y if t < 1.5 else -p[1] * y


def by_its_value(y, t, p):
    return -p[0] * y if float(functad.stop_gradient(y)[0]) > 0.4 else -p[0] * 0.4 * y / y[0]


def by_a_table(y, t, p):
    """A library that takes plain numbers alone: the time is one."""
    return -p[0] * y * {True: 1.0, False: 0.5}[bool(np.searchsorted([1.5], t))]


@pytest.mark.parametrize("f", [branching, by_a_table])
def test_functions_that_branch_on_the_time_are_called_at_each_step(f):
    def loss(p):
        first = functad.odeint(f, Y0, np.array([0.0, 1.5]), p, **TIGHT)[-1]
        return np.sum(functad.odeint(f, first, np.array([1.5 + 1e-12, 3.0]), p, **TIGHT)[-1] ** 2)

    check_grads(loss, [P], order=1, modes=["rev", "fwd"], rtol=1e-5)


def test_functions_that_branch_on_the_state_are_called_at_each_step():
    f = counted(by_its_value)
    functad.grad(lambda p: functad.odeint(f, Y0, T, p)[-1, 0])(P)
    calls, f.calls = f.calls, 0
    functad.odeint(f, Y0, T, P)
    assert calls > 3 * f.calls


@pytest.mark.parametrize("kind", ["linear", "square"])
@pytest.mark.parametrize("times", [1, 3])
def test_what_is_no_array_is_a_constant(kind, times):
    def f(y, t, options, rate):
        for _ in range(options["times"]):
            y = y * rate if options["kind"] == "linear" else y * y * rate
        return -y

    def loss(rate):
        return np.sum(functad.odeint(f, 0.8, T, {"kind": kind, "times": times}, rate, **TIGHT) ** 2)

    check_grads(loss, [0.7], order=2)


def test_trees_and_complex_states():
    def f(state, t, p):
        return {"z": 1j * p["w"] * state["z"] - state["x"] * state["z"], "x": -p["k"] * state["x"] * np.abs(state["z"]) ** 2}

    def loss(p):
        found = functad.odeint(f, {"z": 1.0 + 0.5j, "x": np.array(0.3)}, T, p, **TIGHT)
        return np.sum(found["x"]) + np.sum(found["z"].real)

    check_grads(loss, [{"w": 1.3, "k": 0.4}], order=2)
