"""Assignment to Tensors: what it does to values, derivatives, other Tensors, and to what was there before."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
import functad.numpy as fnp
from functad.errors import ConversionError, EscapedTensorError, UnsupportedError
from functad.testing import check_grads

X = np.array([0.7, -1.2, 1.9])


def _slots(x: Any) -> Any:
    y = np.zeros((2, 3), like=x)
    y[0] = x
    y[1, ::2] = x[1:] ** 2
    y[:, 1] += x[0]
    y[y > 1.0] *= 0.5
    return y


def _views(x: Any) -> Any:
    y = np.zeros_like(x, shape=(2, 3))
    row, column, flat = y[1], y.T[2], y.reshape(-1)
    row[...] = np.sin(x)
    column += x[:2]
    flat[0] = row[2] * column[0]
    return y * row


def _functions(x: Any) -> Any:
    y = x * 1.0
    z = np.zeros((3, 3), like=x)
    np.copyto(z, x, where=np.array([True, False, True]))
    np.fill_diagonal(z, y)
    np.put_along_axis(z, np.array([[0], [1], [0]]), x[:, None] ** 2, 1)
    np.add.at(z, ([0, 0], [1, 1]), x[:2])
    np.multiply.at(z, (0, [1, 1]), x[1:])
    np.put(y, [0, -1], x[:2] * 3)
    np.place(y, [False, True, False], x[2])
    np.putmask(z, z == 0, x)
    y.sort()
    return z @ y


def _outs(x: Any) -> Any:
    y = np.empty_like(x)
    assert np.multiply(x, 2.0, out=y) is y
    np.sin(y, out=y, where=np.array([True, False, True]))
    total = np.zeros((), like=x)
    np.sum(x * y, out=total)
    y -= total
    y **= 2
    y.fill(y[0] * x[1])
    return np.stack([y, np.cumsum(x, out=np.zeros(3, like=x))])


def _loop(x: Any) -> Any:
    y = np.zeros((4, 3), like=x)
    y[0] = x
    for i in range(1, 4):
        before = y[i - 1]
        y[i] = np.sin(before) * x[::-1]
    return y


def _list(x: Any) -> Any:
    y = fnp.zeros(4)
    y[1:] = [x[0], 2.0, x[1] * x[2]]
    return fnp.array([y, fnp.full(4, x[0])]) * fnp.linspace(x[0], x[1], 4)


def _parts(x: Any) -> Any:
    y = np.stack([x, np.sin(x), x * x])
    y[1:] -= x
    y[:, ::-1][0, :2] *= x[:2]
    part = y[:2]
    y[:2] = part
    y[:2] = y[1:]
    part[0] = x
    y[1:] = part
    rows = y.T
    rows[1:] += rows[:-1] * 0.5
    return y


PROGRAMS = [_slots, _views, _functions, _outs, _loop, _list, _parts]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_values_and_derivatives(f: Any) -> None:
    plain = f(X)
    value, _ = functad.vjp(f, X)
    assert np.array_equal(value, plain)
    check_grads(f, (X,), order=2)


@pytest.mark.parametrize("f", [_views, _outs, _loop, _list, _parts], ids=lambda f: f.__name__)
def test_expression_lists(f: Any) -> None:
    expressions = functad.make_expressions(f)(X).check()
    assert np.array_equal(expressions(X), f(X))
    other = X * 0.7
    assert np.array_equal(expressions(other), f(other))


def test_a_write_prints() -> None:
    def f(x: Any) -> Any:
        y = x * 2.0
        y[1:] = 0.5
        return y

    assert "b:float64[3] = write[path=() index=1:] a 0.5" in str(functad.make_expressions(f)(X))


def test_an_operation_in_place_on_a_part_is_one_write() -> None:
    """Python assigns the part to itself at the end of `y[1:] -= x`."""

    def f(x: Any) -> Any:
        y = np.sin(x)
        y[1:] -= x[:2]
        y[0, ...] *= 2.0
        return y

    names = [equation.primitive.name for equation in functad.make_expressions(f)(X).equations]
    assert names.count("write") == 2
    assert names.count("getitem") == 3

    def locked(x: Any) -> None:
        y = np.broadcast_to(x, (2, 3))
        y[1:] = y[1:]

    with pytest.raises(ValueError, match="read-only"):
        functad.make_expressions(locked)(X)


def test_arguments_of_the_user_are_left_alone() -> None:
    x = X.copy()

    def f(x: Any) -> Any:
        x[0] = 5.0
        x *= 2.0
        return np.sum(x**2)

    assert functad.grad(f)(x).tolist() == [0.0, 8 * X[1], 8 * X[2]]
    assert np.array_equal(x, X)


def test_numbers_are_not_written_to() -> None:
    def f(x: Any) -> Any:
        first = total = x[0]
        total += x[1]
        return first * total

    assert np.allclose(functad.grad(f)(X), [2 * X[0] + X[1], X[0], 0.0])
    with pytest.raises(TypeError, match="does not support item assignment"):
        functad.grad(lambda x: x[0].__setitem__((), 1.0))(X)


def test_inner_transforms() -> None:
    def f(x: Any) -> Any:
        def g(y: Any) -> Any:
            work = fnp.zeros_like(x)  # belongs to the outer trace, if there is one, until something of this one is written
            work[0] = y * x[1]
            work[1:] = x[1:] * y**2
            return np.sum(work**2)

        return functad.grad(g)(x[0])

    check_grads(f, (X,), order=2)


def test_what_was_written_in_an_inner_transform_does_not_get_out() -> None:
    def f(x: Any) -> Any:
        work = np.zeros_like(x)

        def g(y: Any) -> Any:
            work[0] = y
            return y * y

        return functad.grad(g)(x[0]) + np.sum(work)

    with pytest.raises(EscapedTensorError, match="g"):
        functad.grad(f)(X)


def test_outer_tensors_that_an_inner_trace_used_may_change() -> None:
    def f(x: Any) -> Any:
        scale = x * 1.0

        def g(y: Any) -> Any:
            out = y * scale[0] + np.sum(np.sin(scale) * y)
            scale[:] = 0.0
            return out

        return functad.grad(g)(2.0)

    assert functad.grad(f)(X)[1] == pytest.approx(np.cos(X[1]))


def test_the_old_value_may_be_a_result() -> None:
    def f(x: Any) -> Any:
        y = x * 2.0
        value, _, before = functad.vjp(lambda y: (np.sum(y), y), y, has_aux=True)
        y[0] = 0.0
        return value, before, y

    values, tangents = functad.jvp(f, (X,), (np.ones(3),))
    assert values[1].tolist() == (2 * X).tolist()
    assert [np.array(t).tolist() for t in tangents] == [6.0, [2.0, 2.0, 2.0], [0.0, 2.0, 2.0]]


# What cannot be


def test_what_does_not_fit_raises_and_changes_nothing() -> None:
    def f(x: Any) -> Any:
        y = x * 2.0
        for wrong in (lambda: y.__setitem__(5, 1.0), lambda: y.__setitem__(slice(2), x), lambda: y.__iadd__(np.ones((2, 3)))):
            with pytest.raises((IndexError, ValueError)):
                wrong()
        single = x.astype(np.float32)
        with pytest.raises(TypeError, match="same_kind"):
            single *= 1j
        return np.sum(y) + np.sum(single)

    assert functad.grad(f)(X).tolist() == [3.0, 3.0, 3.0]


def test_integers_and_plain_arrays_take_no_tensors() -> None:
    plain = np.zeros(3)

    def writes_integers(x: Any) -> Any:
        np.zeros_like(x, dtype=int)[0] = x[0]

    for f in (writes_integers, lambda x: np.copyto(plain, x), lambda x: np.add.at(plain, [0], x[:1])):
        with pytest.raises(ConversionError, match=rf"{__file__}:\d+"):
            functad.grad(f)(X)
    with pytest.raises((ConversionError, UnsupportedError), match="out="):
        functad.grad(lambda x: np.add(x, 1.0, out=plain))(X)
    assert not plain.any()


# functad.numpy


def test_numpy_outside_of_a_trace_is_numpy() -> None:
    for name in ("zeros", "ones", "empty"):
        assert type(getattr(fnp, name)(3)) is np.ndarray
    assert fnp.sin == np.sin
    assert isinstance(fnp.sin, np.ufunc)
    assert fnp.geterr is np.geterr
    assert fnp.linalg.LinAlgError is np.linalg.LinAlgError
    assert fnp.random is np.random
    assert "fft" in dir(fnp)
    with pytest.raises(AttributeError):
        fnp.no_such_function  # noqa: B018


def test_numpy_inside_of_a_trace() -> None:
    kinds = []

    def f(x: Any) -> Any:
        kinds.extend(
            type(made) for made in (fnp.zeros(2), fnp.arange(3.0), fnp.asarray([1.0]), fnp.arange(3), fnp.ones(2, int))
        )
        return np.sum(fnp.array([[x[0], 1.0], [2, x[1]]]))

    assert functad.grad(f)(X).tolist() == [1.0, 1.0, 0.0]
    assert kinds == [functad.Tensor, functad.Tensor, functad.Tensor, np.ndarray, np.ndarray]


# Costs

SCRIPT = """
import sys, tracemalloc
import numpy as np
import functad

def fill(x):
    y = np.zeros_like(x)
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = y[i - 1] * 0.5 + x[i]
    return np.sum(y)

def rows(x):
    y = np.zeros((len(x), 2), like=x)
    for i in range(1, len(x)):
        before = y[i - 1]
        y[i] = np.sin(before) + x[i]
    return np.sum(y)

for f in (fill, rows):
    peaks = []
    functad.grad(f)(np.linspace(0.0, 1.0, 10))
    for n in (750, 3000):
        x = np.linspace(0.0, 1.0, n)
        tracemalloc.start()
        functad.grad(f)(x)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 6 * peaks[0], (f, peaks)
"""


def test_memory_is_linear_in_the_number_of_writes() -> None:
    """An array kept for each write would be 16 times as much for four times as many."""
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)


def test_arrays_without_axes_stay_arrays():
    """NumPy's operators give numbers for them, but in place they write into the array."""

    def f(x: Any) -> Any:
        total = np.zeros((), like=x)
        view = total[...]
        for v in x:
            total += v
            total[...] = total * 1.5
            np.add(total, v, out=total)
        total **= 2
        return total + view

    np.testing.assert_allclose(functad.vjp(f, X)[0], f(X))
    check_grads(f, (X,), order=2)


@pytest.mark.parametrize("run", [lambda f, x: functad.vjp(f, x)[0], lambda f, x: functad.make_expressions(f)(x)(x)])
def test_casting_is_taken_without_a_dtype(run):
    def f(x):
        mask = x > 0.2
        np.logical_not(mask, out=mask, casting="unsafe")
        y = np.multiply(x, 2.0, casting="safe")
        np.add(y, 1.0, out=y, casting="no")
        return np.where(mask, y, 0.0)

    x = np.array([0.1, 0.3])
    np.testing.assert_array_equal(run(f, x), f(x))


def test_put_takes_places_in_few_bits():
    def f(x):
        y = np.tile(x, 100)
        np.put(y, np.array([1, -1], np.int8), 9.0)
        return y

    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(functad.vjp(f, x)[0], f(x))
    with pytest.raises(TypeError):
        functad.vjp(lambda x: np.put(x * 1.0, np.array([0.5]), 9.0), x)


def test_what_cannot_be_written_into_is_refused_with_a_cure():
    def into_a_number(x):
        y = x.copy()
        np.put(y[0], [0], 3.0)  # NumPy writes into a copy of the number
        return np.sum(y)

    def into_zeros(x):
        y = x.copy()
        np.add.at(y.imag, [0], 3.0)
        return np.sum(y)

    with pytest.raises(functad.errors.UnsupportedError, match="writes into a copy"):
        functad.grad(into_a_number)(np.ones(2))
    with pytest.raises(functad.errors.AssignmentError, match=r"read-only.*Write into a copy"):
        functad.grad(into_zeros)(np.ones(2))


def test_filling_a_number_does_nothing_as_in_numpy():
    def f(x):
        y = x * 3.0
        y.fill(5.0)
        (x[None] * y)[-1].fill(-1.0)
        return y * x

    assert f(np.float64(2.0)) == 12.0
    assert functad.grad(f)(np.float64(2.0)) == 12.0


@pytest.mark.parametrize("transform", [functad.grad, functad.vmap, functad.make_expressions, functad.jit])
def test_a_broadcast_array_is_read_only_in_its_own_shape_too(transform: Callable[..., Any]) -> None:
    def f(x: Any) -> Any:
        np.broadcast_to(x, x.shape)[0] = 2.0
        return np.sum(x)

    with pytest.raises(ValueError, match="read-only"):
        f(np.ones(3))
    with pytest.raises(ValueError, match="read-only"):
        transform(f)(np.ones((2, 3)) if transform is functad.vmap else np.ones(3))


@pytest.mark.parametrize("count", [10, 2000])
@pytest.mark.parametrize("column", [3, -4])
@pytest.mark.parametrize("write", [np.add.at, np.subtract.at])
def test_repeated_writes_out_of_bounds_raise(write: Any, column: int, count: int) -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        write(y, (np.zeros(count, int), np.full(count, column)), np.ones(count) * x[0, 0])
        return np.sum(y * y)

    x = np.ones((2, 3))
    for derive in (functad.grad(f), lambda x: functad.jvp(f, (x,), (x,)), functad.jit(f), functad.make_expressions(f)):
        with pytest.raises(IndexError, match="out of bounds"):
            derive(x)
