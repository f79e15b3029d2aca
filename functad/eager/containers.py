"""Containers in the TensorFlow-style layer: dicts keep the user's order of keys, and are matched by key.

A flat list of leaves is in TensorFlow's order: the entries of all dicts, ordered ones too, are sorted by key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from functad.errors import InputError, StructureError
from functad.places import here
from functad.trees import (
    LEAF_KINDS,
    MAPPINGS,
    Structure,
    _describe,
    _ordered,
    _split,
    _steps,
    difference,
    flatten_as_inserted,
)


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """Apply `function` to every leaf of a pytree; dicts keep the order of their keys."""
    leaves, structure = flatten_as_inserted(tree)
    return structure.unflatten([function(leaf) for leaf in leaves])


def sorted_places(structure: Structure, start: int = 0) -> list[int]:
    """Return the indices of the leaves of a structure in TensorFlow's order."""
    if structure.kind is None:
        return [start]
    places = []
    for child in structure.children:
        places.append(sorted_places(child, start))
        start += child.leaves
    if structure.kind in MAPPINGS:
        by_key = dict(zip(structure.data[0], places, strict=True))
        places = [by_key[key] for key in _ordered(by_key)]
    return [place for part in places for place in part]


def sorted_leaves(tree: Any) -> list[Any]:
    """Return the leaves of a pytree in TensorFlow's order."""
    leaves, structure = flatten_as_inserted(tree)
    return [leaves[place] for place in sorted_places(structure)]


def matched(structure: Structure, tree: Any, path: str, like: str, *, none: bool = False) -> list[tuple[Any, str]]:
    """Return the part of a pytree at each leaf of a structure, with its expression for messages.

    Dicts of all kinds are matched by key, in any order.

    Args:
        structure: the structure to match; its leaves match any part.
        tree: the pytree.
        path: the expression of the pytree, for messages.
        like: the name of the object with the structure, for messages.
        none: allow `None` in place of a container; it then counts for all leaves of the container.

    Raises:
        StructureError: keys are missing or superfluous, or the numbers of parts differ.
        TypeError: a container has another type.
    """
    if structure.kind is None:
        return [(tree, path)]
    if none and tree is None:
        return [(None, path)] * structure.leaves
    children = zip(structure.children, _children(structure, tree, path, like), _steps(structure), strict=True)
    return [pair for child, part, step in children for pair in matched(child, part, path + step, like + step, none=none)]


def _children(structure: Structure, tree: Any, path: str, like: str) -> Sequence[Any]:
    """Return the children of a container in the order of the children of a structure."""
    kind, data = structure.kind, structure.data
    if kind in MAPPINGS and isinstance(tree, Mapping):
        wrong = [f"{key!r} is missing" for key in data[0] if key not in tree]
        wrong += [f"{key!r} is none of them" for key in tree if key not in data[0]]
        if wrong:
            raise StructureError(f"{path} must have the keys of {like}, at {here()}: {', '.join(wrong)}.")
        return [tree[key] for key in data[0]]
    found = flatten_as_inserted(tree)[1]
    if found.kind is not kind:
        raise InputError(f"{path} must be {_describe(structure)}, as {like}, not {_describe(found)}, at {here()}.")
    if found.data != data:
        raise StructureError(f"{difference(structure, found, path)}, as {like}, at {here()}.")
    parts = _split(tree)
    return () if parts is None else parts[2]


def alike(structure: Structure, tree: Any) -> bool:
    """Return `True` if the root of a pytree has the kind of a structure; all dicts count as one kind."""
    kind = flatten_as_inserted(tree)[1].kind
    return kind is structure.kind or (kind in MAPPINGS and structure.kind in MAPPINGS)


def is_list(tree: Any) -> bool:
    """Return `True` for a list or tuple that contains only leaves, `None`, and such lists and tuples."""
    return type(tree) in (list, tuple) and all(is_list(part) or part is None or _is_leaf(part) for part in tree)


def _is_leaf(part: Any) -> bool:
    return type(part) in LEAF_KINDS or _split(part) is None


def listed(tree: Any) -> list[Any]:
    """Return the leaves of nested lists and tuples."""
    return [leaf for part in tree for leaf in (listed(part) if type(part) in (list, tuple) else [part])]


def in_places(structure: Structure, parts: Sequence[Any]) -> list[Any]:
    """Reorder leaves from TensorFlow's order to the order of a structure."""
    found = dict(zip(sorted_places(structure), parts, strict=True))
    return [found[place] for place in range(structure.leaves)]
