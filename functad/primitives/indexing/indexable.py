"""Plain arrays that take Tensors as places: what `vmap` and control flow hand to a function beside Tensors.

NumPy reads a plain array at places that are numbers, and asks a Tensor for them: one that stands for all examples of a batch
has none to give. An array that a function closes over stays plain, and the error says what to write; what a transform hands to
the function need not be.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from functad.primitives.indexing.index_parts import holds_tensors, plain_index
from functad.primitives.indexing.read import gather
from functad.primitives.operands import is_traced
from functad.settings import context_variable
from functad.trees.structure import flatten

WITHIN_BATCH: ContextVar[bool] = context_variable("within_batch", default=False)
"""Whether a function runs under `vmap`, at any depth: only there are numbers unknown that code uses as places."""

_WRITES = frozenset({np.copyto, np.fill_diagonal, np.place, np.put, np.put_along_axis, np.putmask})
"""What writes into its first argument, and refuses to write a Tensor into a plain array."""


class IndexableArray(np.ndarray[Any, Any]):
    """An array in all, but that Tensors may be among its indices, and among arguments by which NumPy does not dispatch.

    A record never keeps one, and no transform returns one: `as_plain` gives the array itself.
    """

    def __getitem__(self, index: Any) -> Any:
        if type(index) is not int and _holds_tensors(index):
            return gather(as_plain(self), plain_index(index))
        return super().__getitem__(index)

    def take(self, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
        """As `np.take`."""
        return np.take(self, indices, axis, out, mode)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        leaves, structure = flatten((args, kwargs))
        tensor = next((leaf for leaf in leaves if is_traced(leaf)), None)
        args, kwargs = structure.unflatten(list(map(as_plain, leaves)))
        if tensor is None or function in _WRITES:
            return indexable(function(*args, **kwargs))
        types = {type(tensor)} | {kind for kind in types if kind is not IndexableArray}
        return tensor.__array_function__(function, types, args, kwargs)


def as_plain(value: Any) -> Any:
    """Return an array of this kind as a plain one of the same memory, and anything else as it is."""
    return value.view(np.ndarray) if type(value) is IndexableArray else value


def indexable(value: Any) -> Any:
    """Return an array as one that takes Tensors as places, and anything else as it is."""
    return value.view(IndexableArray) if type(value) is np.ndarray and value.ndim else value


def handed(leaves: Sequence[Any]) -> Sequence[Any]:
    """Return the leaves that control flow hands to a function: within `vmap`, arrays that take Tensors as places."""
    return [indexable(leaf) for leaf in leaves] if WITHIN_BATCH.get() else leaves


def _holds_tensors(index: Any) -> bool:
    return any(map(is_traced, index)) if type(index) is list else holds_tensors(index)
