"""`tf.scatter_nd`, `tf.tensor_scatter_nd_update` and related functions, and `tf.map_fn`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.compat.tensorflow.creation import shape_from, static
from functad.compat.tensorflow.nests import flatten, map_structure, pack_sequence_as
from functad.compat.tensorflow.tensors import as_tensor, enter_calls, operands, operation
from functad.expressions.spec import dtype_of, shape_of
from functad.places import here
from functad.primitives.indexing.write import add, write


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
