"""Functions that are traced once: a list for each set of constants, and calls of the function where no list can hold."""

import numpy as np
import pytest

import functad
from functad.implicit.traced_once import TracedOnce

RNG = np.random.default_rng(5)
X = np.arange(1.0, 4.0)


def test_a_list_holds_for_the_constants_it_was_made_with():
    once = TracedOnce("f", lambda x, n, w: [x * n + w[0]])
    x, w = np.ones(2), np.array([5])
    assert once(x, 2, w)[0].tolist() == [7.0, 7.0]
    assert once(x, 3, w)[0].tolist() == [8.0, 8.0]
    assert once(x, 3, np.array([6]))[0].tolist() == [9.0, 9.0]
    assert once(np.ones(3), 3, w)[0].tolist() == [8.0, 8.0, 8.0]


def test_tensors_go_to_the_function_itself():
    once = TracedOnce("f", lambda x: [np.sin(x) ** 2])
    once(1.0)
    assert functad.grad(lambda x: once(x)[0])(0.3) == pytest.approx(np.sin(0.6))
    assert functad.make_expressions(lambda x: once(x)[0])(0.3)(0.3) == np.sin(0.3) ** 2


def test_right_hand_side_that_draws_is_called_at_each_step():
    once = TracedOnce("f", lambda x: [x * RNG.random()])
    assert once(X)[0][0] != once(X)[0][0]
