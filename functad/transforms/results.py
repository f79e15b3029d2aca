"""Results in memory of their own: what a transform hands back is nobody else's, so that both sides may write into theirs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from functad.expressions.ownership import root_of, separate
from functad.tracing.recorder import Recorded, Recorder
from functad.tracing.views import clone

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
            known.add(id(_root_tensor(value)))
    result = separate(leaves, known)
    for i, leaf in enumerate(result):
        if isinstance(leaf, Recorded):
            root = id(_root_tensor(leaf))
            if root in known:
                result[i] = clone(leaf)
            known.add(root)
    return result


def foreign_to(recorder: Recorder, leaves: Iterable[Any]) -> list[Any]:
    """Return those leaves of what a function returned that its trace did not make: they are its closures' or the caller's."""
    return [leaf for leaf in leaves if not (isinstance(leaf, Recorded) and leaf.recorder is recorder)]


def _root_tensor(tensor: Any) -> Any:
    origin = getattr(tensor, "origin", None)
    return tensor if origin is None else origin[0]


def owned(leaf: Any) -> Any:
    """Return a leaf that a function may write into: what it was given, and what it gave before, stay what they are."""
    if type(leaf) is _ndarray:
        return leaf.copy()
    return clone(leaf) if isinstance(leaf, Recorded) else leaf


def guarded(leaf: Any) -> Any:
    """Return a leaf that a rule cannot change, since others hold it too: an array that is read-only, a Tensor of its own."""
    if type(leaf) is _ndarray and leaf.flags.writeable:
        leaf = leaf.view()
        leaf.flags.writeable = False
        return leaf
    return clone(leaf) if isinstance(leaf, Recorded) else leaf
