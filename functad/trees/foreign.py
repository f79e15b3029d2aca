"""Classes that other libraries were told are containers: JAX and optree, where a program has imported them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from functad.trees.classes import Children, Registration, first_two


def adopted(tree: Any) -> Registration | None:
    """Return how JAX or optree take an object apart, if they know its class; neither is imported for it."""
    jax, optree = sys.modules.get("jax.tree_util"), sys.modules.get("optree")
    found = _of_jax(jax, tree) if hasattr(jax, "treedef_is_leaf") else None  # not while it is being imported
    return _of_optree(optree, type(tree)) if found is None and hasattr(optree, "register_pytree_node") else found


def _of_jax(jax: Any, tree: Any) -> Registration | None:
    """Return how JAX takes an object apart. Its treedef of one level serves as data: it can be compared and hashed."""
    if isinstance(tree, tuple | Iterator):
        return None  # a namedtuple, which is a container here too; an iterator is a leaf, of which JAX warns

    def flatten(tree: Any) -> Children:
        children, treedef = jax.tree_flatten(tree, is_leaf=lambda part: part is not tree)
        return children, treedef

    def steps(treedef: Any) -> list[str] | None:
        """Return the names that JAX has for the children, for which it needs an object."""
        try:
            like = jax.tree_unflatten(treedef, range(treedef.num_leaves))
            found = jax.tree_flatten_with_path(like, is_leaf=lambda part: part is not like)[0]
        except Exception:  # noqa: BLE001 - whatever the class does with numbers for children: it has only no names then
            return None
        unnamed = any(type(path[0]).__name__ == "FlattenedIndexKey" for path, _ in found)
        return None if unnamed or len(found) != treedef.num_leaves else [str(path[0]) for path, _ in found]

    if jax.treedef_is_leaf(flatten(tree)[1]):
        return None
    return Registration(flatten, jax.tree_unflatten, steps)


def _of_optree(optree: Any, kind: type) -> Registration | None:
    """Return how optree takes objects of a class apart: for all namespaces, or in the only one that knows the class."""
    entry = optree.register_pytree_node.get(kind)
    if entry is None:
        # In which namespaces a class is registered cannot be asked publicly; without this dict, only global ones are found.
        registry = getattr(sys.modules.get("optree.registry"), "_NODETYPE_REGISTRY", {})
        entries = [entry for key, entry in registry.items() if isinstance(key, tuple) and kind in key]
        entry = entries[0] if len(entries) == 1 else None
    if entry is None or entry.kind is not optree.PyTreeKind.CUSTOM:
        return None  # what optree takes apart of itself is a container here too, or a leaf as a deque

    def unflatten(data: Any, children: Sequence[Any]) -> Any:
        return entry.unflatten_func(data, tuple(children))

    return Registration(first_two(entry.flatten_func), unflatten)
