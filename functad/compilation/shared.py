"""Compiled programs that unpickled functions of a process share, if their expression lists are the same.

A compiled function that was pickled is traced again wherever it is unpickled, for example in each task of a cluster. Tracing
takes milliseconds and compiling tenths of seconds, so the programs of such functions are kept by a digest of their lists. Other
functions keep their own programs alone: programs that outlive their functions take memory.

A list is shared only if the digest says all about it: functions and objects of the user in a list may have state of their own,
and large constants are not kept longer than the functions that use them.
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
from functad.forks import renewed
from functad.rules.call import OneCall
from functad.trees.structure import Structure

MOST_SHARED = 64
"""Programs that are kept for other functions. One of the backend `llvm` takes about 150 kB."""

LARGEST_CONSTANTS = 100_000
"""Bytes of constants in a list that is shared."""

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
    """Return the program of a list that another function has compiled, or compile it.

    Args:
        expressions: the list.
        backend: the backend that compiles it.
        options: the options of the compilation that make another program of the same list.
        compiled: compiles the list.
        careful: the list that the program runs if there is a NaN in its results; another function with the same quick list
            may have another. `None` if the program runs none.
    """
    key = _key(expressions, backend, options)
    if careful is not None and key is not None:
        inner = _key(careful, backend, ())
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
    """Drop all programs that are kept for other functions."""
    with _LOCK:
        _PROGRAMS.clear()


def _key(expressions: Expressions, backend: Backend, options: tuple[Any, ...]) -> Any:
    """Return the key of a list; `None` if its program is not shared."""
    if backend.name not in _BACKENDS:
        return None
    constants: list[np.ndarray[Any, Any]] = []
    if not _is_plain_list(expressions, constants) or sum([a.nbytes for a in constants]) > LARGEST_CONSTANTS:
        return None
    try:
        text = digest(expressions)
    except UnsupportedError:
        return None
    # The digest holds neither memory layouts nor whether a value of shape () is an array.
    layouts = tuple([a.strides for a in constants])
    return text, layouts, tuple([spec.zero_d for spec in expressions.specs]), backend.name, backend.exact, options


def _is_plain_list(expressions: Expressions, constants: list[np.ndarray[Any, Any]]) -> bool:
    """Return `True` if a list has no functions or objects of the user; its arrays are added to `constants`."""
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
    """Return `True` for an immutable value, or a container of such, that the digest tells from all others."""
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
