"""Sequences between two ends: `linspace`, `logspace`, `geomspace`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of, stand_in
from functad.primitives.arranging.join import concatenate
from functad.primitives.arranging.reshape import Calls
from functad.primitives.batching import aligned
from functad.primitives.elementwise.conversion import astype
from functad.primitives.kinds import composite, linear
from functad.primitives.operands import as_operand, innermost
from functad.primitives.safe import careful_product, current_pass
from functad.primitives.signals.differences import array_of


def _linspace_vjp(g: Any, num: int, endpoint: bool) -> list[Any]:
    """Return the cotangents of both ends: sums of `g`, weighted by the share of the end in each element."""
    divisor = max(num - 1 if endpoint else num, 1)
    share = np.arange(num).reshape((num,) + (1,) * (len(shape_of(g)) - 1)) * (1 / divisor)
    second = careful_product(g, share).sum(0)
    return [careful_product(g, 1 - share).sum(0) if current_pass() else g.sum(0) - second, second]


def _linspace_spec(*ends: Any, num: int, endpoint: bool) -> ArraySpec:
    specs = [spec_of(end) for end in ends]
    # NumPy computes the dtype from numbers.
    dtype = np.linspace(*[stand_in(s if s.weak else ArraySpec((), s.dtype)) for s in specs], 1).dtype  # type: ignore[call-overload]
    return ArraySpec((num, *np.broadcast_shapes(*[s.shape for s in specs])), dtype)


def _sequence_samples(**range_of_ends: float) -> Callable[[Any], Calls]:
    def samples(array: Any) -> Calls:
        def end(*shape: int) -> Any:
            return array(*shape, **range_of_ends)

        return [
            ((end(), end(), 4), {}),
            ((end(), end()), {"num": 3, "endpoint": False}),
            ((end(2), end(), 3), {}),
            ((end(2, 1), end(2)), {"num": 3, "axis": -1}),
            ((end(2), end(1), 2, False), {"axis": 1}),
            ((end(2, 2), end(2, 2), 3), {}),
            ((0.5, end(), 3), {}),
            ((end(), 3, 3), {}),
            ((end(), end(), 1), {}),
            ((end(2), end(2), 0), {}),
            ((end(), end(), 3), {"dtype": np.result_type(array().dtype, np.float64)}),
        ]

    return samples


def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: Any = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """Return the result of `np.linspace`."""
    num = _count(num)
    start, stop = as_operand(start), as_operand(stop)
    out = LINSPACE(start, stop, num=num, endpoint=bool(endpoint))
    found = dtype_of(out)
    out = _finished(out, dtype, axis)
    if not retstep:
        return out
    divisor = num - 1 if endpoint else num
    return out, astype(np.subtract(stop, start) / divisor, found, copy=False) if divisor > 0 else np.nan


def _evenly_spaced(start: Any, stop: Any, *, num: int, endpoint: bool) -> Any:
    dtype = np.result_type(_linspace_spec(start, stop, num=1, endpoint=True).dtype)
    start, stop = [astype(end, dtype, copy=False) for end in (start, stop)]
    divisor, change = num - 1 if endpoint else num, stop - start
    places = np.arange(num).astype(dtype).reshape((num,) + (1,) * len(shape_of(change)))
    if divisor <= 0:
        return start + places * change
    out = start + places * (change / divisor)
    return np.concatenate((out[:-1], np.broadcast_to(stop, shape_of(out)[1:])[None])) if endpoint else out


LINSPACE = linear(
    np.linspace,
    _linspace_vjp,
    compute=lambda *ends, num, endpoint: np.linspace(*ends, num, endpoint),  # type: ignore[call-overload]
    spec=_linspace_spec,
    samples=lambda array: [
        *_sequence_samples()(array),
        ((array(), array(2), 3), {"retstep": True}),
        ((array(), array(), 1), {"retstep": True, "endpoint": False}),
    ],
    doc="linear in both ends; each gets the cotangents by the share that it has in the elements",
    broadcasts=True,
    decomposition=_evenly_spaced,
    batch=lambda primitive, size, values, batched, params: np.moveaxis(primitive(*aligned(values, batched), **params), 1, 0),
    front=linspace,
)


def _count(given: Any) -> int:
    num: int = operator.index(given)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    return num


def _finished(out: Any, dtype: Any, axis: int) -> Any:
    """Return a sequence along the first axis, moved to `axis` and cast to `dtype`."""
    if axis != 0:
        out = np.moveaxis(out, 0, axis)
    if dtype is None:
        return out
    if np.dtype(dtype).kind in "iu":
        out = np.floor(out)
    return astype(out, dtype, copy=False)


@composite(
    np.logspace,
    samples=lambda array: [
        *_sequence_samples(low=-1.0, high=1.0)(array),
        ((array(), array(), 3), {"base": 2.0}),
        ((array(), array(), 3), {"base": array(low=0.5)}),
        ((array(2), array(2), 3), {"base": array(2, low=0.5)}),
        ((0.5, 2.0, 2), {"base": array(2, low=0.5), "axis": -1}),
    ],
    doc="base to the power of linspace",
)
def _logspace(
    start: Any, stop: Any, num: Any = 50, endpoint: Any = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> Any:
    start, stop, base = as_operand(start), as_operand(stop), as_operand(base)
    ndim = len(shape_of(base))
    if ndim:
        ndim = max(ndim, len(shape_of(start)), len(shape_of(stop)))
        start, stop, base = (a.reshape((1,) * (ndim - len(a.shape)) + a.shape) for a in map(array_of, (start, stop, base)))
        base = np.expand_dims(base, axis)
    out = np.power(base, linspace(start, stop, num, endpoint, axis=axis))
    return out if dtype is None else astype(out, dtype, copy=False)


@composite(
    np.geomspace,
    samples=lambda array: [
        *_sequence_samples(low=0.5, high=2.0)(array),
        ((-array(low=0.5), -array(low=0.5), 3), {}),
        ((array(2, low=0.5) * np.array([1, -1]), np.array([2.0, -3.0]), 3), {}),
    ],
    doc="d (a (b / a)^w) = (1 - w) out da / a + w out db / b, with the share w",
)
def _geomspace(start: Any, stop: Any, num: Any = 50, endpoint: Any = True, dtype: Any = None, axis: int = 0) -> Any:
    num = _count(num)
    start, stop = array_of(start), array_of(stop)
    if _has_zero(start) or _has_zero(stop):
        raise ValueError("Geometric sequence cannot include zero")
    common = np.result_type(dtype_of(start), dtype_of(stop), np.float64 if dtype is None else dtype, 1.0)
    shape = np.broadcast_shapes(shape_of(start), shape_of(stop))
    start, stop = (np.broadcast_to(astype(end, common, copy=False), shape) for end in (start, stop))
    last = num - 1 if endpoint else num
    inner = np.arange(1, last).reshape((-1,) + (1,) * len(shape)) / max(last, 1)
    # The result contains the exact ends, not their rounded powers.
    parts = [start[None], start * np.exp(np.log(stop / start) * inner), stop[None]]
    out = concatenate(parts[: 3 if endpoint else 2])[:num]
    if axis != 0:
        out = np.moveaxis(out, 0, axis)
    return out if dtype is None else astype(out, dtype, copy=False)


def _has_zero(value: Any) -> bool:
    """Return `True` if the values are known and contain a zero."""
    value = innermost(value)
    return not isinstance(value, ArraySpec) and bool(np.any(value == 0))
