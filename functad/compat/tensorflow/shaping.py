"""TensorFlow's functions that rearrange, gather and scatter elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functad.compat.tensorflow.control import flatten, map_structure, pack_sequence_as
from functad.compat.tensorflow.creation import places_of, shape_from, static
from functad.compat.tensorflow.mathematics import axes_of
from functad.compat.tensorflow.tensors import as_tensor, enter_calls, numpy_dtype, operands, operation
from functad.expressions.spec import dtype_of, shape_of
from functad.places import here
from functad.primitives.indexing.write import add, write
from functad.primitives.operands import all_examples


def _listed(values: Any) -> list[Any]:
    return operands(*(values if isinstance(values, (list, tuple)) else [values]))


enter_calls(
    {
        "broadcast_to": (np.broadcast_to, lambda input, shape, name=None: (as_tensor(input), shape_from(shape))),
        "concat": (np.concatenate, lambda values, axis, name=None: (_listed(values), int(static(axis)))),
        "expand_dims": (np.expand_dims, lambda input, axis, name=None: (as_tensor(input), int(static(axis)))),
        "rank": (np.int32, lambda input, name=None: (len(shape_of(as_tensor(input))),)),
        "repeat": (np.repeat, lambda input, repeats, axis=None, name=None: (as_tensor(input), static(repeats), axis)),
        "reshape": (np.reshape, lambda tensor, shape, name=None: (as_tensor(tensor), shape_from(shape))),
        "reverse": (np.flip, lambda tensor, axis, name=None: (as_tensor(tensor), axes_of(axis))),
        "roll": (np.roll, lambda input, shift, axis, name=None: (as_tensor(input), axes_of(shift), axes_of(axis))),
        "shape": (np.array, lambda input, out_type=np.int32, name=None: (shape_of(as_tensor(input)), numpy_dtype(out_type))),
        "size": (
            np.array,
            lambda input, out_type=np.int32, name=None: (math.prod(shape_of(as_tensor(input))), numpy_dtype(out_type)),
        ),
        "squeeze": (np.squeeze, lambda input, axis=None, name=None: (as_tensor(input), axes_of(axis))),
        "stack": (np.stack, lambda values, axis=0, name=None: (_listed(values), axis)),
        "tile": (np.tile, lambda input, multiples, name=None: (as_tensor(input), shape_from(multiples))),
    }
)


@operation("transpose")
def transpose(a: Any, perm: Any = None, conjugate: bool = False, name: str | None = None) -> Any:
    """Return a Tensor with permuted axes; without `perm`, the axes are reversed."""
    out = np.transpose(as_tensor(a), None if perm is None else shape_from(perm))
    return np.conj(out) if conjugate else out


@operation("unstack")
def unstack(value: Any, num: int | None = None, axis: int = 0, name: str | None = None) -> list[Any]:
    """Return the slices of a Tensor along an axis, without that axis."""
    x = np.moveaxis(as_tensor(value), axis, 0)
    return [x[i] for i in range(len(x))]


@operation("split")
def split(value: Any, num_or_size_splits: Any, axis: Any = 0, num: int | None = None, name: str = "split") -> list[Any]:
    """Return a Tensor split into a number of equal parts, or into parts of given lengths; one length may be -1.

    Raises:
        ValueError: the lengths do not add up to the length of the axis.
    """
    x, sizes, place = as_tensor(value), static(num_or_size_splits), int(static(axis))
    if sizes.ndim == 0:
        return list(np.split(x, int(sizes), axis=place))
    whole = shape_of(x)[place]
    lengths = np.where(sizes < 0, whole - sizes[sizes >= 0].sum(), sizes)
    if lengths.sum() != whole:
        raise ValueError(f"parts of lengths {sizes.tolist()} do not make up {whole}, at {here()}.")
    return list(np.split(x, np.cumsum(lengths)[:-1].tolist(), axis=place))


@operation("pad")
def pad(tensor: Any, paddings: Any, mode: str = "CONSTANT", constant_values: Any = 0, name: str | None = None) -> Any:
    """Return a padded Tensor: constant, or mirrored without (`REFLECT`) or with (`SYMMETRIC`) the edge."""
    x, widths, kind = as_tensor(tensor), static(paddings).tolist(), mode.lower()
    options: dict[str, Any] = {"constant_values": constant_values} if kind == "constant" else {"mode": kind}
    return np.pad(x, widths, **options)


@operation("slice")
def slice_(input_: Any, begin: Any, size: Any, name: str | None = None) -> Any:
    """Return the part of a Tensor from `begin` with lengths `size`; -1 means all remaining elements."""
    parts = zip(shape_from(begin), shape_from(size), strict=True)
    return as_tensor(input_)[tuple([slice(first, None if count < 0 else first + count) for first, count in parts])]


@operation("gather")
def gather(
    params: Any, indices: Any, validate_indices: Any = None, axis: Any = None, batch_dims: int = 0, name: str | None = None
) -> Any:
    """Return the slices of a Tensor at given positions along an axis.

    Raises:
        IndexError: a position is out of bounds or negative.
    """
    x, places = as_tensor(params), places_of(indices)
    along = batch_dims if axis is None else int(static(axis))
    along += len(shape_of(x)) if along < 0 else 0
    length = shape_of(x)[along]
    numbers = all_examples(places)  # of all batch examples
    if issubclass(type(numbers), np.ndarray) and numbers.size and (numbers.min() < 0 or numbers.max() >= length):
        raise IndexError(f"positions from {numbers.min()} to {numbers.max()} on an axis of length {length}, at {here()}.")
    if not batch_dims:
        return np.take(x, places, axis=along)
    moved = np.moveaxis(x, along, batch_dims)[(*_batch_index(places.shape, batch_dims), places)]
    first = list(range(batch_dims, places.ndim))
    return np.moveaxis(moved, first, [place + along - batch_dims for place in first])


def _batch_index(shape: tuple[int, ...], batch_dims: int) -> list[Any]:
    """Return the indices of the batch axes, shaped to broadcast with positions."""
    return list(np.ogrid[tuple([slice(n) for n in shape])][:batch_dims]) if batch_dims else []


@operation("gather_nd")
def gather_nd(params: Any, indices: Any, batch_dims: int = 0, name: str | None = None) -> Any:
    """Return the elements or slices of a Tensor at the positions along the last axis of `indices`."""
    x, places = as_tensor(params), static(indices)
    return x[(*_batch_index(places.shape[:-1], batch_dims), *np.moveaxis(places, -1, 0))]


@operation("boolean_mask")
def boolean_mask(tensor: Any, mask: Any, axis: int | None = None, name: str = "boolean_mask") -> Any:
    """Return the slices of a Tensor at the true elements of a mask; the mask covers the axes from `axis` on."""
    x = as_tensor(tensor)
    return x[(slice(None),) * (axis or 0) + (static(mask).astype(bool),)]


def _index(indices: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return a NumPy index for positions along the last axis of an array.

    Raises:
        IndexError: a position is out of bounds.
    """
    places = static(indices)
    if not ((places >= 0) & (places < np.array(shape[: places.shape[-1]], int))).all():
        raise IndexError(f"a position is outside of the shape {shape}, at {here()}.")
    return tuple(np.moveaxis(places, -1, 0))


@operation("scatter_nd")
def scatter_nd(indices: Any, updates: Any, shape: Any, name: str | None = None) -> Any:
    """Return zeros with `updates` added at the positions along the last axis of `indices`."""
    whole, u = shape_from(shape), as_tensor(updates)
    return add(np.zeros(whole, dtype_of(u)), u, path=(), index=_index(indices, whole))


def _changed(change: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that adds, subtracts or writes updates at given positions with `change`."""

    def scatter(tensor: Any, indices: Any, updates: Any) -> Any:
        x, u = operands(tensor, updates)
        return change(x, u, path=(), index=_index(indices, shape_of(x)))

    return scatter


enter_calls(
    {
        f"tensor_scatter_nd_{name}": (_changed(change), lambda tensor, indices, updates, name=None: (tensor, indices, updates))
        for name, change in {"add": add, "sub": lambda x, u, **where: add(x, -u, **where), "update": write}.items()
    }
)


@operation("map_fn vectorized_map")
def map_fn(fn: Callable[[Any], Any], elems: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the stacked results of a function of each slice along the first axis; arguments and results may be nested.

    Further arguments of TensorFlow, such as `fn_output_signature`, have no effect.

    Raises:
        ValueError: there are no slices, or the arrays have different numbers of slices.
    """
    leaves = [as_tensor(leaf) for leaf in flatten(elems)]
    if not all(map(shape_of, leaves)):
        raise ValueError(f"map_fn of a number, at {here()}: each array needs a first axis.")
    counts = {shape_of(leaf)[0] for leaf in leaves}
    if len(counts) != 1 or 0 in counts:
        raise ValueError(f"map_fn of {sorted(counts)} parts, at {here()}: there must be as many, and one at least, of each.")
    rows = [fn(pack_sequence_as(elems, [leaf[i] for leaf in leaves])) for i in range(counts.pop())]
    return map_structure(lambda *parts: np.stack(operands(*parts)), *rows)
