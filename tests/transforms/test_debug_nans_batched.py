"""`debug_nans` in functions that are mapped over a batch: the operation, its line, and the example for which a NaN was born."""

from functools import partial

import numpy as np
import pytest

import functad
from functad.errors import NotFiniteError
from tests.transforms import births
from tests.transforms.births import message

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
assert_born = partial(births.assert_born, __file__)


def test_the_example_and_its_numbers_are_named():
    def f(x):
        y = np.log(x - 1)  # log of an example
        return y * 2

    rows = np.array([[2.0, 3.0], [4.0, 0.5], [-1.0, 5.0]])
    text = message(functad.vmap(f), rows)
    assert "The value of example 1, in vmap of test_the_example_and_its_numbers_are_named.f, called at " in text
    assert "is nan in 1 of 2 elements, first at [1] (and in 1 more of 3 examples)" in text
    assert_born(text, "log", "log of an example")
    assert "-0.5 at [1]" in text


def test_batch_axis_elsewhere():
    text = message(functad.vmap(lambda x: np.sqrt(x), in_axes=1, out_axes=1), np.array([[2.0, 1.0, -1.0]]))
    assert "The value of example 2, " in text


def test_chunks_count_on():
    f = functad.vmap(lambda x: np.sqrt(x), chunk_size=2)  # in chunks
    text = message(f, np.array([1.0, 2.0, 3.0, -4.0, 5.0]))
    assert "The value of example 3, " in text
    assert_born(text, "sqrt", "in chunks")


def test_an_operation_with_several_results():
    def f(a):
        s = np.linalg.svd(a)[1]
        return np.log(s[1] - 3)  # after svd

    text = message(functad.vmap(f), np.array([np.diag([9.0, 8.0]), np.diag([9.0, 1.0])]))
    assert "The value of example 1, " in text
    assert_born(text, "log", "after svd")


def test_constants_and_arguments():
    weights = np.array([1.0, np.nan])
    text = message(functad.vmap(lambda x: x * weights), np.ones((3, 2)))
    assert "was given to multiply at " in text
    assert " as a constant" in text
    text = message(functad.vmap(lambda x, y: x + y), np.ones(2), np.array([1.0, np.nan]))
    assert "The value of example 1" in text
    assert "is in input 1 of the function already" in text


@pytest.mark.parametrize(
    "derivative", [functad.grad, functad.jacfwd, functad.jacrev, lambda f: lambda x: functad.jvp(f, (x,), (1.0,))[1]]
)
def test_derivatives_of_examples(derivative):
    def f(x):
        return np.sqrt(x) - np.sqrt(x)  # roots of an example

    text = message(functad.vmap(derivative(f)), np.array([1.0, 2.0, 0.0]))
    assert "The value of example 2, in vmap of " in text
    assert "It was born in add" in text
    assert_born(text[text.index("The infinity among") :], "quotient, in the derivative of sqrt", "roots of an example")


def test_second_derivatives_of_examples():
    def f(x):
        return np.sum(x**1.5 - 2 * x**1.5)  # powers of an example

    text = message(functad.vmap(functad.hessian(f)), np.array([[1.0, 2.0], [0.5, 0.0]]))
    assert "The value of example 1, in vmap of " in text
    assert "It was born in add" in text
    assert f"in the derivative of power at {__file__}:" in text


def test_batches_of_batches():
    def f(x):
        return np.sqrt(x)  # twice mapped

    rows = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, -6.0]])
    text = message(functad.vmap(functad.vmap(f)), rows)
    assert "The value of example 1, " in text
    assert "is nan in 1 of 3 elements, first at [2]" in text
    assert_born(text, "sqrt", "twice mapped")


def test_under_an_outer_derivative():
    def f(x):
        return np.sqrt(x * x)  # mapped, then differentiated

    text = message(functad.strict_derivatives()(functad.grad(lambda x: np.sum(functad.vmap(f)(x)))), np.array([1.0, 0.0]))
    assert_born(text, "the derivative of multiply", "mapped, then differentiated")
    assert "nan in 1 of 2 elements, first at [1]" in text
    text = message(functad.jacobian(functad.vmap(lambda x: np.sqrt(x) - np.sqrt(x))), np.array([1.0, 0.0]))
    assert "sum of infinities of both signs" in text


def test_a_tape_looks_at_what_it_follows():
    x = functad.constant(np.array([1.0, 0.0]))
    with functad.debug_nans():
        with functad.GradientTape(persistent=True) as tape:
            tape.watch(x)
            logs = functad.vmap(lambda x: np.log(x - 0.5))(x)  # on a tape
            chosen, all_of_them = np.sum(np.where(x > 0.5, logs, 1.0)), np.sum(logs)
        assert np.array_equal(tape.gradient(chosen, x), [2.0, 0.0])
        with pytest.raises(NotFiniteError) as raised:
            tape.gradient(all_of_them, x)
    assert_born(str(raised.value), "log", "on a tape")


def test_writes():
    def f(x):
        y = np.zeros(3, like=x)
        y[0] = np.log(x)  # written for an example
        y[1:] += y[0]
        return np.sum(y[:2])

    text = message(functad.vmap(f), np.array([1.0, 2.0, -1.0]))
    assert "The value of example 2, " in text
    assert_born(text, "log", "written for an example")


def test_what_was_overwritten_or_not_chosen_is_no_error():
    def f(x):
        y = np.zeros(2, like=x)
        y[0] = np.log(x)
        y[0] = np.where(x > 0, np.sqrt(x), 2.0)
        return y

    x = np.array([4.0, -1.0])
    with functad.debug_nans():
        found = functad.vmap(f)(x)
    assert np.array_equal(found, [[2.0, 0.0], [2.0, 0.0]])
    assert np.array_equal(found, functad.vmap(f)(x))


@pytest.mark.parametrize(
    "make",
    [
        lambda f: functad.vmap(f),
        lambda f: functad.vmap(functad.grad(lambda x: np.sum(f(x)))),
        lambda f: functad.vmap(functad.jacobian(f)),
        lambda f: functad.vmap(functad.hessian(lambda x: np.sum(f(x) ** 2))),
        lambda f: functad.jacobian(functad.vmap(f)),
    ],
)
def test_same_results(make):
    def f(x):
        y = np.zeros(4, like=x)
        for i in range(3):
            y[i] = np.sin(x[i]) * x[(i + 1) % 3]
        y[1:] += np.sort(x) @ np.linalg.inv(np.eye(3) + np.outer(x, x))
        return y

    rows = np.random.default_rng(3).normal(size=(5, 3))
    with functad.debug_nans(infinities=True):
        found = make(f)(rows)
    assert np.array_equal(found, make(f)(rows))


def test_infinities_only_on_demand():
    f = functad.vmap(lambda x: np.log(x))  # infinite
    x = np.array([1.0, 0.0])
    with functad.debug_nans():
        assert np.isinf(f(x)[1])
    assert_born(message(f, x, infinities=True), "log", "infinite")


@pytest.mark.parametrize("transform", [functad.hessian_diagonal, functad.laplacian])
def test_diagonals_of_second_derivatives(transform):
    def f(x):
        return np.sum(x**1.5 - 2 * x**1.5)  # a field

    text = message(transform(f), np.array([1.0, 2.0, 0.0, 3.0, 4.0, 5.0]))
    assert "The tangent, in " in text
    assert "is nan in 1 of 6 elements, first at [2]" in text
    assert f"in the derivative of power at {__file__}:" in text


def test_rows_of_sparse_jacobians():
    def f(x):
        y = np.sqrt(x) - np.sqrt(x)  # sparse rows
        return y[1:] * x[1:] + np.sum(x[:-1].reshape(-1, 1) * np.eye(7), 1) + y[:-1]

    text = message(functad.sparse_jacobian(f), np.arange(8.0))
    assert_born(text, "the derivative of subtract", "sparse rows")
