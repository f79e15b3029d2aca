"""Shapes, sorting, searching, and reads and writes at indices.

Constant indices were checked at trace time. For computed indices out of bounds NumPy raises, and XLA cannot raise: a read gives
NaN (the smallest value of signed integers, the largest of unsigned ones, `True` for booleans), and a write is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.backends.xla.engine import cast, converted_to, jax, jnp
from functad.backends.xla.replay import Call, alike, common, loop_of, of_result, row, unchanged
from functad.expressions.spec import ArraySpec
from functad.primitives.indexing.place import PLACE, PLACE_ADD
from functad.primitives.indexing.read import ADD_PIECE, GATHER, GETITEM, SCATTER, fill
from functad.primitives.indexing.write import ADD_TO, WRITE, Path, part, without_real_imag

# Shapes

row(np.broadcast_to, np.transpose, np.repeat, np.tile, np.flip, np.roll, np.tril, np.triu, np.cross)(alike(of_result))


@row(np.reshape)
def _reshape(call: Call, a: Any, *, shape: tuple[int, ...]) -> Any:
    return jnp.reshape(cast(a, call.dtype), call.shape)


@row(np.concatenate, np.stack)
def _joined(call: Call, *arrays: Any, axis: int | None) -> Any:
    return getattr(jnp, call.name)(call.cast(*arrays), axis)


@row(np.pad)
def _pad(call: Call, a: Any, *, widths: Any) -> Any:
    return jnp.pad(cast(a, call.dtype), widths) if call.shape else cast(a, call.dtype)


# Sorting and searching

row(np.digitize)(alike(common))


@row(np.argsort)
def _argsort(call: Call, a: Any, *, axis: int | None, kind: Any = None, stable: Any = None, **params: Any) -> Any:
    """Sort stably. The order of equal elements in NumPy's quicksort is unspecified."""
    if call.kind == "c":
        return NotImplemented
    a = cast(a, call.given[0].dtype)
    return jnp.argsort(a, axis=axis, stable=True) if a.ndim else jnp.zeros(call.shape, call.dtype)


@row(np.lexsort)
def _lexsort(call: Call, *keys: Any, axis: int) -> Any:
    return jnp.lexsort(list(map(cast, keys, unchanged(call))), axis=axis)


@row(np.searchsorted)
def _searchsorted(call: Call, a: Any, v: Any, *sorter: Any, side: str) -> Any:
    dtype = np.result_type(*[spec.dtype for spec in call.given[:2]])
    if dtype.kind == "c":
        return NotImplemented
    a, v = cast(a, dtype), cast(v, dtype)
    return jnp.searchsorted(a[jnp.asarray(sorter[0])] if sorter else a, v, side=side)


@row(np.isin)
def _isin(call: Call, element: Any, tests: Any, *, invert: bool, **params: Any) -> Any:
    (dtype, _) = common(call)
    return jnp.isin(cast(element, dtype), cast(tests, dtype), invert=invert) if dtype.kind != "c" else NotImplemented


# Reads and writes at indices


def _parts(index: Any) -> tuple[Any, ...]:
    """Return the parts of an index, with lists converted to arrays."""
    parts = index if type(index) is tuple else (index,)
    return tuple([np.asarray(p) if type(p) is list else p for p in parts])


def _mode(index: Sequence[Any]) -> str:
    """Return JAX's mode for indices out of bounds. Constant indices were checked and need no test."""
    return "fill" if any(isinstance(p, jax.Array) for p in index) else "promise_in_bounds"


def read(a: Any, index: Any) -> Any:
    """Return the elements of an array at an index."""
    index = _parts(index)
    mode = _mode(index)
    if mode == "fill" or any(issubclass(type(p), np.ndarray) for p in index):
        return a.at[index].get(mode=mode)
    return a[index]


def put(a: Any, index: Any, v: Any, *, adds: bool) -> Any:
    """Return an array with `v` assigned or added at an index. Additions to repeated indices accumulate."""
    index = _parts(index)
    at = a.at[index]
    shape = jax.eval_shape(lambda x: x[index], a).shape
    v = jnp.reshape(v, v.shape[max(0, v.ndim - len(shape)) :])  # drop leading axes of length 1, as NumPy does
    mode = "drop" if _mode(index) == "fill" else "promise_in_bounds"
    return _update(at, a.dtype, adds)(v, mode=mode)


def _update(at: Any, dtype: Any, adds: bool) -> Any:
    """Return the method of `a.at[index]`. The sum of booleans is the logical or."""
    if not adds:
        return at.set
    return at.max if dtype == np.bool_ else at.add


def _needs_steps(a: ArraySpec, v: ArraySpec) -> bool:
    """Return `True` if NumPy adds in another kind of dtype, and so converts after each addition to a repeated index."""
    if a.dtype.kind not in "biu":
        return False
    return loop_of(np.add, (a, v))[2].kind not in ("b" if a.dtype.kind == "b" else "iu")


@row(GETITEM, GATHER)
def _getitem(call: Call, a: Any, *indices: Any, index: Any = None, template: Any = None) -> Any:
    return read(cast(a, call.dtype), fill(template, indices) if indices else index)


@row(SCATTER)
def _scatter(call: Call, *pieces: Any, indices: tuple[Any, ...], shape: tuple[int, ...], dtype: Any) -> Any:
    total = jnp.zeros(shape, call.dtype)
    for index, piece in zip(indices, call.cast(*pieces), strict=True):
        total = put(total, index, piece, adds=True)
    return total


@row(ADD_PIECE)
def _add_piece(call: Call, g: Any, *indices: Any, template: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return put(jnp.zeros(shape, call.dtype), fill(template, indices), cast(g, call.dtype), adds=True)


@row(WRITE, ADD_TO, PLACE, PLACE_ADD)
def _written(call: Call, a: Any, v: Any, *indices: Any, path: Path, index: Any = None, template: Any = None) -> Any:
    """Return an array with `v` assigned or added at an index of the view at `path`."""
    adds = call.primitive.adds
    if adds and _needs_steps(*call.given[:2]):
        return NotImplemented
    index = fill(template, indices) if indices else index
    a, v = cast(a, call.dtype), converted_to(v, call.dtype)
    if not path:
        return put(a, index, v, adds=adds)
    if len(without_real_imag(path)) < len(path):
        return NotImplemented  # a write to the real or imaginary part
    places = part(np.arange(math.prod(call.shape)).reshape(call.shape), path)
    places = read(jnp.asarray(places), index) if _mode(_parts(index)) == "fill" else jnp.asarray(places[index])
    places = jnp.where(places < 0, math.prod(call.shape), places)  # indices out of bounds stay out of bounds
    flat = a.reshape(-1)
    v = jnp.broadcast_to(v.reshape(v.shape[max(0, v.ndim - places.ndim) :]), places.shape)
    at = flat.at[places.reshape(-1)]
    return _update(at, call.dtype, adds)(v.reshape(-1), mode="drop").reshape(call.shape)


@row(np.choose)
def _choose(call: Call, a: Any, *choices: Any, mode: str) -> Any:
    """Choose elements. With `mode="raise"` an index out of bounds is clipped: XLA cannot raise."""
    a = cast(a, np.int32 if call.kind == "b" else call.given[0].dtype)
    return jnp.choose(a, call.cast(*choices), mode="clip" if mode == "raise" else mode)
