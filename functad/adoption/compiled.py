"""Compiled SciPy functions in adopted code: a constant Tensor is passed as its plain array.

In adopted code `np.zeros(n)` inside a trace is a Tensor that can hold other Tensors, but compiled code needs its memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from functad.adoption.arrays import has_tensors
from functad.errors import UnsupportedError
from functad.expressions.spec import ArraySpec, shape_of
from functad.places import here
from functad.primitives.operands import innermost, is_traced
from functad.tracing.trace import resolve

_KINDS = frozenset({"cython_function_or_method", "fused_cython_function", "builtin_function_or_method"})

_IN_C = "builtin_function_or_method"
"""The type of functions that read memory directly: some, such as `lsoda`, crash the process if an argument is not an array."""


def is_compiled(value: Any) -> bool:
    """Return `True` if an object is a function compiled by Cython, Pythran or C++."""
    return type(value).__name__ in _KINDS


class CompiledFunction:
    """A compiled function that receives the arrays of constant Tensors; values written to the arrays are copied back."""

    def __init__(self, original: Callable[..., Any]) -> None:
        functools.update_wrapper(self, original)
        self.original = original

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the compiled function."""
        if not has_tensors(args) and not (kwargs and has_tensors(kwargs.values())):
            return self.original(*args, **kwargs)
        handed: list[tuple[Any, Any, Any]] = []
        values = [_handed(a, handed) for a in args]
        named = {key: _handed(a, handed) for key, a in kwargs.items()}
        left = has_tensors(values) or has_tensors(named.values())
        if left and type(self.original).__name__ == _IN_C:
            raise self._refused()
        try:
            out = self.original(*values, **named)
        except (TypeError, ValueError) as error:
            if not left:
                raise
            raise self._refused() from error
        for tensor, before, now in handed:
            if not np.array_equal(before, now, equal_nan=True):
                tensor[...] = now
        return out

    def _refused(self) -> UnsupportedError:
        return UnsupportedError(
            f"{self.original.__name__}, which SciPy has compiled, was given a Tensor, at {here()}, and has no derivative. "
            f"Use functad.stop_gradient(t) for what is passed to the function of SciPy that calls it."
        )

    def __getitem__(self, types: Any) -> Any:
        return CompiledFunction(self.original[types])  # type: ignore[index]

    def __getattr__(self, name: str) -> Any:
        if name == "original":  # a copy that is not filled yet
            raise AttributeError(name)
        return getattr(self.original, name)

    def __eq__(self, other: object) -> bool:
        return bool(self.original == (other.original if isinstance(other, CompiledFunction) else other))

    def __hash__(self) -> int:
        return hash(self.original)

    def __copy__(self) -> CompiledFunction:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledFunction:
        return self

    def __reduce__(self) -> Any:
        return _unchanged, (self.original,)


def _unchanged(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function unchanged: a pickled `CompiledFunction` is the compiled function itself."""
    return function


def _handed(a: Any, handed: list[tuple[Any, Any, Any]]) -> Any:
    """Return a copy of the array of a constant Tensor and record the pair; return any other argument unchanged."""
    if not is_traced(a):
        return a
    outer = resolve(a)
    if is_traced(outer) and not outer.recorder.is_constant(outer):
        return a
    value = innermost(outer)
    if isinstance(value, ArraySpec) or np.shape(value) != shape_of(a):
        return a
    if not issubclass(type(value), np.ndarray):
        return value
    copy = value.copy(order="K")
    handed.append((a, value, copy))
    return copy


def is_writeable_array(x: Any) -> bool:
    """Return `True` if SciPy may assign to elements of `x`; `False` for a Tensor of a NumPy scalar."""
    return not issubclass(type(innermost(x)), np.generic)
