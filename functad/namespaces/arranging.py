"""Shapes, creation and choices of NumPy by the functions of the array API."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from functad.namespaces.array import FUNCTIONS, computes
from functad.namespaces.library import Library

# What is asked of arrays, which is answered without the library

_FACTS = (np.shape, np.ndim, np.size, np.result_type, np.can_cast, np.iscomplexobj, np.isrealobj)


def _fact(function: Any) -> Any:
    def compute(lib: Library, *args: Any, **kwargs: Any) -> Any:
        stand_ins = [np.broadcast_to(np.zeros((), arg.dtype), arg.shape) if hasattr(arg, "library") else arg for arg in args]
        return function(*stand_ins, **kwargs)

    return compute


FUNCTIONS.update({function: _fact(function) for function in _FACTS})


@computes(np.may_share_memory, np.shares_memory)
def _shares_memory(lib: Library, a: Any, b: Any, max_work: Any = None) -> bool:
    return False  # what one writes into a wrapped array reaches no other


# Shapes


@computes(np.reshape)
def _reshape(lib: Library, a: Any, shape: Any, order: str = "C", *, copy: bool | None = None) -> Any:
    xp, x = lib.xp, lib.array(a)
    wanted = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(map(int, shape))
    if order == "F":
        turned = xp.reshape(_reversed(xp, x), wanted[::-1])
        return _reversed(xp, turned)
    return xp.reshape(x, wanted)


def _reversed(xp: Any, x: Any) -> Any:
    return xp.permute_dims(x, tuple(range(x.ndim))[::-1])


@computes(np.ravel)
def _ravel(lib: Library, a: Any, order: str = "C") -> Any:
    return _reshape(lib, a, (-1,), "F" if order == "F" else "C")


@computes(np.transpose)
def _transpose(lib: Library, a: Any, axes: Any = None) -> Any:
    x = lib.array(a)
    return _reversed(lib.xp, x) if axes is None else lib.xp.permute_dims(x, normalize_axis_tuple(axes, x.ndim))


@computes(np.swapaxes)
def _swapaxes(lib: Library, a: Any, axis1: int, axis2: int) -> Any:
    x = lib.array(a)
    order = list(range(x.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return lib.xp.permute_dims(x, tuple(order))


@computes(np.moveaxis)
def moveaxis(lib: Library, a: Any, source: Any, destination: Any) -> Any:
    """Move axes to other places."""
    x = lib.array(a)
    sources, places = normalize_axis_tuple(source, x.ndim), normalize_axis_tuple(destination, x.ndim)
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return lib.xp.permute_dims(x, tuple(order))


@computes(np.squeeze)
def _squeeze(lib: Library, a: Any, axis: Any = None) -> Any:
    x = lib.array(a)
    return lib.xp.squeeze(x, axis=tuple([i for i, n in enumerate(x.shape) if n == 1]) if axis is None else axis)


@computes(np.expand_dims)
def _expand_dims(lib: Library, a: Any, axis: Any) -> Any:
    x = lib.array(a)
    places = normalize_axis_tuple(axis, x.ndim + (1 if isinstance(axis, int) else len(axis)))
    left = iter(x.shape)
    shape = [1 if i in places else next(left) for i in range(x.ndim + len(places))]
    return lib.xp.reshape(x, tuple(shape))


@computes(np.broadcast_to)
def _broadcast_to(lib: Library, array: Any, shape: Any, subok: bool = False) -> Any:
    return lib.xp.broadcast_to(lib.array(array), (shape,) if isinstance(shape, int) else tuple(shape))


@computes(np.broadcast_arrays)
def _broadcast_arrays(lib: Library, *args: Any, subok: bool = False) -> Any:
    return tuple(lib.xp.broadcast_arrays(*map(lib.array, args)))


@computes(np.flip)
def _flip(lib: Library, m: Any, axis: Any = None) -> Any:
    return lib.xp.flip(lib.array(m), axis=axis)


@computes(np.roll)
def _roll(lib: Library, a: Any, shift: Any, axis: Any = None) -> Any:
    return lib.xp.roll(lib.array(a), shift, axis=axis)


@computes(np.tile)
def _tile(lib: Library, A: Any, reps: Any) -> Any:
    return lib.xp.tile(lib.array(A), (int(reps),) if isinstance(reps, (int, np.integer)) else tuple(reps))


@computes(np.repeat)
def _repeat(lib: Library, a: Any, repeats: Any, axis: int | None = None) -> Any:
    x = lib.array(a)
    x, axis = (lib.xp.reshape(x, (-1,)), 0) if axis is None else (x, axis)
    if hasattr(repeats, "library"):
        return lib.xp.repeat(x, lib.array(repeats), axis=axis)
    places = np.repeat(np.arange(x.shape[axis]), np.asarray(repeats))
    return lib.xp.take(x, lib.array(places), axis=axis)


def _promoted(lib: Library, arrays: Any) -> list[Any]:
    """Return arrays of the dtype that NumPy would join them in."""
    given = [a if hasattr(a, "dtype") else np.asarray(a) for a in arrays]
    dtype = np.result_type(*[a.dtype for a in given])
    return [lib.array(a, dtype) for a in given]


@computes(np.concatenate)
def _concatenate(lib: Library, arrays: Any, axis: int | None = 0, **kwargs: Any) -> Any:
    own = [lib.array(a, kwargs.get("dtype")) for a in _promoted(lib, arrays)]
    if own and axis is not None and all(a.ndim == 0 for a in own):
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    return lib.xp.concat(own, axis=axis)


@computes(np.stack)
def _stack(lib: Library, arrays: Any, axis: int = 0, **kwargs: Any) -> Any:
    return lib.xp.stack(_promoted(lib, arrays), axis=axis)


@computes(np.tril)
def _tril(lib: Library, m: Any, k: int = 0) -> Any:
    return lib.xp.tril(lib.array(m), k=k)


@computes(np.triu)
def _triu(lib: Library, m: Any, k: int = 0) -> Any:
    return lib.xp.triu(lib.array(m), k=k)


@computes(np.diagonal)
def diagonal(lib: Library, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return diagonals, on the last axis."""
    x = moveaxis(lib, lib.array(a), (axis1, axis2), (-2, -1))
    rows, columns = x.shape[-2:]
    first, second = max(0, -offset), max(0, offset)
    n = max(0, min(rows - first, columns - second))
    places = (np.arange(n) + first) * columns + np.arange(n) + second
    return lib.xp.take(lib.xp.reshape(x, (*x.shape[:-2], rows * columns)), lib.array(places), axis=-1)


@computes(np.trace)
def _trace(lib: Library, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None) -> Any:
    return lib.xp.sum(diagonal(lib, a, offset, axis1, axis2), axis=-1)


# Creation: of the kind of `like`


def _shape(shape: Any) -> tuple[int, ...]:
    return (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(map(int, shape))


@computes(np.zeros, np.empty)
def _zeros(lib: Library, shape: Any, dtype: Any = float, order: str = "C", **kwargs: Any) -> Any:
    return lib.xp.zeros(_shape(shape), dtype=lib.dtype(np.dtype(dtype)), **lib.place)


@computes(np.ones)
def _ones(lib: Library, shape: Any, dtype: Any = float, order: str = "C", **kwargs: Any) -> Any:
    return lib.xp.ones(_shape(shape), dtype=lib.dtype(np.dtype(dtype)), **lib.place)


@computes(np.full)
def _full(lib: Library, shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", **kwargs: Any) -> Any:
    return lib.xp.broadcast_to(lib.array(fill_value, None if dtype is None else np.dtype(dtype)), _shape(shape))


def _alike(value: Any) -> Any:
    def compute(
        lib: Library, a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, device: Any = None
    ) -> Any:
        return _full_like(lib, a, value, dtype, shape=shape)

    return compute


@computes(np.full_like)
def _full_like(
    lib: Library,
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    device: Any = None,
) -> Any:
    wanted = a.dtype if dtype is None else np.dtype(dtype)
    return lib.copy(lib.xp.broadcast_to(lib.array(fill_value, wanted), a.shape if shape is None else _shape(shape)))


FUNCTIONS.update({np.zeros_like: _alike(0), np.empty_like: _alike(0), np.ones_like: _alike(1)})


@computes(np.asarray, np.array, np.asanyarray, np.ascontiguousarray, np.asfortranarray)
def _asarray(lib: Library, a: Any, dtype: Any = None, *args: Any, copy: bool | None = None, **kwargs: Any) -> Any:
    if type(a) in (list, tuple):
        return _stack(lib, [_asarray(lib, part, dtype) for part in a]) if a else lib.array(np.asarray(a), dtype)
    return lib.array(a, None if dtype is None else np.dtype(dtype))


@computes(np.copy)
def _copy(lib: Library, a: Any, order: str = "K", subok: bool = False) -> Any:
    return lib.copy(lib.array(a))


def _plain_creation(function: Any) -> Any:
    def compute(lib: Library, *args: Any, **kwargs: Any) -> Any:
        if any(hasattr(arg, "library") for arg in (*args, *kwargs.values())):
            raise NotImplementedError("its bounds would have to be converted to numbers")
        return lib.array(function(*args, **kwargs))

    return compute


FUNCTIONS.update({function: _plain_creation(function) for function in (np.arange, np.eye, np.identity, np.tri)})


@computes(np.linspace)
def _linspace(
    lib: Library, start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None
) -> Any:
    if retstep or dtype is not None:
        raise NotImplementedError("retstep= and dtype=")
    first, last = _promoted(lib, (start, stop, np.float32(0)))[:2]
    ramp = lib.array(np.linspace(0.0, 1.0, num, endpoint), lib.known(first.dtype))
    rise = last - first
    return first + lib.xp.reshape(ramp, (num,) + (1,) * rise.ndim) * rise


# Choices and conversions


@computes(np.where)
def _where(lib: Library, condition: Any, *choices: Any) -> Any:
    mask = lib.array(condition, np.dtype(bool))
    if not choices:
        return lib.xp.nonzero(mask)
    x, y = choices
    known = [v if hasattr(v, "dtype") or type(v) in (int, float, complex) else np.asarray(v) for v in (x, y)]
    dtype = np.result_type(*[getattr(v, "dtype", v) for v in known])
    return lib.xp.where(mask, lib.array(x, dtype), lib.array(y, dtype))


@computes(np.clip)
def _clip(lib: Library, a: Any, a_min: Any = None, a_max: Any = None, out: None = None, **kwargs: Any) -> Any:
    low, high = kwargs.get("min", a_min), kwargs.get("max", a_max)
    found = a if low is None else np.maximum(a, low)
    return lib.array(found if high is None else np.minimum(found, high))


@computes(np.real)
def _real(lib: Library, val: Any) -> Any:
    x = lib.array(val)
    return lib.xp.real(x) if lib.known(x.dtype).kind == "c" else x  # type: ignore[union-attr]


@computes(np.imag)
def _imag(lib: Library, val: Any) -> Any:
    x = lib.array(val)
    return lib.xp.imag(x) if lib.known(x.dtype).kind == "c" else lib.xp.zeros_like(x)  # type: ignore[union-attr]


@computes(np.round, np.around)
def _round(lib: Library, a: Any, decimals: int = 0, out: None = None) -> Any:
    x = lib.array(a)
    return lib.xp.round(x) if decimals == 0 else lib.xp.round(x * 10.0**decimals) / 10.0**decimals


@computes(np.sinc)
def _sinc(lib: Library, x: Any) -> Any:
    xp, own = lib.xp, lib.array(x)
    y = xp.where(own == 0, xp.full_like(own, 1e-20), own) * np.pi
    return xp.sin(y) / y


@computes(np.allclose)
def _allclose(lib: Library, a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    x, y = _promoted(lib, (a, b))
    return bool(lib.xp.all((lib.xp.abs(x - y) <= atol + rtol * lib.xp.abs(y)) | (x == y)))


def size_of(shape: tuple[int, ...]) -> int:
    """Return the number of elements of a shape."""
    return prod(shape)


def axis_of(axis: int, ndim: int) -> int:
    """Return an axis counted from the front."""
    return int(normalize_axis_index(axis, ndim))
