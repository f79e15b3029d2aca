"""Assignment at places that are Tensors: in traces without values, and where each example of a batch has its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functad
import functad.numpy as fnp
from functad.errors import AbstractValueError
from tests.differences import numerical_jacobian

X = np.array([[0.7, -1.2, 1.9], [0.4, 1.1, -0.8]])
PLACES = [(0, 2), (1, 0), (-1, 1)]


def one_place(x: Any, i: Any, j: Any) -> Any:
    y = x[0] * 1.0
    y[i] = y[j] ** 2 * x[1, i]
    y[j] += y[i]
    return y


def among_slices(x: Any, i: Any, j: Any) -> Any:
    y = np.zeros((4, 3), like=x)
    y[:2, i] = x[:, j] ** 2
    y[i] *= x[1]
    y[1:, j] = x[0] * x[1]
    y[i, ::-1] += x[0] ** 3
    return y


def several_places(x: Any, i: Any, j: Any) -> Any:
    y = x[0] * x[1]
    y[[0, 2]] = x[1, 1:] * y[i]
    y[i + np.array([0, 0, -1])] = x[0] ** 2 * y[j]  # of a place that is written to repeatedly, the last stays
    return y * x[0]


def added(x: Any, i: Any, j: Any) -> Any:
    y = x * x
    np.add.at(y, (0, i + np.array([0, 0])), x[1, :2] * x[0, j])
    np.add.at(y, (slice(None), j), 3 * x[0, i])
    return y


def views(x: Any, i: Any, j: Any) -> Any:
    y = x * 1.0
    row, turned, flat = y[1], y.T, y.reshape(-1)
    row[i] = x[0, j] ** 2
    turned[j] = row[:2] * x[:, i]
    flat[i + 1] = turned[i, 0] * 3
    return y * row + flat[j]


def separated(x: Any, i: Any, j: Any) -> Any:
    y = np.zeros((3, 2, 3), like=x)
    y[i, :, j] = x[:, 0] ** 2
    y[np.stack([i, j]), 1, :] += x**2
    y[i % 3, 0, np.array([0, 2])] = x[1, 1:]
    return y


def into_a_buffer(x: Any, i: Any, j: Any) -> Any:
    y = fnp.zeros(3)
    y[i] = 2.0
    y[j] = x[0, i] * x[1, j]
    return y


def parts_of_complex_numbers(x: Any, i: Any, j: Any) -> Any:
    y = x[0] * (1 + 2j)
    y.imag[i] = x[1, j] ** 2
    y.real[j] += x[0, i]
    return np.real(y * y.conj()) + y.imag


PROGRAMS = [one_place, among_slices, several_places, added, views, separated, into_a_buffer, parts_of_complex_numbers]
each_program = pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)


@each_program
def test_values(f: Any) -> None:
    """One list holds for all places, and each example of a batch has its own."""
    recorded = functad.make_expressions(f)(X, 0, 0)
    i, j = np.array(PLACES).T
    all_in_batch = functad.vmap(f)(np.stack([X, 2 * X, X]), i, j)
    one_in_batch = functad.vmap(f, in_axes=(0, None, 0))(np.stack([X, 2 * X, X]), 1, j)
    for k, (a, b) in enumerate(PLACES):
        a, b = np.intp(a), np.intp(b)
        np.testing.assert_allclose(recorded(X, a, b), f(X, a, b), rtol=1e-14)
        np.testing.assert_allclose(all_in_batch[k], f((1 + k % 2) * X, a, b), rtol=1e-14)
        np.testing.assert_allclose(one_in_batch[k], f((1 + k % 2) * X, np.intp(1), b), rtol=1e-14)


@each_program
def test_first_derivatives(f: Any) -> None:
    recorded = functad.make_expressions(f)(X, 0, 0)
    i, j = np.array(PLACES).T
    rows = [functad.vmap(d(f), in_axes=(None, 0, 0))(X, i, j) for d in (functad.jacrev, functad.jacfwd)]
    for k, (a, b) in enumerate(PLACES):
        a, b = np.intp(a), np.intp(b)
        expected = numerical_jacobian(lambda x, a=a, b=b: f(x, a, b), X)
        for d in (functad.jacrev, functad.jacfwd):
            np.testing.assert_allclose(d(recorded)(X, a, b), expected, rtol=1e-7, atol=1e-7)
            inside = functad.make_expressions(d(f))(X, 0, 0)
            np.testing.assert_allclose(inside(X, a, b), expected, rtol=1e-7, atol=1e-7)
        for found in rows:
            np.testing.assert_allclose(found[k], expected, rtol=1e-7, atol=1e-7)


@each_program
def test_second_derivatives(f: Any) -> None:
    weights = np.random.default_rng(0).normal(size=np.shape(f(X, np.intp(0), np.intp(1))))

    def total(x: Any, i: Any, j: Any) -> Any:
        return np.sum(weights * f(x, i, j) ** 2)

    recorded = functad.make_expressions(total)(X, 0, 0)
    i, j = np.array(PLACES).T
    found = functad.vmap(functad.hessian(total), in_axes=(None, 0, 0))(X, i, j)
    for k, (a, b) in enumerate(PLACES):
        gradient = functad.grad(lambda x, a=a, b=b: total(x, np.intp(a), np.intp(b)))
        expected = numerical_jacobian(gradient, X)
        np.testing.assert_allclose(found[k], expected, rtol=1e-6, atol=1e-6)
        for outer in (functad.jacrev, functad.jacfwd):
            for inner in (functad.jacrev, functad.jacfwd):
                second = outer(inner(recorded))(X, a, b)
                np.testing.assert_allclose(second, expected, rtol=1e-6, atol=1e-6)


# In loops


def filled(x: Any) -> Any:
    def body(i: Any, y: Any) -> Any:
        y[i] = np.sin(y[i - 1]) * x[i] + np.take(x, i - 1)
        return y

    return functad.fori_loop(1, 4, body, x * 2)


def scanned(x: Any) -> Any:
    def step(carry: Any, i: Any) -> Any:
        y = carry * 1.0
        y[i] += np.sum(x[i + np.arange(2)]) * y[-1 - i]
        return y, y[i]

    carry, ys = functad.scan(step, x, np.array([2, 0, 1]))
    return np.concatenate([carry, ys])


def searched(x: Any) -> Any:
    def body(state: Any) -> Any:
        i, y = state
        y[i + 1] = y[i] * y[i + 1]
        return i + 1, y

    return functad.while_loop(lambda state: state[0] < 3, body, (0, x))[1]


@pytest.mark.parametrize("f", [filled, scanned, searched])
def test_in_loops(f: Any) -> None:
    x = np.array([0.7, -1.2, 1.9, 0.4])
    recorded = functad.make_expressions(f)(x)
    assert len(recorded.equations) <= 6  # the loop is one of them
    np.testing.assert_allclose(recorded(x), f(x), rtol=1e-14)
    expected = numerical_jacobian(f, x)
    for d in (functad.jacrev, functad.jacfwd):
        np.testing.assert_allclose(d(recorded)(x), expected, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(functad.make_expressions(d(f))(x)(x), expected, rtol=1e-7, atol=1e-7)
    total = lambda x: np.sum(recorded(x) ** 2)  # noqa: E731
    np.testing.assert_allclose(functad.hessian(total)(x), numerical_jacobian(functad.grad(total), x), rtol=1e-6, atol=1e-6)
    rows = np.stack([x, 0.5 * x])
    np.testing.assert_allclose(functad.vmap(recorded)(rows), [f(row) for row in rows], rtol=1e-14)
    np.testing.assert_allclose(functad.vmap(functad.jacrev(recorded))(rows)[0], expected, rtol=1e-7, atol=1e-7)


# Masks


def test_a_number_where_a_mask_is_true() -> None:
    """With the same number everywhere no shape depends on values."""

    def f(x: Any) -> Any:
        y = x * 1.0
        y[y > 0.5] = x[0, 0]
        y[y[:, 0] < 0.5] = x[0] ** 2
        return y

    rows = np.stack([X, -X, 0.3 * X])
    np.testing.assert_array_equal(functad.vmap(f)(rows), [f(row) for row in rows])
    np.testing.assert_array_equal(functad.make_expressions(f)(X)(X), f(X))
    found = functad.vmap(functad.jacrev(f))(rows)
    for k, row in enumerate(rows):
        np.testing.assert_allclose(found[k], numerical_jacobian(f, row), rtol=1e-7, atol=1e-7)


def test_as_many_numbers_as_a_mask_is_true_at_are_refused() -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        y[y > 0.5] = np.arange(3.0)
        return y

    with pytest.raises(AbstractValueError, match=r"np\.where"):
        functad.make_expressions(f)(X[0])


# What is refused


def test_slices_between_unknown_places() -> None:
    for f in (lambda x, i: x[i : i + 2], lambda x, i: x[:, i:]):
        with pytest.raises(AbstractValueError, match=r"x\[i \+ np.arange\(n\)\]"):
            functad.make_expressions(f)(X, 1)
        with pytest.raises(AbstractValueError, match=r"x\[i \+ np.arange\(n\)\]"):
            functad.vmap(f)(np.stack([X, X]), np.array([0, 1]))


def test_shapes_and_bounds() -> None:
    def f(x: Any, i: Any) -> Any:
        y = x * 1.0
        y[i] = np.ones(2)
        return y

    with pytest.raises(ValueError, match="could not broadcast"):
        functad.make_expressions(f)(X, 1)

    def far(x: Any, i: Any) -> Any:
        y = x * 1.0
        y[i] = 0.0
        return y

    with pytest.raises(IndexError):
        functad.make_expressions(far)(X[0], 1)(X[0], 5)


def test_a_write_is_printed_with_its_place() -> None:
    assert "= place[path=() template=(i)] " in str(functad.make_expressions(one_place)(X, 0, 1))
