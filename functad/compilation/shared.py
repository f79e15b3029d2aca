"""A cache of compiled programs, shared by unpickled functions of a process with equal expression lists.

An unpickled compiled function is traced again, for example in each task of a cluster. Tracing takes milliseconds, but
compiling takes tenths of seconds. So the programs of such functions are cached by a digest of their lists. Other functions do
not use this cache: programs that outlive their functions take memory.

A list is shared only if the digest describes it completely. Lists with user functions or user objects are not shared, since
these may have state. Lists with large constants are not shared, since the cache would keep the constants alive.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from functad.backends.backend import Backend
from functad.errors import UnsupportedError
from functad.expressions.digest import digest
from functad.expressions.expressions import Constant, Expressions
from functad.expressions.spec import ArraySpec
from functad.process import renewed
from functad.rules.call import OneCall
from functad.trees import Structure

MOST_SHARED = 64
"""Maximal number of shared programs. A program of the backend `llvm` takes about 150 kB."""

LARGEST_CONSTANTS = 100_000
"""Maximal bytes of the constants of a shared list."""

_BACKENDS = ("llvm", "numpy")
_PROGRAMS: OrderedDict[Any, Any] = OrderedDict()
_LOCK = renewed(threading.Lock())
_VALUES = (int, float, complex, str, bytes, type(None), type(Ellipsis), np.dtype, np.generic, np.ufunc, ArraySpec, Structure)


def shared_program(
    expressions: Expressions,
    backend: Backend,
    options: tuple[Any, ...],
    compiled: Callable[[], Any],
    careful: Expressions | None = None,
) -> Any:
    """Return the shared program of a list, or compile and store it.

    Args:
        expressions: the list.
        backend: the backend that compiles it.
        options: the options that change the program of a list.
        compiled: compiles the list.
        careful: the list that the program runs if a result has a NaN, or `None`. Functions with equal quick lists may have
            different careful lists.
    """
    key = key_of_list(expressions, backend, options)
    if careful is not None and key is not None:
        inner = key_of_list(careful, backend, ())
        key = inner and (key, inner)
    if key is None:
        return compiled()
    with _LOCK:
        found = _PROGRAMS.get(key)
        if found is not None:
            _PROGRAMS.move_to_end(key)
            return found
    made = compiled()
    with _LOCK:
        _PROGRAMS[key] = made
        _PROGRAMS.move_to_end(key)
        while len(_PROGRAMS) > MOST_SHARED:
            _PROGRAMS.popitem(last=False)
    return made


def drop_shared_programs() -> None:
    """Drop all shared programs."""
    with _LOCK:
        _PROGRAMS.clear()


def key_of_list(expressions: Expressions, backend: Backend, options: tuple[Any, ...], largest: int = LARGEST_CONSTANTS) -> Any:
    """Return the key of a list, or `None` if the list must not be shared.

    Args:
        expressions: the list.
        backend: the backend that compiles it.
        options: the options that change the program of a list.
        largest: the maximal bytes of its constants.
    """
    if backend.name not in _BACKENDS:
        return None
    constants: list[np.ndarray[Any, Any]] = []
    if not _is_plain_list(expressions, constants) or sum([a.nbytes for a in constants]) > largest:
        return None
    try:
        text = digest(expressions)
    except UnsupportedError:
        return None
    # The digest contains neither memory layouts nor the form, array or scalar, of values of shape ().
    layouts = tuple([a.strides for a in constants])
    return text, layouts, tuple([spec.zero_d for spec in expressions.specs]), backend.name, backend.exact, options


def _is_plain_list(expressions: Expressions, constants: list[np.ndarray[Any, Any]]) -> bool:
    """Return `True` if a list has no user functions or objects. Append its arrays to `constants`."""
    for equation in expressions.equations:
        primitive = equation.primitive
        if primitive.owner is not None or isinstance(primitive, OneCall):
            return False
        if not _are_plain(equation.inputs, constants) or not _are_plain(equation.params.values(), constants):
            return False
    return _are_plain(expressions.outputs, constants)


def _are_plain(values: Iterable[Any], constants: list[np.ndarray[Any, Any]]) -> bool:
    return all(_is_plain(value, constants) for value in values)


def _is_plain(value: Any, constants: list[np.ndarray[Any, Any]]) -> bool:
    """Return `True` for values, arrays and containers of them that the digest identifies. Append arrays to `constants`."""
    kind = type(value)
    if kind is int or issubclass(kind, _VALUES):
        return True
    if kind is Constant:
        return _is_plain(value.value, constants)
    if kind is np.ndarray:
        constants.append(value)
        return not value.dtype.hasobject
    if kind is slice:
        return _are_plain((value.start, value.stop, value.step), constants)
    if issubclass(kind, (tuple, list, frozenset)):
        return _are_plain(value, constants)
    if issubclass(kind, Mapping):
        return _are_plain(value, constants) and _are_plain(value.values(), constants)
    return kind is Expressions and _is_plain_list(value, constants)
