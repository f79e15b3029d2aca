"""An array of another library, for tests: NumPy can call it, and nothing can turn it into a NumPy array behind its back.

`Poison` wraps an array of NumPy and implements both of NumPy's protocols; whatever is computed from one is one again.
Conversions raise: `np.asarray`, `float`, the buffer protocol, iteration into lists.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

_PLAIN_RESULTS = {np.shape, np.ndim, np.size, np.result_type, np.can_cast, np.iscomplexobj, np.isrealobj, np.shares_memory}


class PoisonError(AssertionError):
    """A value was turned into a NumPy array or number without being asked."""


def unwrap(tree: Any) -> Any:
    """Return the arguments of a call with NumPy's arrays in place of `Poison`."""
    if isinstance(tree, Poison):
        return tree.inside
    if isinstance(tree, (list, tuple)):
        parts = [unwrap(part) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    if isinstance(tree, dict):
        return {key: unwrap(value) for key, value in tree.items()}
    return tree


def wrap(tree: Any) -> Any:
    """Return the results of a call as `Poison`, numbers included: a scalar of a device lives on the device."""
    if isinstance(tree, (np.ndarray, np.generic)):
        return Poison(tree)
    if isinstance(tree, (list, tuple)):
        parts = [wrap(part) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return tree


def _refuse(name: str) -> Callable[..., Any]:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise PoisonError(f"{name} of a value that is no NumPy array")

    return refuse


def _binary(function: Callable[..., Any]) -> Any:
    def method(self: Any, other: Any) -> Any:
        if hasattr(type(other), "__functad_dispatch__"):
            return NotImplemented
        return wrap(function(self.inside, unwrap(other)))

    def reflected(self: Any, other: Any) -> Any:
        return wrap(function(unwrap(other), self.inside))

    return method, reflected


def _in_place(function: Callable[..., Any]) -> Any:
    def method(self: Any, other: Any) -> Any:
        self.inside = function(self.inside, unwrap(other))
        return self

    return method


class Poison:
    """See above."""

    __hash__ = None

    def __init__(self, inside: Any) -> None:
        assert isinstance(inside, (np.ndarray, np.generic)), type(inside)
        self.inside = inside

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(hasattr(type(value), "__functad_dispatch__") for value in inputs):
            return NotImplemented
        return wrap(getattr(ufunc, method)(*unwrap(inputs), **unwrap(kwargs)))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if any(hasattr(kind, "__functad_dispatch__") for kind in types):
            return NotImplemented
        out = function(*unwrap(args), **{key: unwrap(value) for key, value in kwargs.items() if key != "like"})
        return out if function in _PLAIN_RESULTS else wrap(out)

    for _name in ("array", "float", "int", "complex", "index", "buffer"):
        locals()[f"__{_name}__"] = _refuse(f"__{_name}__")
    tolist = item = tobytes = _refuse("conversion to Python")

    for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift", "rshift"):
        _stem = _name.strip("_")
        locals()[f"__{_stem}__"], locals()[f"__r{_stem}__"] = _binary(getattr(operator, _name))

    for _name in ("iadd", "isub", "imul", "itruediv"):
        locals()[f"__{_name}__"] = _in_place(getattr(operator, _name))
    for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
        locals()[f"__{_name}__"] = _binary(getattr(operator, _name))[0]

    def __neg__(self) -> Any:
        return wrap(-self.inside)

    def __pos__(self) -> Any:
        return wrap(+self.inside)

    def __abs__(self) -> Any:
        return wrap(abs(self.inside))

    def __invert__(self) -> Any:
        return wrap(~self.inside)

    def __bool__(self) -> bool:  # a comparison of values is allowed to wait for the device
        return bool(self.inside)

    def __iter__(self) -> Any:
        return (wrap(part) for part in self.inside)

    def __len__(self) -> int:
        return len(self.inside)

    def __getitem__(self, index: Any) -> Any:
        return wrap(self.inside[unwrap(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.inside[unwrap(index)] = unwrap(value)

    def __repr__(self) -> str:
        return f"Poison({self.inside!r})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self.inside, name)
        if name in ("shape", "ndim", "size", "dtype", "itemsize", "nbytes", "strides", "flags"):
            return found
        if callable(found):
            return lambda *args, **kwargs: wrap(found(*unwrap(args), **unwrap(kwargs)))
        return wrap(found)
