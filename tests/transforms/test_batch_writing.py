"""Writing under `vmap`: every program gives what a loop over the examples gives, and so do its derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import AbstractValueError

SIZE = 4


def _element(x: Any, y: Any) -> Any:
    t = x * 1.0
    t[1, 2] = y[0]
    return t


def _row(x: Any, y: Any) -> Any:
    t = x * 1.0
    t[0] = y
    t[1] = 2.0
    return t


def _slice(x: Any, y: Any) -> Any:
    t = x * 2.0
    t[:, 1:] = y[:2] * 3
    return t


def _mask_known(x: Any, y: Any) -> Any:
    t = x * 1.0
    t[np.array([[True, False, True], [False, True, False]])] = y
    return t


def _repeated(x: Any, y: Any) -> Any:
    t = x * 1.0
    t[:, np.array([2, 0, 2])] = y
    return t


def _separated(x: Any, y: Any) -> Any:
    t = np.zeros((2, 3, 2), like=x) + x[:, :, None]
    t[np.array([0, 1]), :, np.array([1, 0])] = y
    return t


def _leading_axes(x: Any, y: Any) -> Any:
    t = x * 1.0
    t[0] = y.reshape(1, 1, 3)
    return t


def _buffer(x: Any, y: Any) -> Any:
    t = np.zeros_like(x)
    for i in range(2):
        t[i] = x[1 - i] * y
    return t


def _plain_buffer(x: Any, y: Any) -> Any:
    t = np.zeros((2, 3), like=y)
    t[1] = y
    return t


def _through_views(x: Any, y: Any) -> Any:
    t = x * 1.0
    t.T[1] = y[:2]
    t.reshape(6)[4:] = 7.0
    t[1][0] = y[2]
    return t


def _view_sees_write(x: Any, y: Any) -> Any:
    t = x * 1.0
    column, flat = t[:, 1], t.ravel()
    t[0] = y
    return column * 2 + flat[1:3] + t[0, 0]


def _transposed_flat(x: Any, y: Any) -> Any:
    t = x * 1.0
    v = t.T.reshape(6)
    v[2:5] = y
    return t + v.sum()


def _augmented(x: Any, y: Any) -> Any:
    t = x * 1.0
    t += y
    t[0] *= 2.0
    t[:, 1] -= y[:2]
    return t


def _add_at(x: Any, y: Any) -> Any:
    t = x[0] * 1.0
    np.add.at(t, np.array([0, 2, 0]), y)
    np.add.at(t, np.array([[0], [1]]), y[:1])
    return t


def _fill(x: Any, y: Any) -> Any:
    t = x * 1.0
    t[1].fill(y[0])
    return t


def _functions(x: Any, y: Any) -> Any:
    t = x * 1.0
    np.put(t, [0, 4], y[:2])
    np.copyto(t[1], y)
    np.fill_diagonal(t, y[1])
    return t


def _into_out(x: Any, y: Any) -> Any:
    t = np.zeros_like(x)
    np.multiply(x, y, out=t)
    return t


def _sorted_in_place(x: Any, y: Any) -> Any:
    t = x * y
    t.sort()
    return t


def _at_batched_index(x: Any, y: Any) -> Any:
    return np.where(np.arange(3) == np.argmax(y), 0.0, x) + x[0][np.argsort(y)]


PROGRAMS = [
    _element, _row, _slice, _mask_known, _repeated, _separated, _leading_axes, _buffer, _plain_buffer, _through_views,
    _view_sees_write, _transposed_flat, _augmented, _add_at, _fill, _functions, _into_out, _sorted_in_place, _at_batched_index,
]  # fmt: skip


def _inputs() -> tuple[Any, Any]:
    generator = np.random.default_rng(3)
    return generator.normal(size=(SIZE, 2, 3)), generator.normal(size=(SIZE, 3))


def _compare(f: Callable[..., Any], axes: tuple[Any, Any]) -> None:
    xs, ys = _inputs()
    x, y = xs if axes[0] == 0 else xs[0], ys if axes[1] == 0 else ys[0]
    found = functad.vmap(f, in_axes=axes)(x, y)
    for i in range(SIZE):
        np.testing.assert_allclose(found[i], f(xs[i] if axes[0] == 0 else x, ys[i] if axes[1] == 0 else y), rtol=1e-13)


def _plain(program: Callable[..., Any]) -> Callable[..., Any]:
    """Return a program that takes arrays too: `like=` and views of them are those of a Tensor then."""
    return lambda x, y: functad.vjp(program, x, y)[0]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
def test_value(program: Callable[..., Any], axes: tuple[Any, Any]) -> None:
    _compare(_plain(program), axes)
    if axes == (0, 0):
        np.testing.assert_allclose(functad.vmap(program)(*_inputs()), functad.vmap(_plain(program))(*_inputs()))


@pytest.mark.parametrize("program", PROGRAMS)
def test_derivatives(program: Callable[..., Any]) -> None:
    def loss(x: Any, y: Any) -> Any:
        out = program(x, y)
        return (out * np.cos(np.arange(float(out.size))).reshape(out.shape) * out).sum()

    def pulled(x: Any, y: Any) -> Any:
        return np.concatenate([g.ravel() for g in functad.grad(loss, argnums=(0, 1))(x, y)])

    for axes in ((0, 0), (0, None), (None, 0)):
        _compare(pulled, axes)
        _compare(lambda x, y: functad.jvp(loss, (x, y), (x * 0 + 0.3, y * 0 - 0.7))[1], axes)
    xs, ys = _inputs()
    outer = functad.grad(lambda x, y: functad.vmap(loss)(x, y).sum(), argnums=(0, 1))(xs, ys)
    for i in range(SIZE):
        for found, expected in zip(outer, functad.grad(loss, argnums=(0, 1))(xs[i], ys[i]), strict=True):
            np.testing.assert_allclose(found[i], expected, rtol=1e-12, atol=1e-12)


def test_nested() -> None:
    xs, ys = _inputs()
    for program in PROGRAMS:
        f = _plain(program)
        found = functad.vmap(functad.vmap(program, (None, 0)), (0, None))(xs, ys)
        for i in range(SIZE):
            for j in range(SIZE):
                np.testing.assert_allclose(found[i, j], f(xs[i], ys[j]), rtol=1e-13)


def test_arguments_stay_what_they_are() -> None:
    xs, ys = _inputs()
    before = xs.copy()

    def program(x: Any, y: Any) -> Any:
        x[0] = y
        return x

    found = functad.vmap(program)(xs, ys)
    np.testing.assert_array_equal(xs, before)
    np.testing.assert_array_equal(found[:, 0], ys)
    np.testing.assert_array_equal(found[:, 1], xs[:, 1])


def test_a_plain_array_takes_no_batched_value() -> None:
    def program(x: Any) -> Any:
        t = np.zeros(3)
        t[0] = x
        return t

    with pytest.raises(AbstractValueError, match="zeros"):
        functad.vmap(program)(np.ones(2))


@pytest.mark.parametrize("in_axes", [0, 1, 2, -1])
def test_diagonal_of_a_reshaped_argument_that_is_written_to(in_axes: int) -> None:
    def f(x: Any) -> Any:
        d = np.diag(x.reshape(2, -1))
        x[0, 0] = 0.5
        return d

    a = np.arange(12.0).reshape(2, 2, 3) / 10
    examples = np.moveaxis(a, in_axes, 0)
    assert np.array_equal(functad.vmap(f, in_axes=in_axes)(a), [f(example.copy()) for example in examples])
