"""The array creation functions of `functad.numpy`: inside a trace they create Tensors that can be written to.

Outside a trace, for plain values, they call NumPy at once. The most frequent parameters are named, since packing and unpacking
arguments would take longer than the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from functad.adoption.signatures import with_arrays_of
from functad.adoption.standing import ABSENT
from functad.expressions.spec import dtype_of, shape_of
from functad.primitives import vocabulary
from functad.primitives.operands import LISTS, PLAIN_TYPES, as_array, has_tensors, innermost, is_traced, read
from functad.tracing.conversions import AskedError, asks_first
from functad.tracing.ownership import copy_if_shared
from functad.tracing.trace import recorder_of_new_arrays
from functad.trees import flatten

Function = Callable[..., Any]


def _enter(function: Function, called: Function) -> Any:
    found = functools.update_wrapper(called, function)
    found.__doc__ = f"`numpy.{function.__name__}`; inside a trace it makes a Tensor, into which others can be written."
    return found


def _given(*values: Any) -> list[Any]:
    return [value for value in values if value is not ABSENT]


def _made(function: Function, *, converts: bool = False) -> Function:
    """Return a NumPy creation function that creates Tensors inside a trace, or from Tensors.

    Args:
        function: the NumPy function.
        converts: `True` if the function may return the array that it was given. The array then stays plain, so no Tensor can be
            written to it.
    """

    def made(*args: Any, **kwargs: Any) -> Any:
        if not (has_tensors(args) or (kwargs and has_tensors(kwargs.values()))):
            out = with_arrays_of(function, args, kwargs, made)
            recorder = recorder_of_new_arrays()
            if recorder is None or type(out) is tuple or is_traced(out) or out.dtype.kind not in "fc":
                return out
            if converts and args and type(args[0]) is np.ndarray and np.may_share_memory(out, args[0]):
                return out
            given: Any = args[:1] if args and type(args[0]) not in LISTS else ()  # NumPy copies lists
        else:
            args, kwargs = tuple(map(read, args)), {name: read(value) for name, value in kwargs.items()}
            given = flatten((args, kwargs))[0]
            entry: Any = vocabulary.find(function)
            out = function(*args, **kwargs) if "like" in kwargs else entry.front(*args, **kwargs)
            recorder = recorder_of_new_arrays()
            if is_traced(out) and not shape_of(out) and issubclass(type(innermost(out)), np.generic):
                return out.reshape(())  # an array, which can be written to
            if recorder is None or type(out) is tuple or is_traced(out) or dtype_of(out).kind not in "fc":
                return out
        return recorder.buffer(copy_if_shared(out, given))

    return made


def _of_array(function: Function, *, converts: bool = False) -> Any:
    """Wrap a function that creates an array from its first argument; the second may be a dtype."""
    made = _made(function, converts=converts)

    def called(a: Any = ABSENT, /, dtype: Any = None, *args: Any, copy: Any = ABSENT, **kwargs: Any) -> Any:
        if recorder_of_new_arrays() is None and not kwargs and not args and a is not ABSENT:
            try:
                return function(a, dtype) if copy is ABSENT else function(a, dtype, copy=copy)
            except AskedError:
                pass
        elif converts and type(a) is np.ndarray and dtype is None and copy is ABSENT and not args and not kwargs:
            return function(a)
        if copy is not ABSENT:
            kwargs["copy"] = copy
        if dtype is None and not args:
            return made(*_given(a), **kwargs)
        return made(dtype=dtype, **kwargs) if a is ABSENT else made(a, dtype, *args, **kwargs)

    asks_first(called.__code__)
    return _enter(function, called)


def _without_question(function: Function) -> Function:
    """Return the NumPy implementation for plain values, without the check for arrays of other libraries."""
    return getattr(function, "_implementation", function)


def _with_dtype(dtype: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return NumPy's arguments after the first ones; the dtype is positional only if further arguments follow.

    Other libraries order parameters differently: the third parameter of Dask's `full_like` is `order`.
    """
    if args:
        return (dtype, *args), kwargs
    return (), kwargs if dtype is None else {"dtype": dtype, **kwargs}


def _of_shape(function: Function, *, like: bool = False) -> Any:
    """Wrap a function that creates an array of a given shape, or like another array; NumPy dispatches for a Tensor."""
    quick = _without_question(function)

    def called(shape: Any = ABSENT, /, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        recorder = recorder_of_new_arrays()
        if recorder is None and not args and not kwargs and (type(shape) in PLAIN_TYPES or (not like and shape is not ABSENT)):
            return quick(shape, dtype)
        args, kwargs = _with_dtype(dtype, args, kwargs)
        if shape is ABSENT:
            return _buffer(recorder, function(*args, **kwargs))
        return _buffer(recorder, function(as_array(shape) if like else shape, *args, **kwargs))

    return _enter(function, called)


def _buffer(recorder: Any, out: Any) -> Any:
    return out if recorder is None or is_traced(out) or out.dtype.kind not in "fc" else recorder.buffer(out)


def _square(function: Function) -> Any:
    """Wrap a function that creates a matrix from its lengths."""

    def called(*args: Any, **kwargs: Any) -> Any:
        return _buffer(recorder_of_new_arrays(), function(*args, **kwargs) if kwargs else function(*args))

    return _enter(function, called)


def _filled(function: Function, *, like: bool = False) -> Any:
    """Wrap a function that creates an array with one value everywhere, of a given shape or like another array."""
    made, quick = _made(function), _without_question(function)

    def called(shape: Any = ABSENT, /, fill_value: Any = ABSENT, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        plain = type(fill_value) in PLAIN_TYPES and (type(shape) in PLAIN_TYPES or (type(shape) is tuple and not like))
        if plain and recorder_of_new_arrays() is None and not args and not kwargs:
            return quick(shape, fill_value, dtype)
        args, kwargs = _with_dtype(dtype, args, kwargs)
        if fill_value is ABSENT:
            return made(*_given(shape), *args, **kwargs)
        if shape is ABSENT:
            return made(*args, fill_value=fill_value, **kwargs)
        return made(as_array(shape) if like else shape, fill_value, *args, **kwargs)

    return _enter(function, called)


def _arange(function: Function) -> Any:
    """Wrap `arange`; its dtype is often given by name."""
    made = _made(function)

    def called(a: Any = ABSENT, /, stop: Any = None, step: Any = None, dtype: Any = None, **kwargs: Any) -> Any:
        if recorder_of_new_arrays() is None and not kwargs and type(a) in PLAIN_TYPES:
            if stop is None and step is None and dtype is None:
                return function(a)
            if type(stop) in PLAIN_TYPES and type(step) in PLAIN_TYPES:
                return function(a, stop, step, dtype)
        if a is not ABSENT:
            return made(a, stop, step, dtype, **kwargs)
        named = {"stop": stop, "step": step, "dtype": dtype}
        return made(**{name: value for name, value in named.items() if value is not None}, **kwargs)

    return _enter(function, called)


def _linspace(function: Function) -> Any:
    """Wrap `linspace`."""
    made, quick = _made(function), _without_question(function)

    def called(start: Any, stop: Any, num: Any = 50, endpoint: Any = True, *args: Any, **kwargs: Any) -> Any:
        if (
            type(start) in PLAIN_TYPES
            and type(stop) in PLAIN_TYPES
            and recorder_of_new_arrays() is None
            and not args
            and not kwargs
        ):
            return quick(start, stop, num, endpoint)
        return made(as_array(start), as_array(stop), num, endpoint, *args, **kwargs)

    return _enter(function, called)


array = _of_array(np.array)
asarray = _of_array(np.asarray, converts=True)
asanyarray = _of_array(np.asanyarray, converts=True)
ascontiguousarray = _of_array(np.ascontiguousarray, converts=True)
asfortranarray = _of_array(np.asfortranarray, converts=True)
require = _of_array(np.require, converts=True)
zeros, ones, empty = _of_shape(np.zeros), _of_shape(np.ones), _of_shape(np.empty)
zeros_like, ones_like = _of_shape(np.zeros_like, like=True), _of_shape(np.ones_like, like=True)
empty_like = _of_shape(np.empty_like, like=True)
eye, identity = _square(np.eye), _square(np.identity)
full, full_like = _filled(np.full), _filled(np.full_like, like=True)
arange, linspace = _arange(np.arange), _linspace(np.linspace)

MAKING = (
    "array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "require", "zeros", "ones", "empty", "zeros_like",
    "ones_like", "empty_like", "eye", "identity", "full", "full_like", "arange", "linspace",
)  # fmt: skip
"""The names of the creation functions."""
