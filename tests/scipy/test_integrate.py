"""`functad.scipy.integrate`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate

import functad
from functad.errors import UnsupportedError
from functad.scipy import integrate
from functad.testing import check_grads

X = np.array([0.0, 1.0, 2.2, 3.0, 4.5])
Y = np.array([1.0, 2.0, 0.5, 3.0, 1.2])
B = np.array([1.0, 2.0])
INF = np.inf
FINE = {"rtol": 1e-11, "atol": 1e-11}


def _decay(t: Any, y: Any, p: Any) -> Any:
    return -p * y + y[::-1] * t


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "trapezoid": (lambda m, y, x: m.trapezoid(y, x), (Y, X)),
    "simpson": (lambda m, y, x: m.simpson(y, x=x), (Y[:4], X[:4])),
    "cumulative_trapezoid": (lambda m, y, x: m.cumulative_trapezoid(y, x, initial=0), (Y, X)),
    "cumulative_simpson": (lambda m, y, x: m.cumulative_simpson(y, x=x), (Y, X)),
    "romb": (lambda m, y: m.romb(y, dx=0.3), (Y,)),
    "fixed_quad": (lambda m, a, b, p: m.fixed_quad(lambda x: np.sin(p * x), a, b)[0], (0.1, 1.2, 0.7)),
    "quad": (lambda m, a, b, p: m.quad(lambda x, p: np.sin(p * x), a, b, args=(p,))[0], (0.1, 1.2, 0.7)),
    "backward": (lambda m, a, b, p: m.quad(lambda x, p: np.sin(p * x), b, a, args=(p,))[0], (0.1, 1.2, 0.7)),
    "step": (lambda m, b, p: m.quad(lambda x: p * (x > 0.5), 0, b, points=[0.5])[0], (1.2, 0.7)),
    "to infinity": (lambda m, a, p: m.quad(lambda x: np.exp(-p * x), a, INF)[0], (1.2, 0.7)),
    "from infinity": (lambda m, a, p: m.quad(lambda x: np.exp(p * x), -INF, a)[0], (1.2, 0.7)),
    "whole line": (lambda m, p, q: m.quad(lambda x: np.exp(-p * (x - q) ** 2), -INF, INF)[0], (1.2, 0.7)),
    "singular": (lambda m, p: m.quad(lambda x: x**p, 0, 1)[0], (-0.3,)),
    "quad_vec": (lambda m, a, b, p: m.quad_vec(lambda x: np.sin(p * x), a, b)[0], (0.1, 1.2, B)),
    "quad_vec to infinity": (lambda m, a, p: m.quad_vec(lambda x: np.exp(-p * x), a, INF)[0], (0.1, B)),
    "tanhsinh": (lambda m, a, p: m.tanhsinh(lambda x: np.sin(p * x), 0.0, a).integral, (1.2, 0.7)),
    "cubature": (lambda m, a, p: m.cubature(lambda x: np.sin(p * x[:, 0]), [0.0], [a]).estimate, (1.2, 0.7)),
    "nsum": (lambda m, p: m.nsum(lambda k: k**-p, 1.0, INF).sum, (2.5,)),
    "dblquad": (lambda m, p: m.dblquad(lambda y, x: np.sin(p * x * y), 0, 1, 0, lambda x: p * x)[0], (0.7,)),
    "RK45": (lambda m, y, p: m.solve_ivp(_decay, (0, 1), y, args=(p,), **FINE).y[:, -1], (B, 0.7)),
    "DOP853": (lambda m, y, p: m.solve_ivp(_decay, (0, 1), y, "DOP853", args=(p,), **FINE).y[:, -1], (B, 0.7)),
    "t_eval": (lambda m, y, p: m.solve_ivp(lambda t, y: _decay(t, y, p), (0, 1), y, t_eval=[0.0, 0.4], **FINE).y, (B, 0.7)),
    "odeint": (lambda m, y, p: m.odeint(lambda y, t, p: -p * y, y, [0, 1.0], args=(p,), **FINE), (B, 0.7)),
    "odeint by time": (lambda m, y, t: m.odeint(_decay, y, [0, t], args=(0.5,), tfirst=True, **FINE), (B, 0.7)),
}


@pytest.mark.parametrize("name", CALLS)
def test_derivatives(name: str) -> None:
    call, args = CALLS[name]
    check_grads(lambda *given: call(integrate, *given), args, order=1, rtol=1e-5)
    plain, expected = call(integrate, *args), call(scipy.integrate, *args)
    np.testing.assert_array_equal(plain, expected)
    assert type(plain) is type(expected)
    value, _ = functad.jvp(lambda *given: call(integrate, *given), args, args)
    np.testing.assert_allclose(value, expected, rtol=1e-14)


def test_second_order() -> None:
    for name in ("quad", "to infinity", "quad_vec"):
        call, args = CALLS[name]
        check_grads(lambda *given, call=call: call(integrate, *given), args)


def test_full_output_and_an_empty_range() -> None:
    found = []

    def f(p: Any) -> Any:
        found.append(integrate.quad(lambda x: p * x, 0.0, 1.0, full_output=1))
        return found[0][0] + integrate.quad(lambda x: x, p, 0.7)[0]

    np.testing.assert_allclose(functad.grad(f)(0.7), 0.5 - 0.7)
    assert found[0][2]["last"] == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda p: integrate.quad(lambda x: p, 0, 1, weight="cos", wvar=1.0)[0],
        lambda p: integrate.solve_ivp(_decay, (0, 1), B, "BDF", args=(p,)).y,
        lambda p: integrate.odeint(lambda y, t: p * y, B, [0, 1], full_output=1)[0],
        lambda p: integrate.LSODA(lambda t, y: p * y, 0.0, B, 1.0).y,
        lambda p: integrate.Radau(_decay, 0.0, B * p, 1.0).y,
        lambda p: integrate.ode(_decay).set_initial_value(B).set_f_params(p).integrate(1.0),
        lambda p: integrate.quad(lambda x: p * abs(x - 0.3) ** -0.9, 0, 1)[0],
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_refused(call: Callable[..., Any]) -> None:
    with pytest.raises(UnsupportedError, match=r"at .*test_integrate\.py"):
        functad.jacobian(call)(0.7)


@pytest.mark.parametrize("method", ["LSODA", "BDF", "Radau"])
def test_a_method_without_derivatives_names_the_others(method: str) -> None:
    for given in (method, getattr(integrate, method)):
        with pytest.raises(UnsupportedError, match=rf"functad\.odeint\(.*method='{method}'.*RK45, RK23 or DOP853"):
            functad.grad(lambda p, given=given: integrate.solve_ivp(lambda t, y: p * y, (0, 1), B, given).y[0, -1])(0.7)
    if method != "BDF":
        with pytest.raises(UnsupportedError, match=rf"functad\.odeint\(.*method='{method}'.*RK45, RK23 or DOP853"):
            functad.grad(lambda p: getattr(integrate, method)(lambda t, y: p * y, 0.0, B, 1.0).y[0])(0.7)


def test_integrals_in_a_batch() -> None:
    a = np.array([0.3, 2.5])
    calls: list[Callable[..., Any]] = [
        lambda a: integrate.quad(lambda t: np.exp(-a * t * t), 0, 1)[0],
        lambda a: integrate.quad(lambda t: np.exp(-t * t), 0.1, a)[0],
        lambda a: integrate.quad(lambda t: np.exp(-t * t), a, 0.1)[0],
        lambda a: integrate.quad(lambda t, a: np.exp(-a * t * t), 0, np.inf, args=(a,))[0],
        lambda a: integrate.quad(lambda t: np.exp(-(t**2)), -np.inf, a)[0],
        lambda a: integrate.quad(lambda t: np.exp(-a * t * t), -np.inf, np.inf)[0],
        lambda a: integrate.quad(lambda t: t**a, 0, 1)[0],
        lambda a: integrate.quad_vec(lambda t: np.exp(-a * t * np.arange(1.0, 3.0)), 0, 1)[0],
        lambda a: integrate.dblquad(lambda y, t: np.exp(-a * t * y), 0, 1, 0, 1)[0],
        lambda a: integrate.odeint(lambda y, t: -a * y, [1.0], [0, 1.0])[-1],
    ]
    for f in calls:
        np.testing.assert_allclose(functad.vmap(f)(a), [f(x) for x in a], rtol=1e-6)
        slope = functad.grad(lambda x, f=f: np.sum(f(x)))
        np.testing.assert_allclose(functad.vmap(slope)(a), [slope(x) for x in a], rtol=1e-6)


def test_second_derivatives_of_integrals() -> None:
    check_grads(lambda a, b: integrate.quad(lambda t: np.exp(-a * t * t), 0, b)[0], (0.7, 1.2))


@pytest.mark.parametrize("method", ["RK45", "BDF"])
def test_odeint_solves_by_scipy_that_is_adopted(method: str) -> None:
    """`functad.scipy` lets SciPy's code take Tensors, which makes Tensors in an open trace; the solver's values stay plain."""
    times = np.linspace(0.0, 1.0, 3)

    def f(r: Any) -> Any:
        found = functad.odeint(
            lambda y, t, r: -r * y, np.exp(r) * np.array([10.0, 5.0]), times, np.exp(r), method=method, rtol=1e-9
        )
        return np.log(found).ravel()

    r = np.log([1.1, 0.4])
    rows = np.ones((2, 2)) * r
    assert isinstance(integrate.solve_ivp(lambda t, y: -y, (0, 1), np.ones(1)).y, np.ndarray)
    check_grads(f, (r,), order=1, rtol=1e-5)
    np.testing.assert_allclose(functad.vmap(f)(rows)[1], f(r), rtol=1e-6)
    np.testing.assert_allclose(
        functad.hessian(lambda r: np.sum(f(r) ** 2))(r),
        np.zeros((2, 2)) + functad.jacfwd(functad.grad(lambda r: np.sum(f(r) ** 2)))(r),
        rtol=1e-5,
    )


def test_iterative_solvers_of_scipy_that_is_adopted_get_plain_values() -> None:
    assert integrate.trapezoid(np.ones(3)) == 2.0
    matrix = np.diag([2.0, 3.0, 4.0]) + 0.1
    check_grads(
        lambda b: functad.custom_linear_solve(lambda v: matrix @ v, b, solve="cg", symmetric=True), (np.arange(3.0),), order=1
    )


@pytest.mark.parametrize("a", [0.3, 1 / 3, 0.5])
def test_integrands_with_a_kink(a: float) -> None:
    calls: list[tuple[Callable[..., Any], float]] = [
        (lambda a: integrate.quad(lambda x: abs(x - a), 0, 1)[0], 2 * a - 1),
        (lambda a: integrate.quad(lambda x: abs(x - a), 1, 0)[0], 1 - 2 * a),
        (lambda a: integrate.quad_vec(lambda x: np.stack([abs(x - a), x]), 0, 1)[0][0], 2 * a - 1),
        (lambda a: integrate.quad(lambda x: np.exp(-abs(x - a)), 0, np.inf)[0], float(np.exp(-a))),
        (lambda a: integrate.quad(lambda x: np.exp(-abs(x - a)), -np.inf, np.inf)[0], 0.0),
    ]
    for f, expected in calls:
        assert functad.grad(f)(a) == pytest.approx(expected, abs=2e-8)
    assert functad.vmap(functad.grad(calls[0][0]))(np.array([a, 0.9])) == pytest.approx([2 * a - 1, 0.8], abs=1e-6)


@pytest.mark.parametrize("a", [0.3, 0.5, 0.123456])
def test_integrands_that_jump_need_points(a: float) -> None:
    def f(a: Any, **points: Any) -> Any:
        return integrate.quad(lambda x: np.where(x > a, x, 0.0), 0, 1, **points)[0]

    with pytest.raises(UnsupportedError, match=r"jumps.*points="):
        functad.grad(f)(a)
    assert functad.grad(lambda a: f(a, points=[a]))(a) == pytest.approx(-a, rel=1e-12)
    assert functad.grad(lambda a: integrate.quad_vec(lambda x: np.where(x > a, x, 0.0), 0, 1, points=[a])[0])(
        a
    ) == pytest.approx(-a, rel=1e-12)


def test_integrands_that_are_singular_at_an_end() -> None:
    f = lambda a: integrate.quad(lambda x: np.exp(-a * x) / np.sqrt(x), 0, np.inf)[0]  # noqa: E731
    assert functad.grad(f)(0.3) == pytest.approx(-0.5 * np.sqrt(np.pi) * 0.3**-1.5, rel=1e-6)


def test_nodes_are_not_kept_from_a_trace() -> None:
    """SciPy caches the nodes of each order, for later calls with and without Tensors."""
    scipy.integrate._quadrature._cached_roots_legendre.cache.pop(11, None)
    for a in (1.5, 2.5):
        value, slope = functad.value_and_grad(lambda a: integrate.fixed_quad(lambda t: t**2 * a, 0.0, 3.0, n=11)[0])(a)
        np.testing.assert_allclose([value, slope], [9 * a, 9.0], rtol=1e-14)
        np.testing.assert_allclose(scipy.integrate.fixed_quad(lambda t: t**2, 0.0, 3.0, n=11)[0], 9.0, rtol=1e-14)
