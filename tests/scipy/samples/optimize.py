"""Samples of `scipy.optimize`."""

from __future__ import annotations

import numpy as np

from tests.scipy.samples.sample import Sample, call, use

P, START = np.array([0.7, 1.3]), np.array([1.0, 1.0])
A = np.array([[2.0, 0.3], [0.4, 1.5], [0.2, -0.6]])
B = np.array([1.0, 2.0, 0.5])
X = np.linspace(0.1, 2, 7)


def _real(p: np.ndarray) -> np.ndarray:
    """Keep differences to real numbers, which is what SciPy takes."""
    np.floor(p)
    return p


def _cube(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    return x**3 + x - _real(p)


def _slope(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    return 3 * x**2 + 1


def _bowl(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    return np.sum((x - _real(p)) ** 2 + 0.1 * x**4) + 0.3 * x[0] * x[1]


def _bowl_slope(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    return 2 * (x - _real(p)) + 0.4 * x**3 + 0.3 * x[::-1]


def _bowl_hess(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    return np.diag(2 + 1.2 * x**2) + 0.3 * np.eye(2)[::-1]


def _valley(x: float, p: float) -> float:
    return (x - _real(p)) ** 2 + 0.1 * x**4


def _wave(x: np.ndarray, a: float, b: float) -> np.ndarray:
    return a * np.sin(b * x)


DATA = _wave(X, 1.2, 0.8) + 0.05 * np.cos(9 * X)


BRACKETED = ("brentq", "brenth", "ridder", "bisect", "toms748")
NONLINEAR = ("broyden1", "broyden2", "anderson", "newton_krylov")
MIXING = ("linearmixing", "diagbroyden", "excitingmixing")
GLOBAL = ("differential_evolution", "dual_annealing", "direct", "brute")
BOX = [(-1.0, 2.0), (-1.0, 2.0)]
FINE = {"xtol": 1e-13, "ftol": 1e-13, "gtol": 1e-13}


SAMPLES: dict[str, Sample | list[Sample]] = {
    **{name: call(np.array([0.3, 0.8, 1.2])) for name in ("rosen", "rosen_der", "rosen_hess")},
    "rosen_hess_prod": call(np.array([0.3, 0.8, 1.2]), np.array([1.0, -0.4, 0.3])),
    **{name: use(lambda f, p: f(_cube, 0.0, 2.0, args=(p,), xtol=1e-14), 0.7) for name in BRACKETED},
    "root_scalar": use(lambda f, p: f(_cube, args=(p,), bracket=(0, 2), xtol=1e-14).root, 0.7),
    "newton": use(lambda f, p: f(_cube, 1.0, fprime=_slope, args=(p,), tol=1e-13), 0.7),
    "fixed_point": use(lambda f, p: f(lambda x, p: np.cos(p * x), 1.0, args=(p,), xtol=1e-13), 0.7),
    "root": use(lambda f, p: f(_cube, START, args=(p,), tol=1e-13).x, P),
    "fsolve": use(lambda f, p: f(_cube, START, args=(p,), xtol=1e-13), P),
    **{name: use(lambda f, p: f(lambda x: _cube(x, p), 0.9 * START, f_tol=1e-12), P) for name in NONLINEAR},
    **{name: use(lambda f, p: f(lambda x: np.sin(x - _real(p)), START, f_tol=1e-13), P) for name in MIXING},
    "minimize": use(lambda f, p: f(_bowl, START, args=(p,), jac=_bowl_slope, tol=1e-13).fun, P),
    "minimize_scalar": use(lambda f, p: f(_valley, args=(p,), tol=1e-14).fun, 0.7),
    "brent": use(lambda f, p: _valley(f(_valley, args=(p,), tol=1e-14), p), 0.7),
    "golden": use(lambda f, p: _valley(f(_valley, args=(p,), tol=1e-14), p), 0.7),
    "fminbound": use(lambda f, p: _valley(f(_valley, -1.0, 2.0, args=(p,), xtol=1e-14), p), 0.7),
    "fmin": use(lambda f, p: _bowl(f(_bowl, START, args=(p,), xtol=1e-12, ftol=1e-14, disp=0), p), P),
    "fmin_powell": use(lambda f, p: _bowl(f(_bowl, START, args=(p,), xtol=1e-12, ftol=1e-14, disp=0), p), P),
    **{
        name: use(lambda f, p: _bowl(f(_bowl, START, fprime=_bowl_slope, args=(p,), gtol=1e-13, disp=0), p), P)
        for name in ("fmin_bfgs", "fmin_cg")
    },
    "fmin_ncg": use(lambda f, p: f(_bowl, START, _bowl_slope, fhess=_bowl_hess, args=(p,), avextol=1e-14, disp=0), P),
    "fmin_l_bfgs_b": use(lambda f, p: f(_bowl, START, _bowl_slope, args=(p,), pgtol=1e-13, factr=10)[1], P),
    "fmin_tnc": use(lambda f, p: _bowl(f(_bowl, START, _bowl_slope, args=(p,), disp=0)[0], p), P),
    "fmin_slsqp": use(lambda f, p: f(_bowl, START, fprime=_bowl_slope, args=(p,), disp=0, acc=1e-15), P),
    "fmin_cobyla": use(lambda f, p: f(_bowl, START, [lambda x, p: 1.0], args=(p,), disp=0), P),
    "basinhopping": use(
        lambda f, p: (
            f(
                lambda x: _bowl(x, p),
                START,
                niter=1,
                rng=0,
                minimizer_kwargs={"jac": lambda x: _bowl_slope(x, p), "tol": 1e-13},
            ).fun
        ),
        P,
    ),
    **{name: use(lambda f, p: _found(f(_bowl, BOX, args=(p,), **_seed(f))), P) for name in GLOBAL},
    "shgo": use(lambda f, p: f(_bowl, BOX, (p,)).x, P),
    "least_squares": use(lambda f, p: f(lambda x: A @ x - B * _real(p)[0] + _real(p)[1] * x[0] ** 2, START, **FINE).cost, P),
    "leastsq": use(lambda f, p: f(lambda x: A @ x - B * _real(p)[0], START)[0], P),
    "lsq_linear": use(lambda f, a, b: f(a, b, (0.0, 0.9)).x, A, B),
    "nnls": use(lambda f, a, b: f(a, b), A, B),
    "curve_fit": use(lambda f, y: f(_wave, X, y, [1.0, 1.0], ftol=1e-14, xtol=1e-14)[0], DATA),
    "isotonic_regression": use(lambda f, y, w: f(y, weights=w).x, np.array([1.0, 3.0, 2.0, 2.5, 4.0]), np.arange(1.0, 6.0)),
    "linprog": use(lambda f, c: f(c, A_ub=A, b_ub=B).x, -P),
    "milp": use(lambda f, c: f(c, bounds=_bounds()).x, P),
    "linear_sum_assignment": use(lambda f, a: f(a)[1], A),
    "quadratic_assignment": use(lambda f, a: f(a, np.eye(2))["fun"], A[:2]),
    "approx_fprime": use(lambda f, x: f(x, lambda x: np.sum(x**2), 1e-3), P),
    "check_grad": use(lambda f: f(_bowl, _bowl_slope, START, P)),
    "bracket": use(lambda f: f(_valley, args=(0.7,))[:3]),
    "line_search": use(lambda f: f(lambda x: x @ x, lambda x: 2 * x, START, -START)[0]),
    "show_options": use(lambda f: f("minimize", "bfgs", disp=False)[:10]),
    "Bounds": use(lambda kind: kind([0.0], [1.0]).residual(np.array([0.3]))),
    "LinearConstraint": use(lambda kind: kind(np.eye(2), 0, 1).residual(np.array([0.3, 0.4]))),
    "NonlinearConstraint": use(lambda kind: kind(np.sum, 0, 1).ub),
    "LbfgsInvHessProduct": use(lambda kind: kind(np.eye(2)[:1], np.eye(2)[:1]).todense()),
    "OptimizeResult": use(lambda kind: kind(x=1.0).x),
    "RootResults": use(lambda kind: kind(1.0, 1, 2, 0, "brentq").root),
    **{name: use(lambda kind: _updated(kind())) for name in ("BFGS", "SR1")},
    "HessianUpdateStrategy": use(lambda kind: kind.__name__),
    **{name: use(lambda kind: kind.__name__) for name in ("BroydenFirst", "InverseJacobian", "KrylovJacobian")},
    "linprog_verbose_callback": use(lambda f: f.__name__),
}


def _seed(f: object) -> dict[str, int]:
    return {"rng": 0} if f.__name__ in ("differential_evolution", "dual_annealing") else {}


def _found(result: object) -> object:
    return getattr(result, "x", result)


def _bounds() -> object:
    from scipy.optimize import Bounds

    return Bounds(0, 3)


def _updated(strategy: object) -> np.ndarray:
    strategy.initialize(2, "hess")
    strategy.update(np.array([0.1, 0.2]), np.array([0.3, 0.1]))
    return strategy.get_matrix()
