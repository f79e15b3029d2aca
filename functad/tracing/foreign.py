"""Dispatch of operations on a Tensor and an array of another library.

Some libraries wrap arrays (pint, xarray): they put the Tensor into their own object and compute with it. Other libraries have
their own arrays (Dask, CuPy, sparse): they do not accept a Tensor and decline. functad therefore calls the library first, by
the protocol of Python or NumPy. If the library declines, the trace records the operation on a Tensor and a constant.
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
    """Return `True` if an operand belongs to another library that may define the operation, such as a wrapper or a unit."""
    kind = type(operand)
    if issubclass(kind, (Recorded, _ndarray, np.generic, int, float, complex)):
        return False
    # NumPy could only put an object without `__array__` into an object array.
    return hasattr(kind, "__array_ufunc__") or hasattr(kind, "__array_function__") or not hasattr(kind, "__array__")


def decides(kind: type) -> bool:
    """Return `True` if NumPy leaves the operators of its arrays to objects of a class, such as units."""
    if hasattr(kind, "__array_ufunc__"):
        return kind.__array_ufunc__ is None
    priority = getattr(kind, "__array_priority__", 0.0)  # a descriptor in NumPy's own classes
    return isinstance(priority, (int, float)) and priority > 0


def holds(kind: type, *operands: Any) -> bool:
    """Return `True` if a Tensor among the operands has a value of type `kind`: such objects are arrays, not wrappers."""
    return any(isinstance(operand, Recorded) and type(innermost(operand)) is kind for operand in operands)


OURS: Any = object()
"""The answer if all libraries decline: the trace processes the operation."""


_TAKING: set[type] = set()
"""Classes that have accepted a Tensor."""


def answer_to_operator(primitive: Primitive, x: Any, y: Any) -> Any:
    """Return `OURS` if the trace processes an operator on a Tensor and an array; `NotImplemented` if the library does.

    Python or NumPy has already called the left operand before the Tensor on the right.
    """
    operand = x if isinstance(y, Recorded) else y
    if not _is_array(operand, "__array_ufunc__"):
        return NotImplemented
    if operand is y and type(y) not in _TAKING and not hasattr(type(y), "__functad_read__"):  # a Variable accepts Tensors
        if _asked(y, primitive.function, "__call__", (x, y), {}) is NotImplemented:
            return OURS
        _TAKING.add(type(y))  # Python then calls the operator of `y`, which may do more than the ufunc
    return OURS if operand is x else NotImplemented


def answer_to_ufunc(known: tuple[type, ...], tensor: Any, ufunc: np.ufunc, method: str, inputs: Any, kwargs: Any) -> Any:
    """Return the result of a ufunc from the libraries of the other operands; `OURS` if all decline.

    NumPy calls the operands from left to right, so the operands before the Tensor have already declined.
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
    """Return the result of a NumPy function from the libraries of the other arguments; `OURS` if all decline."""
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
    """Return the result of a ufunc from the library of `value`; `NotImplemented` if it declines."""
    try:
        return value.__array_ufunc__(ufunc, method, *inputs, **kwargs)
    except TypeError:  # CuPy raises it for a Tensor
        return NotImplemented


def _is_array(value: Any, protocol: str) -> bool:
    """Return `True` if a value is an array with the given NumPy protocol."""
    return getattr(type(value), protocol, None) is not None and is_array(value)


def _arguments(tree: Any) -> Iterator[Any]:
    """Yield the leaves of nested lists, tuples and dicts of arguments."""
    if type(tree) in (list, tuple, dict):
        for part in tree.values() if type(tree) is dict else tree:
            yield from _arguments(part)
    else:
        yield tree
