"""Functions that write into arrays they made: every transform of them in a tape, and a tape in every transform."""

import numpy as np
import pytest

import functad
from functad import ForwardAccumulator, GradientTape
from tests.eager.taped import taped
from tests.transforms.test_compositions import OPERATORS, SECOND_ORDER, A, X, plain, total


def overwritten(x):
    """Return what is computed of elements before and after other ones are put in their places."""
    v = np.sin(A @ x)
    s = np.sum(v)
    v[0] = x[2] * 0.5
    t = v[0] + v[1] * v[2]
    v[1] = t
    y = v + 0.1 * x
    np.multiply(v, x, out=v)
    z = v * y
    v.sort()
    np.copyto(y, z, where=np.array([True, False, True]))
    return y * v + t * x + s


def through_views(x):
    """Return what is written through views, and by loops that read what they wrote."""
    m = np.outer(x, np.cos(x))
    s = np.sum(m, axis=0)
    row = m.T[0]
    row[...] = row[::-1] * x
    m.reshape(-1)[::4] = s
    m[1:] *= x[:2, None]
    out = np.zeros_like(x)
    out[0] = x[0]
    for i in range(1, 3):
        out[i] = out[i - 1] * x[i] + m[i, 0]
    out[np.array([0, 2])] += s[1:]
    np.add.at(out, np.array([1, 1, 0]), np.sin(x))
    out[out > 0.9] = 0.25
    return out + np.sum(m * m, axis=1)


FUNCTIONS = {"overwritten": overwritten, "through views": through_views}


def _graph(f):
    def gradient(x):
        with functad.graph():
            t = functad.constant(x)
            (g,) = functad.gradients(total(f)(t), t)
        return g

    return gradient


ALL = {**OPERATORS, "graph": (_graph, OPERATORS["GradientTape"][1])}
TAPES = {"GradientTape", "gradients_function", "implicit_gradients", "ForwardAccumulator", "graph"}


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize(("outer", "inner"), [(a, b) for a in ALL for b in ALL if a in TAPES or b in TAPES])
def test_pair(outer, inner, f):
    function = ALL[inner][0](FUNCTIONS[f])
    transform, expected = ALL[outer]
    tolerance = 2e-5 if outer in SECOND_ORDER else 1e-6
    wanted = expected(lambda x: plain(function(x)))(X)
    np.testing.assert_allclose(plain(transform(function)(X)), wanted, rtol=tolerance, atol=tolerance)


def test_sum_of_what_is_overwritten_later():
    def f(x):
        v = x**3
        s = np.sum(v)
        v[0] = 2.0
        return np.sum(v * v) + s

    tape, g, (t,) = taped(lambda t: functad.grad(f)(t), [1.0, 2.0])
    np.testing.assert_allclose(g, [3, 204])
    np.testing.assert_allclose(tape.gradient(g, t), [6, 492])


@pytest.mark.parametrize("kind", [functad.constant, functad.Variable])
def test_seeds_that_are_constants(kind):
    point, seed = np.array([0.3, -0.4, 0.8]), np.array([1.0, 2.0, 0.5])
    (wanted,) = functad.vjp(overwritten, point)[1](seed)
    tape, y, (x,) = taped(overwritten, point)
    np.testing.assert_allclose(tape.gradient(y, x, output_gradients=kind(seed)), wanted)
    if kind is functad.constant:
        np.testing.assert_allclose(functad.vjp(overwritten, point)[1](kind(seed))[0], wanted)


def test_a_graph_sees_constants_that_are_first_used_as_a_model_or_by_an_accumulator():
    with functad.graph():
        x = functad.constant([1.0, 2.0])
        out = np.zeros_like(x)
        out[0] = x[1] ** 2
        (g,) = functad.gradients(out, x)
        c = functad.constant(3.0)
        with ForwardAccumulator(c, 1.0) as accumulator:
            y = c**3
        (h,) = functad.gradients(accumulator.jvp(y), c)
    np.testing.assert_allclose(g, [0, 4])
    assert float(h) == 18


def test_views_of_what_was_written_are_known_after_the_tape():
    """They are read anew when they are asked for, which the tape must still see."""
    x = functad.constant([0.3, 1.2])
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        owner = x.copy()
        view = owner.reshape(2, 1)
        row = owner[1:]
        owner[...] *= np.sin(x)
        assert row.numpy().shape == (1,)
        owner[0] = x[1]
    np.testing.assert_allclose(view.numpy()[:, 0], [1.2, 1.2 * np.sin(1.2)])
    np.testing.assert_allclose(row.numpy(), [1.2 * np.sin(1.2)])
    slope = np.sin(1.2) + 1.2 * np.cos(1.2)
    np.testing.assert_allclose(tape.gradient(view, x).numpy(), [0.0, 1.0 + slope])
    np.testing.assert_allclose(tape.gradient(row, x).numpy(), [0.0, slope])
    with ForwardAccumulator(x, [1.0, 10.0]) as accumulator:
        owner = x.copy()
        view = owner.T
        owner[...] = x * x
    np.testing.assert_allclose(accumulator.jvp(view).numpy(), [0.6, 24.0])
