"""What TensorFlow gathers by number: sums over segments, `tf.scatter_nd`, `tf.tensor_scatter_nd_update`, and `tf.map_fn`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.compat.tensorflow.creation import plain, shape_from
from functad.compat.tensorflow.names import enter
from functad.compat.tensorflow.nests import flatten, map_structure, pack_sequence_as
from functad.compat.tensorflow.tensors import as_tensor, operands, operation, returning_tensors
from functad.expressions.spec import dtype_of, shape_of
from functad.places import here


def _gathered(function: np.ufunc, data: Any, numbers: Any, count: int, empty: Any) -> Any:
    """Return, for each number below `count`, what a ufunc makes of the parts of `data` that have it; `empty` if none has.

    Args:
        function: add, multiply, maximum or minimum.
        data: a Tensor of shape `(n, ...)`.
        numbers: n integers; what has a negative one is left out.
        count: how many results there are.
        empty: a number.

    Raises:
        ValueError: a number is too large.
    """
    if numbers.size and numbers.max() >= count:
        raise ValueError(f"a segment has the number {numbers.max()}, at {here()}, and there are {count}.")
    order = np.argsort(numbers, kind="stable")
    order = order[numbers[order] >= 0]
    present, starts = np.unique(numbers[order], return_index=True)
    shape, dtype = (count, *shape_of(data)[1:]), dtype_of(data)
    if not len(present):
        return np.full(shape, empty, dtype)
    found = function.reduceat(data[order], starts, axis=0)
    places = np.zeros(count, int)
    places[present] = np.arange(len(present))
    missing = ~np.isin(np.arange(count), present).reshape(-1, *(1,) * (len(shape) - 1))
    return np.where(missing, np.full((), empty, dtype), found[places])


def _lowest(dtype: Any) -> Any:
    return np.finfo(dtype).min if dtype.kind == "f" else np.iinfo(dtype).min


def _highest(dtype: Any) -> Any:
    return np.finfo(dtype).max if dtype.kind == "f" else np.iinfo(dtype).max


def _counts(numbers: Any, count: int, x: Any) -> Any:
    """Return how many parts each segment has, and one for none, in a shape that divides the sums of `x`."""
    counts = np.maximum(np.bincount(numbers[numbers >= 0], minlength=count), 1).astype(dtype_of(x))
    return counts.reshape(-1, *(1,) * (len(shape_of(x)) - 1))


def _segmented(name: str, data: Any, numbers: Any, count: int, *, is_sorted: bool) -> Any:
    if name in ("mean", "sqrt_n"):
        counts = _counts(numbers, count, data)
        return _gathered(np.add, data, numbers, count, 0) / (counts if name == "mean" else np.sqrt(counts))
    if name == "max":
        return _gathered(np.maximum, data, numbers, count, 0 if is_sorted else _lowest(dtype_of(data)))
    if name == "min":
        return _gathered(np.minimum, data, numbers, count, 0 if is_sorted else _highest(dtype_of(data)))
    return _gathered(np.add, data, numbers, count, 0) if name == "sum" else _gathered(np.multiply, data, numbers, count, 1)


def _sorted_segments(kind: str) -> Callable[..., Any]:
    def apply(data: Any, segment_ids: Any, name: str | None = None) -> Any:
        numbers = plain(segment_ids)
        if numbers.ndim != 1 or (np.diff(numbers) < 0).any():
            raise ValueError(f"segment_ids must be sorted, at {here()}: use tf.math.unsorted_segment_{kind}.")
        return _segmented(kind, as_tensor(data), numbers, int(numbers.max(initial=-1)) + 1, is_sorted=True)

    apply.__name__ = apply.__qualname__ = f"segment_{kind}"
    apply.__doc__ = f"TensorFlow's `tf.math.segment_{kind}`, of parts along the first axis whose numbers are sorted."
    return returning_tensors(apply)


def _unsorted_segments(kind: str) -> Callable[..., Any]:
    def apply(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
        x, numbers = as_tensor(data), plain(segment_ids)
        x = np.reshape(x, (-1, *shape_of(x)[numbers.ndim :]))
        return _segmented(kind, x, numbers.ravel(), int(plain(num_segments)), is_sorted=False)

    apply.__name__ = apply.__qualname__ = f"unsorted_segment_{kind}"
    apply.__doc__ = f"TensorFlow's `tf.math.unsorted_segment_{kind}`; what has a negative number is left out."
    return returning_tensors(apply)


for _name in ("sum", "prod", "max", "min", "mean"):
    enter(f"math.segment_{_name}", _sorted_segments(_name))
for _name in ("sum", "prod", "max", "min", "mean", "sqrt_n"):
    enter(f"math.unsorted_segment_{_name}", _unsorted_segments(_name))


def _flat_places(indices: Any, shape: tuple[int, ...]) -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
    """Return positions in the leading axes as one number each, and the lengths of these axes and of the others.

    Raises:
        IndexError: a position is outside.
    """
    places = plain(indices)
    depth = places.shape[-1]
    inside = (places >= 0) & (places < np.array(shape[:depth], int))
    if not inside.all():
        raise IndexError(f"a position is outside of the shape {shape}, at {here()}.")
    rows = tuple(places.reshape(-1, depth).T)
    return np.ravel_multi_index(rows, shape[:depth]) if depth else np.zeros(len(places), int), shape[:depth], shape[depth:]


@operation("scatter_nd")
def scatter_nd(indices: Any, updates: Any, shape: Any, name: str | None = None) -> Any:
    """Return zeros with parts added at the positions given by the last axis of `indices`."""
    whole = shape_from(shape)
    numbers, outer, inner = _flat_places(indices, whole)
    parts = np.reshape(as_tensor(updates), (-1, *inner))
    return np.reshape(_gathered(np.add, parts, numbers, int(np.prod(outer)), 0), whole)


@operation("tensor_scatter_nd_add")
def tensor_scatter_nd_add(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Any:
    """Return a Tensor with parts added at some positions."""
    x, u = operands(tensor, updates)
    return x + scatter_nd(indices, u, shape_of(x))


@operation("tensor_scatter_nd_sub")
def tensor_scatter_nd_sub(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Any:
    """Return a Tensor with parts subtracted at some positions."""
    x, u = operands(tensor, updates)
    return x - scatter_nd(indices, u, shape_of(x))


@operation("tensor_scatter_nd_update")
def tensor_scatter_nd_update(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Any:
    """Return a Tensor with other parts at some positions; of those for one position, the last."""
    x, u = operands(tensor, updates)
    whole = shape_of(x)
    numbers, outer, inner = _flat_places(indices, whole)
    sources = np.full(int(np.prod(outer)), -1)
    sources[numbers] = np.arange(len(numbers))
    old, parts = np.reshape(x, (-1, *inner)), np.reshape(u, (-1, *inner))
    if not len(numbers):
        return x
    return np.reshape(np.where((sources < 0).reshape(-1, *(1,) * len(inner)), old, parts[sources]), whole)


@operation("map_fn vectorized_map")
def map_fn(fn: Callable[[Any], Any], elems: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the results of a function of each part along the first axis, stacked; arguments and results may be nested.

    Further arguments of TensorFlow's, such as `fn_output_signature`, change nothing.

    Raises:
        ValueError: there is no part, or the numbers of parts differ.
    """
    leaves = [as_tensor(leaf) for leaf in flatten(elems)]
    counts = {shape_of(leaf)[0] for leaf in leaves}
    if len(counts) != 1 or 0 in counts:
        raise ValueError(f"map_fn of {sorted(counts)} parts, at {here()}: there must be as many, and one at least, of each.")
    rows = [fn(pack_sequence_as(elems, [leaf[i] for leaf in leaves])) for i in range(counts.pop())]
    return map_structure(lambda *parts: np.stack(operands(*parts)), *rows)
