"""Arrays of the user that a function overwrites after it used them: the right derivative or an error, never a wrong one.

None of them is ever written into, and none of their flags is changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import ConstantError

X = np.array([0.7, -1.2, 1.9])


@pytest.mark.parametrize("size", [3, 20_000])
def test_a_constant_may_be_overwritten_or_it_raises(size: int) -> None:
    constant = np.ones(size)

    def f(x: Any) -> Any:
        y = np.sum(x * constant)
        constant[:] = 7.0
        return y

    x = np.ones(size)
    if size < 128:
        assert functad.grad(f)(x).tolist() == [1.0] * size
    else:
        with pytest.raises(ConstantError, match=rf"{__file__}:{f.__code__.co_firstlineno + 1}"):
            functad.grad(f)(x)
    assert constant.tolist() == [7.0] * size


def test_the_owner_of_a_view_that_is_a_constant_may_not_be_overwritten() -> None:
    whole = np.ones((2, 5000))

    def f(x: Any) -> Any:
        y = np.sum(x * whole[0])
        whole[:] = 7.0
        return y

    with pytest.raises(ConstantError, match="overwritten before the function returned"):
        functad.grad(f)(np.ones(5000))
    whole[:] = 2.0
    assert functad.grad(lambda x: np.sum(x * whole[0]))(np.ones(5000)).tolist() == [2.0] * 5000


def _overwrite(v: Any) -> None:
    v[:] = 0.0


def _swap_rows(v: Any) -> None:
    rows = v.reshape(-1, 10)
    rows[[0, -1]] = rows[[-1, 0]]


def _reverse(v: Any) -> None:
    v[:] = v[::-1].copy()


def _touch_one(v: Any) -> None:
    v[-1] = np.nextafter(v[-1], 9.0)


def _swap_two(distance: int) -> Callable[[Any], None]:
    def write(v: Any) -> None:
        v[[0, min(distance, len(v) - 1)]] = v[[min(distance, len(v) - 1), 0]]

    return write


def _roll_a_row(v: Any) -> None:
    v.reshape(-1, 10)[1] = np.roll(v.reshape(-1, 10)[1], 1)


WRITES = [
    *[_overwrite, _swap_rows, _reverse, _touch_one, _roll_a_row, *map(_swap_two, (1, 508, 510, 2039))],
    *[lambda v: v.sort(), lambda v: np.random.default_rng(0).shuffle(v), lambda v: v.__setitem__(slice(None), np.roll(v, 1))],
]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("size", [2_000, 70_000])
def test_a_constant_overwritten_through_an_older_view_raises(write: Any, size: int) -> None:
    constant = np.sin(np.arange(float(size)))
    view = constant[:]

    def f(x: Any) -> Any:
        y = np.sum(x * constant)
        write(view)
        return y

    x, kept = np.ones(size), constant.copy()
    for derive in (lambda: functad.grad(f)(x), lambda: functad.jvp(f, (x,), (x,)), lambda: functad.jacobian(f)(x)):
        with pytest.raises(ConstantError, match=rf"float64\[{size}\], that was used at {__file__}:\d+ .*through a view"):
            derive()
        constant[:] = kept
    assert np.array_equal(functad.vjp(f, x)[1](np.float64(1.0))[0], kept)
    constant[:], y = kept, functad.constant(x)
    with functad.GradientTape() as tape:
        tape.watch(y)
        z = f(y)
    assert np.array_equal(tape.gradient(z, y).numpy(), kept)
    assert np.array_equal(functad.grad(lambda x: np.sum(x * constant))(x), constant)  # no trace is left of it


def _write_column(v: Any) -> None:
    v.reshape(-1, 10)[:, 3] = 0.0


@pytest.mark.parametrize("write", [*WRITES, _write_column, lambda v: np.negative(v, out=v)])
@pytest.mark.parametrize("size", [30, 1_000, 9_000, 70_000, 302_280])
def test_an_input_overwritten_through_an_older_view_raises(write: Any, size: int) -> None:
    x = np.sin(np.arange(float(size)))
    view, kept, where = x[:], x.copy(), {"w": x}

    def f(t: Any) -> Any:
        y = np.sum(t["w"] ** 3)
        write(view)
        return y

    for derive in (lambda: functad.grad(f)(where), lambda: functad.jvp(f, (where,), ({"w": kept},))):
        with pytest.raises(ConstantError, match=rf"float64\[{size}\], that it was given was overwritten .*through a view"):
            derive()
        x[:] = kept
    with functad.GradientTape() as tape:
        tape.watch(y := functad.constant(x))
        z = f({"w": y})
    np.testing.assert_allclose(tape.gradient(z, y).numpy(), 3 * kept**2)


def test_an_input_in_a_container_overwritten_through_an_older_view_raises() -> None:
    params = {"w": np.ones(10_000)}
    view = params["w"][:]

    def f(p: Any) -> Any:
        y = np.sum(p["w"] ** 3)
        view[:] = 2.0
        return y

    with pytest.raises(ConstantError, match="through a view"):
        functad.grad(f)(params)


def _strided(a: Any) -> Any:
    return a.reshape(-1, 4)[:, ::2]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.int16, bool])
@pytest.mark.parametrize("of", [np.ravel, lambda a: a.reshape(4, -1).T, lambda a: a[::-1], _strided, lambda a: a[1:]])
def test_every_layout_and_dtype_is_sealed(dtype: Any, of: Any) -> None:
    whole = (np.arange(200_000) % 2).astype(dtype)
    constant, other = of(whole), of(whole)
    x = np.ones(constant.shape)
    where = tuple([n // 3 for n in constant.shape])

    def f(x: Any) -> Any:
        y = np.sum(np.real(x * constant))
        other[where] = 1 - other[where]
        return y

    with pytest.raises(ConstantError, match="overwritten before the function returned"):
        functad.grad(f)(x)

    def g(x: Any) -> Any:
        y = np.sum(np.real(x * constant))
        other[where] = other[where]
        return y

    assert np.array_equal(functad.grad(g)(x), np.real(constant))


def test_what_lies_between_the_elements_of_a_constant_may_change() -> None:
    whole = np.ones((5000, 4))
    between = whole[:, 1]

    def f(x: Any) -> Any:
        y = np.sum(x * whole[:, ::2])
        between[:] = 7.0
        return y

    assert functad.grad(f)(np.ones((5000, 2))).all()
    windows = np.lib.stride_tricks.sliding_window_view(np.ones(20_000), 500)  # 80 MB that are 160 KB
    assert functad.grad(lambda x: np.sum(windows[:100] * x))(np.ones(500)).tolist() == [100.0] * 500


def test_a_constant_in_a_file_may_not_be_overwritten(tmp_path: Any) -> None:
    constant = np.memmap(tmp_path / "a", dtype=float, mode="w+", shape=(20_000,))
    constant[:] = 1.0
    view = constant[:]

    def f(x: Any, target: Any) -> Any:
        y = np.sum(x * constant)
        target[:] = 7.0
        return y

    for target in (constant, view):
        with pytest.raises(ConstantError, match="overwritten before the function returned"):
            functad.grad(f)(np.ones(20_000), target)
        constant[:] = 1.0


def test_a_constant_made_read_only_is_trusted_and_not_read() -> None:
    constant = np.ones(20_000)
    view = constant[:]
    constant.flags.writeable = False

    def f(x: Any) -> Any:
        y = np.sum(x * constant)
        view[0] = 7.0
        return y

    assert functad.grad(f)(np.ones(20_000))[0] == 7.0


def _gradient_that_overwrites_its_input(x: Any, given: Any) -> Any:
    def f(t: Any) -> Any:
        y = np.sum(t["w"] ** 2)
        x[:] = 7.0
        return y

    return functad.grad(f)({"w": given})["w"]


def test_no_element_of_a_large_input_is_overlooked() -> None:
    x = np.random.default_rng(0).normal(size=300_000)
    for place in (0, 1, 100_003, 250_000, -1):

        def f(t: Any, place: int = place) -> Any:
            y = np.sum(t * t)
            x[place] += 1.0
            return y

        with pytest.raises(ConstantError, match=r"that it was given was overwritten"):
            functad.grad(f)(x)


@pytest.mark.parametrize("size", [1, 30, 20_000])
def test_no_input_may_be_overwritten_under_another_name(size: int) -> None:
    x = np.ones(size)
    alternating = np.tile([0.0, 1.0], size)
    for given in (x, x[None, ::2], x[::-1], np.broadcast_to(x, (2, size)), x[:, None].T):
        with pytest.raises(ConstantError, match=r"that it was given was overwritten .* under another name"):
            _gradient_that_overwrites_its_input(x, given)
        x[:] = 1.0
    with pytest.raises(ConstantError, match=r"that it was given was overwritten"):
        _gradient_that_overwrites_its_input(x[()], x)

    def inverted(t: Any) -> Any:
        alternating[:] = 1.0 - alternating
        return np.sum(t)

    with pytest.raises(ConstantError, match=r"that it was given was overwritten"):
        functad.grad(inverted)(alternating)
    number = np.array(2.0)
    with pytest.raises(ConstantError, match=r"that it was given was overwritten"):
        functad.grad(lambda t: (number.fill(3.0), t * 1.0)[1])(number)


def test_what_is_written_into_an_input_that_is_the_same_is_no_error() -> None:
    x = np.array([np.nan, -0.0, 1.0])
    assert functad.grad(lambda t: (x.__setitem__(slice(None), x.copy()), np.sum(t[2]))[1])(x).tolist() == [0.0, 0.0, 1.0]
    x = np.array([0.0, 1.0])
    with pytest.raises(ConstantError):
        functad.grad(lambda t: (x.__setitem__(0, -0.0), np.sum(t))[1])(x)


@pytest.mark.parametrize("size", [16_311, 16_312, 16_313, 10 * 16_312 - 1, 10 * 16_312, 1_000_005])  # rows of 16,312 bytes
def test_every_byte_of_a_constant_is_sealed(size: int) -> None:
    constant = np.ones(size, np.uint8)
    other = constant[:]
    for place in (0, size // 2, size - 1):

        def f(x: Any, place: int = place) -> Any:
            y = np.sum(x * constant)
            other[place] = 2
            return y

        with pytest.raises(ConstantError, match="overwritten before the function returned"):
            functad.grad(f)(np.ones(size))
        constant[place] = 1


def test_results_that_view_an_input_may_be_written_into() -> None:
    x = np.ones((200, 100))
    value, tangent = functad.jvp(lambda x: x.T, (x,), (np.ones(x.shape),))
    value[0], tangent[0] = 7.0, 7.0
    _, aux = functad.grad(lambda x: (np.sum(x), {"first": x[0]}), has_aux=True)(x)
    aux["first"][:] = 7.0
    assert np.all(x == 1.0)


@pytest.mark.parametrize("size", [3, 20_000])
def test_a_pullback_stays_what_it_was(size: int) -> None:
    constant, x = np.ones(size), np.full(size, 0.5)
    value, pullback = functad.vjp(lambda x: np.exp(x) * constant, x)
    constant[:], x[:], kept = 7.0, 3.0, value.copy()
    value[:] = 0.0
    assert np.allclose(pullback(np.ones(size))[0], kept)


def test_masks_and_indices_may_be_overwritten() -> None:
    mask, index = np.array([True, False, True]), np.array([0, 0, 2])

    def f(x: Any) -> Any:
        y = np.sum(np.where(mask, x, 0.0)) + np.sum(x[index]) + np.sum(x[mask])
        z = x * 1.0
        z[index] = 1.0
        z[mask] = x[mask] * 2
        mask[:], index[:] = False, 1
        return y + np.sum(z)

    assert functad.grad(f)(X).tolist() == [6.0, 1.0, 5.0]
