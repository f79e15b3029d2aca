"""`assert_differentiable`: what it draws, what it finds, and what it says of it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st

import functad
from functad.errors import InputError, NothingComparedError, WrongDerivativeError
from functad.testing import assert_differentiable
from functad.testing.strategies import arrays


def smooth(x: npt.NDArray[np.float64], scale: float, *, power: int = 2):
    return np.sum(np.sin(x) * scale) ** power


def test_arguments_are_drawn_by_strategy_by_example_and_by_annotation():
    assert_differentiable(smooth, st.tuples(arrays(shape=(2, 3)), st.floats(0.5, 2.0)), max_examples=5)
    assert_differentiable(lambda x: np.tanh(x), arrays(np.complex128, (2,)), max_examples=5)
    assert_differentiable(smooth, max_examples=5)
    shapes = set()

    def seen(tree, count):
        shapes.add((np.shape(tree["w"]), tree["w"].dtype, count))
        return np.sum(np.exp(tree["w"])) * tree["b"] + count

    assert_differentiable(seen, example=({"w": np.zeros(3, np.float32), "b": 1.0}, 4), max_examples=3, checks=["differences"])
    assert {(shape, count) for shape, _, count in shapes} == {((3,), 4)}


def test_functions_that_branch_and_have_kinks_pass():
    assert_differentiable(lambda x: np.sum(np.abs(x)) if x[0] > 0 else np.sum(x**2), arrays(shape=(3,)), max_examples=20)


def test_a_wrong_rule_is_told_with_the_smallest_arguments_and_the_line():
    def forgetful(x):
        return np.sum(np.where(x > 1.0, x * functad.stop_gradient(x), x))

    place = rf"forgetful \(test_differentiable\.py:{forgetful.__code__.co_firstlineno}\)"
    with pytest.raises(WrongDerivativeError, match=f"{place} with the arguments") as wrong:
        assert_differentiable(forgetful, arrays(shape=(2,)), max_examples=100)
    assert wrong.value.order == 1
    assert "array([" in str(wrong.value)


def test_each_check_finds_what_it_is_for():
    @functad.custom_vjp
    def half_a_rule(x):
        return np.sin(x)

    half_a_rule.defvjp(lambda x: (np.sin(x), x), lambda x, g: (g * np.cos(x),))
    half_a_rule.defjvp(lambda primals, tangents: (np.sin(primals[0]), 2.0 * tangents[0] * np.cos(primals[0])))
    with pytest.raises(WrongDerivativeError, match="the modes disagree"):
        assert_differentiable(half_a_rule, example=(np.zeros(2),), checks=["modes"], max_examples=5)

    batched = functad.primitive(
        lambda x: np.sin(x), lambda g, x: g * np.cos(x), name="batched", batch=lambda size, flags, x: (np.cos(x), True)
    )
    with pytest.raises(WrongDerivativeError, match="vmap changes"):
        assert_differentiable(batched, example=(np.zeros(2),), checks=["vmap"], max_examples=5)

    mixed = functad.primitive(
        lambda x: np.sin(x), lambda g, x: g * np.cos(x), name="mixed", batch=lambda size, flags, x: (np.sin(x[::-1]), True)
    )
    with pytest.raises(WrongDerivativeError, match="vmap changes"):
        assert_differentiable(mixed, example=(np.array([0.3, 0.7]),), checks=["vmap"], max_examples=5)

    calls = []

    def counting(x):
        calls.append(x)
        return x * float(len(calls))

    with pytest.raises(WrongDerivativeError, match="jit changes"):
        assert_differentiable(counting, example=(1.0,), checks=["jit"], max_examples=1)


def test_what_it_cannot_check_is_said():
    with pytest.raises(NothingComparedError, match="at 3 points: each lies at a kink"):
        assert_differentiable(np.linalg.norm, st.just(np.zeros(3)), max_examples=3)
    with pytest.raises(InputError, match="nothing says what 'x' is like"):
        assert_differentiable(lambda x: x)
    with pytest.raises(InputError, match="a tuple for a strategy"):
        assert_differentiable(np.sin, (1.0,))
    with pytest.raises(InputError, match="checks are some of"):
        assert_differentiable(np.sin, example=(1.0,), checks=["speed"])
