"""Arrays of the user that a function overwrites after it used them: the right derivative or an error, never a wrong one."""

from __future__ import annotations

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
        with pytest.raises(ConstantError, match=rf"{__file__}:\d+"):
            functad.grad(f)(x)
        assert constant.flags.writeable
        assert constant.all()


def test_a_view_of_a_constant_is_frozen_with_its_owner() -> None:
    whole = np.ones((2, 5000))

    def f(x: Any) -> Any:
        y = np.sum(x * whole[0])
        whole[:] = 7.0
        return y

    with pytest.raises(ConstantError):
        functad.grad(f)(np.ones(5000))
    whole[:] = 2.0


def test_overlapping_views_of_one_array_are_thawed() -> None:
    class Labelled(np.ndarray[Any, Any]):
        """A view that NumPy does not pass over: its own views have it as their base."""

    whole = np.ones((2000, 4))
    first, second, other = whole[:, :3], whole[:, 1:], whole[:, 2:].view(Labelled)[:, :1].view(np.ndarray)

    def f(x: Any, y: Any) -> Any:
        return np.sum(x * y) + np.sum(x * other)

    by_x, by_y = functad.grad(f, argnums=(0, 1))(first, second)
    assert (by_x == 2).all()
    assert (by_y == 1).all()
    assert all(a.flags.writeable for a in (first, whole, second, other, other.base))


@pytest.mark.parametrize("inner_first", [True, False])
def test_an_array_frozen_by_two_traces_thaws_with_the_last(inner_first: bool) -> None:
    constant, x, writeable = np.ones(20_000), np.full(20_000, 0.5), []

    def inner(y: Any) -> Any:
        return np.sum(np.sin(y) * constant)

    def f(x: Any) -> Any:
        total = 0.0 if inner_first else np.sum(x * constant)
        total += np.sum(functad.grad(inner)(x * 2.0))
        if inner_first:
            writeable.append(constant.flags.writeable)
            total += np.sum(x * constant)
            functad.grad(inner)(np.ones(20_000))
        with pytest.raises(ValueError, match="read-only"):
            constant[0] = 7.0
        with pytest.raises(ValueError, match="read-only"):
            constant[:] = 7.0
        return total

    assert np.allclose(functad.grad(f)(x), 1.0 - 2.0 * np.sin(1.0))
    assert not any(writeable)
    assert constant.flags.writeable
    constant[:] = 3.0
    assert np.allclose(functad.grad(inner)(x), 3.0 * np.cos(0.5))


def _overwrite(v: Any) -> None:
    v[:] = 0.0


def _swap_rows(v: Any) -> None:
    rows = v.reshape(-1, 10)
    rows[[0, -1]] = rows[[-1, 0]]


def _reverse(v: Any) -> None:
    v[:] = v[::-1].copy()


def _touch_one(v: Any) -> None:
    v[-1] = np.nextafter(v[-1], 9.0)


WRITES = [_overwrite, _swap_rows, _reverse, _touch_one, lambda v: v.sort(), lambda v: np.random.default_rng(0).shuffle(v)]


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
        assert constant.flags.writeable
        constant[:] = kept
    assert np.array_equal(functad.vjp(f, x)[1](np.float64(1.0))[0], kept)
    constant[:], y = kept, functad.constant(x)
    with functad.GradientTape() as tape:
        tape.watch(y)
        z = f(y)
    assert np.array_equal(tape.gradient(z, y).numpy(), kept)
    assert np.array_equal(functad.grad(lambda x: np.sum(x * constant))(x), constant)  # no trace is left of it


_LARGE_WRITES = [_overwrite, _reverse, lambda v: np.multiply(v, 2, out=v), lambda v: np.random.default_rng(0).shuffle(v)]


def _write_column(v: Any) -> None:
    v.reshape(-1, 10)[:, 3] = 0.0


@pytest.mark.parametrize("write", [*_LARGE_WRITES, _write_column])
@pytest.mark.parametrize("size", [9_000, 70_000, 102_100])
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
        assert x.flags.writeable
        x[:] = kept
    with functad.GradientTape() as tape:
        tape.watch(y := functad.constant(x))
        z = f({"w": y})
    np.testing.assert_allclose(tape.gradient(z, y).numpy(), 3 * kept**2)


_CONTAINERS = [
    lambda: {"w": np.ones(10_000)},
    lambda: [(np.ones(10_000), 1.0)],
    lambda: [np.ones(20_000, np.float32), np.ones((100, 100))],
]


@pytest.mark.parametrize("make", _CONTAINERS)
def test_inputs_that_only_their_container_holds_are_not_read(make: Any, monkeypatch: Any) -> None:
    read: list[Any] = []
    monkeypatch.setattr("functad.tracing.constants._sample", lambda a, memory: read.append(a.shape) or [memory.reshape(-1)])
    f = functad.grad(lambda p: sum(np.sum(leaf) for leaf in functad.tree_leaves(p)))
    params = make()
    f(params)
    f(make())
    assert read == []  # nothing views them: that would be one more reference
    first = next(leaf for leaf in functad.tree_leaves(params) if np.ndim(leaf))
    f(params)
    assert read == [first.shape]
    view = first[:3]
    del first
    f(params)
    assert len(read) == 2
    del view
    f(params)
    assert len(read) == 2


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

    for target, message in ((constant, "read-only"), (view, "through a view")):
        with pytest.raises(ConstantError, match=message):
            functad.grad(f)(np.ones(20_000), target)
        constant[:] = 1.0


def test_an_array_made_read_only_is_trusted_and_not_read() -> None:
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


def test_a_small_input_may_be_overwritten_under_another_name() -> None:
    x = np.ones(3)
    assert _gradient_that_overwrites_its_input(x, x).tolist() == [2.0] * 3


@pytest.mark.parametrize("of", [lambda a: a, lambda a: a.reshape(40, 50).T, lambda a: a.astype(np.float32)])
def test_an_input_of_some_kilobytes_may_be_overwritten_through_an_older_view(of: Any) -> None:
    x = of(np.sin(np.arange(2_000.0)))
    assert 1 << 12 < x.nbytes <= 1 << 16
    view, kept = x[:], x.copy()

    def f(x: Any) -> Any:
        y = np.sum(x**3)
        view[...] = 7.0
        return y

    np.testing.assert_allclose(functad.grad(f)(x), 3 * kept**2, rtol=1e-6)
    assert np.all(x == 7.0)
    x[...] = kept
    tangent = functad.jvp(f, (x,), (np.ones_like(x),))[1]
    np.testing.assert_allclose(tangent, np.sum(3 * kept**2), rtol=1e-5)


@pytest.mark.parametrize("size", [255_224, 255_232, 261_368, 261_376, 1_000_005])
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


@pytest.mark.parametrize("size", [30, 20_000])
def test_another_input_may_not_be_overwritten_under_another_name(size: int) -> None:
    x = np.ones(size)
    for given in (x, x[None, ::2])[size == 30 :]:
        with pytest.raises(ConstantError, match=rf"read-only: an array was overwritten at {__file__}.* argument"):
            _gradient_that_overwrites_its_input(x, given)
        assert x.flags.writeable
        assert x.all()


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
