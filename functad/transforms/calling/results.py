"""Results in memory of their own: what a transform hands back is nobody else's, so that both sides may write into theirs."""

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
    """Return the leaves of a result, with copies of those that share memory with one another or with arrays of the caller.

    Args:
        leaves: arrays, numbers and Tensors of outer traces.
        foreign: the arrays and Tensors that the caller has.
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
    """Return those leaves of what a function returned that its trace did not make: they are its closures' or the caller's."""
    return [leaf for leaf in leaves if not (isinstance(leaf, Recorded) and leaf.recorder is recorder)]


def owned(leaf: Any) -> Any:
    """Return a leaf that a function may write into: what it was given, and what it gave before, stay what they are."""
    if type(leaf) is _ndarray:
        return copy_alike(leaf)
    return clone(leaf) if isinstance(leaf, Recorded) else leaf


def unaliased(leaves: list[Any]) -> list[Any]:
    """Return the leaves that a step of the user gave, with copies of those that somebody else may write into or look at.

    An array or Tensor stays what it is if nothing but the list holds it, as is usual. So a loop that fills an array in place
    takes time linear in the number of writes.
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
    """Say whether a Tensor is a view of another, or another of it."""
    if getattr(tensor, "origin", None) is not None:
        return True
    memory = getattr(tensor, "memory", None)
    return memory is not None and any(view() is not None for view in memory.views)


def unaliased_tree(tree: Any) -> Any:
    """Return the tree that a function of the user gave, with copies of those leaves that `unaliased` copies."""
    if type(tree) in PLAIN and type(tree) is not _ndarray:
        return tree
    leaves, structure = flatten(tree)
    del tree  # which holds the leaves too
    return structure.unflatten(unaliased(leaves))


def taken(leaves: list[Any]) -> list[Any]:
    """Return the leaves of a list, which does not hold them any more: so that a step may write into them in place."""
    found = leaves.copy()
    leaves.clear()
    return found


def guarded(leaf: Any) -> Any:
    """Return a leaf that a rule cannot change, since others hold it too: an array that is read-only, a Tensor of its own."""
    if type(leaf) is _ndarray and leaf.flags.writeable:
        leaf = leaf.view()
        leaf.flags.writeable = False
        return leaf
    return clone(leaf) if isinstance(leaf, Recorded) else leaf
