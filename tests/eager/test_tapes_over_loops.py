"""Tapes within tapes, without values: the outer tape follows what the inner gradient reads of the steps of a loop."""

import numpy as np
import pytest

import functad
from functad.testing import check_grads

X, W = np.array([0.7, 1.3, -0.4]), np.array([[0.3, -0.5, 0.2], [0.1, 0.4, -0.6], [0.7, 0.2, 0.5]])

LOOPS = {
    "rows": lambda x: functad.scan(lambda c, row: (c, row * row * row), 0.0, x)[1],
    "carry": lambda x: functad.scan(lambda c, row: (np.sin(c * x + row), c * row), x, np.array([0.5, -1.0]))[0],
    "outer": lambda x: functad.scan(lambda c, row: (np.tanh(W @ c) * x, np.sum(c * c)), x * x, None, length=3)[1],
    "reverse": lambda x: functad.scan(lambda c, row: (c * row, np.exp(c) * row), 1.0, x, reverse=True)[1],
    "map": lambda x: functad.map(lambda row: np.sin(row) ** 2, x),
    "fori_loop": lambda x: functad.fori_loop(0, 3, lambda i, y: np.cos(y) * x, x),
    "while_loop": lambda x: functad.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, np.cos(s[1]) * x), (0, x))[1],
    "while_loop with powers": lambda x: functad.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, (x * x) ** (0.3 * s[1])), (0, x)
    )[1],
    "cond": lambda x: functad.cond(np.sum(x) > 0, lambda y: y**3, np.sin, x),
    "in a loop": lambda x: functad.scan(
        lambda c, row: functad.scan(lambda d, other: (d * np.cos(other) + row, d * d), c, x), 0.5, x
    )[1],
}


def by_tape(f):
    def gradient(x):
        source = x if isinstance(x, functad.Tensor) else functad.constant(x)
        with functad.GradientTape() as tape:
            tape.watch(source)
            y = np.sum(np.sin(f(source)))
        return tape.gradient(y, source)

    return gradient


def by_grad(f):
    return functad.grad(lambda x: np.sum(np.sin(f(x))))


@pytest.mark.parametrize("ways", ["TT", "TTT", "GTT", "TGT", "TTG"])
@pytest.mark.parametrize("name", LOOPS)
def test_nested_gradients_of_a_loop_are_those_with_values(name, ways):
    f = plain = LOOPS[name]
    for way in reversed(ways):
        f = by_tape(f) if way == "T" else by_grad(f)
        plain = by_grad(plain)
    expected = plain(X)
    np.testing.assert_allclose(functad.make_expressions(f)(X)(X), expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(functad.jit(f, backend="numpy")(X), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", LOOPS)
def test_they_are_right(name):
    compiled = functad.jit(by_tape(by_tape(LOOPS[name])), backend="numpy")
    check_grads(lambda x: np.sum(by_tape(LOOPS[name])(x) ** 2), [X], order=1)
    check_grads(by_grad(LOOPS[name]), [X], order=1)
    np.testing.assert_allclose(compiled(X), by_grad(by_grad(LOOPS[name]))(X), rtol=1e-9, atol=1e-11)
