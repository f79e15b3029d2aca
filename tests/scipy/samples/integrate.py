"""Samples of `scipy.integrate`."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import qmc

from tests.scipy.samples.sample import Sample, call, use

X = np.array([0.0, 1.0, 2.2, 3.0, 4.5])
Y = np.array([1.0, 2.0, 0.5, 3.0, 1.2])
Y0 = np.array([1.0, 2.0])
FINE = {"rtol": 1e-11, "atol": 1e-11}


def _decay(t: Any, y: Any, p: Any) -> Any:
    return -p * y + y[::-1] * t


def _end(method: Any) -> Sample:
    """Return the sample of a solver's end of an interval, which is reached by steps of one size."""
    steps = {"rtol": 1.0, "atol": 1.0, "first_step": 0.1, "max_step": 0.1}
    return use(lambda solver, y, p: _steps(solver(lambda t, y: _decay(t, y, p), 0.0, y, 1.0, **steps)), Y0, 0.7)


def _steps(solver: Any) -> Any:
    while solver.status == "running":
        solver.step()
    return solver.y


def _integrated(ode: Any, y: Any, p: Any) -> Any:
    solver = ode(_decay).set_integrator("dopri5", **FINE)
    return solver.set_initial_value(y, 0.0).set_f_params(p).integrate(1.0)


SAMPLES: dict[str, Sample | list[Sample]] = {
    "trapezoid": [call(Y, X), call(Y, dx=0.3)],
    "simpson": use(lambda f, y, x: f(y, x=x), Y[:4], X[:4]),
    "cumulative_trapezoid": call(Y, X),
    "cumulative_simpson": use(lambda f, y, x: f(y, x=x), Y, X),
    "romb": call(Y, dx=0.3),
    "newton_cotes": call(3),
    "lebedev_rule": call(3),
    "fixed_quad": use(lambda f, a, b, p: f(lambda x: np.sin(p * x), a, b)[0], 0.1, 1.2, 0.7),
    "quad": [
        use(lambda f, a, b, p: f(lambda x: np.sin(p * x), a, b)[0], 0.1, 1.2, 0.7),
        use(lambda f, a, p: f(lambda x: np.exp(-p * x), a, np.inf)[0], 0.1, 1.2),
    ],
    "quad(weight)": use(lambda f, p: f(lambda x: p, 0, 1, weight="cos", wvar=1.0)[0], 0.7),
    "quad_vec": use(lambda f, a, b, p: f(lambda x: np.sin(p * x), a, b)[0], 0.1, 1.2, Y0),
    "dblquad": use(lambda f, p: f(lambda y, x: np.sin(p * x * y), 0, 1, 0, 1)[0], 0.7),
    "tplquad": use(lambda f, p: f(lambda z, y, x: x * y * z, 0, p, 0, 1, 0, 1)[0], 0.7),
    "nquad": use(lambda f, p: f(lambda y, x: np.sin(p * x * y), [[0, 1], [0, 1]])[0], 0.7),
    "tanhsinh": [
        use(lambda f, p: f(lambda x: p * x, 0.0, 1.0).integral, 0.7),
        use(lambda f, p: f(lambda x: p * x, 0.0, p).integral, 0.7),
    ],
    "cubature": [
        use(lambda f, p: f(lambda x: p * x[:, 0], [0.0], [1.0]).estimate, 0.7),
        use(lambda f, p: f(lambda x: x[:, 0], [0.0], [p]).estimate, 0.7),
    ],
    "nsum": [
        use(lambda f, p: f(lambda k: p**k, 1.0, 9.0).sum, 0.7),
        use(lambda f, p: f(lambda k, p: p**k, 1.0, 9.0, args=(p,)).sum, 0.7),
        use(lambda f, p: f(lambda k: p**k, 1.0, np.inf).sum, 0.7),
    ],
    "qmc_quad": [
        use(lambda f, p: f(lambda x: p * x[0], [0.0], [1.0], n_points=8, qrng=qmc.Halton(1, seed=0)).integral, 0.7),
        use(lambda f, p: f(lambda x: x[0], [0.0], [p], n_points=8, qrng=qmc.Halton(1, seed=0)).integral, 0.7),
    ],
    "solve_ivp": [
        use(lambda f, y, p, m=m: f(_decay, (0, 1), y, m, args=(p,), **FINE).y[:, -1], Y0, 0.7) for m in ("RK45", "DOP853")
    ],
    'solve_ivp(method="BDF")': use(lambda f, y, p: f(_decay, (0, 1), y, "BDF", args=(p,)).y[:, -1], Y0, 0.7),
    "odeint": use(lambda f, y, p: f(lambda y, t: -p * y, y, [0, 1.0], **FINE), Y0, 0.7),
    "solve_bvp": use(
        lambda f, p: (
            f(lambda x, y: np.stack([y[1], -p * y[0]]), lambda a, b: np.stack([a[0], b[0] - 1]), X / 5, np.ones((2, 5))).p
        ),
        0.7,
    ),
    **{name: _end(name) for name in ("RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA")},
    "OdeSolver": use(lambda kind: kind.__name__),
    "DenseOutput": use(lambda kind: kind.__name__),
    "OdeSolution": use(lambda kind: kind.__name__),
    "ode": use(_integrated, Y0, 0.7),
    "complex_ode": use(_integrated, Y0 + 0j, 0.7),
}
