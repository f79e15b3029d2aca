"""What random nests of transforms have found, each in the fewest lines."""

import numpy as np
import pytest

import functad
from functad.errors import UnsupportedError
from functad.testing import check_grads

F_ORDER = np.asfortranarray(np.array([[1.9, -1.1], [-1.8, -1.3], [1.4, 0.3]]))


@pytest.mark.parametrize("f", [np.sin, lambda x: x.copy(), lambda x: x * 2.0])
@pytest.mark.parametrize("around", [functad.checkpoint, lambda f: with_rules(f)], ids=["checkpoint", "custom_vjp"])
def test_a_graph_follows_lists_with_calls_of_their_own(f, around):
    listed = functad.make_expressions(around(f))(np.ones(3))
    x = np.array([0.3, -0.2, 0.7])
    with functad.graph():
        source = functad.constant(x)
        (found,) = functad.gradients(np.sum(np.sin(listed(source))), [source])
    np.testing.assert_allclose(found.numpy(), functad.grad(lambda x: np.sum(np.sin(f(x))))(x), rtol=1e-12)


def with_rules(f):
    ruled = functad.custom_vjp(f)
    ruled.defvjp(lambda x: functad.vjp(f, x), lambda pullback, g: pullback(g))
    return ruled


def test_a_graph_within_a_transform_leaves_the_flags_of_its_arguments():
    def f(x):
        with functad.graph():
            return functad.gradients_function(lambda y: np.sum(y * y))(x)[0]

    x = np.flip(np.array([1.0, 2.0]))
    functad.jvp(f, (x,), (np.ones(2),))
    assert x.flags.writeable


def filled(x):
    b = x * 1.0
    b.ravel("F").fill(1.0)
    return b


BODIES = {
    "checkpoint": lambda x: functad.checkpoint(filled)(x),
    "checkpoint of a gradient": lambda x: functad.checkpoint(functad.grad(lambda x: np.sum(np.sin(filled(x)))))(x),
    "cond": lambda x: functad.cond(np.sum(x) > -100, filled, filled, x),
    "carry": lambda x: functad.scan(lambda c, row: (filled(c), row), x, np.ones(2))[0],
    "rows": lambda x: functad.scan(lambda c, row: (c, filled(row)), 0.0, np.stack([x, x]))[1],
    "fori_loop": lambda x: functad.fori_loop(0, 2, lambda i, c: filled(c), x),
    "while_loop": lambda x: functad.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, filled(s[1])), (0, x))[1],
    "custom_vjp": lambda x: with_rules(filled)(x),
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("transform", [lambda f: functad.make_expressions(f)(F_ORDER), functad.jit], ids=["list", "jit"])
def test_bodies_know_that_what_they_are_given_does_not_lie_in_c_order(transform, name):
    """As outside of them, what is written through `ravel` then is not written to a copy in silence."""
    expected = BODIES[name](F_ORDER)
    try:
        found = transform(BODIES[name])(F_ORDER)
    except UnsupportedError as error:
        found = expected if "view or a copy" in str(error) else None
    np.testing.assert_array_equal(found, expected)


def test_bodies_may_write_through_views_of_what_lies_in_c_order():
    def halved(c):
        b = c * 1.0
        b.ravel()[0] *= 0.5
        return b

    x = np.ones((2, 3))
    step = lambda c, row: (halved(c), row)  # noqa: E731
    found = functad.jit(lambda x: functad.scan(step, x, np.ones(3))[0])(x)
    assert found[0, 0] == 0.125


def test_second_derivatives_by_the_period_of_a_batch():
    def f(x):
        return np.sum(np.unwrap(np.stack([x, 3.0 * x, 7.0 * x]), axis=0, period=np.mean(x)) ** 2)

    rows = np.array([[0.9, 0.7], [0.5, 1.2]])
    check_grads(functad.vmap(functad.grad(f)), [rows], order=1)
    np.testing.assert_allclose(functad.vmap(functad.grad(f))(rows), [functad.grad(f)(row) for row in rows], rtol=1e-12)
