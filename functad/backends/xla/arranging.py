"""Shape manipulation, sorting and searching."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.backends.xla.engine import cast, jnp, lax
from functad.backends.xla.table import Call, row
from functad.primitives.indexing.sort import PICKED, PLACED, POSITIONS, REORDERED, RESTORED
from functad.primitives.linalg.einsum import SPREAD


@row(np.broadcast_to)
def _broadcast_to(call: Call, a: Any, *, shape: tuple[int, ...]) -> Any:
    return jnp.broadcast_to(cast(a, call.dtype), shape)


@row(np.reshape)
def _reshape(call: Call, a: Any, *, shape: tuple[int, ...]) -> Any:
    return jnp.reshape(cast(a, call.dtype), call.shape)


@row(np.transpose)
def _transpose(call: Call, a: Any, *, axes: Any) -> Any:
    return jnp.transpose(cast(a, call.dtype), axes)


@row(np.concatenate)
def _concatenate(call: Call, *arrays: Any, axis: int | None) -> Any:
    return jnp.concatenate(call.cast(*arrays), axis)


@row(np.stack)
def _stack(call: Call, *arrays: Any, axis: int) -> Any:
    return jnp.stack(call.cast(*arrays), axis)


@row(np.repeat)
def _repeat(call: Call, a: Any, *, repeats: int, axis: int) -> Any:
    return jnp.repeat(cast(a, call.dtype), repeats, axis)


@row(np.tile)
def _tile(call: Call, a: Any, *, reps: tuple[int, ...]) -> Any:
    return jnp.tile(cast(a, call.dtype), reps)


@row(np.flip)
def _flip(call: Call, a: Any, *, axis: tuple[int, ...]) -> Any:
    return lax.rev(cast(a, call.dtype), axis)


@row(np.roll)
def _roll(call: Call, a: Any, *, shift: tuple[int, ...], axis: tuple[int, ...]) -> Any:
    return jnp.roll(cast(a, call.dtype), shift, axis)


@row(np.tril, np.triu)
def _triangle(call: Call, a: Any, *, k: int) -> Any:
    return getattr(jnp, call.primitive.function.__name__)(cast(a, call.dtype), k)


@row(np.pad)
def _pad(call: Call, a: Any, *, widths: Any) -> Any:
    a = cast(a, call.dtype)
    return jnp.pad(a, widths) if a.ndim else a


@row(np.diff)
def _diff(call: Call, a: Any, *, n: int, axis: int) -> Any:
    a = cast(a, call.given[0].dtype)
    for _ in range(n):
        before = (slice(None),) * (axis % a.ndim)
        ahead, behind = a[(*before, slice(1, None))], a[(*before, slice(-1))]
        a = ahead != behind if a.dtype == np.bool_ else ahead - behind
    return a


@row(np.linspace)
def _linspace(call: Call, *ends: Any, num: int, endpoint: bool) -> Any:
    start, stop = call.cast(*ends)
    divisor = num - 1 if endpoint else num
    shape = (num, *(1,) * len(call.shape[1:]))
    steps = jnp.arange(num, dtype=call.dtype).reshape(shape)
    if divisor <= 0:
        return jnp.broadcast_to(start + steps * (stop - start), call.shape)
    out = start + steps * ((stop - start) / divisor)
    return out.at[-1].set(jnp.broadcast_to(stop, out.shape[1:])) if endpoint else out


@row(np.vander)
def _vander(call: Call, x: Any, *, n: int) -> Any:
    x = cast(x, call.dtype)
    one = jnp.ones((*x.shape, 1), call.dtype)
    if n <= 1:
        return one[..., :n]
    return jnp.concatenate((one, lax.cumprod(jnp.broadcast_to(x[..., None], (*x.shape, n - 1)), x.ndim)), -1)


@row(SPREAD)
def _spread(call: Call, x: Any, *, subscripts: str, shape: tuple[int, ...]) -> Any:
    """Write `x` to a diagonal of zeros. `einsum` of an array of positions gives the positions of the diagonal."""
    places = np.einsum(subscripts, np.arange(int(np.prod(shape))).reshape(shape)).reshape(-1)
    flat = jnp.zeros(int(np.prod(shape)), call.dtype)
    return flat.at[places].set(cast(x, call.dtype).reshape(-1), unique_indices=True).reshape(shape)


# Sorting and searching


@row(np.argsort)
def _argsort(call: Call, a: Any, *, axis: int | None, kind: Any = None, stable: Any = None, **params: Any) -> Any:
    """Sort stably. The order of equal elements in NumPy's quicksort is unspecified."""
    dtype = call.given[0].dtype
    if dtype.kind == "c":
        return NotImplemented
    a = cast(a, dtype)
    if a.ndim == 0:
        return jnp.zeros(call.shape, call.dtype)
    return jnp.argsort(a, axis=axis, stable=True)


@row(np.lexsort)
def _lexsort(call: Call, *keys: Any, axis: int) -> Any:
    return jnp.lexsort([cast(key, spec.dtype) for key, spec in zip(keys, call.given, strict=True)], axis=axis)


@row(np.searchsorted)
def _searchsorted(call: Call, a: Any, v: Any, *sorter: Any, side: str) -> Any:
    common = np.result_type(*[spec.dtype for spec in call.given[:2]])
    if common.kind == "c":
        return NotImplemented
    a, v = cast(a, common), cast(v, common)
    return jnp.searchsorted(a[jnp.asarray(sorter[0])] if sorter else a, v, side=side)


@row(np.digitize)
def _digitize(call: Call, x: Any, bins: Any, *, right: bool) -> Any:
    common = np.result_type(*[spec.dtype for spec in call.given])
    return jnp.digitize(cast(x, common), cast(bins, common), right)


@row(np.isin)
def _isin(call: Call, element: Any, tests: Any, *, invert: bool, **params: Any) -> Any:
    common = np.result_type(*[spec.dtype for spec in call.given])
    if common.kind == "c":
        return NotImplemented
    return jnp.isin(cast(element, common), cast(tests, common), invert=invert)


@row(POSITIONS)
def _positions_of_ranks(call: Call, a: Any, ranks: Any, *, skip_nan: bool) -> Any:
    """Return the positions of elements by rank. Equal elements keep their order; NumPy may choose any of them."""
    dtype = call.given[0].dtype
    if dtype.kind == "c" or 0 in call.given[0].shape:
        return NotImplemented
    a, ranks = cast(a, dtype), cast(ranks, call.given[1].dtype)
    order = jnp.argsort(a, axis=-1, stable=True)
    found = jnp.take_along_axis(order, jnp.broadcast_to(ranks, (*a.shape[:-1], ranks.shape[-1])), -1)
    if skip_nan or dtype.kind != "f":
        return found
    last = order[..., -1:]
    return jnp.where(jnp.isnan(jnp.take_along_axis(a, last, -1)), last, found)


@row(REORDERED)
def _reordered(call: Call, a: Any, indices: Any, *, axis: int) -> Any:
    return jnp.take_along_axis(cast(a, call.dtype), jnp.asarray(indices), axis, mode="fill")


@row(RESTORED)
def _restored(call: Call, a: Any, indices: Any, *, axis: int) -> Any:
    a = cast(a, call.dtype)
    return jnp.put_along_axis(jnp.zeros_like(a), jnp.asarray(indices), a, axis, inplace=False)


@row(PICKED)
def _picked(call: Call, a: Any, indices: Any) -> Any:
    return jnp.take_along_axis(cast(a, call.dtype), jnp.asarray(indices), -1, mode="fill")


@row(PLACED)
def _placed(call: Call, a: Any, indices: Any, *, length: int) -> Any:
    a, indices = cast(a, call.dtype), jnp.asarray(indices)
    rows = jnp.meshgrid(*[jnp.arange(n) for n in a.shape], indexing="ij", sparse=True)[:-1]
    return jnp.zeros((*a.shape[:-1], length), call.dtype).at[(*rows, indices)].add(a, mode="drop")
