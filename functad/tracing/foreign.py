"""Arrays of other libraries beside Tensors: whose business is an operation on both?

A library may wrap arrays, as pint and xarray do: it puts the Tensor into an object of its own, and computes with that. Or its
objects are arrays, as those of Dask, CuPy and sparse are: it knows no Tensor, and declines. So the library is asked first, by
the protocol by which Python or NumPy would ask it; what it declines is an operation of the trace, on a Tensor and a constant.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from functad.expressions.spec import is_array
from functad.primitives.entry import Primitive
from functad.primitives.operands import innermost
from functad.tracing.traces.base import Recorded

_ndarray = np.ndarray


def overrides(operand: Any) -> bool:
    """Say whether an operand is of another library, which then decides what the operation means: a wrapper, a unit."""
    kind = type(operand)
    if issubclass(kind, (Recorded, _ndarray, np.generic, int, float, complex)):
        return False
    # What NumPy could only put into an object array is none of its own either.
    return hasattr(kind, "__array_ufunc__") or hasattr(kind, "__array_function__") or not hasattr(kind, "__array__")


def decides(kind: type) -> bool:
    """Say whether objects of a class decide what an operator of an array means, by which NumPy leaves it to them: units do."""
    if hasattr(kind, "__array_ufunc__"):
        return kind.__array_ufunc__ is None
    priority = getattr(kind, "__array_priority__", 0.0)  # NumPy's own classes compute theirs
    return isinstance(priority, (int, float)) and priority > 0


def holds(kind: type, *operands: Any) -> bool:
    """Say whether a type of another library is that of a Tensor's own value: then it is no wrapper, but an array like it."""
    return any(isinstance(operand, Recorded) and type(innermost(operand)) is kind for operand in operands)


OURS: Any = object()
"""The answer if all libraries that were asked decline: the operation is one of the trace."""


_TAKING: set[type] = set()
"""The classes that have been found to take Tensors."""


def answer_to_operator(primitive: Primitive, x: Any, y: Any) -> Any:
    """Say whose business an operator on a Tensor and an array is: `OURS`, or `NotImplemented` if it is that of the library.

    Of the left operand Python, or NumPy, has asked already when it comes to the Tensor on the right.
    """
    operand = x if isinstance(y, Recorded) else y
    if not _is_array(operand, "__array_ufunc__"):
        return NotImplemented
    if operand is y and type(y) not in _TAKING and not hasattr(type(y), "__functad_read__"):  # a Variable takes Tensors
        if _asked(y, primitive.function, "__call__", (x, y), {}) is NotImplemented:
            return OURS
        _TAKING.add(type(y))  # now Python asks by its operator, which may do more
    return OURS if operand is x else NotImplemented


def answer_to_ufunc(known: tuple[type, ...], tensor: Any, ufunc: np.ufunc, method: str, inputs: Any, kwargs: Any) -> Any:
    """Ask the libraries of the arrays beside a Tensor for the result of a ufunc; `OURS` if all decline.

    NumPy asks from left to right, so those before the Tensor have declined already.
    """
    declined = True
    for value in inputs:
        if value is tensor:
            declined = False
        if issubclass(type(value), known) or holds(type(value), tensor):
            continue
        if not _is_array(value, "__array_ufunc__"):
            return NotImplemented
        answer = NotImplemented if declined else _asked(value, ufunc, method, inputs, kwargs)
        if answer is not NotImplemented:
            return answer
    return OURS


def answer_to_function(known: tuple[type, ...], tensor: Any, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """Ask the libraries of the arrays beside a Tensor for the result of a function; `OURS` if all decline."""
    asked = set()
    for value in _arguments((args, kwargs)):
        kind = type(value)
        if kind in asked or kind not in types or issubclass(kind, known) or holds(kind, tensor):
            continue
        if not _is_array(value, "__array_function__"):
            return NotImplemented
        asked.add(kind)
        answer = value.__array_function__(function, types, args, kwargs)
        if answer is not NotImplemented:
            return answer
    return OURS


def _asked(value: Any, ufunc: np.ufunc, method: str, inputs: Any, kwargs: Any) -> Any:
    """Ask a library for the result of a ufunc; `NotImplemented` if it declines."""
    try:
        return value.__array_ufunc__(ufunc, method, *inputs, **kwargs)
    except TypeError:  # by which CuPy says that it knows no Tensor
        return NotImplemented


def _is_array(value: Any, protocol: str) -> bool:
    """Say whether a value is an array that NumPy can compute with."""
    return getattr(type(value), protocol, None) is not None and is_array(value)


def _arguments(tree: Any) -> Iterator[Any]:
    """Yield the arguments of a function, those in lists one by one."""
    if type(tree) in (list, tuple, dict):
        for part in tree.values() if type(tree) is dict else tree:
            yield from _arguments(part)
    else:
        yield tree
