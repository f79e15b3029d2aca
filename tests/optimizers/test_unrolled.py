"""Unrolled optimisers: the loss after some steps, differentiated by the settings of the rule and by where it began."""

import numpy as np
import pytest

import functad
from functad import optimizers
from functad.optimizers import apply_updates, chain
from functad.testing import check_grads

START = {"w": np.array([0.8, -1.3, 0.4]), "b": 0.7}
STEPS = 3

# By one number, for the learning rate comes into all of them in the same way.
RULES = {
    "sgd": lambda r: optimizers.sgd(r),
    "momentum": lambda r: optimizers.sgd(r, momentum=1 - 2 * r),
    "nesterov": lambda r: optimizers.sgd(r, momentum=1 - r, nesterov=True),
    "adam": lambda r: optimizers.adam(r, b1=1 - r, b2=1 - r / 3, eps=r / 10),
    "adamw": lambda r: optimizers.adamw(r, eps_root=r / 10, weight_decay=5 * r, mask={"w": True, "b": False}),
    "adam with its epsilon hat": lambda r: chain(optimizers.scale_by_adam(eps=r, eps_hat=True), optimizers.scale(-r)),
    "rmsprop": lambda r: optimizers.rmsprop(r, decay=1 - r, momentum=0.5),
    "centred rmsprop": lambda r: optimizers.rmsprop(r, eps=r / 10, eps_in_sqrt=False, centered=True),
    "adagrad": lambda r: optimizers.adagrad(r, initial_accumulator_value=r, eps=r / 5),
    "clipped": lambda r: chain(optimizers.clip_by_global_norm(3 * r), optimizers.sgd(0.5)),
    "clipped one by one": lambda r: chain(optimizers.clip_by_norm(3 * r), optimizers.sgd(0.5)),
    "scheduled": lambda r: optimizers.adam(optimizers.warmup_cosine_decay_schedule(r / 4, r, 2, 5, r / 8)),
}


def loss(params):
    return np.sum(np.cosh(params["w"]) * np.array([1.0, 0.5, 2.0]) + params["b"] * params["w"]) + params["b"] ** 4


def after(rule, params):
    state = rule.init(params)
    for _ in range(STEPS):
        updates, state = rule.update(functad.grad(loss)(params), state, params)
        params = apply_updates(params, updates)
    return loss(params)


@pytest.mark.parametrize("name", RULES)
def test_derivative_by_the_settings_agrees_with_differences(name):
    check_grads(lambda r: after(RULES[name](r), START), (0.11,))
    assert abs(functad.grad(lambda r: after(RULES[name](r), START))(0.11)) > 1e-3


@pytest.mark.parametrize("name", RULES)
def test_derivative_by_the_first_parameters_agrees_with_differences(name):
    check_grads(lambda params: after(RULES[name](0.11), params), (START,))


def test_learning_rate_is_found_by_descent_on_it():
    rate, outer = np.float64(0.01), optimizers.adam(0.02)
    state = outer.init(rate)
    first = after(optimizers.sgd(rate), START)
    for _ in range(20):
        update, state = outer.update(functad.grad(lambda r: after(optimizers.sgd(r), START))(rate), state)
        rate = apply_updates(rate, update)
    assert after(optimizers.sgd(rate), START) < 0.9 * first


def test_gradient_that_vanishes_leaves_derivatives_finite():
    """Under the root of Adam stands zero where a parameter has no gradient."""

    def spoilt(params):
        rule = optimizers.adam(0.1)
        updates, _ = rule.update({"w": params["w"] * np.array([1.0, 0.0, 1.0]), "b": params["b"]}, rule.init(params))
        return loss(apply_updates(params, updates))

    gradient = functad.grad(spoilt)(START)
    assert np.all(np.isfinite(gradient["w"]))


@pytest.mark.parametrize("name", RULES)
def test_step_can_be_traced_without_values(name):
    rule = RULES[name](0.11)

    def step(params, gradients, state):
        updates, state = rule.update(gradients, state, params)
        return apply_updates(params, updates), state

    gradients = functad.grad(loss)(START)
    _, state = step(START, gradients, rule.init(START))
    listed = functad.make_expressions(step)(START, gradients, state)
    expected = functad.tree_flatten(step(START, gradients, state))[0]
    found = functad.tree_flatten(listed(START, gradients, state))[0]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)
