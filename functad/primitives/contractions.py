"""Products that sum over axes: `matmul` and its relatives."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec, spec_of
from functad.primitives.kinds import multilinear


def _matmul_x(g: Any, y: Any, x_shape: tuple[int, ...]) -> Any:
    if y.ndim == 1:
        return g * y if len(x_shape) == 1 else g[..., None] * y
    if len(x_shape) == 1:
        return (y @ g[..., None])[..., 0]
    return g @ y.mT


def _matmul_y(g: Any, x: Any, y_shape: tuple[int, ...]) -> Any:
    if x.ndim == 1:
        return g * x if len(y_shape) == 1 else x[:, None] * g[..., None, :]
    if len(y_shape) == 1:
        return (x.mT @ g[..., None])[..., 0]
    if len(y_shape) == 2 and x.ndim > 2:  # one product instead of a batch of them to be summed
        return x.reshape(-1, x.shape[-1]).T @ g.reshape(-1, g.shape[-1])
    return x.mT @ g


def _matmul_spec(x: Any, y: Any) -> ArraySpec:
    x, y = spec_of(x), spec_of(y)
    if not x.ndim or not y.ndim or x.shape[-1] != y.shape[max(0, y.ndim - 2)]:
        raise ValueError(f"matmul of {x} and {y}: the last axis of the first must match the last but one of the second")
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    shape = batch + x.shape[:-1][-1:] + (y.shape[-1:] if y.ndim > 1 else ())
    return ArraySpec(shape, np.result_type(x.dtype, y.dtype))


def _matmul_samples(array: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    shapes = [
        ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((4, 2, 3), (3, 2)), ((2, 3), (4, 3, 2)),
        ((4, 1, 2, 3), (5, 3, 2)), ((4, 2, 3), (3,)), ((3,), (4, 3, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 3)),
    ]  # fmt: skip
    return [((array(*x), array(*y)), {}) for x, y in shapes]


def _matmul(x: Any, y: Any) -> Any:
    return operator.matmul(x, y)


MATMUL = multilinear(
    np.matmul,
    _matmul_x,
    _matmul_y,
    compute=_matmul,
    spec=_matmul_spec,
    samples=_matmul_samples,
    broadcasts=True,
    doc="d(x @ y) = dx @ y + x @ dy",
)
