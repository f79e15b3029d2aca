"""`functional_call`: a module as a function of its Variables' values, under transforms, tapes, threads and coroutines."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

import functad
from functad import Module, Variable, functional_call, nn, values_of
from functad.errors import StateError
from functad.testing import check_grads

X = np.linspace(-1.0, 1.0, 8).reshape(4, 2)


@pytest.fixture
def model():
    return nn.Sequential([nn.Dense(3, "tanh", inputs=2, rng=0), nn.Dense(1, inputs=3, rng=1)])


class Scale(Module):
    def __init__(self):
        self.w = Variable(3.0, name="w")
        self.mean = Variable(0.0, trainable=False, name="mean")

    def __call__(self, x, *, power=1):
        return self.w**power * x + self.mean

    def loss(self, x):
        return np.sum(self(x) ** 2)


def doubled(values):
    return {path: 2 * value for path, value in values.items()}


# Values


def test_given_values_are_used_and_variables_untouched(model):
    values = values_of(model)
    before = model(X).numpy()
    out = functional_call(model, doubled(values), X)
    expected = np.tanh(X @ (2 * values["layers/0/kernel"])) @ (2 * values["layers/1/kernel"])
    assert isinstance(out, functad.Tensor)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-14)
    assert np.array_equal(model(X).numpy(), before)


def test_some_values_and_keywords():
    scale = Scale()
    assert float(functional_call(scale, {"w": 2.0}, 5.0, power=3)) == 40.0
    assert float(functional_call(scale, {"mean": np.float64(1.0)}, 5.0)) == 16.0
    assert float(functional_call(scale, {}, 5.0)) == 15.0
    assert float(functional_call(scale.loss, {"w": 2.0}, [1.0, 2.0])) == 20.0


def test_nothing_is_left_after_an_error():
    class Failing(Scale):
        def __call__(self, x):
            assert float(self.w) == 7.0
            raise ZeroDivisionError

    failing = Failing()
    with pytest.raises(ZeroDivisionError):
        functional_call(failing, {"w": 7.0}, 1.0)
    assert float(failing.w) == 3.0


def test_nested_calls():
    class Outer(Module):
        def __init__(self):
            self.inner = Scale()
            self.v = Variable(1.0)

        def __call__(self, x):
            inside = functional_call(self.inner, {"w": 10.0 * self.inner.w}, x)
            return inside, self.inner(x), self.v + 0.0

    outer = Outer()
    found = functional_call(outer, {"inner/w": 2.0, "inner/mean": 1.0, "v": 5.0}, 1.0)
    assert [float(part) for part in found] == [21.0, 3.0, 5.0]


def test_what_a_variable_says_of_itself_is_that_of_the_value():
    class Asks(Scale):
        def __call__(self, x):
            return self.w.dtype, self.w.numpy(), repr(self.w), float(self.w), self.w.shape, self.w.read_value()

    asks = Asks()
    dtype, array, text, number, shape, tensor = functional_call(asks, {"w": np.float32(1.5)}, 0.0)
    assert (dtype, array, number, shape, tensor.dtype) == (np.float32, 1.5, 1.5, (), np.float32)
    assert "1.5" in text
    assert functional_call(asks, {"w": 1}, 0.0)[0] == np.float64  # a Python number takes the dtype that is there


def test_the_callers_array_is_copied():
    class Keeps(Module):
        def __init__(self):
            self.w = Variable([1.0, 2.0])

        def __call__(self):
            return self.w * 1.0, self.w.read_value()

    given = np.array([3.0, 4.0])
    _, kept = functional_call(Keeps(), {"w": given})
    given[0] = 9.0
    assert given.flags.writeable
    assert kept.numpy().tolist() == [3.0, 4.0]


def test_values_may_be_lists_variables_and_tensors():
    class Twice(Module):
        def __init__(self):
            self.w = Variable([1.0, 2.0])

        def __call__(self):
            return self.w * 2

    for value in ([3.0, 4.0], Variable([3.0, 4.0]), functad.constant([3.0, 4.0])):
        assert functional_call(Twice(), {"w": value}).numpy().tolist() == [6.0, 8.0]


def test_values_of_trainable_variables_only():
    scale = Scale()
    assert values_of(scale) == {"mean": 0.0, "w": 3.0}
    assert list(values_of(scale, trainable=True)) == ["w"]
    assert list(values_of(scale, trainable=False)) == ["mean"]
    values_of(scale)["w"] += 1
    assert float(scale.w) == 3.0


# Errors


def test_all_that_does_not_fit_is_named_before_the_call(model):
    values = {"layers/0/kernel": np.ones((2, 3)), "layers/0/bias": np.ones(4), "nothing": 1.0, "layers/1/kernel": 2.0}
    with pytest.raises(StateError) as caught:
        functional_call(model, values, X)
    for part in (
        "'layers/0/bias' has shape (4,) in place of (3,)",
        "'nothing' is no Variable",
        "'layers/1/kernel' has shape ()",
    ):
        assert part in str(caught.value)
    with pytest.raises(StateError, match="have to be called once before"):
        functional_call(nn.Dense(2), {"kernel": np.ones((2, 2))}, X)


def test_values_must_be_a_dict(model):
    for values in (X, None, list(values_of(model))):
        with pytest.raises(TypeError, match=r"functional_call with values that are a .*functad\.values_of"):
            functional_call(model, values, X)


def test_what_is_no_module_is_refused():
    with pytest.raises(TypeError, match="must be a Module or its method"):
        functional_call(np.sin, {}, 1.0)
    with pytest.raises(TypeError, match="it has no __call__"):
        functional_call(Module(), {})


def test_assignment_to_a_given_variable_is_refused_and_to_others_is_kept():
    class Running(Scale):
        def __call__(self, x):
            self.mean.assign_add(np.mean(x))
            return self.w * (x - self.mean)

    running = Running()
    gradient = functad.grad(lambda w: np.sum(functional_call(running, {"w": w}, X)))(2.0)
    assert np.isfinite(gradient)
    running.mean.assign(0.5)
    for assign in (
        lambda v: v.assign(1.0),
        lambda v: v.assign_add(1.0),
        lambda v: v.assign_sub(1.0),
        lambda v: v[()].assign(1.0),
    ):
        Running.__call__ = lambda self, assign=assign: assign(self.mean)
        with pytest.raises(RuntimeError, match=r"'mean'.*Leave it out of the values"):
            functional_call(running, {"mean": 1.0})
    assert float(running.mean) == 0.5


# Transforms


def test_derivatives_of_a_model_agree_with_differences(model):
    check_grads(lambda values, x: functional_call(model, values, x), (values_of(model), X), order=2)


def test_grad_agrees_with_a_tape(model):
    def loss(values):
        return np.mean(functional_call(model, values, X) ** 2)

    by_path = functad.grad(loss)(values_of(model))
    with functad.GradientTape() as tape:
        y = np.mean(model(X) ** 2)
    for path, g in zip(values_of(model), tape.gradient(y, model.variables), strict=True):
        assert type(by_path[path]) is np.ndarray
        np.testing.assert_allclose(by_path[path], g.numpy(), rtol=1e-13, atol=1e-16)


def test_jacobian_jvp_and_expressions(model):
    values = values_of(model)
    jacobian = functad.jacobian(lambda v: functional_call(model, v, X))(values)
    assert jacobian["layers/0/kernel"].shape == (4, 1, 2, 3)
    ones = {path: np.ones_like(value) for path, value in values.items()}
    _, tangent = functad.jvp(lambda v: functional_call(model, v, X), (values,), (ones,))
    summed = sum(np.sum(j, axis=tuple(range(2, j.ndim))) for j in jacobian.values())
    np.testing.assert_allclose(tangent, summed, rtol=1e-12)
    assert functad.eval_shape(lambda v: functional_call(model, v, X), values).shape == (4, 1)


def test_numpy_of_a_given_value_that_is_followed_raises():
    class Cuts(Scale):
        def __call__(self, x):
            return x * self.w.numpy()

    with pytest.raises(functad.errors.ConversionError):
        functad.grad(lambda w: functional_call(Cuts(), {"w": w}, 1.0))(2.0)


# Tapes


def test_open_tape_follows_given_tensors_and_not_the_variables():
    scale = Scale()
    w = functad.constant(2.0)
    with functad.GradientTape(persistent=True) as tape:
        tape.watch(w)
        own = scale(5.0)
        fixed = functional_call(scale, {"w": 4.0}, 5.0)
        given = functional_call(scale, {"w": w * w}, 5.0)
    assert float(tape.gradient(given, w)) == 20.0
    assert tape.gradient(given, scale.w) is None
    assert tape.gradient(fixed, scale.w) is None
    assert float(tape.gradient([own, fixed, given], scale.w)) == 5.0


def test_tape_opened_in_the_call_follows_the_variables():
    class Sensitivity(Scale):
        def __call__(self, x):
            ((g, variable),) = functad.implicit_gradients(lambda: self.w**2 * x)()
            assert variable is self.w
            return g

    sensitivity = Sensitivity()
    assert float(functional_call(sensitivity, {"w": 4.0}, 5.0)) == 40.0
    check_grads(lambda w: functional_call(sensitivity, {"w": w}, 5.0), (4.0,), order=2)
    with functad.GradientTape(persistent=True) as tape:
        stepped = functional_call(sensitivity, {"w": sensitivity.w * sensitivity.w}, 5.0)  # 10 w^2
    assert float(stepped) == 90.0
    assert float(tape.gradient(stepped, sensitivity.w)) == 60.0


def test_a_step_of_descent_is_differentiated():
    """One step of an inner descent, then the outer gradient by the first values: d/dw of l(w - r l'(w)), l = (3 w)^2 / 2."""
    scale = Scale()
    with functad.GradientTape() as outer:
        with functad.GradientTape() as inner:
            loss = scale(3.0) ** 2 / 2
        faster = scale.w - 0.1 * inner.gradient(loss, scale.w)
        after = functional_call(scale, {"w": faster}, 3.0) ** 2 / 2
    w, h = 3.0, 1e-6

    def unrolled(w):
        return (3 * (w - 0.1 * 9 * w)) ** 2 / 2

    difference = (unrolled(w + h) - unrolled(w - h)) / (2 * h)
    np.testing.assert_allclose(float(outer.gradient(after, scale.w)), difference, rtol=1e-8)


def test_accumulator_follows_what_is_given():
    scale = Scale()
    with functad.ForwardAccumulator(scale.w, 1.0) as accumulator:
        y = functional_call(scale, {"w": scale.w * scale.w}, 5.0)
        fixed = functional_call(scale, {"w": 2.0}, 5.0)
    assert float(accumulator.jvp(y)) == 30.0
    assert accumulator.jvp(fixed) is None


@pytest.mark.parametrize("wrap", [functad.recompute_grad, lambda f: f])
def test_recomputation_uses_the_given_values(wrap):
    class Recomputed(Module):
        def __init__(self):
            self.w = Variable([1.0, 2.0])
            self.v = Variable([0.5, 0.25])

        def __call__(self, x):
            return np.sum(wrap(lambda x: np.sin(self.w * x) * self.v**2)(x))

    model = Recomputed()
    x = np.array([0.3, -0.4])
    given = {"w": np.array([0.7, 1.1]), "v": np.array([2.0, 3.0])}
    check_grads(lambda values, x: functional_call(model, values, x), (given, x), order=2, modes=("rev",))
    check_grads(lambda w, x: functional_call(model, {"w": w}, x), (given["w"], x), order=1, modes=("rev",))
    fixed = functad.grad(lambda x: functional_call(model, given, x))(x)
    np.testing.assert_allclose(fixed, np.cos(given["w"] * x) * given["w"] * given["v"] ** 2, rtol=1e-13)
    with functad.GradientTape() as tape:
        y = functional_call(model, given, x) + model(x)
    np.testing.assert_allclose(tape.gradient(y, model.v).numpy(), np.sin(model.w.numpy() * x) * 2 * model.v.numpy())


def test_recomputation_uses_the_values_of_the_call_and_not_those_assigned_since():
    v = Variable(2.0)
    with functad.GradientTape() as tape:
        y = functad.recompute_grad(lambda x: v * v * x)(functad.constant(5.0))
    v.assign(100.0)
    assert float(tape.gradient(y, v)) == 20.0


# Threads and coroutines


def test_other_threads_see_the_variable():
    inside, go_on = threading.Event(), threading.Event()

    class Waits(Scale):
        def __call__(self, x):
            before = float(self.w)
            inside.set()
            assert go_on.wait(10)
            return before, float(self.w)

    waits = Waits()
    found = []
    thread = threading.Thread(target=lambda: found.append(functional_call(waits, {"w": 2.0}, 1.0)))
    thread.start()
    assert inside.wait(10)
    assert float(waits.w) == 3.0
    waits.w.assign(4.0)
    go_on.set()
    thread.join()
    assert found == [(2.0, 2.0)]
    assert float(waits.w) == 4.0


def test_coroutines_have_their_own_values():
    class Slow(Scale):
        async def __call__(self, x):
            first = float(self.w)
            await asyncio.sleep(0)
            return first, float(self.w)

    slow = Slow()

    async def all_of_them():
        return await asyncio.gather(functional_call(slow, {"w": 1.0}, 1.0), functional_call(slow, {"w": 2.0}, 1.0), slow(1.0))

    assert asyncio.run(all_of_them()) == [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]


def test_generator_is_refused():
    class Yields(Scale):
        def __call__(self, x):
            yield self.w * x

    with pytest.raises(TypeError, match="Return a list instead"):
        functional_call(Yields(), {"w": 1.0}, 1.0)
