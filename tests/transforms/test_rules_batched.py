"""`vmap` of functions with rules of their own: custom rules, checkpoints, primitives of the user's."""

import math

import numpy as np
import pytest

import functad
from functad import errors
from functad.testing import check_grads
from tests.transforms.test_custom import W, X, exact, hundredfold, hundredfold_forward

ROWS = np.arange(6.0).reshape(3, 2) / 7 - 0.3

# Custom rules


def test_vmap_uses_the_rules():
    for f in (hundredfold(), hundredfold_forward()):
        x = np.arange(6.0).reshape(3, 2) / 7
        expected = 100 * np.cos(x) * W

        def loss(x, w, f=f):
            return np.sum(f(x, w))

        def total(x, w, loss=loss):
            return np.sum(functad.vmap(loss, in_axes=(0, None))(x, w))

        np.testing.assert_allclose(functad.vmap(f, in_axes=(0, None))(x, W), np.sin(x) * W)
        np.testing.assert_allclose(functad.vmap(functad.grad(loss), in_axes=(0, None))(x, W), expected)
        np.testing.assert_allclose(functad.grad(total)(x, W), expected)
        np.testing.assert_allclose(functad.grad(total, 1)(x, W), np.sin(x).sum(0))
        np.testing.assert_allclose(functad.jvp(lambda x, t=total: t(x, W), (x,), (np.ones((3, 2)),))[1], expected.sum())
        nested = functad.vmap(functad.vmap(functad.grad(f)), in_axes=(0, None))(x, W)
        np.testing.assert_allclose(nested, expected)


def test_vmap_second_order_is_that_of_a_loop():
    f = exact()

    def loss(x, w):
        a, b = f({"a": x, "b": x**2}, w)
        return np.sum(a**2) + np.sum(b * a)

    x = np.arange(6.0).reshape(3, 2) / 7
    batched = functad.vmap(functad.jacobian(functad.grad(loss)), in_axes=(0, None))(x, W)
    np.testing.assert_allclose(batched, [functad.jacobian(functad.grad(loss))(row, W) for row in x])

    def total(w):
        return np.sum(functad.vmap(loss, in_axes=(0, None))(x, w))

    check_grads(total, [W], order=2)


def test_what_a_forward_rule_keeps_may_be_a_pullback():
    f = functad.custom_vjp(lambda x: np.sum(x**3))
    f.defvjp(lambda x: functad.vjp(lambda x: np.sum(x**3), x), lambda pull, g: (10 * pull(g)[0],))
    x = np.arange(6.0).reshape(3, 2)
    np.testing.assert_allclose(functad.vmap(functad.grad(f))(x), 30 * x**2)
    np.testing.assert_allclose(functad.grad(lambda x: np.sum(functad.vmap(f)(x)))(x), 30 * x**2)


def test_batch_rule_is_called_and_its_derivatives_are_those_of_the_rules():
    f = hundredfold()
    seen = []

    @f.defbatch
    def rule(size, batched, x, w):
        seen.append((size, batched))
        return np.sin(x) * w, True

    x = np.arange(6.0).reshape(3, 2) / 7
    np.testing.assert_allclose(functad.vmap(f, in_axes=(0, None))(x, W), np.sin(x) * W)
    assert seen == [(3, (True, False))]
    found = functad.grad(lambda x: np.sum(functad.vmap(f, in_axes=(0, None))(x, W)))(x)
    np.testing.assert_allclose(found, 100 * np.cos(x) * W)
    f.defbatch(lambda size, batched, x, w: (np.sin(x[0]) * w, True))
    with pytest.raises(errors.CustomRuleError, match=r"value has shape \(2,\), but its first axis should be the batch of 3"):
        functad.vmap(f, in_axes=(0, None))(x, W)


def test_batch_rule_alone():
    f = functad.custom_vjp(lambda x: x * 2)
    f.defbatch(lambda size, batched, x: (x * 3, True))
    np.testing.assert_array_equal(functad.vmap(f)(X), 3 * X)
    assert functad.grad(f)(1.0) == 2
    np.testing.assert_array_equal(functad.grad(lambda x: np.sum(functad.vmap(f)(x)))(X), [3, 3])


def test_custom_gradient_is_batched_with_its_rule():
    @functad.custom_gradient
    def f(x):
        return np.sum(x * x), lambda dy: dy * 100.0 * x

    np.testing.assert_allclose(functad.vmap(f)(ROWS), np.sum(ROWS**2, 1))
    np.testing.assert_allclose(functad.vmap(functad.grad(f))(ROWS), 100 * ROWS)
    np.testing.assert_allclose(functad.grad(lambda x: np.sum(functad.vmap(f)(x)))(ROWS), 100 * ROWS)


# Checkpoints


def layer(x, w):
    h = functad.checkpoint_name(np.tanh(x * w), "h")
    return np.where(h > 0, h, np.exp(h)) @ w


@pytest.mark.parametrize("policy", [None, "contractions", ["h"]])
def test_checkpoint_is_batched(policy):
    c = functad.checkpoint(layer, policy=policy)
    expected = np.array([functad.grad(layer)(row, W) for row in ROWS])
    np.testing.assert_allclose(functad.vmap(functad.grad(c), in_axes=(0, None))(ROWS, W), expected)

    def total(x, w):
        return np.sum(functad.vmap(c, in_axes=(0, None))(x, w))

    np.testing.assert_allclose(functad.grad(total)(ROWS, W), expected)
    check_grads(total, [ROWS, W], order=2)
    hessians = functad.vmap(functad.jacobian(functad.grad(c)), in_axes=(0, None))(ROWS, W)
    np.testing.assert_allclose(hessians, [functad.jacobian(functad.grad(layer))(row, W) for row in ROWS], atol=1e-14)


def test_batched_closure_of_a_checkpoint_has_its_derivative():
    def loss(x, w):
        return functad.checkpoint(lambda x: layer(x, w))(x)

    found = functad.vmap(functad.grad(loss, (0, 1)), in_axes=(0, None))(ROWS, W)
    expected = [functad.grad(layer, (0, 1))(row, W) for row in ROWS]
    for i in (0, 1):
        np.testing.assert_allclose(found[i], [e[i] for e in expected])


def test_closure_is_batched_where_the_argument_is_not():
    found = functad.vmap(lambda y: functad.grad(functad.checkpoint(lambda x: x**2 * y))(3.0))(X)
    np.testing.assert_allclose(found, 6 * X)


@pytest.mark.parametrize("snapshots", [None, 2])
def test_sequence_is_batched(snapshots):
    run = functad.checkpoint_sequence(lambda i, y, w: np.sin(y * w) + 0.1 * i, 5, snapshots)

    def loss(y, w):
        return np.sum(run(y, w) ** 2)

    expected = [functad.grad(loss, (0, 1))(row, W) for row in ROWS]
    found = functad.vmap(functad.grad(loss, (0, 1)), in_axes=(0, None))(ROWS, W)
    np.testing.assert_allclose(found[0], [e[0] for e in expected])
    np.testing.assert_allclose(found[1], [e[1] for e in expected])
    total = functad.grad(lambda w: np.sum(functad.vmap(loss, in_axes=(0, None))(ROWS, w)))(W)
    np.testing.assert_allclose(total, sum(e[1] for e in expected))


# Primitives of the user's


def test_elementwise_primitive_needs_no_batch_rule():
    f = functad.primitive(
        lambda x, y: np.sin(x) * y, lambda g, x, y: g * np.cos(x) * y, lambda g, x: g * np.sin(x), kind="elementwise"
    )
    np.testing.assert_allclose(functad.vmap(f, in_axes=(0, None))(ROWS, W), np.sin(ROWS) * W)
    found = functad.grad(lambda w: np.sum(functad.vmap(f, in_axes=(0, None))(ROWS, w)))(W)
    np.testing.assert_allclose(found, np.sin(ROWS).sum(0))


def test_general_primitive_is_looped_with_a_warning_or_has_a_rule():
    def make(name, **options):
        return functad.primitive(lambda x: np.sum(x**2), lambda g, x: 2 * g * x, name=name, **options)

    with pytest.warns(errors.LoopWarning, match="looped has no batching rule"):
        np.testing.assert_allclose(functad.vmap(make("looped"))(ROWS), np.sum(ROWS**2, 1))
    f = make("ruled", batch=lambda size, batched, x: (np.sum(x**2, 1), True))
    np.testing.assert_allclose(functad.vmap(f)(ROWS), np.sum(ROWS**2, 1))
    np.testing.assert_allclose(functad.grad(lambda x: np.sum(functad.vmap(f)(x)))(ROWS), 2 * ROWS)
    bad = make("bad", batch=lambda size, batched, x: (np.sum(x**2, 0), True))
    with pytest.raises(errors.CustomRuleError, match="the batch rule of bad gave shape"):
        functad.vmap(bad)(ROWS)


def test_numerical_primitive_is_looped_with_a_warning_or_has_a_rule():
    def make(name, **options):
        return functad.numerical_primitive(lambda x: math.sin(float(x[0])) * float(x[1]), name=name, **options)

    expected = np.stack([np.cos(ROWS[:, 0]) * ROWS[:, 1], np.sin(ROWS[:, 0])], 1)
    with pytest.warns(errors.LoopWarning, match=r"looped_too\[approximate=central\] has no batching rule"):
        found = functad.vmap(functad.grad(make("looped_too")))(ROWS)
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    f = make("ruled", batch=lambda size, batched, x: (np.sin(x[:, 0]) * x[:, 1], True))
    np.testing.assert_allclose(functad.vmap(f)(ROWS), np.sin(ROWS[:, 0]) * ROWS[:, 1])
    np.testing.assert_allclose(functad.vmap(functad.grad(f))(ROWS), expected, rtol=1e-8)
    np.testing.assert_allclose(functad.grad(lambda x: np.sum(functad.vmap(f)(x)))(ROWS), expected, rtol=1e-8)
