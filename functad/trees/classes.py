"""Flattening of objects into children and data.

The classes are dataclasses, attrs classes, classes with `tree_flatten` methods, and classes that are registered with JAX or
optree, if the program has imported these.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.errors import RegistrationError
from functad.places import here

Children = tuple[Sequence[Any], Any]


class Registration(NamedTuple):
    """The flatten and unflatten functions of a class.

    Attributes:
        flatten: returns children and data.
        unflatten: makes an object from data and children.
        steps: returns the accessors of the children, such as `.weight`, from the data; `None` if there are none.
    """

    flatten: Callable[[Any], Children]
    unflatten: Callable[[Any, Sequence[Any]], Any]
    steps: Callable[[Any], list[str] | None] | None = None


class FieldData(NamedTuple):
    """The data of an object with fields, without its children.

    Attributes:
        names: the names of the fields that hold children.
        static: names and values of the static fields.
    """

    names: tuple[str, ...]
    static: tuple[tuple[str, Any], ...]


def read_fields(cls: type, static: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the child fields and of the static fields of a dataclass or an attrs class.

    Raises:
        RegistrationError: the class has no fields, or no field with a name in `static`.
    """
    if hasattr(cls, "__dataclass_fields__"):
        import dataclasses  # noqa: PLC0415 - `dataclasses.fields` omits pseudo-fields (`ClassVar`)

        fields: Sequence[Any] = dataclasses.fields(cls)
    elif "__attrs_attrs__" in vars(cls):
        fields = vars(cls)["__attrs_attrs__"]
    else:
        raise RegistrationError(
            f"{cls.__name__} does not say which parts it has, at {here()}: write @functad.register_tree above @dataclass, give "
            f"it methods tree_flatten(self) -> (children, data) and tree_unflatten(cls, data, children), or pass two "
            f"functions: functad.register_tree({cls.__name__}, flatten, unflatten)."
        )
    names = [field.name for field in fields]
    unknown = [name for name in static if name not in names]
    if unknown:
        raise RegistrationError(
            f"{cls.__name__} has no field {' and no field '.join(map(repr, unknown))}, at {here()}; its fields are {names}."
        )
    fixed = {field.name for field in fields if field.name in static or field.metadata.get("static", False)}
    return tuple(name for name in names if name not in fixed), tuple(name for name in names if name in fixed)


def take_apart(tree: Any, names: tuple[str, ...], static: tuple[str, ...]) -> Children:
    """Return the children and the `FieldData` of an object with fields.

    Raises:
        RegistrationError: the value of a static field is not hashable.
    """
    fixed = tuple([(name, _comparable(getattr(tree, name), tree, name)) for name in static])
    return [getattr(tree, name) for name in names], FieldData(names, fixed)


def _comparable(value: Any, tree: Any, name: str) -> Any:
    """Return the value of a static field, which must be hashable because it takes part in the equality of structures."""
    try:
        hash(value)
    except TypeError:
        hashable = False
    else:
        hashable = issubclass(type(value), (np.generic, type)) or not hasattr(value, "__array_ufunc__")
    if not hashable:
        raise RegistrationError(
            f"The static field {name!r} of {type(tree).__name__} holds a {type(value).__name__}, which cannot be compared and "
            f"hashed, at {here()}. Make it a leaf by leaving static out, or hold a tuple or a string."
        )
    return value


def put_together(cls: type, data: FieldData, children: Sequence[Any]) -> Any:
    """Return an object of a class with fields without calling `__init__`, whose checks may fail for Tensors."""
    made: Any = object.__new__(cls)
    for name, child in zip(data.names, children, strict=True):
        object.__setattr__(made, name, child)
    for name, value in data.static:
        object.__setattr__(made, name, value)
    return made


def registration_of(cls: type, static: Sequence[str]) -> Registration:
    """Return the flatten and unflatten functions of a class: its tree methods, or functions for its fields.

    Raises:
        RegistrationError: the class has neither tree methods nor fields.
    """
    for flatten, unflatten in (("tree_flatten", "tree_unflatten"), ("__tree_flatten__", "__tree_unflatten__")):
        if hasattr(cls, flatten) and hasattr(cls, unflatten) and not static:
            return Registration(first_two(getattr(cls, flatten)), getattr(cls, unflatten))
    names, fixed = read_fields(cls, static)
    return Registration(
        lambda tree: take_apart(tree, names, fixed),
        lambda data, children: put_together(cls, data, children),
        lambda data: [f".{name}" for name in data.names],
    )


def first_two(flatten: Callable[[Any], Any]) -> Callable[[Any], Children]:
    """Return a flatten function without names of children, which optree allows as a third result."""

    def pair(tree: Any) -> Children:
        children, data, *_ = flatten(tree)
        return list(children), data

    return pair


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
