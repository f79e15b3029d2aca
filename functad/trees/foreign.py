"""Container classes that are registered with JAX or optree, if the program has imported them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from functad.trees.classes import Children, Registration, first_two


def adopted(tree: Any) -> Registration | None:
    """Return the registration of an object's class in JAX or optree, or `None`. Neither package is imported."""
    jax, optree = sys.modules.get("jax.tree_util"), sys.modules.get("optree")
    found = _of_jax(jax, tree) if hasattr(jax, "treedef_is_leaf") else None  # `jax` may be partially imported
    return _of_optree(optree, type(tree)) if found is None and hasattr(optree, "register_pytree_node") else found


def _of_jax(jax: Any, tree: Any) -> Registration | None:
    """Return the registration of a class in JAX. The data is a treedef of one level: hashable and comparable."""
    if isinstance(tree, tuple | Iterator):
        return None  # namedtuples are containers of functad; for iterators JAX gives a warning

    def flatten(tree: Any) -> Children:
        children, treedef = jax.tree_flatten(tree, is_leaf=lambda part: part is not tree)
        return children, treedef

    def steps(treedef: Any) -> list[str] | None:
        """Return JAX's names of the children. They need an object, which is built from integers."""
        try:
            like = jax.tree_unflatten(treedef, range(treedef.num_leaves))
            found = jax.tree_flatten_with_path(like, is_leaf=lambda part: part is not like)[0]
        except Exception:  # noqa: BLE001 - the class may reject integers as children; then names are unavailable
            return None
        unnamed = any(type(path[0]).__name__ == "FlattenedIndexKey" for path, _ in found)
        return None if unnamed or len(found) != treedef.num_leaves else [str(path[0]) for path, _ in found]

    if jax.treedef_is_leaf(flatten(tree)[1]):
        return None
    return Registration(flatten, jax.tree_unflatten, steps)


def _of_optree(optree: Any, kind: type) -> Registration | None:
    """Return the registration of a class in optree: the global one, or the one of the only namespace that has the class."""
    entry = optree.register_pytree_node.get(kind)
    if entry is None:
        # optree has no public query for the namespaces of a class. Without this dict, only global registrations are found.
        registry = getattr(sys.modules.get("optree.registry"), "_NODETYPE_REGISTRY", {})
        entries = [entry for key, entry in registry.items() if isinstance(key, tuple) and kind in key]
        entry = entries[0] if len(entries) == 1 else None
    if entry is None or entry.kind is not optree.PyTreeKind.CUSTOM:
        return None  # optree's built-in containers are containers or leaves (deque) of functad already

    def unflatten(data: Any, children: Sequence[Any]) -> Any:
        return entry.unflatten_func(data, tuple(children))

    return Registration(first_two(entry.flatten_func), unflatten)
