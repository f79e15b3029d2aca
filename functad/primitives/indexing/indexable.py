"""Plain arrays that accept Tensors as indices. `vmap` and control flow pass them to functions beside Tensors.

NumPy needs the integer values of an index, and a batched Tensor has no single value. Indexing a closed-over array with a
batched Tensor therefore raises an error that states the fix. Arrays that a transform passes to the function become
`IndexableArray`s and accept the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from functad.primitives.entry import ENTRIES
from functad.primitives.indexing.index_parts import holds_tensors, plain_index
from functad.primitives.indexing.read import gather
from functad.primitives.operands import is_traced
from functad.process import context_variable
from functad.trees import flatten

WITHIN_BATCH: ContextVar[bool] = context_variable("within_batch", default=False)
"""`True` while a function runs under `vmap`, at any depth. Only there can the values of index Tensors be unknown."""


class IndexableArray(np.ndarray[Any, Any]):
    """An array that accepts Tensors as indices, and as function arguments on which NumPy does not dispatch.

    Traces never keep an `IndexableArray`, and transforms never return one: `as_plain` converts it back.
    """

    def __getitem__(self, index: Any) -> Any:
        if type(index) is not int and _holds_tensors(index):
            return gather(as_plain(self), plain_index(index))
        return super().__getitem__(index)

    def take(self, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
        """Return the result of `np.take`."""
        return np.take(self, indices, axis, out, mode)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        leaves, structure = flatten((args, kwargs))
        tensor = next((leaf for leaf in leaves if is_traced(leaf)), None)
        args, kwargs = structure.unflatten(list(map(as_plain, leaves)))
        writes = function in ENTRIES and ENTRIES[function].in_place  # raises an error if it would write a Tensor
        if tensor is None or writes:
            return indexable(function(*args, **kwargs))
        types = {type(tensor)} | {kind for kind in types if kind is not IndexableArray}
        return tensor.__array_function__(function, types, args, kwargs)


def as_plain(value: Any) -> Any:
    """Return an `IndexableArray` as a plain view. Other values are returned unchanged."""
    return value.view(np.ndarray) if type(value) is IndexableArray else value


def indexable(value: Any) -> Any:
    """Return an array as an `IndexableArray` view. Other values and arrays of shape () are returned unchanged."""
    return value.view(IndexableArray) if type(value) is np.ndarray and value.ndim else value


def handed(leaves: Sequence[Any]) -> Sequence[Any]:
    """Return the leaves that control flow passes to a function. Under `vmap`, arrays become `IndexableArray`s."""
    return [indexable(leaf) for leaf in leaves] if WITHIN_BATCH.get() else leaves


def _holds_tensors(index: Any) -> bool:
    return any(map(is_traced, index)) if type(index) is list else holds_tensors(index)
