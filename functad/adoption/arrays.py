"""The functions of `functad.numpy`: creation functions make Tensors, the others accept lists with Tensors in them."""

from __future__ import annotations

import copy
import copyreg
import functools
import itertools
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided as _as_strided

from functad.adoption import creation
from functad.adoption.creation import asarray
from functad.adoption.signatures import taking_lists
from functad.adoption.standing import made_when_called, standing_type
from functad.adoption.ufuncs import ufunc_taking_lists
from functad.errors import UnsupportedError
from functad.expressions.spec import ArraySpec, shape_of
from functad.places import here
from functad.primitives import vocabulary
from functad.primitives.arranging.reshape import atleast
from functad.primitives.elementwise.conversion import astype
from functad.primitives.operands import (
    PLAIN_TYPES,
    as_array,
    as_operand,
    concrete,
    has_tensors,
    innermost,
    is_traced,
    strong,
)
from functad.tracing.conversions import AskedError, asks_first
from functad.tracing.trace import recorder_of_new_arrays

__all__ = ["PLAIN_TYPES", "apply_along_axis", "asarray", "asarray_chkfinite", "broadcast_arrays", "has_tensors", "namespace"]


class _Joining:
    """`np.r_` or `np.c_`, extended to Tensors."""

    def __init__(self, original: Any, columns: bool) -> None:
        self._original = original
        self._columns = columns

    def __getitem__(self, key: Any) -> Any:
        if recorder_of_new_arrays() is None:
            try:
                return self._original[key]
            except AskedError:
                pass
        return self._joined(key)

    def _joined(self, key: Any) -> Any:
        parts = key if type(key) is tuple else (key,)
        if not has_tensors(parts):
            return self._original[key]
        if any(type(part) is str for part in parts):
            raise UnsupportedError(f"r_ and c_ of Tensors with a text, at {here()}. Use np.concatenate, or np.stack.")
        arrays = [np.r_[part] if type(part) is slice else atleast(part, 1) for part in parts]
        if self._columns:
            arrays = [part[:, None] if len(shape_of(part)) == 1 else part for part in arrays]
        return np.concatenate(arrays, -1 if self._columns else 0)


asks_first(_Joining.__getitem__.__code__)

r_, c_ = _Joining(np.r_, columns=False), _Joining(np.c_, columns=True)


def _of_tensor(kind: Any, *args: Any, **kwargs: Any) -> Any:
    return astype(as_operand(args[0]), kind, copy=False) if has_tensors(args) else kind(*args, **kwargs)


def _number_type(original: Any) -> Any:
    return standing_type(original, functools.partial(_of_tensor, original))


float64, float32, float16 = _number_type(np.float64), _number_type(np.float32), _number_type(np.float16)
complex128, complex64 = _number_type(np.complex128), _number_type(np.complex64)
double, single = float64, float32


class _VectorizeType(type):
    """The metaclass of `vectorize`, which compares and tests instances as `np.vectorize` does."""

    def __instancecheck__(cls, value: Any) -> bool:
        return type.__instancecheck__(np.vectorize, value)

    def __subclasscheck__(cls, kind: type) -> bool:
        return type.__subclasscheck__(np.vectorize, kind)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is np.vectorize

    def __hash__(cls) -> int:
        return hash(np.vectorize)


copyreg.pickle(_VectorizeType, lambda cls: (copy.copy, (np.vectorize,)))


class vectorize(np.vectorize, metaclass=_VectorizeType):  # noqa: N801 - it replaces NumPy's class
    __doc__ = np.vectorize.__doc__
    __module__ = "numpy"  # otherwise doctest would run NumPy's examples

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function for each element of the broadcast arguments, or for each core if there is a `signature`."""
        if not kwargs and not self.excluded and self.pyfunc is not _NO_FUNCTION:
            for value in args:
                if type(value) not in PLAIN_TYPES:
                    break
            else:
                return self._vectorize_call(self.pyfunc, args)  # type: ignore[attr-defined] # as NumPy's `__call__` would
        given = [*map(as_array, args), *map(as_array, kwargs.values())]
        if (
            not has_tensors(given) or not hasattr(self, "pyfunc") or self.pyfunc is _NO_FUNCTION
        ):  # as a decorator, it has no function yet
            return super().__call__(*args, **kwargs)
        names = list(kwargs)
        spread = [
            i
            for i in range(len(given))
            if i not in self.excluded and (i < len(args) or names[i - len(args)] not in self.excluded)
        ]
        arrays = [strong(given[i]) if is_traced(given[i]) else np.asarray(given[i]) for i in spread]
        cores = self._cores(len(arrays))
        loops = [shape_of(a)[: len(shape_of(a)) - core] for a, core in zip(arrays, cores, strict=True)]
        shape = np.broadcast_shapes(*loops)
        arrays = [np.broadcast_to(a, shape + shape_of(a)[len(loop) :]) for a, loop in zip(arrays, loops, strict=True)]
        outs = []
        for place in np.ndindex(shape):
            values = list(given)
            for i, a in zip(spread, arrays, strict=True):
                values[i] = a[place]
            outs.append(self.pyfunc(*values[: len(args)], **dict(zip(names, values[len(args) :], strict=True))))
        if not outs and self.otypes and self.signature is None:
            empty = tuple([np.empty(shape, kind) for kind in self.otypes])
            return empty if len(empty) > 1 else empty[0]
        if not outs:
            raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
        several = isinstance(outs[0], tuple)
        columns = zip(*outs, strict=True) if several else [outs]
        kinds = self.otypes or [None] * (len(outs[0]) if several else 1)
        results = [_stacked(list(column), shape, kind) for column, kind in zip(columns, kinds, strict=True)]
        return tuple(results) if several else results[0]

    def _cores(self, count: int) -> list[int]:
        """Return, for each argument, the number of core axes of one call."""
        if self.signature is None:
            return [0] * count
        inputs = self.signature.replace(" ", "").partition("->")[0]
        return [len(core.split(",")) if core else 0 for core in re.findall(r"\((.*?)\)", inputs)]


_NO_FUNCTION: Any = np._NoValue


def _stacked(parts: list[Any], shape: tuple[int, ...], kind: str | None) -> Any:
    """Return the results of calls for all indices of `shape` as one array."""
    whole = np.stack([strong(part) if is_traced(part) else np.asarray(part) for part in parts])
    whole = whole.reshape(shape + shape_of(whole)[1:])
    return whole if kind is None or np.dtype(kind).kind not in "fc" else astype(whole, np.dtype(kind), copy=False)


def frompyfunc(function: Callable[..., Any], /, nin: int, nout: int, **kwargs: Any) -> Any:
    """Call `np.frompyfunc`; the returned function also accepts Tensors and is called for each element."""
    plain, of_tensors = np.frompyfunc(function, nin, nout, **kwargs), vectorize(function)

    @functools.wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        return of_tensors(*args) if not options and has_tensors(args) else plain(*args, **options)

    return called


def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """Call `np.apply_along_axis`; the function may return Tensors."""
    if hasattr(type(arr), "__array_function__") and not is_traced(arr) and not issubclass(type(arr), np.ndarray):
        return np.apply_along_axis(func1d, axis, arr, *args, **kwargs)  # an array of another library
    arr = as_array(arr)
    rows = np.moveaxis(arr if is_traced(arr) else np.asanyarray(arr), axis, -1)
    shape = shape_of(rows)[:-1]
    if 0 in shape or not _may_give_tensors(arr):
        return np.apply_along_axis(func1d, axis, arr, *args, **kwargs)
    outs = [func1d(rows[place], *args, **kwargs) for place in np.ndindex(shape)]
    if not has_tensors(outs):
        given = iter(outs)  # one call for each row, as the function may draw random numbers
        return np.apply_along_axis(lambda row: next(given), axis, arr)
    whole = _stacked([as_array(out) for out in outs], shape, None)
    added = len(shape_of(whole)) - len(shape)
    start = axis % len(shape_of(rows))
    return np.moveaxis(whole, list(range(-added, 0)), list(range(start, start + added))) if added else whole


def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """Call `np.piecewise`; values and results of the functions may be Tensors."""
    if _may_give_tensors(x):
        entry: Any = vocabulary.find(np.piecewise)
        out = entry.front(as_array(x), condlist, funclist, *args, **kw)
        if is_traced(out):
            return out
    return np.piecewise(x, condlist, funclist, *args, **kw)


def as_strided(x: Any, shape: Any = None, strides: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Call `np.lib.stride_tricks.as_strided`; for a Tensor, return a copy of the elements at the strided positions."""
    if not is_traced(x):
        return _as_strided(x, shape, strides, *args, **kwargs)
    x.current()
    root = x.origin[0] if hasattr(x, "origin") else x
    memory, value = (np.asarray(concrete(of, "as_strided")) for of in (root, x))
    gaps = not memory.flags.forc or not (root is x or np.may_share_memory(memory, value))
    steps = value.strides if strides is None else strides
    places = np.array((value.__array_interface__["data"][0] - memory.__array_interface__["data"][0]) // memory.itemsize)
    for length, step in zip(value.shape if shape is None else shape, steps, strict=True):
        places = places[..., None] + np.arange(length) * (step // memory.itemsize)
    if gaps or (places.size and (places.min() < 0 or places.max() >= memory.size)):
        raise UnsupportedError(
            f"as_strided of a Tensor, at {here()}, reads what is beside its elements, or between them. "
            f"Use np.lib.stride_tricks.sliding_window_view, or t.copy() first."
        )
    order = np.arange(memory.size).reshape(memory.shape).ravel("K")  # memory order of the elements
    return root.reshape(-1)[order[places]]


def _may_give_tensors(a: Any) -> bool:
    return is_traced(a) or recorder_of_new_arrays() is not None


def fromiter(iterable: Any, dtype: Any, count: int = -1, **kwargs: Any) -> Any:
    """Call `np.fromiter`; the elements may be Tensors."""
    if recorder_of_new_arrays() is None and not is_traced(iterable):
        return np.fromiter(iterable, dtype, count, **kwargs)
    values = list(iterable) if count < 0 else list(itertools.islice(iterable, count))
    if not has_tensors(values):
        return np.fromiter(values, dtype, count, **kwargs)
    return astype(
        np.stack([strong(v) if is_traced(v) else np.asarray(v) for v in map(as_array, values)]),
        np.dtype(dtype).base,
        copy=False,
    )


def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Any:
    """Call `np.asarray_chkfinite`; the argument may be a Tensor."""
    if not has_tensors((a,)):
        return np.asarray_chkfinite(a, dtype, order)
    a = asarray(a, dtype, order)
    value = innermost(a)
    if not isinstance(value, ArraySpec) and not np.all(np.isfinite(value)):
        raise ValueError("array must not contain infs or NaNs")
    return a


def broadcast_arrays(*args: Any, **kwargs: Any) -> Any:
    """Call `np.broadcast_arrays`; beside Tensors, float arrays become Tensors, so that Tensors can be written to copies."""
    arrays = tuple(np.broadcast_arrays(*map(as_array, args), **kwargs))
    recorder = recorder_of_new_arrays()
    if recorder is None or not has_tensors(arrays):
        return arrays
    return tuple([recorder.buffer(a.copy()) if not is_traced(a) and a.dtype.kind in "fc" else a for a in arrays])


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = float, like: Any = None, **kwargs: Any) -> Any:
    """Call `np.fromfunction`; the function may return a Tensor."""
    if like is not None:
        return np.fromfunction(function, shape, dtype=dtype, like=like, **kwargs)
    return function(*np.indices(shape, dtype=dtype), **kwargs)


_OWN = frozenset({
    "r_", "c_", "float64", "float32", "float16", "complex128", "complex64", "double", "single", "vectorize", "apply_along_axis",
    "fromiter", "frompyfunc", "fromfunction", "broadcast_arrays", "asarray_chkfinite", "piecewise",
})  # fmt: skip


def _found(module: ModuleType, name: str) -> Any:
    found = getattr(module, name)
    if isinstance(found, np.ufunc):
        return ufunc_taking_lists(found)
    if isinstance(found, type(np.sum)):  # a function with dispatch on its arguments
        return made_when_called(found, taking_lists)
    return found


def _filled(module: ModuleType) -> ModuleType:
    """Return a copy of a NumPy module such as `linalg`, with functions that accept lists with Tensors in them."""
    filled = ModuleType(module.__name__, module.__doc__)
    vars(filled).update({name: _found(module, name) for name in vars(module)})
    return filled


@functools.cache
def namespace() -> dict[str, Any]:
    """Return the names of `functad.numpy`: NumPy's names, with the replacements of this package."""
    own = {name: value for name, value in globals().items() if name in _OWN}
    tricks = _filled(np.lib.stride_tricks)
    vars(tricks).update(as_strided=as_strided)
    made = {name: getattr(creation, name) for name in creation.MAKING}
    parts = {"linalg": _filled(np.linalg), "fft": _filled(np.fft), "lib": _filled(np.lib), "emath": _filled(np.emath)}
    vars(parts["lib"]).update(stride_tricks=tricks)
    return {**{name: _found(np, name) for name in vars(np)}, **parts, **own, **made}
