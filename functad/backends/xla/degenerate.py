"""Checks for equal eigenvalues and singular values, where a derivative does not exist.

XLA cannot raise an error. The device tests for the problem, and only then calls the NumPy function on the host, which raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.backends.xla.engine import cast, jnp, lax
from functad.backends.xla.products import tied
from functad.backends.xla.replay import by_numpy
from functad.backends.xla.table import Call, row
from functad.primitives.linalg import decompositions, degenerate, eigen


def _negligible(part: Any, whole: Any) -> Any:
    """Return whether a part of matrices is only rounding error, by the rule of the NumPy function."""
    eps = float(np.finfo(whole.dtype).eps)
    size = jnp.max(abs(whole), axis=(-2, -1), keepdims=True, initial=0)
    return jnp.all(abs(part) <= eps ** (2 / 3) * size + 64 * eps)


def _unless(problem: Any, call: Call, values: Any, params: Any, compute: Callable[[], Any]) -> Any:
    """Return `compute()` on the device, or call NumPy on the host to raise the error if `problem` is true."""

    def raising() -> Any:
        return cast(by_numpy(call, values, params, only_to_raise=True)[0], call.dtype)

    return lax.cond(problem, raising, lambda: cast(compute(), call.dtype))


def _is_empty(call: Call) -> bool:
    return any(0 in spec.shape for spec in call.given)


def _own(call: Call, *values: Any) -> list[Any]:
    """Return operands in their own dtypes."""
    return [cast(value, spec.dtype) for value, spec in zip(values, call.given, strict=True)]


def _differences(of_w: Any, same: Any) -> Any:
    return jnp.where(same, of_w[..., :, None] - of_w[..., None, :], 0)


def _others(same: Any) -> Any:
    return same & ~np.eye(same.shape[-1], dtype=bool)


@row(decompositions.independent)
def _independent(call: Call, *values: Any) -> Any:
    if _is_empty(call):
        return NotImplemented
    (r,) = _own(call, *values)
    return _unless(jnp.any(decompositions.dependent(jnp, r)), call, values, {}, lambda: r)


@row(degenerate.alike)
def _alike(call: Call, *values: Any) -> Any:
    if _is_empty(call):
        return NotImplemented
    of_w, same = _own(call, *values)
    problem = jnp.any(_others(same)) & ~_negligible(_differences(of_w, same), of_w[..., None])
    return _unless(problem, call, values, {}, lambda: of_w)


@row(degenerate.turning)
def _turning(call: Call, *values: Any) -> Any:
    if _is_empty(call):
        return NotImplemented
    k, m, same = _own(call, *values)
    problem = jnp.any(_others(same)) & ~_negligible(jnp.where(_others(same), k, 0), m)
    return _unless(problem, call, values, {}, lambda: jnp.where(same, jnp.zeros((), call.dtype), k))


@row(degenerate.unjoined)
def _unjoined(call: Call, *values: Any) -> Any:
    if _is_empty(call):
        return NotImplemented
    of_w, m, same, null = _own(call, *values)
    beyond = jnp.any(null) & ~_negligible(jnp.where(null, of_w, 0)[..., None], of_w[..., None])
    diagonal = jnp.diagonal(m, 0, -2, -1).real
    size = jnp.max(abs(m), axis=(-2, -1), keepdims=True, initial=0)
    alike = jnp.all(abs(_differences(diagonal, same)) <= 1e-6 * size, axis=(-2, -1), keepdims=True)
    mixed = jnp.where(alike & _others(same), m, 0)
    lost = ~_negligible(_differences(of_w, same), of_w[..., None]) | ~_negligible(mixed, m)
    return _unless(beyond | (jnp.any(_others(same)) & lost), call, values, {}, lambda: of_w)


@row(degenerate.guarded)
def _guarded(call: Call, *values: Any) -> Any:
    if _is_empty(call):
        return NotImplemented
    g, x, lost = _own(call, *values)
    problem = jnp.any(lost) & ~_negligible(jnp.where(lost, x, 0), x)
    return _unless(problem, call, values, {}, lambda: g)


@row(degenerate.aligned)
def _aligned(call: Call, x: Any, same: Any) -> Any:
    x, same = _own(call, x, same)
    n = x.shape[-1]
    one = jnp.broadcast_to(jnp.eye(n, dtype=call.dtype), call.shape)
    if n < 2 or 0 in call.shape:
        return one

    def of_blocks() -> Any:
        blocks = jnp.where(same, x + x.conj().mT, 0) / 2
        first = jnp.zeros_like(same[..., :1, 0])
        number = jnp.cumsum(jnp.concatenate((first, ~jnp.diagonal(same, 1, -2, -1)), -1), -1)
        apart = 4 * jnp.sum(abs(blocks), axis=(-2, -1), keepdims=True) * jnp.eye(n, dtype=x.dtype)
        whole = blocks + apart * number[..., None, :].astype(x.dtype)
        return cast(jnp.linalg.eigh(whole, symmetrize_input=False)[1], call.dtype)

    return lax.cond(jnp.any(_others(same)), of_blocks, lambda: one)


@row(eigen.eig_tied)
def _eig_tied(call: Call, *values: Any) -> Any:
    if _is_empty(call):
        return NotImplemented
    w, v = _own(call, *values)
    s = jnp.linalg.svd(v, compute_uv=False)
    problem = jnp.any(s[..., -1:] < 16 * s.shape[-1] * np.finfo(s.dtype).eps)
    return _unless(problem, call, values, {}, lambda: tied(w))
