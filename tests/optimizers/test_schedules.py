"""Schedules: their values at chosen steps against optax's, arrays of steps, and derivatives by their settings."""

import numpy as np
import pytest

import functad
from functad import optimizers
from functad.errors import OptimizerError
from functad.optimizers import (
    constant_schedule,
    cosine_decay_schedule,
    exponential_decay,
    join_schedules,
    linear_schedule,
    piecewise_constant_schedule,
    polynomial_schedule,
    warmup_cosine_decay_schedule,
)
from functad.testing import check_grads

# Schedule, steps, and the values that optax 0.2.8 gives there on JAX 0.10.2 with 64-bit numbers.
CASES = {
    "exponential": (
        exponential_decay(0.5, 4, 0.3, transition_begin=2),
        [0, 2, 3, 6, 11],
        [0.5, 0.5, 0.3700414022461426, 0.15, 0.033303726202152835],
    ),
    "staircase": (
        exponential_decay(0.5, 4, 0.3, staircase=True, end_value=0.05),
        [0, 3, 4, 7, 8, 9, 100],
        [0.5, 0.5, 0.15, 0.15, 0.05, 0.05, 0.05],
    ),
    "growth": (exponential_decay(0.5, 4, 1.5, end_value=0.8), [0, 3, 4, 100], [0.5, 0.6777015027073836, 0.75, 0.8]),
    "cosine": (
        cosine_decay_schedule(0.4, 10, alpha=0.1, exponent=2.0),
        [0, 1, 5, 9, 10, 20],
        [0.4, 0.38259593768000033, 0.13, 0.040215591813745, 0.04000000000000001, 0.04000000000000001],
    ),
    "polynomial": (
        polynomial_schedule(1.0, 0.2, 2.5, 8, transition_begin=3),
        [0, 3, 4, 7, 11, 12],
        [1.0, 1.0, 0.7729412873497599, 0.3414213562373095, 0.2, 0.2],
    ),
    "linear": (linear_schedule(0.1, 0.9, 8), [0, 1, 4, 8, 9], [0.1, 0.2, 0.5, 0.9, 0.9]),
    "piecewise": (
        piecewise_constant_schedule(1.0, {6: 0.1, 3: 0.5}),
        [0, 2, 3, 5, 6, 7],
        [1.0, 1.0, 0.5, 0.5, 0.05, 0.05],
    ),
    "warmup": (
        warmup_cosine_decay_schedule(0.01, 0.2, 4, 12, end_value=0.02, exponent=1.5),
        [0, 2, 3, 4, 5, 8, 11, 12, 20],
        [0.01, 0.105, 0.1525, 0.2, 0.18982214540805065, 0.08363961030678929, 0.021336532986295217, 0.02, 0.02],
    ),
    "joined": (
        join_schedules([constant_schedule(0.3), linear_schedule(1.0, 0.0, 4), exponential_decay(0.2, 2, 0.5)], [2, 5]),
        [0, 1, 2, 3, 4, 5, 6, 9],
        [0.3, 0.3, 1.0, 0.75, 0.5, 0.2, 0.14142135623730953, 0.05],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_optax(name):
    schedule, steps, values = CASES[name]
    np.testing.assert_allclose([schedule(step) for step in steps], values, rtol=1e-13, atol=0)
    np.testing.assert_allclose([schedule(np.int64(step)) for step in steps], values, rtol=1e-13, atol=0)


@pytest.mark.parametrize("name", CASES)
def test_array_of_steps_gives_array_of_values(name):
    schedule, steps, values = CASES[name]
    np.testing.assert_allclose(schedule(np.array(steps)), values, rtol=1e-13, atol=0)


@pytest.mark.parametrize("name", CASES)
def test_steps_without_values_can_be_traced(name):
    schedule, steps, values = CASES[name]
    listed = functad.make_expressions(schedule)(np.int64(0))
    np.testing.assert_allclose([listed(np.int64(step)) for step in steps], values, rtol=1e-13, atol=0)


def test_no_boundary_leaves_a_constant():
    assert piecewise_constant_schedule(0.3)(7) == 0.3


@pytest.mark.parametrize(
    "make",
    [
        lambda p: exponential_decay(p[0], 4, p[1], end_value=p[2] / 10),
        lambda p: cosine_decay_schedule(p[0], 9, p[1], 1 + p[2]),
        lambda p: polynomial_schedule(p[0], p[1], 1 + p[2], 9),
        lambda p: piecewise_constant_schedule(p[0], {2: p[1], 5: p[2]}),
        lambda p: warmup_cosine_decay_schedule(p[0], p[1], 3, 9, p[2]),
    ],
)
def test_derivatives_by_the_settings_agree_with_differences(make):
    settings = np.array([0.9, 0.6, 0.3])
    check_grads(lambda p: np.sum(make(p)(np.arange(8)) ** 2), (settings,))


@pytest.mark.parametrize(
    ("make", "setting"),
    [
        (lambda: exponential_decay(1.0, 0, 0.5), "transition_steps"),
        (lambda: polynomial_schedule(1.0, 0.0, 1, 0), "transition_steps"),
        (lambda: linear_schedule(1.0, 0.0, -1), "transition_steps"),
        (lambda: cosine_decay_schedule(1.0, 0), "decay_steps"),
        (lambda: warmup_cosine_decay_schedule(0.0, 1.0, 0, 5), "warmup_steps"),
        (lambda: warmup_cosine_decay_schedule(0.0, 1.0, 5, 5), "decay_steps - warmup_steps"),
        (lambda: join_schedules([constant_schedule(1.0)], [3]), "boundary"),
        (lambda: join_schedules([], []), "boundary"),
    ],
)
def test_settings_without_meaning_are_refused(make, setting):
    with pytest.raises(OptimizerError, match=setting) as caught:
        make()
    assert __file__ in str(caught.value)


def test_rate_of_a_step_is_that_of_the_steps_before():
    rule = optimizers.sgd(piecewise_constant_schedule(1.0, {1: 0.1}))
    state, found = rule.init(0.0), []
    for _ in range(3):
        update, state = rule.update(1.0, state)
        found.append(float(update))
    assert found == [-1.0, -0.1, -0.1]
