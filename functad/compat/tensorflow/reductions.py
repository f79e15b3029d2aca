"""TensorFlow's reductions and scans: sums, extremes, positions, cumulative sums. Integers keep their dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import functad
from functad.compat.tensorflow.creation import static
from functad.compat.tensorflow.dtypes import numpy_dtype
from functad.compat.tensorflow.names import named
from functad.compat.tensorflow.tensors import as_tensor, operation, returning_tensors
from functad.expressions.spec import dtype_of

REDUCTIONS: dict[str, Any] = {
    "reduce_all math.reduce_all": np.all,
    "reduce_any math.reduce_any": np.any,
    "reduce_max math.reduce_max": np.max,
    "reduce_mean math.reduce_mean": np.mean,
    "reduce_min math.reduce_min": np.min,
    "reduce_prod math.reduce_prod": np.prod,
    "math.reduce_std": np.std,
    "reduce_sum math.reduce_sum": np.sum,
    "math.reduce_variance": np.var,
}
"""NumPy's reductions, by TensorFlow's names."""


def axes_of(axis: Any) -> Any:
    """Return axes as an integer, a tuple or `None`."""
    if axis is None:
        return None
    given = static(axis)
    return int(given) if given.ndim == 0 else tuple(int(a) for a in given)


def _reduction(function: Callable[..., Any], path: str) -> Callable[..., Any]:
    def reduce(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
        x = as_tensor(input_tensor)
        out = function(x, axis=axes_of(axis), keepdims=keepdims)
        own = dtype_of(x)
        return out.astype(own) if own.kind in "iu" and dtype_of(out) != own else out

    reduce.__name__ = reduce.__qualname__ = path.partition(" ")[0]
    reduce.__doc__ = f"`np.{function.__name__}` along some axes, or all; integers stay of their type."
    return returning_tensors(reduce)


for _paths, _function in REDUCTIONS.items():
    named(_paths)(_reduction(_function, _paths))


def log_sum_exp(x: Any, axis: Any, keepdims: bool) -> Any:
    """Return `log(sum(exp(x)))`, shifted by the largest element, which counts as constant."""
    largest = functad.stop_gradient(np.max(x, axis=axis, keepdims=True))
    largest = np.where(np.isfinite(largest), largest, np.zeros_like(largest))
    out = np.log(np.sum(np.exp(x - largest), axis=axis, keepdims=True)) + largest
    return out if keepdims else np.squeeze(out, axis)


@operation("reduce_logsumexp math.reduce_logsumexp")
def reduce_logsumexp(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
    """Return `log(sum(exp(x)))` along the given axes, without overflow."""
    return log_sum_exp(as_tensor(input_tensor), axes_of(axis), keepdims)


@operation("argmax math.argmax")
def argmax(input: Any, axis: Any = None, output_type: Any = np.int64, name: str | None = None) -> Any:
    """Return the positions of the largest elements along an axis (default: the first)."""
    return np.argmax(plain_of(input), axis=axes_of(axis) or 0).astype(numpy_dtype(output_type))


@operation("argmin math.argmin")
def argmin(input: Any, axis: Any = None, output_type: Any = np.int64, name: str | None = None) -> Any:
    """Return the positions of the smallest elements along an axis (default: the first)."""
    return np.argmin(plain_of(input), axis=axes_of(axis) or 0).astype(numpy_dtype(output_type))


def plain_of(x: Any) -> Any:
    """Return a Tensor without derivatives, to find positions."""
    return functad.stop_gradient(as_tensor(x))


@operation("math.count_nonzero")
def count_nonzero(input: Any, axis: Any = None, keepdims: bool = False, dtype: Any = np.int64, name: str | None = None) -> Any:
    """Return the number of nonzero elements along the given axes."""
    return np.count_nonzero(plain_of(input), axis=axes_of(axis), keepdims=keepdims).astype(numpy_dtype(dtype))


def _scan(function: Callable[..., Any], x: Any, axis: int, exclusive: bool, reverse: bool, first: Any) -> Any:
    x = np.moveaxis(as_tensor(x), axis, 0)
    own = dtype_of(x)
    x = x[::-1] if reverse else x
    if exclusive:
        x = np.concatenate([np.full((1, *tuple(x.shape)[1:]), first, own), x[:-1]])
    out = function(x, axis=0)
    out = out.astype(own) if dtype_of(out) != own else out
    return np.moveaxis(out[::-1] if reverse else out, 0, axis)


@operation("cumsum math.cumsum")
def cumsum(x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Any:
    """Return cumulative sums; `exclusive` omits the element itself, `reverse` starts at the end."""
    return _scan(np.cumsum, x, axis, exclusive, reverse, 0)


@operation("math.cumprod")
def cumprod(x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Any:
    """Return cumulative products; `exclusive` omits the element itself, `reverse` starts at the end."""
    return _scan(np.cumprod, x, axis, exclusive, reverse, 1)


@operation("sort")
def sort(values: Any, axis: int = -1, direction: str = "ASCENDING", name: str | None = None) -> Any:
    """Return the elements sorted along an axis."""
    out = np.sort(as_tensor(values), axis=axis)
    return np.flip(out, axis) if direction == "DESCENDING" else out


@operation("argsort")
def argsort(values: Any, axis: int = -1, direction: str = "ASCENDING", stable: bool = False, name: str | None = None) -> Any:
    """Return the int32 positions that sort the elements along an axis; the sort is stable."""
    x = plain_of(values)
    keys = np.flip(x, axis) if direction == "DESCENDING" else x
    order = np.argsort(keys, axis=axis, stable=True).astype(np.int32)
    return x.shape[axis] - 1 - np.flip(order, axis) if direction == "DESCENDING" else order


class TopKV2(NamedTuple):
    """The result of `top_k`."""

    values: Any
    indices: Any


@operation("math.top_k nn.top_k")
def top_k(input: Any, k: int = 1, sorted: bool = True, index_type: Any = np.int32, name: str | None = None) -> TopKV2:
    """Return the k largest elements along the last axis, in descending order, and their positions."""
    x = as_tensor(input)
    places = static(argsort(x, -1, "DESCENDING"))[..., :k]
    return TopKV2(np.take_along_axis(x, places, -1), places.astype(numpy_dtype(index_type)))
