"""Gradients of gradients: nested tapes, one persistent tape, unrolled optimisers."""

import mpmath
import numpy as np
import pytest

import functad
from functad import GradientTape
from functad.testing import central_difference
from tests.differences import numerical_jacobian
from tests.eager.taped import recorded


def derivative(f, at, order):
    """Return a derivative of a function of mpmath, as a float."""
    return float(mpmath.diff(f, at, order))


def nested(f, x, order):
    """Return the derivative of some order of a function of one Tensor, by tapes in tapes."""
    tape, y = recorded(lambda: f(x) if order == 1 else nested(f, x, order - 1), x)
    return tape.gradient(y, x, unconnected_gradients="zero")  # the fourth of a cube has no path


CASES = {
    "cube": (lambda x: x**3, lambda x: x**3),
    "quotient": (lambda x: np.sin(x) / (1 + x * x), lambda x: mpmath.sin(x) / (1 + x * x)),
    "tanh": (lambda x: np.tanh(np.exp(x) * x), lambda x: mpmath.tanh(mpmath.exp(x) * x)),
    "power": (lambda x: x**x, lambda x: x**x),
    "sum": (lambda x: np.sum(np.stack([x, x * x, np.log(x)]) ** 2), lambda x: x**2 + x**4 + mpmath.log(x) ** 2),
}


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("case", CASES)
def test_nested_tapes(case, order):
    f, exact = CASES[case]
    found = nested(f, functad.constant(0.7), order)
    assert float(found) == pytest.approx(derivative(exact, 0.7, order), rel=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_one_persistent_tape_gives_all_orders(case, monkeypatch):
    monkeypatch.setattr(GradientTape, "_warned", True)
    f, exact = CASES[case]
    x = functad.constant(0.7)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
        found = []
        for _ in range(3):
            y = tape.gradient(y, x)
            found.append(y)
    assert [float(g) for g in found] == pytest.approx([derivative(exact, 0.7, n) for n in (1, 2, 3)], rel=1e-10)
    assert float(tape.gradient(found[1], x)) == pytest.approx(derivative(exact, 0.7, 3), rel=1e-10)


def test_gradient_after_the_outer_tape_has_closed_is_no_part_of_it():
    x = functad.constant(3.0)
    with GradientTape() as outer:
        outer.watch(x)
        inner, y = recorded(lambda: x**3, x)
    g = inner.gradient(y, x)
    assert float(g) == 27
    assert outer.gradient(g, x) is None


def test_second_derivative_of_a_linear_function():
    x = functad.constant(3.0)
    for option, expected in (("none", None), ("zero", 0.0)):
        with GradientTape() as outer:
            outer.watch(x)
            inner, y = recorded(lambda: 3.0 * x, x)
            g = inner.gradient(y, x)
        found = outer.gradient(g, x, unconnected_gradients=option)
        assert (found if found is None else float(found)) == expected
    assert functad.grad(functad.grad(lambda x: 3.0 * x))(3.0) == 0


def test_inner_gradients_see_inner_records_only():
    x = functad.constant(3.0)
    with GradientTape() as outer:
        outer.watch(x)
        u = x * x
        inner, y = recorded(lambda: u * x, x)
        g = inner.gradient(y, x)
    assert g.numpy() == 9
    assert float(outer.gradient(g, x)) == 6


def test_both_tapes_may_be_asked_for_the_same_target():
    x = functad.constant(3.0)
    with GradientTape() as outer:
        outer.watch(x)
        inner, y = recorded(lambda: x**3, x)
        g = inner.gradient(y, x)
        z = g * y
    assert float(outer.gradient(z, x)) == pytest.approx(5 * 3 * 3.0**4)


def test_gradient_penalty(rng):
    w = functad.Variable(rng.normal(size=(3, 2)))
    points = rng.normal(size=(4, 3))

    def penalty(w):
        h = np.tanh(points @ w)
        by_points = (1 - h * h) @ w.T
        return np.sum(by_points**2)

    with GradientTape() as outer:
        x = functad.constant(points)
        inner, y = recorded(lambda: np.sum(np.tanh(x @ w)), x, watch_accessed_variables=False)
        loss = np.sum(inner.gradient(y, x) ** 2)
    g = outer.gradient(loss, w).numpy()
    direction, value = rng.normal(size=(3, 2)), w.numpy()
    expected = central_difference(lambda w: [penalty(w)], [value], [direction])[0]
    assert np.sum(g * direction) == pytest.approx(expected, rel=1e-7)


def test_unrolled_optimiser():
    def final_loss(rate):
        w = functad.constant(1.0)
        for _ in range(3):
            with GradientTape() as tape:
                tape.watch(w)
                loss = np.sin(w) + w**2
            w = w - rate * tape.gradient(loss, w)
        return np.sin(w) + w**2

    def plain(rate):
        w = 1.0
        for _ in range(3):
            w = w - rate * (np.cos(w) + 2 * w)
        return np.sin(w) + w**2

    rate = functad.constant(0.1)
    outer, loss = recorded(lambda: final_loss(rate), rate)
    assert float(loss) == pytest.approx(plain(0.1), rel=1e-14)
    assert float(outer.gradient(loss, rate)) == pytest.approx(np.imag(plain(0.1 + 1e-30j)) / 1e-30)


def test_step_of_meta_learning_with_variables():
    v = functad.Variable(1.5)

    def outer_loss(v):
        return np.sin(v - 0.1 * (3 * v**2 + 1))

    with GradientTape() as outer:
        with GradientTape() as inner:
            inner_loss = v**3 + v
        fast = v - 0.1 * inner.gradient(inner_loss, v)
        loss = np.sin(fast)
    assert float(outer.gradient(loss, v)) == pytest.approx(np.imag(outer_loss(1.5 + 1e-30j)) / 1e-30)


def test_hessian_of_a_network_is_symmetric_and_right(rng):
    x = functad.constant(rng.normal(size=4))
    a = rng.normal(size=(3, 4))
    with GradientTape() as outer:
        outer.watch(x)
        inner, y = recorded(lambda: np.sum(np.tanh(a @ x) ** 2) * np.max(x), x)
        g = inner.gradient(y, x)
    h = outer.jacobian(g, x).numpy()
    assert np.allclose(h, h.T, rtol=1e-12)
    by_transforms = functad.jacobian(functad.grad(lambda x: np.sum(np.tanh(a @ x) ** 2) * np.max(x)))(x.numpy())
    assert np.allclose(h, by_transforms, rtol=1e-12)


RULES = {
    "multiple": lambda q: np.sum(np.concatenate(np.split(q**3, 2)[::-1]) * q),
    "select": lambda q: np.sum(np.where(q > 0, q**3, np.sin(q))),
    "gather": lambda q: np.sum(q[np.array([0, 2, 2])] ** 3),
    "contract": lambda q: np.sum((np.outer(q, q) @ np.outer(q, np.sin(q))) ** 2),
    "prod": lambda q: np.prod(q) * np.cumprod(q)[-2],
    "sort": lambda q: np.sum(np.sort(q) ** 2 * np.arange(4.0) * q),
    "solve": lambda q: np.sum(np.linalg.inv(np.outer(q, q) + 3 * np.eye(4))),
    "written": lambda q: _written(q),
    "abs": lambda q: np.sum(np.abs(q) ** 3 * np.sign(q)),
    "norm": lambda q: np.linalg.norm(q) ** 3,
    "logsumexp": lambda q: np.logaddexp.reduce(q * q),
    "einsum": lambda q: np.einsum("i,j,ij->", q, q, np.outer(q, np.exp(q))),
}


def _written(q):
    r = q * 2.0
    r[1] = q[0] ** 3
    r[2:] *= q[:2]
    return np.sum(r**2)


@pytest.mark.parametrize("rule", RULES)
def test_second_order_of_rules_of_each_kind(rule):
    f, values = RULES[rule], np.array([0.5, -1.2, 2.0, 0.9])
    q = functad.constant(values)
    with GradientTape() as outer:
        outer.watch(q)
        inner, y = recorded(lambda: f(q), q)
        g = inner.gradient(y, q)
    h = outer.jacobian(g, q).numpy()
    gradient = functad.grad(f)
    rows = numerical_jacobian(gradient, values)
    assert np.allclose(h, rows, rtol=1e-6, atol=1e-6)


def test_assignment_cuts_second_order():
    v = functad.Variable(2.0)
    with GradientTape() as outer:
        with GradientTape() as inner:
            y = v**3
        v.assign(inner.gradient(y, v))
        with pytest.warns(functad.errors.UnconnectedWarning):
            z = v * v
    assert float(outer.gradient(z, v)) == 24  # by the value that was assigned, 12
