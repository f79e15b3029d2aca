"""Values of gradients by tapes: conventions at kinks, control flow, and programs against numerical derivatives."""

import numpy as np
import pytest

import functad
from functad import GradientTape
from functad.testing import central_difference, complex_step
from tests.eager.taped import gradient

# Conventions at kinks and edges


def test_conventions_at_kinks():
    assert float(gradient(np.abs, 0.0)) == 0
    assert float(gradient(np.sign, 0.0)) == 0
    assert np.array_equal(gradient(lambda q: q**1.0, [0.0]).numpy(), [1])
    assert np.array_equal(gradient(lambda q: q**2.0, [0.0]).numpy(), [0])
    assert np.array_equal(gradient(lambda q: q**0.0, [0.0]).numpy(), [0])  # TensorFlow gives NaN
    assert np.array_equal(gradient(np.max, [2.0, 2.0, 1.0]).numpy(), [0.5, 0.5, 0])
    assert np.array_equal(gradient(lambda q: np.clip(q, 0.0, 1.0), [0.0, 1.0]).numpy(), [1, 1])
    assert np.array_equal(gradient(np.linalg.norm, [0.0, 0.0]).numpy(), [0, 0])  # TensorFlow gives NaN
    assert np.array_equal(gradient(np.std, [1.0, 1.0]).numpy(), [0, 0])  # likewise


@pytest.mark.parametrize("f", [np.sqrt, np.log, lambda q: 1 / q])
def test_branch_that_is_not_taken_does_not_poison(f):
    with np.errstate(all="ignore"):
        g = gradient(lambda q: np.where(q > 0, f(q), 0.0), [0.0, 4.0])
    assert np.allclose(g.numpy(), [0, complex_step(lambda q: [f(q)], [np.float64(4.0)], [1.0])[0]])


def test_products_with_a_zero():
    assert np.array_equal(gradient(np.prod, [0.0, 2.0, 3.0]).numpy(), [6, 0, 0])
    assert np.array_equal(gradient(lambda q: np.cumprod(q)[-1], [0.0, 2.0, 3.0]).numpy(), [6, 0, 0])


# Control flow and depth


def test_python_control_flow_runs():
    def f(x):
        y = x
        while y < 10.0:
            y = y * y if y > 2.0 else y + 1.0
        return y

    assert float(gradient(f, 1.5)) == pytest.approx(central_difference(lambda x: [f(x)], [1.5], [1.0])[0])
    q = functad.constant([1.0, 2.0])
    with GradientTape() as tape:
        tape.watch(q)
        with pytest.raises(ValueError, match="ambiguous"):
            bool(q > 1.5)


def test_long_chains_need_no_recursion():
    x = functad.constant(1.0)
    with GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(20_000):
            y = y + 1e-4 * x
    assert float(tape.gradient(y, x)) == pytest.approx(3.0)


def test_gathers_give_dense_gradients():
    v = functad.Variable(np.arange(6.0).reshape(3, 2))
    with GradientTape() as tape:
        y = np.sum(v[np.array([0, 2, 0])] * 2.0)
    assert np.array_equal(tape.gradient(y, v).numpy(), [[4, 4], [0, 0], [2, 2]])
    with GradientTape() as tape:
        y = np.sum(np.take(v, [1, 1], axis=0)) + np.sum(v)
    assert np.array_equal(tape.gradient(y, v).numpy(), [[1, 1], [3, 3], [1, 1]])


# Against numerical derivatives


PROGRAMS = {
    "network": lambda a, b: np.sum(np.tanh(a @ b) ** 2),
    "softmax": lambda a, b: np.sum(np.log(np.sum(np.exp(a * b.T), axis=1))),
    "slices": lambda a, b: np.sum(a[1:, ::2] * b[::2, 1:].T) + a[0, 0] * b[1, 0],
    "solve": lambda a, b: np.sum(np.linalg.solve(a @ a.T + 5 * np.eye(2), b[:2])),
    "order": lambda a, b: np.sum(np.sort(a, axis=None)[:4] * np.arange(4.0)) * np.mean(b),
    "concatenate": lambda a, b: np.sum(np.concatenate([a, b.T]) ** 3),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_agree_with_differences(program, rng):
    f = PROGRAMS[program]
    values = rng.normal(size=(2, 3)), rng.normal(size=(3, 2))
    found = gradient(f, *values)
    for i, g in enumerate(found):
        direction = rng.normal(size=values[i].shape)
        expected = (
            f(*[v + 1e-6 * direction if j == i else v for j, v in enumerate(values)])
            - f(*[v - 1e-6 * direction if j == i else v for j, v in enumerate(values)])
        ) / 2e-6
        assert np.sum(g.numpy() * direction) == pytest.approx(expected, rel=1e-6, abs=1e-7)
    by_grad = functad.grad(f, argnums=(0, 1))(*values)
    assert all(np.allclose(g.numpy(), h, rtol=1e-14) for g, h in zip(found, by_grad, strict=True))
