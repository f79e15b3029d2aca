"""Ownership of results: a transform returns arrays that share no memory with each other or with arrays of the caller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from functad.expressions.expressions import root_of, unshared
from functad.expressions.spec import PLAIN
from functad.primitives.elementwise.conversion import copy_alike
from functad.primitives.indexing.write import is_alone
from functad.tracing.traces.base import Recorded, Recorder
from functad.tracing.views import clone, origin_of
from functad.trees.structure import flatten

_ndarray = np.ndarray


def own_results(leaves: Sequence[Any], foreign: Iterable[Any]) -> list[Any]:
    """Return the leaves of a result, and copy each leaf that shares memory with another leaf or with `foreign`.

    Args:
        leaves: arrays, numbers and Tensors of outer traces.
        foreign: arrays and Tensors of the caller.
    """
    known: set[int] = set()
    for value in foreign:
        if type(value) is _ndarray:
            known.add(id(value if value.base is None else root_of(value)))
        elif isinstance(value, Recorded):
            known.add(id(origin_of(value)[0]))
    result = unshared(leaves, known)
    for i, leaf in enumerate(result):
        if isinstance(leaf, Recorded):
            root = id(origin_of(leaf)[0])
            if root in known:
                result[i] = clone(leaf)
            known.add(root)
    return result


def foreign_to(recorder: Recorder, leaves: Iterable[Any]) -> list[Any]:
    """Return the leaves of a result that the trace did not record, such as captured arrays."""
    return [leaf for leaf in leaves if not (isinstance(leaf, Recorded) and leaf.recorder is recorder)]


def owned(leaf: Any) -> Any:
    """Return a copy of an array or Tensor that a function may write to; return other leaves unchanged."""
    if type(leaf) is _ndarray:
        return copy_alike(leaf)
    return clone(leaf) if isinstance(leaf, Recorded) else leaf


def unaliased(leaves: list[Any]) -> list[Any]:
    """Return the leaves of a user's step, and copy each leaf that is a view or has other references.

    Usually `leaves` holds the only reference, and nothing is copied. A loop that fills an array in place therefore takes time
    linear in the number of writes.
    """
    for i in range(len(leaves)):
        kind = type(leaves[i])
        if kind is _ndarray:
            if leaves[i].base is not None or not leaves[i].flags.writeable or not is_alone(leaves, i):
                leaves[i] = leaves[i].copy("K")
        elif kind not in PLAIN and isinstance(leaves[i], Recorded) and (_is_viewed(leaves[i]) or not is_alone(leaves, i)):
            leaves[i] = clone(leaves[i])
    return leaves


def _is_viewed(tensor: Any) -> bool:
    """Return `True` if a Tensor is a view, or another Tensor is a view of it."""
    if getattr(tensor, "origin", None) is not None:
        return True
    memory = getattr(tensor, "memory", None)
    return memory is not None and any(view() is not None for view in memory.views)


def unaliased_tree(tree: Any) -> Any:
    """Return the result of a user's function with its leaves passed through `unaliased`."""
    if type(tree) in PLAIN and type(tree) is not _ndarray:
        return tree
    leaves, structure = flatten(tree)
    del tree  # `unaliased` counts references
    return structure.unflatten(unaliased(leaves))


def taken(leaves: list[Any]) -> list[Any]:
    """Return a copy of a list of leaves and clear the list, so that a step may write to the leaves in place."""
    found = leaves.copy()
    leaves.clear()
    return found


def guarded(leaf: Any) -> Any:
    """Return a read-only view of an array, or a copy of a Tensor, so that a rule cannot modify the original."""
    if type(leaf) is _ndarray and leaf.flags.writeable:
        leaf = leaf.view()
        leaf.flags.writeable = False
        return leaf
    return clone(leaf) if isinstance(leaf, Recorded) else leaf
