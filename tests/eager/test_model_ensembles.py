"""Models under vmap: ensembles over their values, batches of inputs, gradients of single examples, training of all at once."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad import Module, Variable, functional_call, nn, optimizers, values_of, vmap
from functad.errors import AbstractValueError, StateError

rng = np.random.default_rng(0)
X = rng.normal(size=(5, 2))
Y = rng.normal(size=(5, 1))
MEMBERS = 3


def make_model():
    return nn.Sequential([nn.Dense(3, "tanh", inputs=2, rng=0), nn.Dense(1, inputs=3, rng=1)])


@pytest.fixture
def model():
    return make_model()


@pytest.fixture
def ensemble(model):
    spread = np.random.default_rng(1)
    return {path: value + 0.1 * spread.normal(size=(MEMBERS, *value.shape)) for path, value in values_of(model).items()}


def member(tree, i):
    return {path: value[i] for path, value in tree.items()}


def close(found, wanted):
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-11, atol=1e-14)


def each_member(found, wanted_of):
    """Compare a tree of all members with the trees of single ones."""
    for i in range(MEMBERS):
        wanted = wanted_of(i)
        assert found.keys() == wanted.keys()
        for path in wanted:
            close(found[path][i], wanted[path])


# functional_call


def test_an_ensemble(model, ensemble):
    before = values_of(model)
    out = vmap(lambda values: functional_call(model, values, X))(ensemble)
    assert out.shape == (MEMBERS, 5, 1)
    close(out, np.stack([functional_call(model, member(ensemble, i), X).numpy() for i in range(MEMBERS)]))
    assert all(np.array_equal(value, before[path]) for path, value in values_of(model).items())


def test_some_values_of_an_ensemble(model, ensemble):
    given = {"layers/1/bias": ensemble["layers/1/bias"]}
    out = vmap(lambda values: functional_call(model, values, X))(given)
    close(out, model(X).numpy() + given["layers/1/bias"][:, None, :])


def test_each_member_has_its_inputs(model, ensemble):
    inputs = np.stack([X, 2 * X, -X])
    out = vmap(lambda values, x: functional_call(model, values, x))(ensemble, inputs)
    close(out, np.stack([functional_call(model, member(ensemble, i), inputs[i]).numpy() for i in range(MEMBERS)]))


def test_members_by_inputs(model, ensemble):
    def one(values, x):
        return functional_call(model, values, x)

    out = vmap(vmap(one, in_axes=(None, 0)), in_axes=(0, None))(ensemble, X)
    close(out, vmap(one, in_axes=(0, None))(ensemble, X))
    other = vmap(vmap(one, in_axes=(0, None)), in_axes=(None, 0), out_axes=1)(ensemble, X)
    close(other, out)


def test_single_inputs(model):
    values = values_of(model)
    close(vmap(lambda x: functional_call(model, values, x))(X), model(X).numpy())
    close(vmap(model)(X), model(X).numpy())
    close(vmap(model, chunk_size=2)(X), model(X).numpy())


def loss_of(model):
    def loss(values, x, y):
        return np.sum((functional_call(model, values, x) - y) ** 2)

    return loss


def test_gradients_of_single_examples(model):
    values, loss = values_of(model), loss_of(model)
    found = vmap(functad.grad(loss), in_axes=(None, 0, 0))(values, X, Y)
    whole = functad.grad(loss)(values, X, Y)
    for path, value in values.items():
        assert found[path].shape == (5, *value.shape)
        close(found[path], np.stack([functad.grad(loss)(values, x, y)[path] for x, y in zip(X, Y, strict=True)]))
        close(found[path].sum(0), whole[path])


def test_gradients_of_single_examples_by_tapes(model):
    def gradients(x, y):
        with functad.GradientTape() as tape:
            loss = np.sum((model(x) - y) ** 2)
        return tape.gradient(loss, list(model.trainable_variables))

    found = vmap(gradients)(X, Y)
    reference = vmap(functad.grad(loss_of(model)), in_axes=(None, 0, 0))(values_of(model), X, Y)
    by_path = dict(zip([id(v) for v in model.trainable_variables], found, strict=True))
    for i, layer in enumerate(model.layers):
        close(by_path[id(layer.kernel)], reference[f"layers/{i}/kernel"])
        close(by_path[id(layer.bias)], reference[f"layers/{i}/bias"])


def test_gradients_of_members(model, ensemble):
    loss = loss_of(model)
    values, found = vmap(functad.value_and_grad(loss), in_axes=(0, None, None))(ensemble, X, Y)
    close(values, [loss(member(ensemble, i), X, Y) for i in range(MEMBERS)])
    each_member(found, lambda i: functad.grad(loss)(member(ensemble, i), X, Y))


def test_derivatives_through_an_ensemble(model, ensemble):
    loss = loss_of(model)

    def together(values):
        return np.sum(vmap(loss, in_axes=(0, None, None))(values, X, Y) ** 2)

    found = functad.grad(together)(ensemble)
    each_member(found, lambda i: functad.grad(lambda v: loss(v, X, Y) ** 2)(member(ensemble, i)))


def test_tapes_in_a_call_with_the_values_of_members(ensemble):
    class Loss(Module):
        def __init__(self):
            self.inner = make_model()

        def __call__(self, x):
            with functad.GradientTape() as tape:
                total = np.sum((self.inner(x) - Y) ** 2)
            return tape.gradient(total, self.inner.layers[0].kernel)

    slope, loss = Loss(), loss_of(make_model())
    given = {f"inner/{path}": value for path, value in ensemble.items()}
    found = vmap(lambda values: functional_call(slope, values, X))(given)
    close(found, np.stack([functad.grad(loss)(member(ensemble, i), X, Y)["layers/0/kernel"] for i in range(MEMBERS)]))


def test_values_of_a_wrong_shape_are_refused(model, ensemble):
    with pytest.raises(StateError, match=r"layers/0/kernel.*has shape \(3, 2, 3\) in place of \(2, 3\)"):
        vmap(lambda x: functional_call(model, ensemble, x))(X)


def test_state_that_changes_in_the_call_is_refused():
    class Counting(Module):
        def __init__(self):
            self.total = Variable(0.0, trainable=False, name="total")
            self.scale = Variable(2.0, name="scale")

        def __call__(self, x):
            self.total.assign_add(np.sum(x))
            return x * self.scale

    counting = Counting()
    with pytest.raises(AbstractValueError, match="assign_add to the Variable 'total'"):
        vmap(counting)(X)
    assert float(counting.total) == 0.0
    with pytest.raises(RuntimeError, match="functional_call has given a value"):
        vmap(lambda values, x: functional_call(counting, values, x))({"total": np.zeros(5), "scale": np.ones(5)}, X)
    assert float(counting.total) == 0.0


# Layers


@pytest.mark.parametrize("activation", [None, "relu", "softplus", "sigmoid", "softmax", "log_softmax", "gelu", "elu", "tanh"])
def test_layers(activation):
    layer = nn.Dense(3, activation, inputs=2, rng=0)
    rows = rng.normal(size=(4, 5, 2))
    close(vmap(layer)(rows), layer(rows).numpy())
    close(vmap(layer, in_axes=1, out_axes=1)(rows), layer(rows).numpy())

    def total(x):
        return np.sum(layer(x) ** 2)

    close(vmap(functad.grad(total))(X), np.stack([functad.grad(total)(x) for x in X]))
    close(vmap(functad.jacobian(layer))(X), np.stack([functad.jacobian(layer)(x) for x in X]))


@pytest.mark.parametrize("name", ["relu", "softplus", "sigmoid", "softmax", "log_softmax", "gelu", "elu"])
def test_activations(name):
    function = getattr(nn, name)
    rows = 3 * rng.normal(size=(4, 6))
    close(vmap(function)(rows), np.stack([function(row) for row in rows]))
    close(vmap(functad.jacobian(function))(rows), np.stack([functad.jacobian(function)(row) for row in rows]))


def test_layers_that_take_their_shape_from_the_first_example():
    layer = nn.Dense(3, "tanh", rng=0)
    out = vmap(layer)(X)
    assert layer.kernel.shape == (2, 3)
    close(out, layer(X).numpy())


# Training


RULES = {
    "sgd": lambda rate: optimizers.sgd(rate),
    "nesterov": lambda rate: optimizers.sgd(rate, 0.9, nesterov=True),
    "adam": lambda rate: optimizers.adam(rate),
    "adamw": lambda rate: optimizers.adamw(rate),
    "rmsprop": lambda rate: optimizers.rmsprop(rate),
    "rmsprop_centered": lambda rate: optimizers.rmsprop(rate, momentum=0.9, centered=True),
    "adagrad": lambda rate: optimizers.adagrad(rate),
    "clipped": lambda rate: optimizers.chain(optimizers.clip_by_global_norm(0.1), optimizers.sgd(rate)),
    "scheduled": lambda rate: optimizers.adam(optimizers.linear_schedule(rate, 0.0, 4)),
}


def stacked(trees):
    leaves = [functad.tree_leaves(tree) for tree in trees]
    return [np.stack(column) for column in zip(*leaves, strict=True)]


@pytest.mark.parametrize("name", RULES)
def test_training_of_an_ensemble(model, ensemble, name):
    """Members with learning rates of their own, each as if it were trained alone."""
    rates, loss, rule = np.array([0.1, 0.05, 0.2]), loss_of(model), RULES[name]

    def init(values, rate):
        return rule(rate).init(values)

    def step(values, state, rate):
        g = functad.grad(loss)(values, X, Y)
        updates, state = rule(rate).update(g, state, values)
        return optimizers.apply_updates(values, updates), state

    values, state = ensemble, vmap(init)(ensemble, rates)
    singles = [member(ensemble, i) for i in range(MEMBERS)]
    states = [init(single, rate) for single, rate in zip(singles, rates, strict=True)]
    for _ in range(5):
        values, state = vmap(step)(values, state, rates)
        pairs = [step(single, own, rate) for single, own, rate in zip(singles, states, rates, strict=True)]
        singles, states = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    each_member(values, lambda i: singles[i])
    for found, wanted in zip(functad.tree_leaves(state), stacked(states), strict=True):
        close(found, wanted)
    before = [float(loss(member(ensemble, i), X, Y)) for i in range(MEMBERS)]
    assert all(float(loss(member(values, i), X, Y)) != before[i] for i in range(MEMBERS))


def test_derivatives_by_learning_rates_of_an_ensemble(model):
    """Each member differentiates its loss after training by its own learning rate."""
    start, loss = values_of(model), loss_of(model)

    def after(rate):
        rule = optimizers.adam(rate)
        values, state = start, rule.init(start)
        for _ in range(3):
            updates, state = rule.update(functad.grad(loss)(values, X, Y), state, values)
            values = optimizers.apply_updates(values, updates)
        return loss(values, X, Y)

    rates, step = np.array([0.01, 0.05]), 1e-6
    found = vmap(functad.grad(after))(rates)
    differences = [(after(rate + step) - after(rate - step)) / (2 * step) for rate in rates]
    np.testing.assert_allclose(found, differences, rtol=1e-5)


@pytest.mark.parametrize("make", [lambda: optimizers.SGD(0.1), lambda: optimizers.Adam(0.1)], ids=["SGD", "Adam"])
def test_an_optimizer_takes_no_gradient_of_a_batch(make):
    w, optimizer = Variable([1.0, 2.0], name="w"), make()

    def f(x):
        with functad.GradientTape() as tape:
            loss = np.sum((w * x) ** 2)
        g = tape.gradient(loss, w)
        optimizer.apply_gradients([(g, w)])
        return g

    with pytest.raises(AbstractValueError, match=r"apply_gradients.*'w'.*vmap.*functional_call"):
        vmap(f)(X)
    assert np.array_equal(w.numpy(), [1.0, 2.0])
    assert optimizer.iterations == 0


def test_the_mean_of_the_gradients_of_a_batch_is_applied_after_it():
    w, optimizer = Variable([1.0, 2.0]), optimizers.SGD(0.1)

    def gradient(x):
        with functad.GradientTape() as tape:
            loss = np.sum((w * x) ** 2)
        return tape.gradient(loss, w)

    optimizer.apply_gradients([(np.mean(vmap(gradient)(X), axis=0), w)])
    start = np.array([1.0, 2.0])
    close(w.numpy(), start - 0.1 * np.mean(2 * start * X**2, axis=0))
