"""NumPy, with functions that know the trace that they are called in, and take lists of Tensors.

`np.zeros(3)` cannot tell that a derivative is being taken, so it makes a plain array, into which no Tensor can be written. The
functions here that make arrays make Tensors where a transform is running its function, and plain arrays elsewhere. All others
take lists with Tensors in them where NumPy's take lists of numbers: `sum([t, 1.0])`, `linalg.norm([t0, t1])`, `r_[t0, t1]`,
`float64(t)`. For plain values they give what NumPy's give.

Example:
    >>> import functad
    >>> import functad.numpy as np
    >>> def cumulative(x):
    ...     out = np.zeros(3)
    ...     out[0] = x[0]
    ...     for i in range(1, 3):
    ...         out[i] = out[i - 1] * x[i]
    ...     return np.sum(np.array([out[0], out[2]]))
    >>> functad.grad(cumulative)(np.array([2.0, 3.0, 4.0]))
    array([13.,  8.,  6.])
    >>> type(np.zeros(3)).__name__
    'ndarray'
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from functad.errors import UnsupportedError
from functad.expressions.spec import dtype_of, shape_of
from functad.places import here
from functad.primitives import vocabulary
from functad.primitives.arranging.reshape import atleast
from functad.primitives.elementwise.conversion import astype
from functad.primitives.operands import as_operand, is_traced
from functad.tracing.constants import apart_from
from functad.tracing.traces.base import OPEN
from functad.trees.structure import flatten


def _has_tensors(*trees: Any) -> bool:
    return any(map(is_traced, flatten(trees)[0]))


def _enter(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of NumPy that makes arrays, as one that makes Tensors inside a trace."""

    @functools.wraps(function)
    def made(*args: Any, **kwargs: Any) -> Any:
        recorder = OPEN.get()
        traced = _has_tensors(args, kwargs)
        if recorder is None and not traced:
            return function(*args, **kwargs)
        entry: Any = vocabulary.find(function)
        out = entry.front(*args, **kwargs) if traced else function(*args, **kwargs)
        if recorder is None or is_traced(out) or dtype_of(out).kind not in "fc":
            return out
        return recorder.buffer(apart_from(flatten((args, kwargs))[0], out))

    made.__doc__ = f"`numpy.{function.__name__}`; inside a trace it makes a Tensor, into which others can be written."
    return made


array = _enter(np.array)
asarray = _enter(np.asarray)
asanyarray = _enter(np.asanyarray)
ascontiguousarray = _enter(np.ascontiguousarray)
asfortranarray = _enter(np.asfortranarray)
require = _enter(np.require)
zeros = _enter(np.zeros)
ones = _enter(np.ones)
full = _enter(np.full)
empty = _enter(np.empty)
eye = _enter(np.eye)
identity = _enter(np.identity)
arange = _enter(np.arange)
linspace = _enter(np.linspace)
zeros_like = _enter(np.zeros_like)
ones_like = _enter(np.ones_like)
full_like = _enter(np.full_like)
empty_like = _enter(np.empty_like)


class _Joining:
    """`np.r_` or `np.c_`: joins what stands between the brackets, Tensors too."""

    def __init__(self, original: Any, columns: bool) -> None:
        self._original = original
        self._columns = columns

    def __getitem__(self, key: Any) -> Any:
        parts = key if type(key) is tuple else (key,)
        if not _has_tensors(parts):
            return self._original[key]
        if any(type(part) is str for part in parts):
            raise UnsupportedError(f"r_ and c_ of Tensors with a text, at {here()}. Use np.concatenate, or np.stack.")
        arrays = [np.r_[part] if type(part) is slice else atleast(part, 1) for part in parts]
        if self._columns:
            arrays = [part[:, None] if len(shape_of(part)) == 1 else part for part in arrays]
        return np.concatenate(arrays, -1 if self._columns else 0)


r_, c_ = _Joining(np.r_, columns=False), _Joining(np.c_, columns=True)


class _NumberType(type):
    """The class of `float64` and its kin: subclasses of NumPy's types, which they stand for everywhere.

    A call gives a number of NumPy's type, or for a Tensor one of that dtype.
    """

    @property
    def original(cls) -> Any:
        """The type of NumPy."""
        return cls.__base__

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if not _has_tensors(args):
            return cls.original(*args, **kwargs)
        return astype(as_operand(args[0]), cls.original, copy=False)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.original)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls.original)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.original

    def __hash__(cls) -> int:
        return hash(cls.original)

    def __repr__(cls) -> str:
        return repr(cls.original)


def _number_type(original: Any) -> Any:
    return _NumberType(original.__name__, (original,), {"__slots__": (), "__doc__": original.__doc__})


float64, float32, float16 = _number_type(np.float64), _number_type(np.float32), _number_type(np.float16)
complex128, complex64 = _number_type(np.complex128), _number_type(np.complex64)
double, single = float64, float32

_LOOK_INTO_LISTS = frozenset({
    "concatenate", "concat", "stack", "vstack", "hstack", "dstack", "column_stack", "block", "select", "choose", "lexsort",
    "multi_dot", "einsum", "einsum_path", "histogramdd", "meshgrid", "ix_", "ravel_multi_index", "broadcast_arrays", "unstack",
})  # fmt: skip
"""Functions that NumPy itself calls with the Tensors in a list."""


def _take_lists(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of NumPy as one that takes lists with Tensors in them for arrays."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return function(*map(_as_array, args), **{key: _as_array(value) for key, value in kwargs.items()})

    return called


def _as_array(value: Any) -> Any:
    return as_operand(value) if type(value) in (list, tuple) and _has_tensors(value) else value


class _Functions:
    """A module of NumPy, such as `linalg`, whose functions take lists with Tensors in them."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return _found(self._module, name)

    def __dir__(self) -> list[str]:
        return dir(self._module)


@functools.cache
def _found(module: ModuleType, name: str) -> Any:
    found = getattr(module, name)
    if isinstance(found, ModuleType) and name in ("linalg", "fft"):
        return _Functions(found)
    if isinstance(found, type(np.sum)) and name not in _LOOK_INTO_LISTS:  # what dispatches by its arguments
        return _take_lists(found)
    return found


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return _found(np, name)


def __dir__() -> list[str]:
    return sorted({*dir(np), *globals()})
