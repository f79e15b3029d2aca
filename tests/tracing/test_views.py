"""What is a view of a Tensor is what NumPy makes a view of an array, and what is none is a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functad
from functad.primitives.entry import ENTRIES
from functad.testing import Call, calls, every_entry
from functad.tracing.trace import Recorded
from functad.tracing.views import memory_of, origin_of
from tests.entries import label

PUBLIC = [
    entry
    for entry in every_entry()
    if ENTRIES.get(entry.function) is entry and entry.status in ("primitive", "composite") and not entry.in_place
]


def _is_view(a: Any, p: Any) -> bool:
    """Say whether an array or a Tensor shares the memory of another; numbers have none."""
    if isinstance(a, Recorded):
        return origin_of(a)[0] is p and p.shape != ()
    return isinstance(a, np.ndarray) and isinstance(p, np.ndarray) and a.size > 0 and np.shares_memory(a, p)


def _views(call: Call, primals: tuple[Any, ...]) -> list[list[bool]]:
    """Say for each result, and each input, whether the one is a view of the other."""
    return [[getattr(a, "size", 0) > 0 and _is_view(a, p) for a in call.arrays(*primals)] for p in primals]


@pytest.mark.parametrize("entry", PUBLIC, ids=label)
def test_results_of_functions(entry: Any) -> None:
    for call in calls(entry, np.float64):
        found: list[Any] = []
        functad.vjp(lambda *primals, call=call, found=found: found.append(_views(call, primals)) or (), *call.primals)
        assert found == [_views(call, tuple(call.primals))], call


CORNERS = (
    """
np.roll(a,0)|np.repeat(a,1,axis=0)|np.tile(a,1)|np.pad(a,0)|np.append(a,[])|np.concatenate([a])|np.stack([a])|np.hstack([a])
np.block(a)|np.insert(a,0,[])|np.delete(a,[])|np.resize(a,a.shape)|np.sort(a[:1],axis=0)|np.clip(a,-9,9)|np.round(a)
np.cumsum(a[:1],axis=0)|np.maximum.accumulate(a[:1])|np.logaddexp.accumulate(a[:1])|np.logaddexp.reduce(a[:1])|np.sum(a,axis=())
np.max(a,axis=())|np.nan_to_num(a)|np.nan_to_num(a,copy=False)|np.atleast_3d(a)|np.take(a,0,axis=0)|np.compress([True],a,axis=0)
np.diff(a,n=0)|np.broadcast_arrays(a)[0]|np.array_split(a,1)[0]|np.rot90(np.atleast_2d(a),4)|np.rot90(np.atleast_2d(a))
np.ravel(a)|np.ravel(a,'F')|np.ravel(a[::2])|a[::2].reshape(-1)|a.T.reshape(-1)|a.T.ravel()|np.reshape(a,-1,order='F')|np.real(a)
np.conj(a)|+a|np.copy(a)|a.copy()|a.astype(float)|a.astype(float,copy=False)|a.flatten()|a.view()|np.asarray(a,like=a)
np.array(a,like=a)|np.diagonal(np.atleast_2d(a))|np.einsum('...i->...i',a)|np.einsum('...i->i...',a)|np.flip(a,())|a[...]|a[()]
a[None]|a[[0]]|a[0:1]|np.apply_along_axis(lambda r:r,0,a)|np.fft.fftshift(a,axes=())|np.trim_zeros(a.ravel())|np.squeeze(a)
a.conj()|a.conjugate()|a.astype(float,order='F',copy=False)|a.astype(float,order='C',copy=False)|np.asarray(a,order='F',like=a)
np.asarray(a.T,order='F',like=a)|np.asarray(a.T,order='C',like=a)|np.ascontiguousarray(a.T,like=a)|np.asfortranarray(a,like=a)
np.require(a,requirements='F',like=a)|np.array(a,order='F',copy=None,like=a)|a.ravel('K')|a.T.ravel('K')|a.T.ravel('A')
a.reshape(-1,order='A')|a.T.reshape(-1,order='A')|a[::-1].ravel('K')|a.flatten('K')|np.broadcast_to(a,(2,*a.shape)).ravel('K')
np.lib.stride_tricks.sliding_window_view(a,1,axis=0)|np.where(True,a,a)|a.swapaxes(0,0)|a.diagonal() if a.ndim>1 else a
""".strip()
    .replace("\n", "|")
    .split("|")
)


@pytest.mark.parametrize("call", CORNERS)
@pytest.mark.parametrize("shape", [(2, 3), (3,), (1,)], ids=str)
def test_calls_that_change_nothing(call: str, shape: tuple[int, ...]) -> None:
    code = compile(call, "call", "eval")
    x = 1.0 + np.arange(6.0)[: np.prod(shape)].reshape(shape)
    expected = _is_view(eval(code, {"np": np, "a": x}), x)
    found: list[bool] = []

    def f(a: Any) -> Any:
        found.append(_is_view(eval(code, {"np": np, "a": a}), a))
        return np.sum(a)

    functad.grad(f)(x)
    assert found == [expected]


def test_read_only_views_follow_what_they_view() -> None:
    def f(x: Any) -> Any:
        a = x * 1.0
        diagonal, windows = np.diagonal(a), np.lib.stride_tricks.sliding_window_view(a, 2, axis=1)
        a[0] *= 3.0
        with pytest.raises(ValueError, match="read-only"):
            diagonal[0] = 1.0
        with pytest.raises(ValueError, match="read-only"):
            np.broadcast_to(a, (2, *a.shape))[0] = 1.0
        return np.sum(diagonal) + np.sum(windows)

    x = np.arange(1.0, 7.0).reshape(2, 3)
    assert functad.grad(f)(x).tolist() == [[6.0, 6.0, 3.0], [1.0, 3.0, 1.0]]
    assert f(x) == pytest.approx(np.sum(functad.grad(f)(x) * x))


@pytest.mark.parametrize("order", "AKCF")
@pytest.mark.parametrize(
    "x", [np.arange(8.0).reshape(2, 2, 2), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(3.0)]
)
def test_astype_without_a_copy_is_a_view_where_numpys_is(x, order):
    def f(x):
        y = x.copy()
        y[::-1].astype(float, order=order, copy=False)[...] *= 2.0
        return y

    np.testing.assert_array_equal(functad.vjp(f, x)[0], f(x))


@pytest.mark.parametrize("look", [lambda a: a, lambda a: a.T, lambda a: a[0], lambda a: a.reshape(-1), lambda a: a.T.ravel()])
@pytest.mark.parametrize(
    "window",
    [
        lambda b: np.lib.stride_tricks.sliding_window_view(b, 2, axis=-1),
        lambda b: np.diagonal(np.stack([b, b])),
        lambda b: np.diagonal(b[None].T @ np.ones((1, 3))),
        lambda b: np.diag(np.reshape(np.repeat(b, 3), (3, 3))),
    ],
)
@pytest.mark.parametrize("known", [False, True])
def test_views_of_read_only_views_where_values_are_not_known(look, window, known):
    def f(x):
        b = x.copy() if known else np.asfortranarray(x, like=x) * 1.0
        a = look(window(b))
        b *= 9.0
        return a, look(window(b))

    x = np.array([1.0, 2.0, 3.0])
    expected = f(x)
    for found in (functad.vjp(f, x)[0], functad.make_expressions(f)(x)(x), [y[0] for y in functad.vmap(f)(x[None])]):
        for y, z in zip(found, expected, strict=True):
            np.testing.assert_array_equal(y, z)


def test_a_loop_of_writes_into_a_batch_copies_the_array_once() -> None:
    def program(x: Any, n: int) -> Any:
        t = np.zeros(n, like=x)
        for i in range(n):
            t[i] = x * i
        return t

    def copied(n: int) -> int:
        """Return how often the array was copied."""
        counts: list[int] = []

        def counted(x: Any) -> Any:
            t = program(x, n)
            counts.append(memory_of(t).copies)
            return t

        found = functad.vmap(counted)(np.ones(4))
        np.testing.assert_array_equal(found, np.tile(np.arange(float(n)), (4, 1)))
        return counts[0]

    assert copied(50) == 1  # the constant that was broadcast to all examples
