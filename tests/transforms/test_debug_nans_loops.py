"""`debug_nans` where a program reads and writes an array element by element: costs, and NaN that are followed through that."""

from __future__ import annotations

import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pytest

import functad
from functad import tree_flatten
from functad.errors import NotFiniteError
from functad.testing import draw_program
from tests.transforms.births import message
from tests.work import work

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


# Costs

COUNT = 80


def _read(x: Any, n: int) -> Any:
    total = 0.0
    for i in range(n):
        total = total + x[i] * x[i]
    return total


def _written(x: Any, n: int) -> Any:
    y = np.zeros_like(x)
    y[0] = 0.5
    for i in range(1, n):
        y[i] = 0.5
        y[i] = y[i - 1] * 0.5 + x[i]
    return y[n - 1]


def _rows(x: Any, n: int) -> Any:
    y = np.zeros((len(x), 2), like=x)
    for i in range(1, n):
        before = y[i - 1]
        y[i] = np.sin(before) + x[i]
    return y[n - 1].sum()


def _added(x: Any, n: int) -> Any:
    y = np.zeros_like(x)
    for i in range(n):
        np.add.at(y, [i, i], x[i])
    return y[n - 1] * y[0]


LOOPS = [_read, _written, _rows, _added]


def _gradient(f: Any, x: Any, n: int) -> None:
    functad.grad(lambda x: f(x, n))(x)


def _tangent(f: Any, x: Any, n: int) -> None:
    functad.jvp(lambda x: f(x, n), (x,), (x,))


@pytest.mark.parametrize("derive", [_gradient, _tangent])
@pytest.mark.parametrize("f", LOOPS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("bad", [False, True], ids=["finite", "nan"])
def test_memory_is_linear_in_the_number_of_elements(f: Any, derive: Any, bad: bool) -> None:
    """Were an array kept for each element read or written, there would be more than eighty of them."""
    x = np.full(300_000, 0.5)
    tracemalloc.start()
    with functad.debug_nans():
        if bad:
            with pytest.raises(NotFiniteError, match="was born in sqrt"):
                derive(lambda x, n: f(np.sqrt(x - 1.0), n), x, COUNT)
        else:
            derive(f, x, COUNT)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * x.nbytes


def test_the_cotangent_of_an_element_costs_the_same_in_a_large_array() -> None:
    """Were one as large as the array made for each element, there would be `COUNT` of them."""
    found = []
    for size in (200, 2_000_000):
        x = np.full(size, 0.5)
        with functad.debug_nans():
            found.append(work(partial(_gradient, _read, x, COUNT)))
    assert found[1].calls < 1.1 * found[0].calls
    assert found[1].allocated < found[0].allocated + 8 * x.nbytes


def test_gradients_are_those_without_it() -> None:
    x = np.linspace(0.1, 0.9, 6)
    for f in LOOPS:
        expected = functad.grad(lambda x, f=f: f(x, 6))(x)
        tangent = functad.jvp(lambda x, f=f: f(x, 6), (x,), (x**2,))
        second = functad.jacobian(functad.grad(lambda x, f=f: f(x, 6)))(x)
        with functad.debug_nans():
            np.testing.assert_allclose(functad.grad(lambda x, f=f: f(x, 6))(x), expected, rtol=1e-12)
            np.testing.assert_allclose(functad.jvp(lambda x, f=f: f(x, 6), (x,), (x**2,)), tangent, rtol=1e-12)
            np.testing.assert_allclose(
                functad.jacobian(functad.grad(lambda x, f=f: f(x, 6)))(x), second, rtol=1e-12, atol=1e-14
            )


def test_random_programs_that_write_have_the_same_derivatives() -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        program = draw_program(lambda n, rng=rng: int(rng.integers(n)), mutation=True)
        g = functad.tree_map(np.ones_like, program(*program.inputs))

        def derivatives(program: Any = program, g: Any = g) -> list[Any]:
            def first(*xs: Any) -> Any:
                return functad.vjp(program, *xs)[1](g)

            firsts, second = functad.vjp(first, *program.inputs)
            tangents = functad.jvp(program, program.inputs, program.inputs)
            return tree_flatten((firsts, second(tuple(program.inputs)), tangents))[0]

        expected = derivatives()
        with functad.debug_nans():
            found = derivatives()
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=str(program))


# What is found

X = np.array([0.5, 2.0, 3.0])
DERIVATIVES = [lambda f: functad.grad(f)(X), lambda f: functad.jvp(f, (X,), (np.ones(3),))]
both = pytest.mark.parametrize("derive", DERIVATIVES, ids=["grad", "jvp"])


def _filled(x: Any, element: Any) -> Any:
    y = np.zeros((2, 3), like=x)
    turned = y.T
    for i in range(3):
        turned[i, 1] = element(x[i], i)
        y[0, i] = y[1, i] * 2.0
    y[1, 0] = 1.0
    return y


@both
def test_a_value_born_before_it_was_written(derive: Any) -> None:
    text = message(lambda: derive(lambda x: np.sum(_filled(x, lambda v, i: np.log(v - 1.0)))))
    assert "was born in log at " in text
    assert "x = -0.5; the result = nan" in text


@both
def test_a_value_that_was_overwritten_is_no_error(derive: Any) -> None:
    def f(x: Any) -> Any:
        y = _filled(x, lambda v, i: np.log(v - 1.0) if i == 0 else v)
        y[0, 0] = x[1]
        return np.sum(y)

    with functad.debug_nans():
        found = derive(f)
    assert np.all(np.isfinite(found))
    np.testing.assert_array_equal(found, derive(f))


@both
def test_a_constant_that_was_written(derive: Any) -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        y[1] = np.nan
        y[0] = 2.0
        return np.sum(y)

    assert "was given to write at " in (text := message(lambda: derive(f)))
    assert "as a constant" in text
    assert "= nan. Look where that was computed" in text


@both
def test_what_was_there_before_the_first_write(derive: Any) -> None:
    def f(x: Any) -> Any:
        y = np.full_like(x, np.nan)
        y[0], y[1] = x[0], x[1]
        return np.sum(y)

    text = message(lambda: derive(f))
    assert "is nan" in text

    def g(x: Any) -> Any:
        x[0] = 1.0
        return np.sum(x)

    text = message(lambda: functad.grad(g)(np.array([np.nan, np.nan, 1.0])))
    assert "is in input 0 of the function already" in text


@both
def test_a_sum_that_is_born_in_adding_to_an_element(derive: Any) -> None:
    def f(x: Any) -> Any:
        y = x * np.array([np.inf, 1.0, 1.0])
        y[1] = 4.0
        np.add.at(y, [0, 1], x[:2] * np.array([-np.inf, 1.0]))
        y[2] = 5.0
        return np.sum(y)

    text = message(lambda: derive(f))
    assert "was born in add" in text
    assert "the result = float64[3] (3 to 6, 1 not finite)" in text


@both
def test_a_derivative_born_behind_reading_and_writing(derive: Any) -> None:
    def f(x: Any) -> Any:
        y = _filled(x, lambda v, i: v * v)
        z = np.zeros_like(x)
        for i in range(3):
            z[i] = np.sqrt(y[0, i] - y[0, 1]) * 0.0 if i == 1 else y[1, i]
        return np.sum(z * z)

    with functad.strict_derivatives():
        text = message(lambda: derive(f))
    assert "The derivative" in text or "The tangent" in text
    assert "was born in the derivative of " in text
    assert "sqrt at " in text


def test_cotangents_that_were_handed_in() -> None:
    def f(x: Any) -> Any:
        y = np.zeros_like(x)
        for i in range(3):
            y[i] = x[2 - i]
        return y

    with functad.debug_nans():
        _, pullback = functad.vjp(f, X)
        pullback(np.ones(3))
        with pytest.raises(NotFiniteError, match=r"first at \[0\]\. It was handed in with the cotangent"):
            pullback(np.array([1.0, 1.0, np.nan]))
        with pytest.raises(NotFiniteError, match=r"first at \[0\]\. It was handed in with the tangent"):
            functad.jvp(f, (X,), (np.array([1.0, 1.0, np.nan]),))


def test_infinities_of_both_signs_that_meet_where_elements_were_read() -> None:
    def f(x: Any) -> Any:
        y = np.zeros_like(x)
        y[0] = np.sqrt(x[0] - 0.5)
        y[1] = -np.sqrt(x[0] - 0.5)
        return np.sum(y)

    with functad.strict_derivatives():
        text = message(lambda: functad.grad(f)(X))
    assert "is a sum of infinities of both signs, of which one was born in the derivative of sqrt at " in text
