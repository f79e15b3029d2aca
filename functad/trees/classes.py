"""How objects of classes with fields, or with methods of their own, are taken apart into children and data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.errors import RegistrationError
from functad.places import here

Children = tuple[Sequence[Any], Any]


class Registration(NamedTuple):
    """How objects of a class are taken apart and put together again.

    Attributes:
        flatten: returns children and data.
        unflatten: makes an object from data and children.
        steps: returns from the data the expressions that read the children, such as `.weight`; `None` if it cannot.
    """

    flatten: Callable[[Any], Children]
    unflatten: Callable[[Any, Sequence[Any]], Any]
    steps: Callable[[Any], list[str] | None] | None = None


class FieldData(NamedTuple):
    """What an object of a class with fields needs to be put together again, beside its children.

    Attributes:
        names: the fields that the children are.
        static: names and values of the fields that are no leaves.
    """

    names: tuple[str, ...]
    static: tuple[tuple[str, Any], ...]


def read_fields(cls: type, static: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the fields of a dataclass or an attrs class that hold children, and of the static ones.

    Raises:
        RegistrationError: the class has no fields, or none of a name in `static`.
    """
    if hasattr(cls, "__dataclass_fields__"):
        import dataclasses  # noqa: PLC0415 - here, what is no field by its kind (`ClassVar`) is left out

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
    """Return the children of an object with fields, and its `FieldData`.

    Raises:
        RegistrationError: a static field cannot be compared.
    """
    fixed = tuple([(name, _comparable(getattr(tree, name), tree, name)) for name in static])
    return [getattr(tree, name) for name in names], FieldData(names, fixed)


def _comparable(value: Any, tree: Any, name: str) -> Any:
    """Return the value of a static field, which decides whether two structures are equal."""
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
    """Return the object of a class with fields, without running its `__init__`: what it checks need not hold for Tensors."""
    made: Any = object.__new__(cls)
    for name, child in zip(data.names, children, strict=True):
        object.__setattr__(made, name, child)
    for name, value in data.static:
        object.__setattr__(made, name, value)
    return made


def registration_of(cls: type, static: Sequence[str]) -> Registration:
    """Return how a class says that its objects are taken apart: by methods, or by its fields.

    Raises:
        RegistrationError: it does not say.
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
    """Return a function that gives children and data; optree's may return the names of the children after these."""

    def pair(tree: Any) -> Children:
        children, data, *_ = flatten(tree)
        return list(children), data

    return pair
