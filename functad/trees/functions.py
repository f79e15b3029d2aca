"""Public functions on trees: flatten, unflatten, map."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from functad.errors import InputError, StructureError
from functad.places import here
from functad.trees.structure import _NONE, LEAF, Structure, _describe, _split, _steps, difference, flatten


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Structure]:
    """Return the leaves of a tree, from left to right, and its structure.

    Args:
        tree: nested dicts, lists, tuples, namedtuples, dataclasses, registered classes and `None`, which has no leaves.
        is_leaf: returns `True` for a container, or for `None`, that counts as a leaf.

    Returns:
        The list of leaves, and the structure for `tree_unflatten`.

    Example:
        >>> leaves, structure = tree_flatten({"b": [1, 2], "a": None})
        >>> leaves
        [1, 2]
        >>> tree_unflatten(structure, ["one", "two"])
        {'a': None, 'b': ['one', 'two']}
        >>> tree_flatten({"b": [1, 2], "a": None}, is_leaf=lambda t: t is None or isinstance(t, list))[0]
        [None, [1, 2]]
    """
    if is_leaf is None:
        return flatten(tree)
    leaves: list[Any] = []
    return leaves, _flatten_until(tree, leaves, is_leaf)


def _flatten_until(tree: Any, leaves: list[Any], is_leaf: Callable[[Any], bool]) -> Structure:
    parts = None if tree is None else _split(tree)
    if is_leaf(tree) or (tree is not None and parts is None):
        leaves.append(tree)
        return LEAF
    if parts is None:
        return _NONE
    kind, data, children = parts
    structures = tuple([_flatten_until(child, leaves, is_leaf) for child in children])
    return Structure(kind, data, structures, sum([s.leaves for s in structures]))


def tree_unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """Return the tree with a structure and leaves: the inverse of `tree_flatten`.

    Args:
        structure: a result of `tree_flatten` or `tree_structure`.
        leaves: the leaves from left to right, objects of any type. Their number must match the structure.

    Returns:
        The tree, in containers of the same types.

    Raises:
        StructureError: the number of leaves does not match, or `structure` is not a structure.

    Example:
        >>> tree_unflatten(tree_structure({"w": 0, "b": [0, 0]}), [1, 2, 3])
        {'b': [1, 2], 'w': 3}
    """
    if not isinstance(structure, Structure):
        raise StructureError(
            f"tree_unflatten, called at {here()}, got a {type(structure).__name__} for the structure. Write "
            f"tree_unflatten(structure, leaves); tree_structure(tree) gives the structure of a tree."
        )
    given = list(leaves)
    if len(given) != structure.leaves:
        raise StructureError(
            f"tree_unflatten, called at {here()}, got {len(given)} leaves for {structure!r}, which has {structure.leaves}."
        )
    return structure.unflatten(given)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Return the leaves of a tree, from left to right.

    Args:
        tree: nested dicts, lists, tuples, namedtuples, dataclasses, registered classes and `None`, which has no leaves; leaves
            may be objects of any type.
        is_leaf: returns `True` for a container, or for `None`, that counts as a leaf.

    Returns:
        The list of leaves. Dicts are traversed in the order of their sorted keys.

    Example:
        >>> tree_leaves({"b": [1, 2], "a": (3, None)})
        [3, 1, 2]
    """
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Structure:
    """Return the structure of a tree. Trees that differ in their leaves only have equal structures.

    Args:
        tree: nested dicts, lists, tuples, namedtuples, dataclasses, registered classes and `None`, which has no leaves; leaves
            may be objects of any type.
        is_leaf: returns `True` for a container, or for `None`, that counts as a leaf.

    Returns:
        The structure for `tree_unflatten`. It can be compared, hashed and printed.

    Example:
        >>> tree_structure((1.0, [2.0])) == tree_structure(("a", ["b"]))
        True
    """
    return tree_flatten(tree, is_leaf)[1]


def tree_map(function: Callable[..., Any], tree: Any, *others: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Return a tree with the results of `function` for the leaves of `tree` and the corresponding leaves of `others`.

    Args:
        function: takes one leaf of each tree.
        tree: the tree that gives the structure.
        others: trees of the same structure.
        is_leaf: returns `True` for a container, or for `None`, that counts as a leaf.

    Returns:
        A tree with the structure of `tree`.

    Raises:
        InputError: `function` is not callable.
        StructureError: the trees have different structures.

    Example:
        >>> tree_map(lambda a, b: a + 10 * b, {"x": 1, "y": [2]}, {"x": 3, "y": [4]})
        {'x': 31, 'y': [42]}
    """
    if not callable(function):
        raise InputError(
            f"tree_map needs a function, not a {type(function).__name__}, at {here()}. It comes first: tree_map(f, tree)."
        )
    leaves, structure = tree_flatten(tree, is_leaf)
    columns = []
    for i, other in enumerate(others):
        column, found = tree_flatten(other, is_leaf)
        if found != structure:
            raise StructureError(f"{difference(structure, found, f'others[{i}]')}, at {here()}")
        columns.append(column)
    return structure.unflatten([function(*row) for row in zip(leaves, *columns, strict=True)])


def prefix_leaves(prefix: Any, tree: Structure, what: str, of: str) -> list[Any]:
    """Return the value of a prefix tree for each leaf of a tree.

    A prefix has the structure of the tree down to some nodes. `None` counts as a value, not as a tree without leaves.

    Args:
        prefix: the tree of values.
        tree: the structure of the whole tree.
        what: the name of the prefix for the message.
        of: the name of the tree for the message.

    Raises:
        StructureError: `prefix` is not a prefix of the tree.
    """
    parts = None if prefix is None or tree.kind is None else _split(prefix)
    if parts is None:
        return [prefix] * tree.leaves
    kind, data, children = parts
    if kind is not tree.kind or data != tree.data:
        found = _describe(Structure(kind, data, tuple([LEAF for _ in children]), len(children)))
        raise StructureError(f"{what} is {found}, but {of} is {_describe(tree)}. It must begin like it.")
    leaves: list[Any] = []
    for child, below, step in zip(children, tree.children, _steps(tree), strict=True):
        leaves += prefix_leaves(child, below, what + step, of + step)
    return leaves
