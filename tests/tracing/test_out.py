"""`out=` that is a Tensor: by name and by place, of functions, methods and the methods of ufuncs; and `t.flat`."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import UnsupportedError
from functad.testing import check_grads, every_entry

X = np.array([[0.7, -1.2, 1.9], [0.4, 2.2, -0.6]])
PLAIN = np.zeros(3)


def _parameters(entry: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(entry.front).parameters.values())


def _takes_out(entry: Any) -> bool:
    front = getattr(entry, "front", None)
    return (
        callable(front)
        and entry.status in ("primitive", "composite")
        and not isinstance(entry.function, np.ufunc)
        and any(parameter.name == "out" for parameter in _parameters(entry))
    )


ENTRIES = [entry for entry in every_entry() if _takes_out(entry)]


def _given_by_place(entry: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
    """Return the arguments of a call with `out` at its place, and defaults in front of it where nothing was given."""
    parameters, keywords = _parameters(entry), dict(kwargs)
    place = next(i for i, parameter in enumerate(parameters) if parameter.name == "out")
    before = [keywords.pop(p.name, p.default) for p in parameters[len(args) : place]]
    return [*args, *before, out], keywords


def _array(*shape: int, low: float = -2.0, high: float = 2.0) -> Any:
    unit = (np.arange(np.prod(shape)) * 0.618 + 0.2) % 1.0
    return (low + (high - low) * unit).reshape(shape)[()]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_out_by_name_and_by_place(entry: Any) -> None:
    """What is written is the result, and its derivative is that of the result."""
    compared = 0
    by_place = all(p.kind is not p.VAR_POSITIONAL for p in _parameters(entry)) and any(
        p.name == "out" and p.kind is p.POSITIONAL_OR_KEYWORD for p in _parameters(entry)
    )
    position = 1 if entry.name in ("compress", "choose", "einsum") else 0
    for args, kwargs in entry.samples(_array):
        first = functad.tree_map(np.array, args[position])

        def call(x: Any, place: bool | None, args: Any = args, kwargs: Any = kwargs) -> Any:
            given = (*args[:position], x, *args[position + 1 :])
            expected = entry.function(*given, **kwargs)
            if place is None or type(expected) is not functad.Tensor:
                return expected
            out = np.zeros(expected.shape, expected.dtype, like=expected)
            given, keywords = _given_by_place(entry, given, kwargs, out) if place else (given, kwargs | {"out": out})
            assert entry.function(*given, **keywords) is out
            return out

        try:
            expected, pullback = functad.vjp(lambda x: call(x, None), first)
        except functad.errors.InputError:
            continue
        for place in (False, True)[: 1 + by_place]:
            found, other = functad.vjp(lambda x: call(x, place), first)  # noqa: B023
            np.testing.assert_array_equal(found, expected)
            for a, b in zip(
                functad.tree_flatten(other(np.ones_like(found)))[0],
                functad.tree_flatten(pullback(np.ones_like(found)))[0],
                strict=True,
            ):
                np.testing.assert_allclose(a, b, rtol=1e-12)
            compared += 1
    assert compared or entry.kind == "constant"


def test_most_functions_with_out_are_entered() -> None:
    assert {"sum", "cumsum", "concatenate", "median", "nanvar", "fft", "dot", "einsum"} <= {e.name for e in ENTRIES}


METHODS: list[Any] = [
    lambda t, u: t.sum(0, out=u),
    lambda t, u: t.sum(0, None, u),
    lambda t, u: t.mean(0, None, u),
    lambda t, u: t.prod(0, out=u),
    lambda t, u: t.max(0, u),
    lambda t, u: t.min(0, out=u),
    lambda t, u: t.var(0, out=u),
    lambda t, u: t.std(0, None, u),
    lambda t, u: t[0].cumsum(out=u),
    lambda t, u: t[1].cumprod(0, None, u),
    lambda t, u: t[0].clip(-1.0, 1.0, u),
    lambda t, u: t[0].round(1, u),
    lambda t, u: t[0].take([2, 0, 1], 0, u),
    lambda t, u: t[0].dot(t.T @ t, u),
    lambda t, u: t[1].compress([True, True, True], 0, u),
    lambda t, u: np.add(t[0], 2.0, u),
    lambda t, u: np.add.reduce(t, 0, None, u),
    lambda t, u: np.multiply.accumulate(t[0], 0, None, u),
    lambda t, u: np.sum(t * 2, 0, None, u, where=np.array([True, False, True])),
    lambda t, u: np.sum(X, 0, None, u),
]


@pytest.mark.parametrize("call", METHODS, ids=range(len(METHODS)))
def test_methods(call: Any) -> None:
    def through(x: Any) -> Any:
        u = np.zeros_like(x, shape=3)
        out = call(x, u)
        assert out is u
        return u * np.sin(u) + x.sum()

    expected = np.zeros(3)
    call(X, expected)
    np.testing.assert_allclose(through(X), functad.vjp(through, X)[0])
    np.testing.assert_allclose(functad.vjp(through, X)[0], expected * np.sin(expected) + X.sum())
    check_grads(through, (X,), order=2)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: np.sum(t, 0, None, PLAIN),
        lambda t: np.median(t, 0, PLAIN),
        lambda t: np.add(t[0], 1.0, PLAIN),
        lambda t: t.sum(0, out=PLAIN),
        lambda t: t.max(0, PLAIN),
        lambda t: t.std(0, out=PLAIN),
        lambda t: t[0].cumsum(0, None, PLAIN),
        lambda t: np.cumprod(t[0], 0, None, PLAIN),
    ],
    ids=range(8),
)
def test_a_plain_array_takes_no_tensor(call: Any) -> None:
    with pytest.raises(UnsupportedError, match=rf"cannot write to out=, at {__file__}:\d+"):
        functad.grad(lambda x: np.sum(call(x)))(X)
    assert not PLAIN.any()


def test_out_of_another_shape_or_dtype_raises() -> None:
    with pytest.raises(ValueError, match="broadcast"):
        functad.grad(lambda x: x.sum(0, None, np.zeros(2, like=x)).sum())(X)
    with pytest.raises(TypeError, match="same_kind"):
        functad.grad(lambda x: (x * 1j).sum(0, None, np.zeros(3, like=x)).sum())(X)


# t.flat: reading gives copies, writing writes through


def _reads(x: Any) -> Any:
    y = x * 1.0
    part, every, chosen, masked = y.flat[1:4], y.flat[:], y.flat[[0, 2]], y.flat[np.arange(6) > 3]
    y[:] = x**2
    part[0] = 5.0
    every[2:] = 7.0
    return np.concatenate([y.flat[:], part, every, chosen, masked, np.stack(list(y.flat))])


def _writes(x: Any) -> Any:
    y = x.T * 1.0
    y.flat[1] = x[0, 0] ** 2
    y.flat[2:4] = np.sin(x[1, :2])
    y.flat[[4, 5]] += x[0, 1]
    y.T.flat[0] *= 3.0
    y.flat = y.flat[::-1] * y[0, 0]
    return y


def _kept(x: Any) -> Any:
    y = x * 1.0
    flat = y.flat
    copy = flat[:]
    y[0] = x[1]
    flat[5] = 2.0
    copy *= x[0, 0]
    return np.concatenate([y.reshape(-1), copy, flat])


@pytest.mark.parametrize("f", [_reads, _writes, _kept], ids=lambda f: f.__name__)
def test_flat(f: Any) -> None:
    np.testing.assert_array_equal(functad.vjp(f, X)[0], f(X))
    check_grads(f, (X,), order=2)
    expressions = functad.make_expressions(f)(X).check()
    np.testing.assert_array_equal(expressions(X), f(X))


def test_flat_in_an_inner_transform() -> None:
    def f(x: Any) -> Any:
        def g(y: Any) -> Any:
            work = y * x
            copy = work.flat[:2]
            copy[0] = y**3
            work.flat[1:3] = copy
            return np.sum(work**2)

        return functad.grad(g)(x[0, 1])

    check_grads(f, (X,), order=2)


def test_scans_into_an_array_of_another_shape_are_refused():
    def f(x):
        y = np.zeros((1, 2, 2), like=x)
        np.cumsum(x, axis=1, out=y)  # NumPy fills a part of it
        return np.sum(y)

    with pytest.raises(functad.errors.AssignmentError, match="shape of the result"):
        functad.grad(f)(np.ones((1, 1)))


def _divided(x):
    x /= 2
    return x


def _exponential(x):
    return np.exp(x, out=x)


@pytest.mark.parametrize("f", [_divided, _exponential])
def test_floats_are_not_written_to_integers(f):
    x = np.array([1, 2], np.uint8)
    with pytest.raises(TypeError, match="Cannot cast"):
        f(x.copy())
    with pytest.raises(UnsupportedError, match=r"cannot be written to a Tensor of dtype\('uint8'\).*test_out.py"):
        functad.jit(lambda x: f(x.copy()), backend="numpy")(x)
