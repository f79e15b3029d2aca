"""`functad.scipy.optimize`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.optimize

import functad
from functad.errors import UnsupportedError
from functad.scipy import optimize
from functad.testing import check_grads

B = np.array([1.0, 2.0])
A = np.array([[1.0, 2.0], [3.0, 1.0], [0.5, 1.0]])
C = np.array([1.0, 2.0, 0.5])
X = np.linspace(0.0, 2.0, 7)
FINE = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15}


def _real(p: Any) -> Any:
    """Keep differences to real numbers, which is what MINPACK takes."""
    np.floor(p)
    return p


def _system(x: Any, p: Any) -> Any:
    return np.stack([x[0] ** 3 - p[0], x[1] + x[0] * p[1]])


def _cube(x: Any, p: Any) -> Any:
    return x**3 - p


def _bowl(x: Any, p: Any) -> Any:
    return np.sum((x - p) ** 4 + x**2)


def _bowl_slope(x: Any, p: Any) -> Any:
    return 4 * (x - p) ** 3 + 2 * x


def _line(x: Any, p: Any) -> Any:
    return np.stack([x[0] - p[0], x[1] * x[0] - p[1], x[1] + 0.1])


def _line_jac(x: Any, p: Any) -> Any:
    return np.array([[1, 0], [x[1], x[0]], [0, 1.0]])


def _wave(x: Any, a: Any, b: Any) -> Any:
    return a * np.exp(-b * x)


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "rosen": (lambda m, x: m.rosen(x), (C,)),
    "rosen_der": (lambda m, x: m.rosen_der(x), (C,)),
    "root": (lambda m, p: m.root(_system, [1.0, 1.0], args=(_real(p),)).x, (B,)),
    "root closure": (lambda m, p: m.root(lambda x: _system(x, _real(p)), [1.0, 1.0]).x, (B,)),
    "root lm": (lambda m, p: m.root(_system, [1.0, 1.0], args=(_real(p),), method="lm", tol=1e-12).x, (B,)),
    "fsolve": (lambda m, p: m.fsolve(_cube, 1.0, args=(_real(p),)), (0.7,)),
    **{
        name: (lambda m, p, name=name: getattr(m, name)(_cube, 0.0, 2.0, args=(_real(p),)), (0.7,))
        for name in ("brentq", "brenth", "ridder", "bisect", "toms748")
    },
    "newton": (lambda m, p: m.newton(_cube, 1.0, args=(p,)), (0.7,)),
    "newton array": (lambda m, p: m.newton(_cube, np.ones(2), args=(p,), tol=1e-12), (B,)),
    "newton fprime": (lambda m, p: m.newton(lambda x: _cube(x, p), 1.0, fprime=lambda x: 3 * x**2), (0.7,)),
    "root_scalar": (lambda m, p: m.root_scalar(_cube, args=(_real(p),), bracket=(0, 2)).root, (0.7,)),
    "root_scalar fprime": (
        lambda m, p: m.root_scalar(lambda x, p: (_cube(x, p), 3 * x**2), args=(p,), x0=1.0, fprime=True).root,
        (0.7,),
    ),
    "fixed_point": (lambda m, p: m.fixed_point(lambda x, p: np.cos(p * x), 1.0, args=(p,), xtol=1e-12), (0.7,)),
    "minimize": (lambda m, p: m.minimize(_bowl, np.ones(2), args=(p,), tol=1e-12, jac=_bowl_slope).x, (0.7,)),
    "minimize fun": (
        lambda m, p: m.minimize(lambda x: _bowl(x, p), np.ones(2), tol=1e-12, jac=lambda x: _bowl_slope(x, p)).fun,
        (0.7,),
    ),
    "minimize bounds": (
        lambda m, p, low: (
            m.minimize(
                lambda x: np.sum((x - _real(p)) ** 2) + x[0] * x[1],
                np.ones(2),
                bounds=[(_real(low), None), (None, 5.0)],
                jac=lambda x: 2 * (x - p) + x[::-1],
                tol=1e-14,
            ).x
        ),
        (B, 0.6),
    ),
    "minimize_scalar": (lambda m, p: m.minimize_scalar(lambda x, p: (x - p) ** 4 + x**2, args=(p,), tol=1e-14).fun, (0.7,)),
    "least_squares": (lambda m, p: m.least_squares(_line, np.ones(2), _line_jac, args=(_real(p),), **FINE).cost, (B,)),
    "nnls": (lambda m, a, b: m.nnls(a, b)[0], (A, C)),
    "nnls with a zero": (lambda m, a, b: m.nnls(a, b), (A, A[:, 0] - C)),
}


@pytest.mark.parametrize("name", CALLS)
def test_derivatives(name: str) -> None:
    call, args = CALLS[name]
    check_grads(lambda *given: call(optimize, *given), args, order=1, rtol=1e-5)
    plain, expected = call(optimize, *args), call(scipy.optimize, *args)
    for a, b in zip(
        plain if type(plain) is tuple else [plain], expected if type(expected) is tuple else [expected], strict=True
    ):
        np.testing.assert_array_equal(a, b)
        assert type(a) is type(b)


def test_second_order() -> None:
    for name in ("newton", "root"):
        call, args = CALLS[name]
        check_grads(lambda *given, call=call: call(optimize, *given), args, rtol=1e-5)


def test_losses_of_least_squares() -> None:
    def minimum(p: Any, loss: str) -> Any:
        return optimize.least_squares(_line, np.ones(2), _line_jac, args=(p,), loss=loss, **FINE).x

    step = np.array([0.3, -0.4])
    for loss in ("linear", "soft_l1", "huber", "cauchy", "arctan"):
        found = functad.jvp(lambda p, loss=loss: minimum(p, loss), (B,), (step,))[1]
        differences = (minimum(B + 2e-3 * step, loss) - minimum(B - 2e-3 * step, loss)) / 4e-3
        np.testing.assert_allclose(found, differences, rtol=1e-4, atol=3e-5)


def test_least_squares_passes_keywords_to_fun_and_jac() -> None:
    def line(x: Any, p: Any, *, scale: Any) -> Any:
        return scale * _line(x, p)

    def slopes(x: Any, p: Any, *, scale: Any) -> Any:
        return scale * _line_jac(x, p)

    def fit(m: Any, p: Any, scale: Any) -> Any:
        return m.least_squares(line, np.ones(2), slopes, args=(_real(p),), kwargs={"scale": _real(scale)}, **FINE)

    found, (_, by_scale) = functad.value_and_grad(lambda p, s: fit(optimize, p, s).cost, argnums=(0, 1))(B, 1.3)
    expected = [fit(scipy.optimize, B, s).cost for s in (1.3 - 1e-4, 1.3, 1.3 + 1e-4)]
    np.testing.assert_allclose(found, expected[1], rtol=1e-12)
    np.testing.assert_allclose(by_scale, (expected[2] - expected[0]) / 2e-4, rtol=1e-6)


def test_curve_fit() -> None:
    data = _wave(X, 2.0, 0.7) + 0.05 * np.cos(9 * X)

    def best(y: Any) -> Any:
        return optimize.curve_fit(_wave, X, y, p0=[1.0, 1.0], xtol=1e-14, ftol=1e-14)

    step = np.cos(np.arange(7.0))
    for i in (0, 1):
        value, found = functad.jvp(lambda y, i=i: best(y)[i], (data,), (step,))
        np.testing.assert_array_equal(value, best(data)[i])
        differences = (best(data + 1e-5 * step)[i] - best(data - 1e-5 * step)[i]) / 2e-5
        np.testing.assert_allclose(found, differences, rtol=1e-3, atol=1e-6)


def test_the_rest_of_the_result_is_scipys() -> None:
    found = []

    def f(p: Any) -> Any:
        found.append(optimize.root(_system, [1.0, 1.0], args=(p,)))
        return np.sum(found[0].x)

    functad.grad(f)(B)
    assert found[0].success
    x, info = optimize.brentq(_cube, 0.0, 2.0, args=(0.7,), full_output=True)
    assert info.converged
    assert x == scipy.optimize.brentq(_cube, 0.0, 2.0, args=(0.7,))


def test_plain_calls_inside_a_trace() -> None:
    found = functad.grad(lambda p: p * optimize.minimize(lambda x: np.sum((x - 1) ** 2) + 1, np.zeros(2)).fun)(0.7)
    np.testing.assert_allclose(found, 1.0, rtol=1e-6)


def test_batches() -> None:
    roots = functad.vmap(functad.grad(lambda p: optimize.brentq(_cube, 0.0, 2.0, args=(p,))))(B)
    np.testing.assert_allclose(roots, B ** (-2 / 3) / 3, rtol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda p: optimize.linprog(p, A_ub=A, b_ub=C).x,
        lambda p: optimize.linear_sum_assignment(np.outer(p, p))[0],
        lambda p: optimize.fmin_cobyla(_bowl, np.ones(2), [np.sum], args=(p,)),
        lambda p: optimize.fmin_slsqp(_bowl, np.ones(2), bounds=[(0, 1)] * 2, args=(p,)),
        lambda p: optimize.minimize(_bowl, np.ones(2), args=(p,), constraints={"type": "eq", "fun": np.sum}).x,
        lambda p: optimize.least_squares(_line, np.ones(2), args=(p,), loss=np.cumsum).x,
        lambda p: optimize.curve_fit(_wave, X, X * p[0], bounds=(0, 1))[0],
        lambda p: optimize.curve_fit(_wave, X, X * p[0], sigma=np.eye(7))[0],
    ],
)
def test_refused(call: Callable[..., Any]) -> None:
    with pytest.raises(UnsupportedError, match=r"at .*test_optimize\.py"):
        functad.jacobian(call)(B)


def test_roots_may_be_complex() -> None:
    def f(a: Any, start: Any = 0.2 + 1j) -> Any:
        return optimize.newton(lambda x: x**2 + a * x + 3, start, fprime=lambda x: 2 * x + a)

    check_grads(f, [1.0])
    check_grads(lambda a: f(a, np.array([0.2 + 1j, -2j])), [1.0 + 0.3j], order=1)
    found, _ = functad.vjp(f, 1.0)
    np.testing.assert_allclose(found, (-1 + 11**0.5 * 1j) / 2, rtol=1e-13)


OLDER: dict[str, Callable[..., Any]] = {
    "fmin": lambda f, p: f(_bowl, np.ones(2), args=(p,), xtol=1e-13, ftol=1e-15, disp=0),
    "fmin_powell": lambda f, p: f(_bowl, np.ones(2), args=(p,), xtol=1e-13, ftol=1e-15, disp=0, full_output=True)[0],
    "fmin_bfgs": lambda f, p: f(_bowl, np.ones(2), _bowl_slope, args=(p,), gtol=1e-12, disp=0),
    "fmin_cg": lambda f, p: f(lambda x: _bowl(x, p), np.ones(2), lambda x: _bowl_slope(x, p), gtol=1e-12, disp=0),
    "fmin_ncg": lambda f, p: f(_bowl, np.ones(2), _bowl_slope, args=(p,), avextol=1e-14, disp=0),
    "fmin_l_bfgs_b": lambda f, p: f(lambda x, p: (_bowl(x, p), _bowl_slope(x, p)), np.ones(2), args=(p,), factr=1, pgtol=0)[0],
    "fmin_tnc": lambda f, p: f(_bowl, np.ones(2), _bowl_slope, args=(p,), disp=0, pgtol=1e-13, ftol=1e-16)[0],
    "fmin_slsqp": lambda f, p: f(_bowl, np.ones(2), fprime=_bowl_slope, args=(p,), disp=0, acc=1e-16),
    "leastsq": lambda f, p: f(_line, np.ones(2), args=(p,), xtol=1e-14, ftol=1e-14)[0],
    **{
        name: lambda f, p: f(lambda x: x - p + 0.1 * np.sin(x), np.ones(2), f_tol=1e-12)
        for name in ("broyden1", "broyden2", "anderson", "diagbroyden", "newton_krylov")
    },
    **{name: lambda f, p: f(lambda x: np.sin(x - p), np.ones(2), f_tol=1e-12) for name in ("linearmixing", "excitingmixing")},
}


@pytest.mark.filterwarnings("ignore:.*(precision|evaluations).*")
@pytest.mark.parametrize("name", OLDER)
def test_older_functions(name: str) -> None:
    p, step, h = np.array([1.1, 1.9]), np.array([0.3, -0.7]), 1e-3
    solver = getattr(optimize, name)

    def f(p: Any) -> Any:
        return OLDER[name](solver, p)

    value, found = functad.jvp(f, (p,), (step,))
    np.testing.assert_array_equal(value, f(p))
    expected = (8 * (f(p + h * step) - f(p - h * step)) - (f(p + 2 * h * step) - f(p - 2 * h * step))) / (12 * h)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-5)
    np.testing.assert_allclose(functad.grad(lambda p: f(p) @ step)(p) @ step, found @ step, rtol=1e-9)


@pytest.mark.parametrize("name", ["fmin", "fmin_powell", "fmin_bfgs", "fmin_cg", "fmin_ncg"])
@pytest.mark.parametrize("full", [False, True])
def test_minimizers_return_all_points(name: str, full: bool) -> None:
    def run(m: Any, p: Any) -> Any:
        slope = () if name in ("fmin", "fmin_powell") else (_bowl_slope,)
        return getattr(m, name)(_bowl, np.ones(2), *slope, args=(p,), disp=0, retall=True, full_output=full)

    expected, found = run(scipy.optimize, B), []

    def f(p: Any) -> Any:
        found.append(run(optimize, p))
        return found[-1][0]

    np.testing.assert_allclose(functad.vjp(f, B)[0], expected[0], rtol=1e-12)
    assert len(found[0]) == len(expected)
    np.testing.assert_array_equal(found[0][-1], expected[-1])
    if not full:
        with pytest.raises(UnsupportedError, match="retall"):
            functad.jit(f)(B)


def test_values_of_older_functions() -> None:
    check_grads(lambda p: optimize.fmin_bfgs(_bowl, np.ones(2), args=(_real(p),), full_output=True, disp=0)[1], (B,), order=1)
    check_grads(lambda p: optimize.fmin_l_bfgs_b(_bowl, np.ones(2), args=(_real(p),), approx_grad=True)[1], (B,), order=1)


def test_bounded_and_ordered_least_squares() -> None:
    check_grads(lambda a, b, low, high: optimize.lsq_linear(a, b, (low, high)).x, (A, C, np.array([0.0, 0.1]), 0.3), order=1)
    check_grads(lambda a, b: optimize.lsq_linear(a, b).cost, (A, C))
    y, w = np.array([1.0, 3.0, 2.0, 2.5, 4.0]), np.arange(1.0, 6.0)
    for increasing in (True, False):
        check_grads(lambda y, w, up=increasing: optimize.isotonic_regression(y, weights=w, increasing=up).x, (y, w), order=1)
    assert functad.jvp(lambda y: optimize.isotonic_regression(y).x, (y,), (y,))[0].tolist() == [1.0, 2.5, 2.5, 2.5, 4.0]


def test_least_squares_at_a_large_condition() -> None:
    draw = np.random.default_rng(0)
    u, v = np.linalg.qr(draw.standard_normal((8, 3)))[0], np.linalg.qr(draw.standard_normal((3, 3)))[0]
    a = u @ np.diag([1.0, 1e-4, 1e-8]) @ v
    b = a @ np.array([1.0, 2.0, 3.0]) + 1e-9 * draw.standard_normal(8)
    da, db = 1e-9 * draw.standard_normal((8, 3)), draw.standard_normal(8)
    with mpmath.workdps(60):

        def exact(t: Any) -> Any:
            m, r = mpmath.matrix(a.tolist()) + t * mpmath.matrix(da.tolist()), mpmath.matrix(b.tolist())
            return mpmath.lu_solve(m.T * m, m.T * (r + t * mpmath.matrix(db.tolist())))

        h = mpmath.mpf(10) ** -20
        expected = np.array([float(x) for x in (exact(h) - exact(-h)) / (2 * h)])
    for f in (
        lambda a, b: optimize.nnls(a, b)[0],
        lambda a, b: optimize.lsq_linear(a, b).x,
        lambda a, b: optimize.lsq_linear(a, b, (0.0, np.inf)).x,
    ):
        np.testing.assert_allclose(functad.jvp(f, (a, b), (da, db))[1], expected, rtol=1e-6)
        pulled = functad.vjp(f, a, b)[1](np.ones(3))
        assert np.sum(pulled[0] * da) + np.sum(pulled[1] * db) == pytest.approx(np.sum(expected), rel=1e-6)


def test_least_squares_of_dependent_columns_has_no_derivative() -> None:
    with pytest.raises(np.linalg.LinAlgError, match=r"lsq_linear .* have rank 1"):
        functad.jacobian(lambda b: optimize.lsq_linear(np.ones((3, 2)), b, (0.0, 1.0)).x)(np.ones(3))


def test_least_squares_with_every_number_at_a_bound() -> None:
    a = np.eye(3)[:, :2]
    for f in (lambda b: optimize.nnls(a, b)[0], lambda b: optimize.lsq_linear(a, b, (0.0, 1.0)).x):
        np.testing.assert_array_equal(functad.jacobian(f)(-np.ones(3)), np.zeros((2, 3)))


def _apart(x: Any, a: Any) -> Any:
    return np.stack([x[0] - a, x[1] - 2 * a])


@pytest.mark.parametrize("bounds", [([0, 0], [1, 1]), [[0, 0], [1, 1]], np.array([[0.0, 0.0], [1.0, 1.0]]), (0, 1)])
def test_least_squares_near_a_bound(bounds: Any) -> None:
    """The reflective method ends just inside of a bound, and the bounds may be a list or an array of both."""
    for a in (0.3, 0.8):

        def found(a: Any, m: Any = optimize) -> Any:
            return m.least_squares(_apart, np.array([0.5, 0.5]), bounds=bounds, args=(_real(a),), **FINE).x

        step = 1e-4
        differences = (found(a + step, scipy.optimize) - found(a - step, scipy.optimize)) / (2 * step)
        for mode in (functad.jacobian, functad.jacfwd):
            np.testing.assert_allclose(mode(found)(a), differences, atol=1e-5)


BOUNDED: dict[str, Callable[..., Any]] = {
    "minimize_scalar": lambda m, f, low, high: m.minimize_scalar(f, bounds=(low, high)).x,
    "minimize_scalar bounded": lambda m, f, low, high: m.minimize_scalar(f, None, (low, high), (), "bounded").x,
    "fminbound": lambda m, f, low, high: m.fminbound(f, low, high),
    "fminbound by name": lambda m, f, low, high: m.fminbound(f, x1=low, x2=high, xtol=1e-6),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_minimum_of_one_number_at_a_bound(name: str) -> None:
    """The minimum at a bound moves with the bound, and not with the parameter; inside it moves with the parameter."""
    for a, expected in ((2.0, [0, 0, 1]), (-1.0, [0, 1, 0]), (0.4, [1, 0, 0])):

        def found(p: Any, m: Any = optimize) -> Any:
            return BOUNDED[name](m, lambda x: (x - p[0]) ** 2, p[1], p[2])

        p = np.array([a, 0.0, 1.0])
        np.testing.assert_allclose(functad.grad(found)(p), expected, atol=1e-6)
        assert functad.value_and_grad(found)(p)[0] == found(p, scipy.optimize)


@pytest.mark.filterwarnings("ignore:'where' used without 'out'")  # by SciPy
def test_minimum_near_a_bound_by_an_interior_method() -> None:
    def found(a: Any) -> Any:
        bounds = [(0, 1), (0, 10)]
        return optimize.minimize(lambda x: np.sum((x - a * B) ** 2), np.ones(2) / 2, method="trust-constr", bounds=bounds).x

    np.testing.assert_allclose(functad.jacobian(found)(3.0), [0.0, 2.0], atol=1e-6)
    np.testing.assert_allclose(functad.jacobian(found)(0.7), [1.0, 2.0], atol=1e-6)


def _plus(x: Any, p: Any) -> Any:
    return (x - p) ** 2 + 0.1 * x


BY_POSITION: dict[str, Callable[..., Any]] = {
    "brentq": lambda m, p: m.brentq(_cube, 0, 2, (p,), 1e-12, 1e-12),
    "bisect by name": lambda m, p: m.bisect(_cube, a=0, b=2, args=(p,)),
    "newton": lambda m, p: m.newton(_cube, 1.0, None, (p,), 1e-12),
    "root": lambda m, p: m.root(_cube, [1.0], (_real(p),), "hybr", None, 1e-12).x[0],
    "fsolve": lambda m, p: m.fsolve(_cube, [1.0], (_real(p),), None, 0, 0, 1e-12)[0],
    "root_scalar": lambda m, p: m.root_scalar(_cube, (p,), "brentq", (0, 2)).root,
    "fixed_point": lambda m, p: m.fixed_point(lambda x, p: np.cos(p * x), 1.0, (p,), 1e-12),
    "brent": lambda m, p: m.brent(_plus, (p,), None, 1e-12),
    "golden": lambda m, p: m.golden(_plus, (p,), (0.0, 2.0), 1e-9),
    "fminbound": lambda m, p: m.fminbound(_plus, 0, 2, (p,), 1e-10),
    "minimize": lambda m, p: m.minimize(_bowl, [1.0], (p,), None, None, None, None, None, (), 1e-12).x[0],
    "curve_fit": lambda m, p: m.curve_fit(lambda x, a: a * x, X, p * X, [1.0], None, False, True)[0][0],
}


@pytest.mark.parametrize("name", BY_POSITION)
def test_arguments_by_position(name: str) -> None:
    """Every argument may be given by position, and takes effect."""
    value, slope = functad.value_and_grad(lambda p: BY_POSITION[name](optimize, p))(0.7)
    assert value == BY_POSITION[name](scipy.optimize, 0.7)
    differences = (BY_POSITION[name](scipy.optimize, 0.71) - BY_POSITION[name](scipy.optimize, 0.69)) / 0.02
    np.testing.assert_allclose(slope, differences, rtol=1e-3)
