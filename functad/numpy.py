"""NumPy, with the functions that no Tensor is an argument of made to know the trace that they are called in.

`np.zeros(3)` cannot tell that a derivative is being taken, so it makes a plain array, into which no Tensor can be written. The
functions here make Tensors where a transform is running its function, and plain arrays elsewhere; `array` and `asarray` take
lists of Tensors too. Everything else is NumPy's own, under the same names.

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
from typing import TYPE_CHECKING, Any

import numpy as np

from functad.expressions.spec import dtype_of
from functad.primitives import vocabulary
from functad.primitives.operands import is_traced
from functad.tracing.constants import apart_from
from functad.tracing.recorder import OPEN
from functad.tracing.tensor import Tensor
from functad.tracing.writing import buffer
from functad.trees import flatten


def _enter(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of NumPy that makes arrays, as one that makes Tensors inside a trace."""

    @functools.wraps(function)
    def made(*args: Any, **kwargs: Any) -> Any:
        recorder = OPEN.get()
        if recorder is None:
            return function(*args, **kwargs)
        entry: Any = vocabulary.find(function)
        leaves = flatten((args, kwargs))[0]
        traced = any(map(is_traced, leaves))
        out = entry.front(*args, **kwargs) if traced else function(*args, **kwargs)
        return out if is_traced(out) or dtype_of(out).kind not in "fc" else buffer(Tensor, recorder, apart_from(leaves, out))

    made.__doc__ = f"`numpy.{function.__name__}`; inside a trace it makes a Tensor, into which others can be written."
    return made


array = _enter(np.array)
asarray = _enter(np.asarray)
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

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return getattr(np, name)


def __dir__() -> list[str]:
    return sorted({*dir(np), *globals()})
