"""Which arrays share memory, as far as NumPy's own views tell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def root_of(array: Any) -> Any:
    """Return the array that owns the memory of an array, as far as it is one."""
    while type(array.base) is np.ndarray:
        array = array.base
    return array


def unshared(leaves: Iterable[Any], known: set[int]) -> list[Any]:
    """Return leaves with copies of those arrays that cannot be written into, or whose memory is known already.

    Args:
        leaves: arrays and whatever else there is.
        known: the `id` of `root_of` arrays that are not to be given out; those of the result are added.
    """
    result = []
    for leaf in leaves:
        if type(leaf) is np.ndarray:
            root = id(leaf if leaf.base is None else root_of(leaf))
            if root in known or not leaf.flags.writeable:
                leaf = leaf.copy("K")
                root = id(leaf)
            known.add(root)
        result.append(leaf)
    return result
