"""`odeint`: against closed forms, a fixed-step Runge-Kutta method that is differentiated itself, and finite differences."""

import sys
from functools import partial

import numpy as np
import pytest

import functad
from functad.errors import ImplicitError, InputError, MissingPackageError, StructureError, UnsupportedError
from functad.testing import check_grads

T = np.array([0.0, 0.5, 1.5, 3.0])
Y0, P = np.array([1.0, 0.5]), np.array([1.1, 0.4, 0.9, 0.3])
W = np.random.default_rng(0).normal(size=(4, 2))
TIGHT = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-11}


def decay(y, t, rate):
    return -rate * y


def lotka_volterra(y, t, p):
    a, b, c, d = p
    return np.stack([a * y[0] - b * y[0] * y[1], -c * y[1] + d * y[0] * y[1]])


def driven(y, t, p):
    """The time stands in the equation itself."""
    return np.stack([y[1], -p[0] * y[0] + p[1] * np.sin(p[2] * t) * y[1]])


def runge_kutta(f, y, t, *args, steps=100):
    rows = [y]
    for i in range(len(t) - 1):
        h, s = (t[i + 1] - t[i]) / steps, t[i]
        for _ in range(steps):
            k1 = f(y, s, *args)
            k2 = f(y + h / 2 * k1, s + h / 2, *args)
            k3 = f(y + h / 2 * k2, s + h / 2, *args)
            k4 = f(y + h * k3, s + h, *args)
            y, s = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), s + h
        rows.append(y)
    return np.stack(rows)


def losses(f, **options):
    """Return the same loss over a solution by `odeint` and over one with fixed steps."""

    def adaptive(y0, t, p):
        return np.sum(W * functad.odeint(f, y0, t, p, **options) ** 2)

    def fixed(y0, t, p):
        return np.sum(W * runge_kutta(f, y0, t, p) ** 2)

    return adaptive, fixed


def close(found, expected, rtol):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=rtol * np.abs(b).max())


# First order


@pytest.mark.parametrize("f", [lotka_volterra, driven])
def test_gradient_is_that_of_fixed_steps(f):
    adaptive, fixed = losses(f, **TIGHT)
    np.testing.assert_allclose(adaptive(Y0, T, P), fixed(Y0, T, P), rtol=1e-7)
    close(functad.grad(adaptive, (0, 1, 2))(Y0, T, P), functad.grad(fixed, (0, 1, 2))(Y0, T, P), 3e-7)


def test_jvp_is_that_of_fixed_steps():
    adaptive, fixed = losses(driven, **TIGHT)
    tangents = 0.3 * Y0, 0.1 * T + 0.2, -0.2 * P
    for i in range(3):
        only = tuple([t if i == k else np.zeros_like(t) for k, t in enumerate(tangents)])
        found, expected = [functad.jvp(loss, (Y0, T, P), only)[1] for loss in (adaptive, fixed)]
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_derivatives_are_those_of_finite_differences():
    def f(y0, t, p):
        return functad.odeint(driven, y0, t, p, **TIGHT)

    check_grads(f, (Y0, T[:3], P), order=1, atol=1e-5, rtol=1e-5)


def test_derivatives_of_the_closed_form():
    def written_out(y0, t, rate):
        return y0 * np.exp(-rate * (t - t[0]))

    def solved(y0, t, rate):
        return functad.odeint(decay, y0, t, rate, **TIGHT)

    arguments = 1.3, T + 0.2, 0.7
    for transform in (functad.jacobian, lambda f, i: functad.jacobian(functad.grad(lambda *a: np.sum(f(*a) ** 2), i), i)):
        for i in range(3):
            np.testing.assert_allclose(transform(solved, i)(*arguments), transform(written_out, i)(*arguments), atol=1e-7)


def test_times_may_decrease():
    back = T[::-1].copy()
    np.testing.assert_allclose(functad.odeint(decay, 2.0, back, 0.5, **TIGHT), 2 * np.exp(0.5 * (3 - back)), rtol=1e-8)
    adaptive, fixed = losses(lotka_volterra, **TIGHT)
    close(functad.grad(adaptive, (0, 1, 2))(Y0, back, P), functad.grad(fixed, (0, 1, 2))(Y0, back, P), 3e-7)


def test_one_time_gives_the_initial_state():
    def f(y0, t, p):
        return functad.odeint(lotka_volterra, y0, t, p)

    assert f(Y0, T[:1], P).shape == (1, 2)
    for i, expected in enumerate([np.ones(2), np.zeros(1), np.zeros(4)]):
        np.testing.assert_array_equal(functad.grad(lambda *a: np.sum(f(*a)), i)(Y0, T[:1], P), expected)
    np.testing.assert_array_equal(functad.jvp(f, (Y0, T[:1], P), (Y0, T[:1] + 1.0, P))[1], [Y0])


@pytest.mark.parametrize("method", ["RK45", "RK23", "Radau", "BDF", "LSODA"])
def test_every_method(method):
    loose = 1e-6 if method == "RK23" else 1e-8

    def found(y0, p):
        return np.sum(W[:2] * functad.odeint(lotka_volterra, y0, T[:2], p, method=method, rtol=loose, atol=loose) ** 2)

    def expected(y0, p):
        return np.sum(W[:2] * runge_kutta(lotka_volterra, y0, T[:2], p) ** 2)

    close(functad.grad(found, (0, 1))(Y0, P), functad.grad(expected, (0, 1))(Y0, P), 1e-4)
    pushed = [functad.jvp(f, (Y0, P), (Y0, -P))[1] for f in (found, expected)]
    np.testing.assert_allclose(*pushed, rtol=1e-4)


def test_stiff_equations():
    """The chemical reactions of Robertson (1966), whose rates differ by nine powers of ten."""

    def robertson(y, t, k):
        fast, slow = k[2] * y[1] * y[2], k[0] * y[0]
        return np.stack([fast - slow, slow - fast - k[1] * y[1] ** 2, k[1] * y[1] ** 2])

    def end(k):
        t = np.array([0.0, 1.0, 40.0])
        return functad.odeint(robertson, np.array([1.0, 0.0, 0.0]), t, k, method="BDF", rtol=1e-9, atol=1e-12)[-1, 0]

    k = np.array([0.04, 3e7, 1e4])
    gradient, step = functad.grad(end)(k), 1e-4
    for i, e in enumerate(np.eye(3)):
        slope = (end(k * (1 + step * e)) - end(k * (1 - step * e))) / (2 * step * k[i])
        np.testing.assert_allclose(gradient[i], slope, rtol=1e-5)
    np.testing.assert_allclose(functad.jvp(end, (k,), (k,))[1], gradient @ k, rtol=1e-5)


def test_second_order_of_stiff_equations():
    def end(p):
        t = np.array([0.0, 0.3])
        return functad.odeint(lambda y, t: -p[0] * (y**3 - p[1] * np.cos(t)), 0.5, t, method="BDF", rtol=1e-6, atol=1e-7)[-1]

    def along(p):
        return functad.jvp(end, (p,), (np.ones(2),))[1]

    p = np.array([2e3, 1.5])
    second = functad.grad(along)(p)
    for i, step in enumerate((1.0, 1e-3)):
        e = step * np.eye(2)[i]
        np.testing.assert_allclose(second[i], (along(p + e) - along(p - e)) / (2 * step), rtol=1e-2)
    gradient = functad.grad(end)  # whose derivatives solve for the state forward only
    np.testing.assert_allclose(functad.jvp(gradient, (p,), (np.ones(2),))[1], second, rtol=1e-3)
    np.testing.assert_allclose(functad.vjp(gradient, p)[1](np.ones(2))[0], second, rtol=1e-3)


@pytest.mark.parametrize("method", ["RK45", "BDF"])
def test_hessians_in_all_mixtures_of_modes(method):
    """By start, times and parameters, against differences of gradients."""

    def f(p):
        def slope(y, t, k):
            return {"a": -k * y["a"] * y["b"], "b": np.cos(t) * y["a"] - y["b"] ** 2}

        t = np.stack([0.0, p[3], 1.0 + p[3]])
        y = functad.odeint(slope, {"a": p[0], "b": p[1]}, t, p[2], method=method, rtol=1e-7, atol=1e-7)
        return y["a"][-1] * y["b"][1] + y["b"][-1] ** 2

    p = np.array([0.8, 0.3, 1.5, 0.4])
    gradient = functad.grad(f)
    expected = np.stack([(gradient(p + 1e-3 * e) - gradient(p - 1e-3 * e)) / 2e-3 for e in np.eye(4)])
    for outer in (functad.jacfwd, functad.jacrev):
        np.testing.assert_allclose(outer(functad.jacrev(f))(p), expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(functad.jacrev(functad.jacfwd(f))(p), expected, rtol=1e-3, atol=1e-4)


def test_tolerances_of_components():
    """Each component has its own absolute tolerance, in derivatives too."""
    seen = []

    def slopes(y, t, k):
        return {"big": -k * y["big"], "small": k * 1e-6 * y["big"] - y["small"]}

    def end(k, atol):
        y0 = {"big": np.array([1e3, 2e3]), "small": np.zeros(2)}
        y = functad.odeint(slopes, y0, np.array([0.0, 1.0]), k, rtol=1e-12, atol=atol)
        return np.sum(y["small"][-1]) * 1e3

    loose, tight = {"big": 1e-2, "small": 1e-2}, {"big": np.array([1e-2, 1e-2]), "small": np.array([1e-12, 1e-12])}
    exact = 3.0 * 0.5 / (1 - 0.5) * (np.exp(-0.5) - np.exp(-1.0))
    gradient, second = functad.grad(end), functad.grad(functad.grad(end))
    for f, reference in ((end, exact), (gradient, gradient(0.5, 1e-13)), (second, second(0.5, 1e-13))):
        np.testing.assert_allclose(f(0.5, tight), reference, rtol=1e-6)
        seen.append(abs(f(0.5, loose) - reference))
    assert seen[0] > 1e-9
    y = functad.odeint(lambda y, t: -y, np.array([1.0, 2.0]), np.array([0.0, 1.0]), atol=[1e-8, 1e-9])
    np.testing.assert_allclose(y[-1], np.exp(-1.0) * np.array([1.0, 2.0]), rtol=1e-6)
    z = functad.odeint(lambda z, t: 1j * z, 1.0 + 0j, np.array([0.0, 1.0]), atol=np.array(1e-10), rtol=1e-10)
    np.testing.assert_allclose(z[-1], np.exp(1j), rtol=1e-8)


@pytest.mark.parametrize("atol", [-1.0, "small", np.array([1e-8, 0.0]), np.ones(3), 1j])
def test_tolerances_that_are_refused(atol):
    with pytest.raises(InputError, match=r"odeint with atol=.*a positive number, or a tree like y0"):
        functad.odeint(lambda y, t: -y, np.array([1.0, 2.0]), np.array([0.0, 1.0]), atol=atol)
    with pytest.raises(StructureError, match="atol"):
        functad.odeint(lambda y, t: y, {"a": 1.0}, np.array([0.0, 1.0]), atol={"b": 1e-8})


# Higher orders


def test_second_order_in_every_nesting():
    times, options = T[:2], {"rtol": 1e-9, "atol": 1e-9}

    def f(p):
        return np.sum(W[:2] * functad.odeint(lotka_volterra, Y0, times, p, **options) ** 2)

    def g(p):
        return np.sum(W[:2] * runge_kutta(lotka_volterra, Y0, times, p, steps=30) ** 2)

    direction = np.array([0.3, -0.2, 0.5, 0.1])
    expected = functad.jvp(functad.grad(g), (P,), (direction,))[1]
    close([functad.jvp(functad.grad(f), (P,), (direction,))[1]], [expected], 1e-6)
    close([functad.grad(lambda p: functad.jvp(f, (p,), (direction,))[1])(P)], [expected], 1e-6)
    close([functad.grad(lambda p: functad.grad(f)(p) @ direction)(P)], [expected], 1e-5)
    twice = functad.jvp(lambda p: functad.jvp(f, (p,), (direction,))[1], (P,), (direction,))[1]
    np.testing.assert_allclose(twice, expected @ direction, rtol=1e-6)


def test_third_derivatives_are_those_whose_backward_pass_is_differentiated_once():
    def end(k):
        return functad.odeint(lambda y, t, k: -k * y**2, 1.0, T[:2], k, **TIGHT)[-1]

    def slope(f):
        return lambda k: functad.jvp(f, (k,), (1.0,))[1]

    grad = functad.grad
    expected = -6 * 0.5**3 / (1 + 0.5 * 0.7) ** 4
    for third in (slope(slope(slope(end))), grad(slope(slope(end))), slope(grad(slope(end)))):
        np.testing.assert_allclose(third(0.7), expected, rtol=1e-7)
    for third in (grad(grad(grad(end))), slope(slope(grad(end))), slope(grad(grad(end))), grad(slope(grad(end)))):
        with pytest.raises(UnsupportedError, match=r"odeint of .*<lambda>, at .*test_ode.py:.* third derivative"):
            third(0.7)


@pytest.mark.parametrize("f", [lambda y, t, w: 1j * w * y * (1 + 0.1 * t) - 0.2 * y**2, lambda y, t, w: 1j * w * np.conj(y)])
def test_second_order_of_complex_states(f):
    def loss(solve):
        def value(p):
            y = solve(f, p[0] + 1j * p[1], T[:2], p[2] + 1j * p[3])
            return np.sum(np.abs(y - 0.3) ** 2) + np.sum(y.real**2 * y.imag)

        return value

    p = np.array([1.0, 0.5, 0.8, 0.1])
    found, reference = loss(lambda *given: functad.odeint(*given, **TIGHT)), loss(partial(runge_kutta, steps=25))
    expected = functad.hessian(reference)(p)
    for outer in (functad.jacfwd, functad.jacrev):
        for inner in (functad.jacfwd, functad.jacrev):
            np.testing.assert_allclose(outer(inner(found))(p), expected, atol=1e-7)


# Trees, captured Tensors, dtypes


def test_trees_of_states_and_parameters():
    def f(state, t, p):
        return {"x": state["v"], "v": -p["k"] * state["x"] - p["c"][0] * state["v"]}

    def flat(y, t, k, c):
        return np.concatenate([y[2:], -k * y[:2] - c * y[2:]])

    start = {"x": np.array([1.0, 2.0]), "v": np.array([0.0, -1.0])}

    def tree_loss(k, c):
        found = functad.odeint(f, start, T, {"k": k, "c": (c, "a name")}, **TIGHT)
        assert found["x"].shape == (4, 2)
        return np.sum(found["x"] ** 2) + np.sum(found["v"])

    def flat_loss(k, c):
        found = runge_kutta(flat, np.array([1.0, 2.0, 0.0, -1.0]), T, k, c)
        return np.sum(found[:, :2] ** 2) + np.sum(found[:, 2:])

    close(functad.grad(tree_loss, (0, 1))(1.5, 0.2), functad.grad(flat_loss, (0, 1))(1.5, 0.2), 1e-7)
    directions = (1.0, 2.0)
    pushed = [functad.jvp(loss, (1.5, 0.2), directions)[1] for loss in (tree_loss, flat_loss)]
    np.testing.assert_allclose(*pushed, rtol=1e-7)


def test_lists_of_numbers_are_arrays_as_for_scipy():
    def swing(y, t, k):
        angle, turning = y
        return [turning, -k * angle]

    assert functad.odeint(swing, [1, 0], T, 1.0, **TIGHT).shape == (4, 2)
    np.testing.assert_allclose(functad.odeint(swing, [1.0, 0], T, 1.0, **TIGHT)[:, 0], np.cos(T), atol=1e-9)
    slope = functad.grad(lambda a: functad.odeint(swing, [a, 0.0], T, 1.0, **TIGHT)[-1, 0])(0.5)
    np.testing.assert_allclose(slope, np.cos(T[-1]), atol=1e-9)
    trees = [(1.0, 0.0), [np.ones(2), np.zeros(2)]]
    for tree in trees:  # a tuple, or a list of arrays, is a tree
        found = functad.odeint(lambda y, t: type(y)((y[1], -y[0])), tree, T)
        assert type(found) is type(tree), len(found) == 2


def test_captured_tensors_get_their_derivative():
    def f(c):
        return np.sum(functad.odeint(lambda y, t: -(c**2) * y, 1.0, T, **TIGHT))

    def g(c):
        return np.sum(np.exp(-(c**2) * T))

    for transform in (
        functad.grad,
        lambda f: functad.grad(functad.grad(f)),
        lambda f: lambda c: functad.jvp(f, (c,), (1.0,))[1],
    ):
        np.testing.assert_allclose(transform(f)(0.7), transform(g)(0.7), rtol=1e-7)
    np.testing.assert_allclose(functad.vmap(f)(np.array([0.5, 0.7])), [g(0.5), g(0.7)], rtol=1e-8)
    np.testing.assert_allclose(functad.make_expressions(f)(0.1)(0.7), g(0.7), rtol=1e-8)


def test_captured_tensors_in_a_branch_raise():
    def f(c):
        return np.sum(functad.odeint(lambda y, t: -c * y if y > 0 else y, 1.0, T))

    with pytest.raises(UnsupportedError, match="among the args"):
        functad.grad(f)(0.7)

    def late(c):  # the branch with the Tensor is reached while the solver runs
        return np.sum(functad.odeint(lambda y, t: -c * y if y < 0.5 else -y, 1.0, T))

    with pytest.raises(UnsupportedError, match="Pass it as a parameter"):
        functad.grad(late)(0.7)
    np.testing.assert_allclose(
        functad.grad(lambda c: functad.odeint(lambda y, t, c: -c * y if y > 0 else y, 1.0, T, c, **TIGHT)[1])(0.7),
        -0.5 * np.exp(-0.35),
        rtol=1e-8,
    )


def test_complex_states():
    def f(y, t, w):
        return 1j * w * y

    def solved(y0, w):
        return functad.odeint(f, y0, T, w, **TIGHT)

    def written_out(y0, w):
        return y0 * np.exp(1j * w * T)

    y0, w = 1.0 + 0.5j, 0.8 + 0.1j
    for i in range(2):
        found, expected = [
            functad.grad(lambda *a, s=s: np.sum(np.abs(s(*a)[1:] - 0.3) ** 2), i)(y0, w) for s in (solved, written_out)
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-7)
    found, expected = [functad.jvp(s, (y0, w), (0.2j, 1.0 + 0j))[1] for s in (solved, written_out)]
    np.testing.assert_allclose(found, expected, rtol=1e-7)
    # A real frequency of a complex state.
    found, expected = [functad.grad(lambda w, s=s: np.sum(s(y0, w).imag ** 2))(0.8) for s in (solved, written_out)]
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_dtypes():
    assert functad.odeint(decay, np.ones(2, np.float32), T, 0.5).dtype == np.float32
    assert functad.odeint(decay, 1, [0, 1], 0.5).dtype == np.float64
    gradient = functad.grad(lambda y: np.sum(functad.odeint(decay, y, T, 0.5)))(np.ones(2, np.float32))
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(gradient, np.full(2, np.sum(np.exp(-0.5 * T))), rtol=1e-5)
    np.testing.assert_allclose(
        functad.odeint(lambda y, t: [y[1], -y[0]], np.array([0.0, 1.0]), T)[-1, 0], np.sin(3.0), atol=1e-7
    )


def test_integers_among_the_arguments_are_constants():
    gradient = functad.grad(lambda k: functad.odeint(lambda y, t, n, k: -k * y**n, 1.0, T, 2, k, **TIGHT)[-1])(0.5)
    expected = functad.grad(lambda k: runge_kutta(lambda y, t, n, k: -k * y**n, 1.0, T, 2, k)[-1])(0.5)
    np.testing.assert_allclose(gradient, expected, rtol=1e-7)


# Other transforms


def test_expression_lists():
    def f(y0, p):
        return functad.odeint(lotka_volterra, y0, T, p, **TIGHT)

    expressions = functad.make_expressions(f)(Y0, P)
    assert len(expressions.equations) == 1
    assert "odeint[problem=lotka_volterra]" in repr(expressions)
    np.testing.assert_allclose(expressions(Y0, 0.9 * P), f(Y0, 0.9 * P))

    def loss(p):
        return np.sum(f(Y0, p) ** 2)

    traced = functad.make_expressions(functad.grad(loss))(P)
    assert "odeint_adjoint" in repr(traced)
    np.testing.assert_allclose(traced(0.9 * P), functad.grad(loss)(0.9 * P), rtol=1e-9)


def test_vmap():
    def last(y0, rate):
        return functad.odeint(decay, y0, T, rate, **TIGHT)[-1]

    starts, rates = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.6, 0.7])
    np.testing.assert_allclose(functad.vmap(last)(starts, rates), starts * np.exp(-3 * rates), rtol=1e-8)
    found = functad.vmap(functad.grad(last, 1))(starts, rates)
    np.testing.assert_allclose(found, [functad.grad(last, 1)(y, r) for y, r in zip(starts, rates, strict=True)], rtol=1e-6)
    assert functad.vmap(last)(np.zeros(0), np.zeros(0)).shape == (0,)


def test_cotangents_in_a_batch():
    y, pullback = functad.vjp(lambda p: functad.odeint(lotka_volterra, Y0, T, p, **TIGHT), P)
    seeds = np.stack([W, np.ones_like(y)])
    np.testing.assert_allclose(functad.vmap(pullback)(seeds)[0], [pullback(g)[0] for g in seeds], rtol=1e-10)
    assert functad.vmap(pullback)(seeds[:0])[0].shape == (0, 4)


def test_tapes():
    rate = functad.Variable(0.5)
    with functad.GradientTape() as tape:
        y = functad.odeint(decay, 1.0, T, rate, **TIGHT)[-1]
    np.testing.assert_allclose(tape.gradient(y, rate).numpy(), -3 * np.exp(-1.5), rtol=1e-8)


# Refusals


@pytest.mark.parametrize("t", [[0.0, 1.0, 1.0], [0.0, 2.0, 1.0], [0.0, np.nan]])
def test_times_out_of_order_raise(t):
    with pytest.raises(InputError, match="strictly"):
        functad.odeint(decay, 1.0, np.array(t), 0.5)


@pytest.mark.parametrize("t", [1.0, np.zeros(0), np.zeros((2, 2)), np.array([0j, 1j])])
def test_times_that_are_no_vector_raise(t):
    with pytest.raises(InputError, match="vector of times"):
        functad.odeint(decay, 1.0, t, 0.5)


def test_solutions_that_end_early_raise():
    with pytest.raises(ImplicitError, match="did not get to t = 3"):
        functad.odeint(lambda y, t: y**2, 1.0, T)


def test_wrong_results_of_the_function_raise():
    with pytest.raises(StructureError, match=r"float64\[3\]"):
        functad.odeint(lambda y, t: np.ones(3), np.ones(2), T)
    with pytest.raises(StructureError):
        functad.odeint(lambda y, t: {"x": y["x"]}, {"x": 1.0, "v": 0.0}, T)
    with pytest.raises(InputError, match="make y0 complex"):
        functad.odeint(lambda y, t: 1j * y, 1.0, T)


def test_wrong_settings_raise():
    with pytest.raises(InputError, match="RK45"):
        functad.odeint(decay, 1.0, T, 0.5, method="Euler")
    with pytest.raises(InputError, match="rtol"):
        functad.odeint(decay, 1.0, T, 0.5, rtol=0.0)
    with pytest.raises(InputError, match="function"):
        functad.odeint(3.0, 1.0, T)


def test_absence_of_scipy_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.integrate", None)
    with pytest.raises(MissingPackageError, match=r"odeint, at .*functad\[scipy\]"):
        functad.odeint(decay, 1.0, T, 0.5)
