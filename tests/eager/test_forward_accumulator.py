"""`ForwardAccumulator`: tangents, the structures they are given in, nesting, and mixing with tapes."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import functad
from functad import ForwardAccumulator, GradientTape, errors
from functad.testing import central_difference
from tests.eager.taped import recorded


class Pair(NamedTuple):
    left: Any
    right: Any


def along(f, x, t):
    """Return the derivative of an analytic function in a direction, by a complex step."""
    return np.imag(f(x + 1e-30j * t)) / 1e-30


def test_tangent_of_a_program(rng):
    values, t = rng.normal(size=(3, 2)), rng.normal(size=(3, 2))

    def f(x):
        return np.sum(np.exp(x) * np.sin(x @ np.ones((2, 2))), axis=0)

    x = functad.constant(values)
    with ForwardAccumulator(x, t) as accumulator:
        y = f(x)
        inside = accumulator.jvp(y)
    assert np.allclose(accumulator.jvp(y).numpy(), along(f, values, t), rtol=1e-13)
    assert np.array_equal(inside.numpy(), accumulator.jvp(y).numpy())
    assert accumulator.jvp(y).dtype == np.float64


def test_structures():
    a, b, v = functad.constant(2.0), functad.constant([1.0, 2.0]), functad.Variable(3.0)
    with ForwardAccumulator({"p": Pair(a, b), "v": [v]}, {"p": Pair(1.0, [10.0, 20.0]), "v": [100.0]}) as accumulator:
        y = {"s": a * v, "t": (b * v, b * a)}
    found = accumulator.jvp(y)
    assert float(found["s"]) == 3 + 200
    assert np.array_equal(found["t"][0].numpy(), [30 + 100, 60 + 200])
    assert np.array_equal(found["t"][1].numpy(), [20 + 1, 40 + 2])


MISMATCHED = {
    "length": (lambda x, z: ([x, z], [1.0]), ValueError, "list of 2, not a list of 1"),
    "types": (lambda x, z: ([x, z], (1.0, 1.0)), TypeError, "list .* tuple"),
    "keys": (lambda x, z: ({"a": x}, {"b": 1.0}), ValueError, "'a' is missing, 'b' is none of them"),
    "twice": (lambda x, z: ([x, x], [1.0, 1.0]), ValueError, "twice"),
    "shape": (lambda x, z: (x, [1.0, 2.0]), ValueError, r"tangents has shape \(2,\), and its primal \(\)"),
    "scalar-for-vector": (lambda x, z: (z, 1.0), ValueError, r"shape \(\), and its primal \(2,\)"),
    "complex": (lambda x, z: (x, 1j), ValueError, "complex"),
    "none": (lambda x, z: (x, None), ValueError, "None"),
    "none-inside": (lambda x, z: ([x, z], [1.0, None]), ValueError, "None"),
    "primal-none": (lambda x, z: (None, 1.0), TypeError, "primals is None"),
    "primal-float": (lambda x, z: (3.0, 1.0), TypeError, "primals is a float"),
}


@pytest.mark.parametrize("case", MISMATCHED)
def test_primals_and_tangents_must_match(case):
    make, kind, text = MISMATCHED[case]
    with pytest.raises(kind, match=text):
        ForwardAccumulator(*make(functad.constant(3.0), functad.constant([1.0, 2.0])))


@pytest.mark.parametrize(
    "t", [1, True, 1.0, np.float32(1), np.int8(1), functad.constant(1.0), functad.Variable(1.0), np.ones(())]
)
def test_tangents_are_converted_to_the_dtype_of_the_primal(t):
    x = functad.constant(3.0, dtype=np.float32)
    with ForwardAccumulator(x, t) as accumulator:
        y = x * x
    assert float(accumulator.jvp(y)) == 6
    assert accumulator.jvp(y).dtype == np.float32
    assert accumulator.jvp(x).dtype == np.float32


def test_tangent_of_the_primal_itself_needs_no_context():
    x, v = functad.constant(3.0), functad.Variable(2.0)
    accumulator = ForwardAccumulator([x, v], [5.0, 7.0])
    assert [float(t) for t in accumulator.jvp([x, v])] == [5, 7]


def test_operations_outside_the_context_do_not_count():
    x = functad.constant(3.0)
    before = x * x
    with ForwardAccumulator(x, 1.0) as accumulator:
        y = x * before
    after = y * x
    assert float(accumulator.jvp(y)) == 9
    for outside in (before, after):
        assert accumulator.jvp(outside) is None
        assert float(accumulator.jvp(outside, unconnected_gradients="zero")) == 0
    assert float(accumulator.jvp(after, functad.UnconnectedGradients.ZERO)) == 0


def test_requests_that_are_refused():
    x = functad.constant(3.0)
    with ForwardAccumulator(x, 1.0) as accumulator:
        y = x * x
    with pytest.raises(ValueError, match="unconnected_gradients"):
        accumulator.jvp(y, unconnected_gradients="ZERO")
    with pytest.raises(TypeError, match="the argument of jvp is None"):
        accumulator.jvp(None)
    with pytest.raises(TypeError, match="the argument of jvp is a float"):
        accumulator.jvp(3.0)
    assert float(accumulator.jvp(y)) == 6


def test_entering_twice_and_again():
    x = functad.constant(3.0)
    with ForwardAccumulator(x, 1.0) as accumulator:
        y = x * x
        with pytest.raises(errors.TapeStateError, match="recording already"), accumulator:
            pass
    z = y * x
    with accumulator:
        w = y * x
    assert accumulator.jvp(z) is None
    assert float(accumulator.jvp(w)) == 27


def test_integers_are_left_out_with_a_warning():
    n, x = functad.constant(3), functad.constant(2.0)
    with pytest.warns(RuntimeWarning, match="no derivative"):
        accumulator = ForwardAccumulator([n, x], [1, 1.0])
    with accumulator:
        y, m = n * x, np.floor(x)
    assert float(accumulator.jvp(y)) == 3
    assert accumulator.jvp(m) is None
    assert accumulator.jvp(n) is None


@pytest.mark.parametrize("f", [lambda x: x > 1.0, lambda x: x.astype(int), np.argsort])
def test_results_that_are_no_floats_have_no_tangent(f):
    x = functad.constant([2.0, 1.0])
    with ForwardAccumulator(x, np.ones(2)) as accumulator:
        y = f(x)
    assert accumulator.jvp(y) is None
    assert accumulator.jvp([y, x])[0] is None
    assert accumulator.jvp(y, "zero").dtype == y.dtype


@pytest.mark.parametrize("t", ["a", object(), np.datetime64("2020-01-01"), np.timedelta64(1, "D"), np.array(1.0, object)])
def test_tangents_without_numbers_are_refused(t):
    with pytest.raises(TypeError, match=r"tangents is a .* give numbers"):
        ForwardAccumulator(functad.constant(3.0), t)


def test_masked_tangents_are_refused():
    with pytest.raises(functad.errors.InputError, match="masked array"):
        ForwardAccumulator(functad.constant([1.0, 2.0]), np.ma.masked_array([1.0, 2.0], [False, True]))


@pytest.mark.parametrize("trainable", [True, False])
def test_variables(trainable):
    v = functad.Variable([1.0, 2.0], trainable=trainable)
    with ForwardAccumulator(v, [1.0, 10.0]) as accumulator:
        y = np.sum(v * v)
        v.assign([5.0, 5.0])
        z = np.sum(v * 2.0)
    assert float(accumulator.jvp(y)) == 2 + 40
    assert accumulator.jvp(z) is None  # the assignment broke the chain


def test_nested_accumulators():
    x = functad.constant(3.0)
    with ForwardAccumulator(x, 1.0) as outer, ForwardAccumulator(x, 1.0) as inner:
        y = x**3
    assert float(outer.jvp(inner.jvp(y))) == 18
    assert float(inner.jvp(y)) == float(outer.jvp(y)) == 27
    t = outer.jvp(y)
    assert inner.jvp(t) is None


def test_three_nested_accumulators_in_the_context():
    x = functad.constant(0.4)
    with (
        ForwardAccumulator(x, 1.0) as first,
        ForwardAccumulator(x, 1.0) as second,
        ForwardAccumulator(x, 1.0) as third,
    ):
        y = np.sin(x) * np.exp(x)
        found = first.jvp(second.jvp(third.jvp(y)))
    exact = 2 * np.exp(0.4) * (np.cos(0.4) - np.sin(0.4))
    assert found.numpy() == pytest.approx(exact)


def test_forward_over_reverse(rng):
    values, t = rng.normal(size=4), rng.normal(size=4)

    def f(x):
        return np.sum(np.sin(x) * x[::-1] ** 2)

    x = functad.constant(values)
    with ForwardAccumulator(x, t) as accumulator:
        tape, y = recorded(lambda: f(x), x)
        g = tape.gradient(y, x)
    gradient = functad.grad(f)
    expected = central_difference(lambda x: [gradient(x)], [values], [t])[0]
    assert np.allclose(accumulator.jvp(g).numpy(), expected, rtol=1e-7, atol=1e-8)


def test_reverse_over_forward(rng):
    values, t = rng.normal(size=4), rng.normal(size=4)

    def f(x):
        return np.sum(np.sin(x) * x[::-1] ** 2)

    x = functad.constant(values)
    with GradientTape() as tape:
        tape.watch(x)
        with ForwardAccumulator(x, t) as accumulator:
            y = f(x)
        product = accumulator.jvp(y)
    gradient = functad.grad(f)
    expected = central_difference(lambda x: [gradient(x)], [values], [t])[0]
    assert np.allclose(tape.gradient(product, x).numpy(), expected, rtol=1e-7, atol=1e-8)


def test_jvp_inside_the_accumulator_inside_a_tape():
    x = functad.constant(3.0)
    with GradientTape() as tape:
        tape.watch(x)
        with ForwardAccumulator(x, 1.0) as accumulator:
            y = x**3
            t = accumulator.jvp(y)
    assert float(tape.gradient(t, x)) == 18


def test_product_with_the_hessian_of_variables(rng):
    v = functad.Variable(rng.normal(size=3))
    t = rng.normal(size=3)
    with ForwardAccumulator(v, t) as accumulator:
        with GradientTape() as tape:
            y = np.sum(v**3) * v[0]
        g = tape.gradient(y, v)
    gradient = functad.grad(lambda v: np.sum(v**3) * v[0])
    expected = central_difference(lambda x: [gradient(x)], [v.numpy()], [t])[0]
    assert np.allclose(accumulator.jvp(g).numpy(), expected, rtol=1e-7, atol=1e-8)


def test_tangents_are_differentiable():
    x, s = functad.constant(3.0), functad.constant(2.0)
    with GradientTape() as tape:
        tape.watch(s)
        with ForwardAccumulator(x, s) as accumulator:
            y = x**3
        t = accumulator.jvp(y)
    assert float(t) == 54
    assert float(tape.gradient(t, s)) == 27


def test_stop_gradient_has_no_tangent():
    x = functad.constant(3.0)
    with ForwardAccumulator(x, 1.0) as accumulator:
        y = functad.stop_gradient(x * x)
        z = y * x
    assert accumulator.jvp(y) is None
    assert float(accumulator.jvp(z)) == 9


def test_functions_with_rules_of_their_own():
    @functad.custom_gradient
    def squared(x):
        return x * x, lambda dy: dy * 100.0

    x = functad.constant(3.0)
    with ForwardAccumulator(x, 1.0) as accumulator:
        y = squared(x)
        z = functad.recompute_grad(lambda a: a**3)(x)
    assert float(accumulator.jvp(y)) == 100  # one rule in both modes; TensorFlow takes that of the body, 6, in this one
    assert float(accumulator.jvp(z)) == 27


def test_complex_tangents():
    z = functad.constant(1 + 2j)
    with ForwardAccumulator(z, 1j) as accumulator:
        y = z * z
        m = np.real(y)
    assert accumulator.jvp(y).numpy() == 2j * (1 + 2j)
    assert float(accumulator.jvp(m)) == -4


def test_accumulators_left_in_any_order():
    x = functad.constant(3.0)
    first, second = ForwardAccumulator(x, 1.0), ForwardAccumulator(x, 2.0)
    first.__enter__()
    second.__enter__()
    y = x * x
    first.__exit__(None, None, None)
    z = y * x
    second.__exit__(None, None, None)
    assert float(first.jvp(y)) == 6
    assert first.jvp(z) is None
    assert float(second.jvp(y)) == 12
    assert float(second.jvp(z)) == 54
