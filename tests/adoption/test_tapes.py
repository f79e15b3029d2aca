"""Adopted code that fills arrays of its own with Tensors, under tapes and in the functions of the eager style."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
import functad.numpy as adopted

X = np.array([1.0, 2.0, 3.0])


def filled(x: Any) -> Any:
    """Fill arrays element by element, as code of others does."""
    out, like, rest = adopted.zeros(3), adopted.zeros_like(np.ones(3)), adopted.full(3, 1.0)
    for i in range(3):
        out[i] = x[i] ** 2 * (i + 1)
    like[0] = x[0]
    rest[1] *= x[1]
    plain = np.asarray(adopted.ones(3))  # what depends on nothing is handed to compiled code
    return np.sum(out) + np.sum(like) + np.sum(rest) + np.sum(plain) * float(adopted.zeros(()) + 1.0)


def by_tape(x: Any) -> Any:
    """Differentiate by a tape."""
    source = functad.constant(x)
    with functad.GradientTape() as tape:
        tape.watch(source)
        value = filled(source)
    return tape.gradient(value, source)


def by_variable(x: Any) -> Any:
    """Differentiate by a Variable, within two tapes of which the inner one closes first."""
    v = functad.Variable(x)
    with functad.GradientTape() as outer:
        with functad.GradientTape() as inner:
            first = filled(v)
        inner.gradient(first, v)
        value = filled(v)
    return outer.gradient(value, v)


def out_of_order(x: Any) -> Any:
    """Open a second tape, and close the first before it."""
    v = functad.Variable(x)
    first, second = functad.GradientTape(), functad.GradientTape()
    first.__enter__()
    v * 2.0
    second.__enter__()
    first.__exit__(None, None, None)
    value = filled(v)
    second.__exit__(None, None, None)
    return second.gradient(value, v)


def by_accumulator(x: Any) -> Any:
    """Push one tangent after the other forward."""
    source, rows = functad.constant(x), []
    for tangent in np.eye(3):
        with functad.ForwardAccumulator(source, tangent) as accumulator:
            value = filled(source)
        rows.append(accumulator.jvp(value).numpy())
    return np.array(rows)


def implicitly(x: Any) -> Any:
    """Differentiate by what is read."""
    v = functad.Variable(x)
    ((found, _),) = functad.implicit_gradients(lambda: filled(v))()
    return found


STYLES: dict[str, Callable[[Any], Any]] = {
    "GradientTape": by_tape,
    "Variable in two tapes": by_variable,
    "tapes that close out of order": out_of_order,
    "ForwardAccumulator": by_accumulator,
    "gradients_function": lambda x: functad.gradients_function(filled)(x)[0],
    "implicit_gradients": implicitly,
    "recompute_grad": lambda x: functad.gradients_function(functad.recompute_grad(filled))(x)[0],
    "grad of recompute_grad": functad.grad(functad.recompute_grad(filled)),
    "jit of a tape": functad.jit(by_tape),
}


@pytest.mark.parametrize("name", STYLES)
def test_gradients_are_those_of_grad(name: str) -> None:
    expected = functad.grad(filled)(X)
    np.testing.assert_allclose(np.asarray(STYLES[name](X)), expected, rtol=1e-14)


def test_second_derivatives() -> None:
    def along(x: Any) -> Any:
        return np.sum(by_tape(x) * np.array([1.0, -2.0, 0.5]))

    expected = np.array([2.0, 4.0, 6.0]) * [1.0, -2.0, 0.5]
    np.testing.assert_allclose(functad.grad(along)(X), expected)
    v = functad.Variable(X)
    with functad.GradientTape() as outer:
        with functad.GradientTape() as inner:
            value = filled(v)
        slope = np.sum(inner.gradient(value, v) * np.array([1.0, -2.0, 0.5]))
    np.testing.assert_allclose(outer.gradient(slope, v).numpy(), expected)


def test_arrays_are_plain_again_when_the_tape_has_closed() -> None:
    with functad.GradientTape() as tape:
        assert type(adopted.zeros(2)) is functad.Tensor
        with tape.stop_recording():
            assert type(adopted.zeros(2)) is np.ndarray
        assert type(adopted.zeros(2)) is functad.Tensor
    assert type(adopted.zeros(2)) is np.ndarray
    with pytest.raises(ZeroDivisionError), functad.GradientTape():
        raise ZeroDivisionError
    assert type(adopted.zeros(2)) is np.ndarray
    functad.grad(lambda x: by_tape(X)[0] + x)(1.0)
    assert type(adopted.zeros(2)) is np.ndarray


def test_a_compiled_object_is_compiled_once_however_many_tapes_are_open() -> None:
    class Model:
        def __call__(self, x: Any) -> Any:
            return np.sum(x * x)

    compiled: Any = functad.jit(Model())
    v = functad.Variable(X)
    for _ in range(3):
        with functad.GradientTape() as tape:
            value = compiled(v)
        np.testing.assert_allclose(tape.gradient(value, v).numpy(), 2 * X)
    assert compiled.cache_info().misses == 1


def test_a_variable_is_written_into_a_tensor() -> None:
    v = functad.Variable(X)
    with functad.GradientTape() as tape:
        out = np.zeros(3, like=v * 1.0)
        out[1] = v[0]
        out[::2] = v[1:]
        value = np.sum(out * X)
    np.testing.assert_allclose(tape.gradient(value, v).numpy(), [2.0, 1.0, 3.0])
