"""Initial value problems: the Jacobian that implicit methods get, and the number of problems that a Jacobian solves."""

import numpy as np

import functad
from functad.implicit.initial_value import Problem

T = np.array([0.0, 0.5, 1.5, 3.0])
Y0, P = np.array([1.0, 0.5]), np.array([1.1, 0.4, 0.9, 0.3])
TIGHT = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-11}


def lotka_volterra(y, t, p):
    a, b, c, d = p
    return np.stack([a * y[0] - b * y[0] * y[1], -c * y[1] + d * y[0] * y[1]])


def test_implicit_methods_get_the_exact_jacobian():
    problem = Problem("f", lambda y, t, p: [lotka_volterra(y, t, p)], (functad.ArraySpec((2,), np.dtype(float)),), 2, "BDF")
    found = problem.jacobian([P])(0.3, Y0)
    np.testing.assert_allclose(found, functad.jacobian(lotka_volterra)(Y0, 0.3, P))


def test_columns_of_a_jacobian_solve_one_problem_each(monkeypatch):
    """`jacobian` sees after its run that columns are fewer, and transposes the way back: that needs no second derivative."""
    solved = []
    solve = Problem.solved
    monkeypatch.setattr(Problem, "solved", lambda self, *args, **options: (solved.append(1), solve(self, *args, **options))[1])

    def f(p):
        return functad.odeint(lambda y, t, p: -p["rate"] * y + p["feed"], 1.0, T, p, **TIGHT)

    p = {"rate": 0.7}
    found = functad.jacobian(lambda p: f(p | {"feed": 0.2}))(p)
    assert len(solved) == 6  # the value; the way back: the state once more, and three intervals; one column
    above, below = [f({"rate": rate, "feed": 0.2}) for rate in (0.7 + 1e-5, 0.7 - 1e-5)]
    np.testing.assert_allclose(found["rate"], (above - below) / 2e-5, rtol=1e-6)
