"""Nested containers: how dicts, lists, tuples, namedtuples, dataclasses, `None` and registered classes flatten to leaves.

A tree with no leaf is `None`; anything that is no container is a leaf. Dict entries are taken in sorted order of keys
if the keys can be sorted, else in the order of insertion; those of an `OrderedDict` always in its own order.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from functad.errors import StructureError
from functad.places import here

C = TypeVar("C")
Children = tuple[Sequence[Any], Any]

_REGISTERED: dict[type, tuple[Callable[[Any], Children], Callable[[Any, Sequence[Any]], Any]]] = {}

LEAF_KINDS: set[type] = {np.ndarray, np.float64, np.float32, float, int, complex, bool, str}
"""Types known to be no containers, which saves 1.5 us for each leaf."""


def register_tree(
    cls: type[C],
    flatten: Callable[[C], Children],
    unflatten: Callable[[Any, Sequence[Any]], C],
) -> type[C]:
    """Make a class a container of trees.

    Args:
        cls: the class.
        flatten: returns the children and hashable extra data.
        unflatten: makes an object from the extra data and the children.

    Returns:
        The class itself.

    Example:
        >>> class Interval:
        ...     def __init__(self, low, high):
        ...         self.low, self.high = low, high
        >>> _ = register_tree(Interval, lambda i: ((i.low, i.high), None), lambda _, children: Interval(*children))
        >>> flatten({"a": Interval(1.0, 2.0)})[0]
        [1.0, 2.0]
    """
    _REGISTERED[cls] = (flatten, unflatten)
    LEAF_KINDS.discard(cls)
    return cls


@dataclasses.dataclass(frozen=True, slots=True)
class Structure:
    """The shape of a tree without its leaves.

    Attributes:
        kind: the type of the container; `None` for a leaf.
        data: what is needed to rebuild it beside its children: keys, field names, extra data.
        children: structures of the children.
        leaves: number of leaves below.
    """

    kind: type | None
    data: Any
    children: tuple[Structure, ...]
    leaves: int

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Return the tree with this structure and the given leaves."""
        if self.kind is None:
            return next(iter(leaves))
        return _build(self, iter(leaves))

    def flatten_like(self, tree: Any, name: str) -> list[Any]:
        """Return the leaves of a tree that must have this structure.

        Raises:
            StructureError: it has another; the message names the place, starting with `name`.
        """
        leaves, structure = flatten(tree)
        if structure != self:
            raise StructureError(f"{difference(self, structure, name)}, at {here()}")
        return leaves

    def paths(self, root: str) -> list[str]:
        """Return for each leaf the expression that reads it, such as `args[0]['w'][2]`."""
        if self.kind is None:
            return [root]
        return [path for child, step in zip(self.children, _steps(self), strict=True) for path in child.paths(root + step)]

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        inside = ", ".join(f"{step}: {child!r}" for step, child in zip(_steps(self), self.children, strict=True))
        return f"{self.kind.__name__}({inside})"


LEAF = Structure(None, None, (), 1)
_NONE = Structure(type(None), None, (), 0)


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """Return the leaves of a tree, from left to right, and its structure.

    Example:
        >>> flatten({"b": [1, 2], "a": None})
        ([1, 2], dict(['a']: NoneType(), ['b']: list([0]: *, [1]: *)))
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree: Any, leaves: list[Any]) -> Structure:
    if type(tree) in LEAF_KINDS:
        leaves.append(tree)
        return LEAF
    if tree is None:
        return _NONE
    parts = _split(tree)
    if parts is None:
        leaves.append(tree)
        return LEAF
    kind, data, children = parts
    structures = tuple([_flatten(child, leaves) for child in children])
    return Structure(kind, data, structures, sum([s.leaves for s in structures]))


def _split(tree: Any) -> tuple[type, Any, Sequence[Any]] | None:
    """Return type, extra data and children of a container; `None` for a leaf."""
    kind = type(tree)
    if kind is list or kind is tuple:
        return kind, len(tree), tree
    if kind is dict or kind is OrderedDict or kind is defaultdict:
        keys = tuple(tree) if kind is OrderedDict else _ordered(tree)
        extra = tree.default_factory if kind is defaultdict else None
        return kind, (keys, extra), [tree[key] for key in keys]
    registered = _REGISTERED.get(kind)
    if registered is not None:
        children, data = registered[0](tree)
        return kind, data, children
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return kind, len(tree), tree
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type) and not getattr(kind, "is_tree_leaf", False):
        names = tuple(field.name for field in dataclasses.fields(tree))
        return kind, names, [getattr(tree, name) for name in names]
    return None


def _ordered(tree: dict[Any, Any]) -> tuple[Any, ...]:
    try:
        return tuple(sorted(tree))
    except TypeError:
        return tuple(tree)


def _build(structure: Structure, leaves: Any) -> Any:
    kind = structure.kind
    if kind is None:
        return next(leaves)
    if kind is type(None):
        return None
    children = [_build(child, leaves) for child in structure.children]
    if kind in (list, tuple):
        return kind(children)
    if kind in (dict, OrderedDict):
        return kind(zip(structure.data[0], children, strict=True))
    if kind is defaultdict:
        return defaultdict(structure.data[1], zip(structure.data[0], children, strict=True))
    if kind in _REGISTERED:
        return _REGISTERED[kind][1](structure.data, children)
    if issubclass(kind, tuple):
        return kind(*children)
    made = object.__new__(kind)
    for name, child in zip(structure.data, children, strict=True):
        object.__setattr__(made, name, child)
    return made


def _steps(structure: Structure) -> list[str]:
    kind = structure.kind
    if kind in (dict, OrderedDict, defaultdict):
        return [f"[{key!r}]" for key in structure.data[0]]
    if kind in _REGISTERED:
        return [f".children[{i}]" for i in range(len(structure.children))]
    if kind is not None and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return [f".{name}" for name in kind._fields]
    if kind is not None and dataclasses.is_dataclass(kind):
        return [f".{name}" for name in structure.data]
    return [f"[{i}]" for i in range(len(structure.children))]


def difference(expected: Structure, found: Structure, name: str) -> str:
    """Describe the first place where two structures differ."""
    if expected.kind is not found.kind or expected.data != found.data:
        return f"{name} should be {_describe(expected)}, not {_describe(found)}"
    for left, right, step in zip(expected.children, found.children, _steps(expected), strict=True):
        if left != right:
            return difference(left, right, name + step)
    return f"{name} differs"


def _describe(structure: Structure) -> str:
    if structure.kind is None:
        return "a leaf"
    if structure.kind is type(None):
        return "None"
    if structure.kind in (dict, OrderedDict, defaultdict):
        return f"a {structure.kind.__name__} with keys {list(structure.data[0])}"
    if structure.kind in (list, tuple):
        return f"a {structure.kind.__name__} of {len(structure.children)}"
    return f"a {structure.kind.__name__}"


def tree_map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """Return the tree whose leaves are `function` of the leaves of `tree`, and of those of `others` in the same places.

    Raises:
        StructureError: the trees have different structures.

    Example:
        >>> tree_map(lambda a, b: a + 10 * b, {"x": 1, "y": [2]}, {"x": 3, "y": [4]})
        {'x': 31, 'y': [42]}
    """
    leaves, structure = flatten(tree)
    columns = [structure.flatten_like(other, f"others[{i}]") for i, other in enumerate(others)]
    return structure.unflatten([function(*row) for row in zip(leaves, *columns, strict=True)])


def prefix_leaves(prefix: Any, tree: Structure, what: str, of: str) -> list[Any]:
    """Return for each leaf of a tree the value that a tree which begins like it, and may end earlier, has there.

    `None` counts as a value of the prefix, not as a tree without leaves.

    Args:
        prefix: the tree of values.
        tree: the structure of the whole tree.
        what: the name of the prefix for the message.
        of: the name of the tree for the message.

    Raises:
        StructureError: the prefix has another structure.
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
