"""Tapes and their kind inside the function of a vmap, and vmap inside them: as a loop over the examples gives it."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad import ForwardAccumulator, GradientTape, Variable, constant, vmap
from functad.errors import AbstractValueError, EscapedTensorError
from tests.eager.taped import recorded

X = np.array([[0.5, -1.0], [2.0, 0.25], [-0.75, 1.5], [1.0, 3.0]])


def agrees_with_loop(f, *batches, rtol=1e-12):
    """Check a function of examples under vmap against a loop; what it returns is a Tensor, an array or a tuple of them."""
    found = vmap(f)(*batches)
    each = [f(*map(constant, examples)) for examples in zip(*batches, strict=True)]
    if not isinstance(found, tuple):
        found, each = (found,), [(one,) for one in each]
    for i, part in enumerate(found):
        assert type(part) is np.ndarray
        np.testing.assert_allclose(part, np.stack([np.asarray(one[i]) for one in each]), rtol=rtol, atol=1e-14)


# In the function of a vmap


@pytest.mark.parametrize("persistent", [False, True])
def test_gradients_of_a_tape(persistent):
    def f(x):
        tape, y = recorded(lambda: np.sum(np.sin(x) * x), x, persistent=persistent)
        return tape.gradient(y, x)

    agrees_with_loop(f, X)
    np.testing.assert_allclose(vmap(f)(X), np.sin(X) + X * np.cos(X), rtol=1e-12)


def test_seeds_and_unconnected_sources():
    def f(x, seed):
        other = constant([1.0, 2.0, 3.0])
        tape, y = recorded(lambda: x**3, [x, other])
        return tuple(tape.gradient(y, [x, other], output_gradients=seed, unconnected_gradients="zero"))

    agrees_with_loop(f, X, X[::-1].copy())


def test_tapes_in_tapes():
    def f(x):
        with GradientTape() as outer:
            outer.watch(x)
            inner, y = recorded(lambda: np.sum(np.sin(x) * np.sum(x * x)), x)
            g = inner.gradient(y, x)
        return outer.jacobian(g, x)

    agrees_with_loop(f, X)
    hessian = functad.hessian(lambda x: np.sum(np.sin(x) * np.sum(x * x)))
    np.testing.assert_allclose(vmap(f)(X), np.stack([hessian(x) for x in X]), rtol=1e-12)


def test_graphs():
    def f(x):
        with functad.graph():
            x = constant(x)
            y = np.sum(np.sin(x) * x**2)
            (g,) = functad.gradients(y, x)
            (h,) = functad.hessians(y, x)
        return g, h

    agrees_with_loop(f, X)


def test_variables_are_the_same_for_all_examples():
    v = Variable([1.0, 2.0])

    def f(x):
        with GradientTape() as tape:
            y = np.sum(np.sin(v * x)) * v[0]
        return tape.gradient(y, v)

    agrees_with_loop(f, X)


def test_functions_of_arguments():
    of_both = functad.gradients_function(lambda x, y: np.sum(x * y * np.sin(x)))
    agrees_with_loop(lambda x, y: tuple(of_both(x, y)), X, X[::-1].copy())
    with_value = functad.value_and_gradients_function(lambda x, y: x * y * np.sin(x), params=["y"])

    def f(x, y):
        value, (g,) = with_value(x, y, dy=x)
        return value, g

    agrees_with_loop(f, X, X[::-1].copy())


def test_functions_of_variables():
    v, w = Variable([1.0, 2.0]), Variable(0.5)
    both = functad.implicit_gradients(lambda x: np.sum(np.sin(v * x)) ** 2 * w)
    agrees_with_loop(lambda x: tuple([g for g, _ in both(x)]), X)
    assert [variable for _, variable in both(X[0])] == [v, w]
    with_value = functad.implicit_value_and_gradients(lambda x: np.sum(np.sin(v * x)) ** 2)

    def f(x):
        value, ((g, _),) = with_value(x)
        return value, g

    agrees_with_loop(f, X)


def test_pullbacks():
    def f(x, seed):
        value, pull = functad.make_vjp(lambda x: np.sin(x) * np.sum(x))(x)
        return value, pull(seed)[0], pull()[0]

    agrees_with_loop(f, X, X[::-1].copy())


def test_accumulators():
    v = Variable([1.0, 2.0])

    def f(x, t):
        with ForwardAccumulator([x, v], [t, [1.0, 0.0]]) as accumulator:
            y = np.sin(x) * np.sum(x) * v
        return accumulator.jvp(y)

    agrees_with_loop(f, X, X[::-1].copy())


def test_accumulators_with_tapes():
    def forward_over_reverse(x):
        with ForwardAccumulator(x, [1.0, 2.0]) as accumulator:
            tape, y = recorded(lambda: np.sum(np.sin(x) * np.sum(x * x)), x)
            g = tape.gradient(y, x)
        return accumulator.jvp(g)

    def reverse_over_forward(x):
        with GradientTape() as tape:
            tape.watch(x)
            with ForwardAccumulator(x, [1.0, 2.0]) as accumulator:
                y = np.sum(np.sin(x) * np.sum(x * x))
            t = accumulator.jvp(y)
        return tape.gradient(t, x)

    agrees_with_loop(forward_over_reverse, X)
    agrees_with_loop(reverse_over_forward, X)
    np.testing.assert_allclose(vmap(forward_over_reverse)(X), vmap(reverse_over_forward)(X), rtol=1e-12)


def test_gradient_functions_of_the_users():
    @functad.custom_gradient
    def square(x):
        return x * x, lambda dy: dy * 3 * x

    def f(x):
        tape, y = recorded(lambda: square(x) * x, x)
        return tape.jacobian(y, x)

    agrees_with_loop(f, X)

    @functad.recompute_grad
    def again(x):
        return np.sin(x) * np.sum(x)

    def g(x):
        tape, y = recorded(lambda: again(x) * x, x)
        return tape.gradient(y, x)

    agrees_with_loop(g, X)


def test_functions_under_transforms_under_vmap():
    def f(x):
        tape, y = recorded(lambda: np.sum(x**3), x)
        return np.sum(tape.gradient(y, x) ** 2)

    for transform in (functad.grad, functad.jacfwd, functad.hessian):
        found = vmap(transform(f))(X)
        np.testing.assert_allclose(found, np.stack([transform(f)(x) for x in X]), rtol=1e-12)


# vmap in them


def test_vmap_in_a_tape():
    x, w = constant(X), Variable([1.0, 2.0])

    def losses(each):
        tape, loss = recorded(lambda: np.sum(each() ** 2), x)
        return [g.numpy() for g in tape.gradient(loss, [x, w])]

    found = losses(lambda: vmap(lambda r: np.sum(np.sin(r)) * w)(x))
    wanted = losses(lambda: np.stack([np.sum(np.sin(r)) * w for r in x]))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_gradients_of_examples_in_a_tape():
    x, w = constant(X), Variable([1.0, 2.0])
    with GradientTape() as tape:
        tape.watch(x)
        each = vmap(functad.grad(lambda r: np.sum(np.sin(r) * w)))(x)
        total = np.sum(each)
    by_x, by_w = tape.gradient(total, [x, w])
    np.testing.assert_allclose(by_x.numpy(), -np.sin(X) * w.numpy(), rtol=1e-12)
    np.testing.assert_allclose(by_w.numpy(), np.cos(X).sum(0), rtol=1e-12)


def test_vmap_in_an_accumulator():
    x = constant(X)
    with ForwardAccumulator(x, np.ones_like(X)) as accumulator:
        y = vmap(lambda r: np.sum(np.sin(r)))(x)
    np.testing.assert_allclose(accumulator.jvp(y).numpy(), np.cos(X).sum(1), rtol=1e-12)


def test_vmap_in_the_functional_forms():
    w = Variable([1.0, 2.0])
    ((g, _),) = functad.implicit_gradients(lambda x: np.sum(vmap(lambda r: np.sum(np.sin(r * w)) ** 2)(x)))(X)
    ((h, _),) = functad.implicit_gradients(lambda x: np.sum(np.sum(np.sin(x * w), 1) ** 2))(X)
    np.testing.assert_allclose(g.numpy(), h.numpy(), rtol=1e-12)
    (g,) = functad.gradients_function(lambda x: vmap(lambda r: np.prod(r[:1]) * r[1])(x))(X)
    np.testing.assert_allclose(g.numpy(), X[:, ::-1], rtol=1e-12)


def test_vmap_in_a_graph():
    with functad.graph():
        x = constant(X)
        y = np.sum(vmap(lambda r: np.sum(np.sin(r)) ** 2)(x))
        (h,) = functad.hessians(y, x)
    reference = functad.hessian(lambda x: np.sum(np.sum(np.sin(x), 1) ** 2))(X)
    np.testing.assert_allclose(h.numpy(), reference, rtol=1e-12, atol=1e-14)


def test_a_tape_between_two_vmaps():
    def f(z):
        tape, total = recorded(lambda: np.sum(vmap(lambda r: np.sum(np.sin(r)) * r)(z) ** 2), z)
        return tape.gradient(total, z)

    agrees_with_loop(f, np.stack([X, 2 * X, X[::-1]]))


def test_tapes_outside_and_inside():
    x = constant(X)

    def row(r):
        inner, y = recorded(lambda: np.sin(r) * np.sum(r * r), r)
        return inner.jacobian(y, r)

    outer, total = recorded(lambda: np.sum(vmap(row)(x) ** 2), x)

    def reference(x):
        return np.sum(np.stack([functad.jacobian(lambda r: np.sin(r) * np.sum(r * r))(r) for r in x]) ** 2)

    np.testing.assert_allclose(outer.gradient(total, x).numpy(), functad.grad(reference)(X), rtol=1e-11)


# What tapes tell


def test_what_a_tape_holds_counts_all_examples():
    sizes = []

    def f(x):
        tape, y = recorded(lambda: np.sin(x), x)
        sizes.append(tape.stats())
        return tape.gradient(y, x)

    vmap(f)(np.ones((50, 3)))
    f(constant(np.ones(3)))
    assert sizes[0]["records"] == sizes[1]["records"] == 1
    assert sizes[0]["bytes"] == 50 * sizes[1]["bytes"] > 0


def test_explanations_compare_all_examples():
    told = []

    def f(x):
        alike, other = np.copy(x), np.copy(x) + 1
        tape, y = recorded(lambda: np.sin(x), x, persistent=True)
        told.extend([tape.explain(y, alike), tape.explain(y, other)])
        return y

    vmap(f)(np.array([1.0, 2.0, 3.0]))
    assert "of equal value" in told[0]
    assert "never watched" in told[1]


def test_lists_of_tapes_hold_the_values_of_all_examples():
    lists = []

    def f(x):
        scale = np.sum(x)
        tape, y = recorded(lambda: np.sum(np.sin(x) * scale) * scale + scale, x, lists=True)
        lists.append(tape.expressions(y, x))
        return lists[-1](2 * x)

    found = vmap(f)(X)
    scale = X.sum(1)
    np.testing.assert_allclose(found, np.sin(2 * X).sum(1) * scale**2 + scale, rtol=1e-12)
    assert "multiply" in str(lists[0])
    with pytest.raises(EscapedTensorError, match="vmap"):
        lists[0](X[0])


# Assignments


def part_of(v, x):
    v[0].assign(x[0])


def place_of(v, x):
    v[(x[0] > 0).astype(int)].assign(1.0)


@pytest.mark.parametrize(
    "assign",
    [
        lambda v, x: v.assign(x),
        lambda v, x: v.assign_add(x),
        lambda v, x: v.assign_sub(x),
        lambda v, x: v.assign(np.stack([x[0], x[1]])),
        part_of,
        place_of,
    ],
    ids=["assign", "assign_add", "assign_sub", "stack", "part", "place"],
)
def test_a_variable_cannot_hold_a_batch(assign):
    v = Variable([7.0, 8.0], name="state")
    before = v.held

    def f(x):
        assign(v, x)
        return x * 2

    with pytest.raises(AbstractValueError, match=r"test_vmap.py:\d+.* examples in vmap of"):
        vmap(f)(np.where(X > 0, X, 0.5))
    assert v.held is before
    np.testing.assert_array_equal(vmap(lambda x: x * v)(X), X * [7.0, 8.0])


def test_the_error_names_the_variable_and_the_cure():
    v = Variable(0.0, name="mean")
    with pytest.raises(AbstractValueError, match=r"'mean'.*v.assign\(np.mean\(out, axis=0\)\).*functional_call"):
        vmap(lambda x: v.assign_add(np.sum(x)))(X)
    out = vmap(np.sum)(X)
    assert float(v.assign(np.mean(out, axis=0))) == X.sum() / 4


def test_a_tape_is_as_it_was_after_a_refused_assignment():
    v = Variable([7.0, 8.0])
    with GradientTape() as tape:
        y = v * v
        with pytest.raises(AbstractValueError):
            vmap(lambda x: v.assign(x * v))(X)
        y = y + v
    assert np.array_equal(tape.gradient(y, v).numpy(), [15.0, 17.0])


def test_a_variable_is_not_made_of_a_batch():
    with pytest.raises(AbstractValueError, match=r"Variable\(\)"):
        vmap(lambda x: Variable(x) * 2)(X)


def test_abstract_values_are_refused_too():
    v = Variable([7.0, 8.0])
    with pytest.raises(AbstractValueError, match=r"without a value, float64\[2\]"):
        functad.make_expressions(lambda x: v.assign(x).read_value())(X[0])
    assert np.array_equal(v.numpy(), [7.0, 8.0])


def test_what_is_the_same_for_all_examples_can_be_assigned():
    v = Variable(0.0)

    def f(x):
        v.assign_add(3.0)
        return x * v

    np.testing.assert_array_equal(vmap(f)(X), 3 * X)
    assert float(v) == 3.0


def test_variables_made_in_the_function_are_of_the_example():
    def f(x):
        v = Variable(np.ones(2))
        with GradientTape() as tape:
            y = np.sum(v * v * x)
        return tape.gradient(y, v)

    agrees_with_loop(f, X)
