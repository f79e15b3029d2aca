"""`custom_gradient`, `recompute_grad`, `stop_gradient` and `grad_pass_through`."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import functad
from functad import GradientTape, custom_gradient, errors, grad_pass_through, recompute_grad
from tests.eager.taped import floats, recorded, taped


class Pair(NamedTuple):
    left: Any
    right: Any


def slopes(f, *values, **options):
    """Return the gradients by the tape of a function of constants."""
    tape, y, xs = taped(f, *values)
    return tape.gradient(y, xs, **options)


@custom_gradient
def hundredfold(x):
    """Return the square; its rule says 100."""
    return x * x, lambda dy: dy * 100.0


# The rule


def test_rule_is_used_by_tapes_and_transforms():
    assert floats(slopes(hundredfold, 3.0)) == [100]
    assert functad.grad(hundredfold)(3.0) == 100
    assert functad.jvp(hundredfold, (3.0,), (2.0,))[1] == 200
    assert float(hundredfold(functad.constant(3.0))) == 9
    assert float(hundredfold(3.0)) == 9


def test_decorator_with_parentheses_keeps_the_names():
    @custom_gradient()
    def f(x):
        """Say what it is."""
        return x, lambda dy: dy * 5.0

    assert (f.__name__, f.__doc__) == ("f", "Say what it is.")
    assert floats(slopes(f, 1.0)) == [5]


def test_methods():
    class Model:
        scale = 7.0

        @custom_gradient
        def loss(self, x):
            return x * 2, lambda dy: dy * self.scale

    assert floats(slopes(Model().loss, 1.0)) == [7]


def test_results_of_any_structure():
    @custom_gradient
    def f(x):
        return {"b": x * x, "a": Pair(x, [x * 3])}, lambda da, dc, db: da * 1.0 + dc * 10.0 + db * 100.0

    tape, y, (x,) = taped(f, 2.0, persistent=True)
    assert float(y["b"]) == 4
    assert float(y["a"].right[0]) == 6
    assert float(tape.gradient(y["a"].left, x)) == 1  # unused results arrive as zeros
    assert float(tape.gradient(y["a"].right, x)) == 10
    assert float(tape.gradient(y["b"], x)) == 100
    assert float(tape.gradient(y, x)) == 111


def test_arguments_of_any_structure():
    @custom_gradient
    def f(pair, flag, scale):
        assert flag is True
        return pair["a"] * pair["b"] * scale, lambda dy: (dy * 1.0, dy * 2.0, None, dy * 3.0)

    tape, y, (a, b, s) = taped(lambda a, b, s: f({"b": b, "a": a}, True, s), 2.0, 3.0, 4.0)
    assert floats(tape.gradient(y, [a, b, s])) == [1, 2, 3]


def test_none_says_that_there_is_no_path():
    @custom_gradient
    def f(x, y):
        return x * y, lambda dy: (dy * 5.0, None)

    x, y, z = functad.constant(2.0), functad.constant(3.0), functad.constant([1.0, 2.0])
    with GradientTape(persistent=True) as tape:
        tape.watch([x, y, z])
        squared = y * y
        out = f(x, squared)
        mixed = f(x, y) + 4.0 * y
        rows = f(z, y)
    assert [g if g is None else float(g) for g in tape.gradient(out, [x, y, squared])] == [5, None, None]
    assert floats(tape.gradient(out, [x, y], unconnected_gradients="zero")) == [5, 0]
    assert floats(tape.gradient(mixed, [x, y])) == [5, 4]
    assert tape.jacobian(rows, y) is None
    assert "None" in tape.explain(out, y)
    with pytest.raises(errors.NoPathError, match="returns None"):
        tape.gradient(out, y, missing="raise")
    assert tape.explain(mixed, y) == "the tape does record a path, so there is a gradient."


def test_none_stands_for_zero_under_transforms():
    @custom_gradient
    def f(x, y):
        return x * y, lambda dy: (dy * 5.0, None)

    assert floats(slopes(f, 1.0, 2.0)) == [5, None]
    assert functad.grad(f, argnums=(0, 1))(2.0, 3.0) == (5, 0)
    assert functad.jvp(f, (2.0, 3.0), (1.0, 1.0))[1] == 5
    np.testing.assert_allclose(functad.vmap(functad.grad(f, argnums=1))(np.ones(2), np.ones(2)), [0, 0])
    np.testing.assert_allclose(functad.jacrev(f, argnums=1)(np.ones(2), np.ones(2)), np.zeros((2, 2)))
    with functad.debug_nans():
        assert functad.grad(f, argnums=(0, 1))(2.0, 3.0) == (5, 0)
        assert [g if g is None else float(g) for g in functad.gradients_function(f)(2.0, 3.0)] == [5, None]


@pytest.mark.parametrize("returned", [[1.0], [1.0, 2.0, 3.0], []])
def test_wrong_number_of_gradients(returned):
    @custom_gradient
    def f(x, y):
        return x * y, lambda dy: list(returned)

    with pytest.raises(errors.CustomGradientError, match=rf"f returned {len(returned)} gradients for 2 arguments"):
        slopes(f, 1.0, 2.0)


def test_wrong_shape_of_a_gradient():
    @custom_gradient
    def f(x):
        return np.sum(x), lambda dy: dy

    with pytest.raises(ValueError, match=r"shape \(\) for an argument of shape \(2,\)"):
        slopes(f, [1.0, 2.0])


@pytest.mark.parametrize("returned", [5.0, None, (1.0, 2.0, 3.0), (1.0, 2.0)])
def test_what_is_no_pair(returned):
    @custom_gradient
    def f(x):
        return returned

    with pytest.raises(TypeError, match="must return a pair"):
        f(functad.constant(1.0))


def test_what_is_no_function_is_refused_at_once():
    with pytest.raises(TypeError, match="custom_gradient needs a function, not a float"):
        custom_gradient(3.0)


@pytest.mark.parametrize("value", [None, "a", [], object()])
def test_value_must_be_numbers(value):
    @custom_gradient
    def f(x):
        return value, lambda dy: dy

    with pytest.raises(TypeError, match=r"must return Tensors or numbers|the value of .*f is a .*give numbers"):
        f(functad.constant(1.0))


@pytest.mark.parametrize("returned", ["a", object()])
def test_gradients_must_be_numbers(returned):
    @custom_gradient
    def f(x):
        return x * x, lambda dy: returned

    with pytest.raises(TypeError, match=r"what the gradient function of .*f returned is a .*give numbers"):
        slopes(f, 1.0)


@pytest.mark.parametrize("returned", [lambda dy: dy, lambda dy: (dy, [dy], dy), lambda dy: None])
def test_gradients_of_variables_come_in_a_pair(returned):
    v = functad.Variable(2.0)

    @custom_gradient
    def f(x):
        return x * v, lambda dy, variables: returned(dy)

    with pytest.raises(errors.CustomGradientError, match=r"f was given variables=, and returned a .*: return a pair"):
        slopes(f, 1.0)


def test_keyword_arguments():
    @custom_gradient
    def f(x, scale=1.0, *, power=2):
        return scale * x**power, lambda dy, *rest: (dy * 100.0, dy * 7.0)[: 1 + bool(isinstance(scale, functad.Tensor))]

    x, s = functad.constant(2.0), functad.constant(3.0)
    with GradientTape(persistent=True) as tape:
        tape.watch([x, s])
        y = f(x=x, scale=s, power=3)
        z = f(x, power=1)
    assert float(y) == 24
    assert floats(tape.gradient(y, [x, s])) == [100, 7]  # by keyword too; TensorFlow ignores the rule then
    assert floats(tape.gradient(z, [x, s])) == [100, None]


# Variables and closures


def test_variables_that_are_read():
    w, u = functad.Variable(3.0, name="w"), functad.Variable(5.0, trainable=False)
    seen = []

    @custom_gradient
    def f(x):
        def grad_fn(dy, variables):
            seen.append([v.name for v in variables])
            return dy * 10.0, [dy * 20.0]

        return x * w * u, grad_fn

    tape, y, (x,) = taped(f, 2.0)
    assert float(y) == 30
    assert floats(tape.gradient(y, [x, w, u])) == [10, 20, None]
    assert seen == [["w"]]


def test_rule_must_accept_variables_whether_or_not_a_tape_records():
    w = functad.Variable(3.0, name="w")

    @custom_gradient
    def f(x):
        return x * w, lambda dy: dy

    x = functad.constant(2.0)
    with pytest.raises(TypeError, match="'w', which are no arguments"):
        f(x)
    with GradientTape(), pytest.raises(TypeError, match="'w', which are no arguments"):
        f(x)

    @custom_gradient
    def g(x):
        return x * w, lambda dy, **kwargs: (dy, [])

    with pytest.raises(ValueError, match="0 gradients for 1 Variables"):
        slopes(g, 2.0)


def test_variables_as_arguments():
    w = functad.Variable(3.0)

    @custom_gradient
    def f(x, v):
        return x * v, lambda dy: (dy * 10.0, dy * 20.0)

    with GradientTape() as tape:
        y = f(functad.constant(2.0), w)
    assert float(tape.gradient(y, w)) == 20


def test_nothing_read_means_no_variables_argument():
    @custom_gradient
    def f(x):
        def grad_fn(dy, variables=None):
            assert variables is None
            return dy

        return x, grad_fn

    assert floats(slopes(f, 1.0)) == [1]


def test_closed_over_tensors_that_are_followed_raise():
    s = functad.constant(2.0)

    @custom_gradient
    def f(x):
        return s * x, lambda dy: dy * s

    with GradientTape() as tape:
        tape.watch(s)
        with pytest.raises(errors.CustomGradientError, match="no argument"):
            f(functad.constant(3.0))
    assert floats(slopes(f, 3.0)) == [2]  # as long as nothing follows it, it is a constant
    with pytest.raises(errors.CustomGradientError, match="no argument"):
        functad.grad(lambda a: custom_gradient(lambda x: (a * x, lambda dy: dy))(functad.constant(2.0)))(1.0)


# Higher order


def test_second_order_differentiates_the_rule():
    @custom_gradient
    def f(x):
        return x * x, lambda dy: dy * np.sin(x)

    x = functad.constant(0.5)
    with GradientTape() as outer:
        outer.watch(x)
        inner, y = recorded(lambda: f(x), x)
        g = inner.gradient(y, x)
    assert float(g) == np.sin(0.5)
    assert float(outer.gradient(g, x)) == pytest.approx(np.cos(0.5))
    assert functad.grad(functad.grad(f))(0.5) == pytest.approx(np.cos(0.5))


def test_rule_with_a_rule():
    @custom_gradient
    def slope(x, dy):
        return dy * x, lambda ddy: (ddy * 1000.0, ddy * x)

    @custom_gradient
    def f(x):
        return x * x, lambda dy: slope(x, dy)

    assert functad.grad(f)(3.0) == 3
    assert functad.grad(functad.grad(f))(3.0) == 1000
    x = functad.constant(3.0)
    with GradientTape() as outer:
        outer.watch(x)
        inner, y = recorded(lambda: f(x), x)
        g = inner.gradient(y, x)
    assert float(outer.gradient(g, x)) == 1000


def test_rule_that_closes_over_results_is_followed_at_second_order():
    @custom_gradient
    def log1pexp(x):
        e = np.exp(x)
        return np.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))

    def logistic(x):
        return 1 / (1 + np.exp(-x))

    second = (logistic(0.3 + 1e-6) - logistic(0.3 - 1e-6)) / 2e-6
    assert functad.grad(log1pexp)(0.3) == pytest.approx(logistic(0.3))
    assert functad.grad(log1pexp)(100.0) == 1
    assert functad.grad(functad.grad(log1pexp))(0.3) == pytest.approx(second)
    x = functad.constant(0.3)
    with GradientTape() as outer:
        outer.watch(x)
        inner, y = recorded(lambda: log1pexp(x), x)
        g = inner.gradient(y, x)
    assert float(outer.gradient(g, x)) == pytest.approx(second)


def test_identity_gives_a_fresh_tensor():
    @custom_gradient
    def f(x):
        return x, lambda dy: dy * 3.0

    tape, y, (x,) = taped(f, 2.0, persistent=True)
    assert y is not x
    assert float(tape.gradient(y, x)) == 3
    assert float(tape.gradient(x, x)) == 1


def test_rule_on_complex_numbers():
    @custom_gradient
    def f(z):
        return z * z, lambda dy: dy * np.conj(2 * z)

    plain = slopes(lambda z: z * z, 1 + 2j)[0].numpy()
    assert plain == 2 - 4j
    assert slopes(f, 1 + 2j)[0].numpy() == plain
    for g in (f, recompute_grad(lambda z: np.exp(z) * z)):
        slope = functad.grad(g, holomorphic=True)(1 + 2j)
        assert np.conj(slope) == slopes(g, 1 + 2j)[0].numpy()
    assert slope == pytest.approx(np.exp(1 + 2j) * (2 + 2j))


# recompute_grad


def test_recomputed_function_runs_again_inside_gradient():
    runs = []

    def f(x, y):
        runs.append(1)
        return np.sum(np.sin(x) * np.exp(y))

    g = recompute_grad(f)
    assert g.__wrapped__ is f
    tape, z, (x, y) = taped(g, [0.5, 1.0], [0.1, 0.2])
    assert len(runs) == 1
    found = tape.gradient(z, [x, y])
    assert len(runs) == 2
    assert np.allclose(found[0].numpy(), np.cos(x.numpy()) * np.exp(y.numpy()))
    assert np.allclose(found[1].numpy(), np.sin(x.numpy()) * np.exp(y.numpy()))


def test_recomputed_function_keeps_only_its_arguments():
    def f(x):
        for _ in range(20):
            x = np.sin(x) * np.cos(x)
        return x

    x = functad.constant(np.ones(1000))
    held = []
    for function in (f, recompute_grad(f)):
        with GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        held.append(tape.stats()["bytes"])
        tape.gradient(y, x)
    assert held[1] <= 2 * 8000 < held[0] / 10


def test_recomputed_variables_keywords_and_unused_arguments():
    v = functad.Variable(3.0)
    f = recompute_grad(lambda x, unused, power=2: v * x**power)
    tape, y, (x, u) = taped(lambda x, u: f(x, u, power=3), 2.0, 1.0)
    assert floats(tape.gradient(y, [x, u, v])) == [36, 0, 8]


@pytest.mark.parametrize("order", [2, 3])
def test_recomputed_function_at_higher_order(order):
    f, g = lambda x: np.sin(x) * x, recompute_grad(lambda x: np.sin(x) * x)

    def derived(h):
        for _ in range(order):
            h = functad.grad(h)
        return h

    assert derived(g)(0.7) == pytest.approx(derived(f)(0.7))
    x = functad.constant(0.7)
    with GradientTape() as outer:
        outer.watch(x)
        inner, y = recorded(lambda: g(x), x)
        slope = inner.gradient(y, x)
    assert float(outer.gradient(slope, x)) == pytest.approx(functad.grad(functad.grad(f))(0.7))


# stop_gradient, grad_pass_through


def test_stop_gradient():
    x = functad.constant(3.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        s = functad.stop_gradient(x * x)
        y = s * x
        several = functad.stop_gradient({"a": [x, x * 2]})
    assert isinstance(s, functad.Tensor)
    assert float(s) == 9
    assert tape.gradient(s, x) is None
    assert float(tape.gradient(y, x)) == 9
    assert tape.gradient(several, x) is None
    assert float(several["a"][1]) == 6
    v = functad.Variable(2.0)
    with GradientTape() as tape:
        y = functad.stop_gradient(v) * v
    assert float(tape.gradient(y, v)) == 2


def test_grad_pass_through():
    assert floats(slopes(grad_pass_through(np.round), 2.6)) == [1]
    assert float(grad_pass_through(np.round)(functad.constant(2.6))) == 3
    g = slopes(lambda q: np.sum(grad_pass_through(np.sign)(q) * q), [1.5, -2.0])[0]
    assert np.array_equal(g.numpy(), [1 + 1.5, -1 - 2.0])
    v = functad.Variable(3.0)
    with GradientTape() as tape:
        y = grad_pass_through(lambda x: x * v)(functad.constant(2.0))
    assert float(y) == 6
    assert float(tape.gradient(y, v, unconnected_gradients="zero")) == 0


@pytest.mark.parametrize("inside", [False, True], ids=["after", "inside"])
def test_a_gradient_function_that_fails_leaves_the_tape_as_it_was(inside):
    wrong = [True]

    @functad.custom_gradient
    def square(x):
        return x * x, lambda dy: np.zeros(7) if wrong[0] else dy * 2 * x

    x = functad.constant([1.0, 2.0])
    with functad.GradientTape() as tape:
        tape.watch(x)
        y = np.sin(square(x))
        if inside:
            with pytest.raises(errors.CustomGradientError, match="shape"):
                tape.gradient(y, x)
            y = y * 3.0  # is recorded still
    if not inside:
        with pytest.raises(errors.CustomGradientError, match="shape"):
            tape.gradient(y, x)
    wrong[0] = False
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), (3 if inside else 1) * np.cos([1.0, 4.0]) * [2.0, 4.0])


def test_a_recomputed_function_may_write_into_its_arrays():
    def f(x):
        y = x**2
        y[0] = 3.0 * x[1]
        out = np.zeros_like(x)
        out[1] = y[0]
        x[0] = 1.0
        return np.sum(out * y) + np.sum(y * x)

    x = np.array([2.0, 5.0])
    recomputed = functad.recompute_grad(f)
    assert float(recomputed(x.copy())) == f(x.copy())
    np.testing.assert_allclose(functad.grad(recomputed)(x), functad.grad(f)(x))
    tape, y, (watched,) = taped(recomputed, x)
    np.testing.assert_allclose(tape.gradient(y, watched).numpy(), functad.grad(f)(x))


class _Scaled(functad.Module):
    def __init__(self):
        super().__init__()
        self.w = functad.Variable(3.0)
        self.factor = 2.0

    @functad.custom_gradient
    def plain(self, x):
        return x * self.factor, lambda dy: dy * 10.0

    @functad.custom_gradient
    def with_variable(self, x, y):
        return x * y * self.w, lambda dy, variables: ((dy * 10.0, dy * 20.0), [dy * 30.0 for _ in variables])


class _Derived(_Scaled):
    @functad.custom_gradient
    def plain(self, x):
        return super().plain(x), lambda dy: dy * 100.0


def test_a_method_has_no_gradient_for_its_instance():
    m = _Scaled()
    assert functad.grad(m.plain)(1.5) == 10.0
    assert functad.grad(lambda x: m.plain(x=x))(1.5) == 10.0
    assert functad.grad(lambda x: _Scaled.plain(m, x))(1.5) == 10.0
    assert functad.grad(lambda x: _Scaled.plain(_Derived(), x))(1.5) == 10.0
    assert functad.grad(_Derived().plain)(1.5) == 100.0
    np.testing.assert_array_equal(functad.vmap(functad.grad(m.plain))(np.ones(2)), [10.0, 10.0])
    x, y = functad.constant(1.5), functad.constant(2.0)
    with functad.GradientTape() as tape:
        tape.watch([x, y])
        out = m.with_variable(x, y)
    assert [float(g) for g in tape.gradient(out, [x, y, m.w])] == [10.0, 20.0, 30.0]
