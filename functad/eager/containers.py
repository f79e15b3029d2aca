"""Containers in the TensorFlow-style layer: keys stay in the order of the user, and two containers are matched by them.

A list that stands for the leaves of a structure takes these in TensorFlow's order, in which the entries of dicts, of those that
know an order too, are sorted by their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from functad.errors import InputError, StructureError
from functad.places import here
from functad.trees.structure import (
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
    """Return the tree whose leaves are `function` of those of a tree; its dicts keep the order of their keys."""
    leaves, structure = flatten_as_inserted(tree)
    return structure.unflatten([function(leaf) for leaf in leaves])


def sorted_places(structure: Structure, start: int = 0) -> list[int]:
    """Return where, among the leaves of a structure, those stand that TensorFlow takes one after the other."""
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
    """Return the leaves of a tree one after the other, as TensorFlow takes them."""
    leaves, structure = flatten_as_inserted(tree)
    return [leaves[place] for place in sorted_places(structure)]


def matched(structure: Structure, tree: Any, path: str, like: str, *, none: bool = False) -> list[tuple[Any, str]]:
    """Return the parts of a tree in the places of the leaves of a structure, each with the expression that reads it.

    Dicts of all kinds are matched by their keys, whatever the order.

    Args:
        structure: what the tree is to be like; where it has a leaf, the tree may have anything.
        tree: the tree.
        path: the expression that reads the tree, for messages.
        like: the name of what has the structure, for messages.
        none: `None` may stand for a container, and then for all its leaves.

    Raises:
        StructureError: keys are missing, or there are others, or the numbers differ.
        TypeError: a container is of another type.
    """
    if structure.kind is None:
        return [(tree, path)]
    if none and tree is None:
        return [(None, path)] * structure.leaves
    children = zip(structure.children, _children(structure, tree, path, like), _steps(structure), strict=True)
    return [pair for child, part, step in children for pair in matched(child, part, path + step, like + step, none=none)]


def _children(structure: Structure, tree: Any, path: str, like: str) -> Sequence[Any]:
    """Return the parts of a container in the places of those of a structure."""
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
    """Say whether a tree is a container of the kind of a structure, or a leaf where that is one."""
    kind = flatten_as_inserted(tree)[1].kind
    return kind is structure.kind or (kind in MAPPINGS and structure.kind in MAPPINGS)


def is_list(tree: Any) -> bool:
    """Say whether something is a list or tuple with nothing but leaves and such lists in it, which has an order and no keys."""
    return type(tree) in (list, tuple) and all(is_list(part) or part is None or _is_leaf(part) for part in tree)


def _is_leaf(part: Any) -> bool:
    return type(part) in LEAF_KINDS or _split(part) is None


def listed(tree: Any) -> list[Any]:
    """Return the leaves of a list of lists, one after the other."""
    return [leaf for part in tree for leaf in (listed(part) if type(part) in (list, tuple) else [part])]


def in_places(structure: Structure, parts: Sequence[Any]) -> list[Any]:
    """Return the leaves of a structure in its own order, given them in TensorFlow's."""
    found = dict(zip(sorted_places(structure), parts, strict=True))
    return [found[place] for place in range(structure.leaves)]
