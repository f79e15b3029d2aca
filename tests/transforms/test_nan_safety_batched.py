"""Zeros that are no coincidence stay zeros where many rows, or the examples of a vmap, are pulled back at once."""

from __future__ import annotations

import numpy as np
import pytest

import functad

POINTS = np.array([0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, 1e308, 1e-320])
FUNCTIONS = [np.tanh, np.arctanh, np.cbrt, np.arcsin, np.tan, np.log, np.sqrt]


def by_tape(f, x):
    t = functad.constant(x)
    with functad.GradientTape() as tape:
        tape.watch(t)
        y = f(t)
    return tape.jacobian(y, t)


WAYS = {
    "jacrev": lambda f, x: functad.jacrev(f)(x),
    "jacfwd": lambda f, x: functad.jacfwd(f)(x),
    "vmap": lambda f, x: functad.vmap(lambda seed: functad.vjp(f, x)[1](seed)[0])(np.eye(len(x))),
    "tape": by_tape,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_unselected_values_have_no_second_derivative(function, way):
    def masked(x):
        return np.where(np.zeros(len(x), bool), function(x), 0.0)

    with np.errstate(all="ignore"):
        assert not np.any(WAYS[way](masked, POINTS))
        assert not np.any(functad.grad(lambda x: np.sum(WAYS[way](masked, x)))(POINTS))
        batch = np.stack([POINTS, POINTS[::-1]])
        assert not np.any(functad.vmap(functad.grad(lambda x: np.sum(WAYS[way](masked, x))))(batch))


@pytest.mark.parametrize("outer", ["grad", "tape", "graph"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_the_gradient_of_a_tape_tells_the_traces_around(function, outer):
    def slopes(x):
        with functad.GradientTape() as tape:
            tape.watch(x)
            y = np.where(np.zeros(x.shape, bool), function(x), 0.0)
        return tape.gradient(y, x)

    x = functad.constant(POINTS)
    with np.errstate(all="ignore"):
        if outer == "grad":
            g = functad.grad(lambda x: np.sum(slopes(functad.constant(x))))(POINTS)
        elif outer == "tape":
            with functad.GradientTape() as around:
                around.watch(x)
                total = np.sum(slopes(x))
            g = around.gradient(total, x, unconnected_gradients="zero").numpy()
        else:
            with functad.graph():
                (first,) = functad.gradients(np.where(np.zeros(x.shape, bool), function(x), 0.0), x)
                (second,) = functad.gradients(first, x, unconnected_gradients="zero")
            g = second.numpy()
    assert not np.any(g)
