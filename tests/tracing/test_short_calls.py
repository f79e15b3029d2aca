"""The fast paths of an open concrete trace give the results of the general path, which `debug_nans` uses."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import EscapedTensorError

A = np.array([[0.3, -1.2, 0.8], [1.1, 0.3, -0.4]])
B = np.array([[2.0], [-0.5]])

_REDUCTIONS = [
    lambda f, x: f(x),
    lambda f, x: f(x, 0),
    lambda f, x: f(x, -1),
    lambda f, x: f(x, axis=1, keepdims=True),
    lambda f, x: f(x, keepdims=True),
    lambda f, x: f(x, 1, keepdims=True),
    lambda f, x: f(x, axis=(0, 1)),
    lambda f, x: f(x, axis=np.int64(1)),
    lambda f, x: f(x[0], axis=0),
    lambda f, x: f(x[:, :1], axis=1),
    lambda f, x: f(x, axis=1, keepdims=1),
]
_SQUEEZES = [
    lambda x: np.squeeze(x[:, :1]),
    lambda x: np.squeeze(x[:, :1], 1),
    lambda x: np.squeeze(x[None, :, :1], axis=(0, -1)),
    lambda x: np.squeeze(x),
    lambda x: np.squeeze(x[0, 0] * 1.0),
]
_JOINS = [
    lambda x: np.stack([x, 2.0 * x, A]),
    lambda x: np.stack((A, x), -1),
    lambda x: np.stack((x[0, 0], 1.0, x[1, 2], np.float64(3.0))),
    lambda x: np.stack([x]),
    lambda x: np.concatenate([x, B], axis=1),
    lambda x: np.concatenate((A, x, x * x), -2),
    lambda x: np.concatenate([x, x], axis=None),
    lambda x: np.concatenate([x, A.tolist()]),
    lambda x: np.concatenate([x, A.astype(np.float32)], dtype=np.float64),
]
_WIDENS = [
    lambda x: x[:, None],
    lambda x: x[None, ..., None] * x[:, :, None],
    lambda x: x[...],
    lambda x: x[:, :, np.newaxis][..., 0],
    lambda x: x[0, 0][None, ...],
]


def _cases() -> list[tuple[str, Any]]:
    reductions = (np.sum, np.mean, np.max, np.amax, np.min, np.amin)
    cases = [
        (f"{function.__name__}{i}", lambda x, function=function, call=call: call(function, x))
        for function in reductions
        for i, call in enumerate(_REDUCTIONS)
    ]
    for name, calls in (("squeeze", _SQUEEZES), ("join", _JOINS), ("widen", _WIDENS)):
        cases += [(f"{name}{i}", call) for i, call in enumerate(calls)]
    return cases


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("call", [pytest.param(call, id=name) for name, call in _cases()])
def test_short_and_long_ways_agree(call: Any, dtype: Any) -> None:
    def f(x: Any) -> Any:
        out = call(x)
        return np.sum(np.sin(out) * out, dtype=np.float64)

    x = A.astype(dtype)
    short = functad.value_and_grad(f)(x), functad.jvp(f, (x,), (x,)), functad.hessian(f)(x)
    with functad.debug_nans():
        long = functad.value_and_grad(f)(x), functad.jvp(f, (x,), (x,)), functad.hessian(f)(x)
    for one, other in zip(functad.tree_leaves(short), functad.tree_leaves(long), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-6 if dtype is np.float32 else 1e-13, atol=1e-14)
    value = call(x)
    traced = functad.eval_shape(call, x)
    assert (traced.shape, traced.dtype) == (np.shape(value), np.asarray(value).dtype)


_WRONG = [
    lambda x: np.sum(x, axis=2),
    lambda x: np.max(x, -3),
    lambda x: np.squeeze(x, axis=0),
    lambda x: np.stack([x, x[0]]),
    lambda x: np.stack([x, x], axis=3),
    lambda x: np.concatenate([x, x[:, 0]]),
    lambda x: np.concatenate([x, x], axis=-3),
    lambda x: x[:, :, :, None],
]


@pytest.mark.parametrize("call", _WRONG)
def test_errors_are_those_of_numpy(call: Any) -> None:
    with pytest.raises((ValueError, IndexError)) as plain:
        call(A)
    with pytest.raises(plain.type) as traced:
        functad.grad(lambda x: np.sum(call(x)))(A)
    assert str(traced.value).split(",")[0] == str(plain.value).split(",")[0]


_ONE_LINE = [
    lambda x: np.sum(x, axis=0),
    lambda x: np.mean(x),
    lambda x: np.max(x, axis=1, keepdims=True),
    lambda x: np.squeeze(x[:, :1], axis=1),
    lambda x: np.stack([x, x]),
    lambda x: np.concatenate([x, B], axis=1),
    lambda x: x[:, None],
    lambda x: x.T,
    lambda x: x.reshape(3, 2),
    lambda x: x * B,
    lambda x: np.exp(x),
]


@pytest.mark.parametrize("call", _ONE_LINE)
def test_the_line_is_that_of_the_user(call: Any) -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(call(x))
        return np.sum(x)

    functad.grad(f)(A)
    line = inspect.getsourcelines(call)[1]
    with pytest.raises(EscapedTensorError, match=rf"was made at .*test_short_calls\.py:{line}\b"):
        kept[0] + 1.0


def test_out_that_is_a_tensor_is_written_into() -> None:
    def f(x: Any) -> Any:
        out = np.zeros(3, like=x)
        np.sum(A, 0, None, out)
        np.sum(x, axis=0, out=out)
        return np.sum(out * out)

    expected = 2 * A.sum(0) * np.ones_like(A)
    np.testing.assert_allclose(functad.grad(f)(A), expected)


_OPERANDS = {
    "float": 0.5,
    "int": 2,
    "float64": np.float64(1.5),
    "array": A[0],
    "whole array": A,
    "float32": A.astype(np.float32),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("operand", _OPERANDS.values(), ids=_OPERANDS)
def test_operations_on_batches_give_what_a_loop_gives(operand: Any, dtype: Any) -> None:
    batch = np.stack([A, 2 * A, -A]).astype(dtype)
    calls = [
        lambda x: x * operand - operand / x,
        lambda x: operand + x[0] * x[:, :1],
        lambda x: np.maximum(x, operand) ** 2,
        lambda x: (operand - x[0, 0]) * x[1, 1],
        lambda x: functad.grad(lambda t: np.sum(t * operand * t))(x),
    ]
    for call in calls:
        found, expected = functad.vmap(call)(batch), np.stack([call(example) for example in batch])
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_ufunc_that_computes_in_double_precision_has_tangents_of_it():
    x = np.array([0.5, 0.75], np.float32)
    value, tangent = functad.jvp(lambda x: np.float_power(x, 3), (x,), (np.ones_like(x),))
    assert value.dtype == tangent.dtype == np.float64
    assert functad.grad(lambda x: np.sum(np.float_power(x, 3)))(x).dtype == np.float32
