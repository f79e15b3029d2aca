"""Nested containers as leaves and a structure, and the public functions on trees: flatten, unflatten, map.

Containers are dicts, lists, tuples, namedtuples, dataclasses, `None` and registered classes.

`None` is a tree without leaves. Any object that is not a container is a leaf. Dict entries are sorted by key if the keys can
be sorted; otherwise, and in an `OrderedDict`, they keep their insertion order.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from functad.errors import InputError, RegistrationError, StructureError
from functad.immutable import Immutable, assign, exact_key
from functad.places import here

if TYPE_CHECKING:
    from functad.trees.classes import Children, Registration


C = TypeVar("C")

_REGISTERED: dict[type, Registration] = {}
_FIELDS: dict[type, tuple[tuple[str, ...], tuple[str, ...]]] = {}  # cache for dataclasses: reading the fields takes 3 us

MAPPINGS = (dict, OrderedDict, defaultdict)
LEAF_KINDS: set[type] = {np.ndarray, np.float64, np.float32, float, int, complex, bool, str}
"""Common types of leaves. The lookup saves 1.5 us for each leaf."""


@overload
def register_tree(
    cls: type[C],
    flatten: Callable[[C], Children] | None = None,
    unflatten: Callable[[Any, Sequence[Any]], C] | None = None,
    *,
    static: Iterable[str] = (),
) -> type[C]: ...
@overload
def register_tree(cls: None = None, *, static: Iterable[str] = ()) -> Callable[[type[C]], type[C]]: ...
def register_tree(
    cls: Any = None,
    flatten: Callable[[Any], Children] | None = None,
    unflatten: Callable[[Any, Sequence[Any]], Any] | None = None,
    *,
    static: Iterable[str] = (),
) -> Any:
    """Register a class as a container of trees: as a decorator, or as a call with two functions.

    Without the functions, the class must have the methods `tree_flatten(self)` and `tree_unflatten(cls, data, children)`, as in
    JAX, or be a dataclass or an attrs class. A field is static (part of the structure, not a leaf) if its name is in `static`
    or if it was made by `static_field()`.

    Dataclasses are containers without registration; register them only to use `static`. Classes that are registered with JAX
    or optree are containers too, as soon as these packages are imported.

    Args:
        cls: the class.
        flatten: returns the children and extra data, which must be hashable and comparable.
        unflatten: makes an object from the extra data and the children.
        static: names of static fields.

    Returns:
        The class itself; without `cls`, a decorator.

    Raises:
        RegistrationError: the class has neither tree methods nor fields, or no field with a name in `static`.

    Example:
        >>> class Interval:
        ...     def __init__(self, low, high):
        ...         self.low, self.high = low, high
        >>> _ = register_tree(Interval, lambda i: ((i.low, i.high), None), lambda _, children: Interval(*children))
        >>> flatten({"a": Interval(1.0, 2.0)})[0]
        [1.0, 2.0]
        >>> import dataclasses
        >>> @register_tree(static=["activation"])
        ... @dataclasses.dataclass
        ... class Layer:
        ...     weight: float
        ...     activation: str = "tanh"
        >>> import functad
        >>> functad.tree_map(lambda leaf: 2 * leaf, Layer(3.0))
        Layer(weight=6.0, activation='tanh')
    """
    names = (static,) if isinstance(static, str) else tuple(static)
    if cls is None:
        return lambda decorated: register_tree(decorated, static=names)
    if not isinstance(cls, type):
        raise RegistrationError(f"register_tree, called at {here()}, makes a class a container; {cls!r} is none.")
    if (flatten is None) != (unflatten is None):
        raise RegistrationError(
            f"register_tree of {cls.__name__}, called at {here()}, needs flatten and unflatten, or neither of them if the "
            f"class says itself how it is taken apart."
        )
    from functad.trees import classes as tree_classes  # noqa: PLC0415 - few programs have custom containers

    if flatten is not None and unflatten is not None:
        if names:
            raise RegistrationError(
                f"register_tree of {cls.__name__}, called at {here()}: what flatten does not return among the children is "
                f"static already; leave static= out."
            )
        _REGISTERED[cls] = tree_classes.Registration(flatten, unflatten)
    else:
        _REGISTERED[cls] = tree_classes.registration_of(cls, names)
    LEAF_KINDS.discard(cls)
    return cls


def static_field(**options: Any) -> Any:
    """Return a dataclass field that is part of the structure, not a leaf: a size, a name, a function.

    It is `dataclasses.field(metadata={"static": True})`, which JAX reads too.

    Args:
        options: options of `dataclasses.field`: `default`, `default_factory`, `repr`, ...

    Returns:
        A dataclass field.

    Example:
        >>> import dataclasses
        >>> @dataclasses.dataclass
        ... class Layer:
        ...     weight: float
        ...     activation: str = static_field(default="tanh")
        >>> flatten(Layer(3.0))[0]
        [3.0]
    """
    import dataclasses  # noqa: PLC0415 - 1 ms of the import, and few programs need it

    metadata = {**(options.pop("metadata", None) or {}), "static": True}
    return dataclasses.field(metadata=metadata, **options)


class Structure(Immutable):
    """The structure of a tree without its leaves.

    Attributes:
        kind: the type of the container; `None` for a leaf.
        data: keys, field names or extra data: everything besides the children that rebuilding the container needs.
        children: structures of the children.
        leaves: the number of leaves of the tree.

    Example:
        >>> structure = flatten({"w": [1.0, 2.0], "b": 3.0})[1]
        >>> structure.leaves, structure.paths("p")
        (3, ["p['b']", "p['w'][0]", "p['w'][1]"])
    """

    __slots__ = ("children", "data", "kind", "leaves")

    kind: type | None
    data: Any
    children: tuple[Structure, ...]
    leaves: int

    def __init__(self, kind: type | None, data: Any, children: tuple[Structure, ...], leaves: int) -> None:
        assign(self, "kind", kind)
        assign(self, "data", data)
        assign(self, "children", children)
        assign(self, "leaves", leaves)

    def __eq__(self, other: object) -> bool:
        if type(other) is not Structure:
            return NotImplemented
        return (self.kind, self.data, self.children) == (other.kind, other.data, other.children)

    def __hash__(self) -> int:
        return hash((self.kind, self.data, self.children))

    def exact_key(self) -> Any:
        """Return a hashable key that differs for structures that differ only in equal keys such as `1`, `1.0` and `True`.

        Raises:
            TypeError: the extra data of a class is not hashable.
        """
        data, children = self.data, self.children
        if self.kind in MAPPINGS:
            plain = data[1] is None and (not data[0] or set(map(type, data[0])) == {str})
            data = data if plain else exact_key(data)
        elif type(data) is not int and data is not None:
            data = exact_key(data)
        return self.kind, data, tuple([None if child is LEAF else child.exact_key() for child in children])

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Return the tree with this structure and the given leaves.

        Args:
            leaves: the leaves from left to right. Their number must match the structure.

        Returns:
            The tree, in containers of the same types.
        """
        if self.kind is None:
            return next(iter(leaves))
        return _build(self, iter(leaves))

    def builder(self) -> Callable[..., Any]:
        """Return a compiled function that builds the tree from its leaves.

        It is ten times faster than `unflatten` for trees of tuples, lists and dicts, and calls `unflatten` for all others.

        Example:
            >>> leaves, structure = flatten({"a": 1, "b": (2, [3])})
            >>> structure.builder()(*leaves)
            {'a': 1, 'b': (2, [3])}
        """
        names = [f"x{i}" for i in range(self.leaves)]
        text = _text(self, iter(names))
        if text is None:
            return lambda *leaves: self.unflatten(leaves)
        made: Callable[..., Any] = eval(f"lambda {', '.join(names)}: {text}", {})  # noqa: S307 - generated names and literals
        return made

    def flatten_like(self, tree: Any, name: str) -> list[Any]:
        """Return the leaves of a tree that must have this structure.

        Args:
            tree: the tree.
            name: the name of the tree in the message.

        Returns:
            The list of leaves, from left to right.

        Raises:
            StructureError: the structures differ. The message contains the path of the difference, starting with `name`.
        """
        leaves, structure = flatten(tree)
        if structure != self:
            raise StructureError(f"{difference(self, structure, name)}, at {here()}")
        return leaves

    def paths(self, root: str) -> list[str]:
        """Return for each leaf the expression that reads it, such as `args[0]['w'][2]`.

        Args:
            root: the expression that reads the tree, such as `args[0]`.

        Returns:
            The list of expressions, one for each leaf.
        """
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
_EMPTY = Structure(dict, ((), None), (), 0)
_ROWS = {(kind, n): Structure(kind, n, (LEAF,) * n, n) for kind in (tuple, list) for n in range(9)}
"""The most common structures: tuples and lists of a few leaves."""
_CALLS = [Structure(tuple, 2, (_ROWS[tuple, n], _EMPTY), n) for n in range(9)]
"""The structures of `(args, kwargs)` for calls with a few positional arguments that are leaves."""


def structure_of_call(args: tuple[Any, ...]) -> Structure | None:
    """Return the structure of `(args, {})` if the types of all arguments are leaf types; `None` if `flatten` is needed.

    The result is the same object for each number of arguments.
    """
    return _CALLS[len(args)] if len(args) < len(_CALLS) and LEAF_KINDS.issuperset(map(type, args)) else None


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """Return the leaves of a tree, from left to right, and its structure.

    Example:
        >>> flatten({"b": [1, 2], "a": None})
        ([1, 2], dict(['a']: NoneType(), ['b']: list([0]: *, [1]: *)))
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def flatten_as_inserted(tree: Any) -> tuple[list[Any], Structure]:
    """Return the leaves of a tree and its structure, with the keys of dicts in insertion order instead of sorted."""
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, as_inserted=True)


def _flatten(tree: Any, leaves: list[Any], as_inserted: bool = False) -> Structure:
    kind = type(tree)
    if kind in LEAF_KINDS:
        leaves.append(tree)
        return LEAF
    if tree is None:
        return _NONE
    if kind is tuple or kind is list:
        row = _ROWS.get((kind, len(tree)))
        if row is not None and LEAF_KINDS.issuperset(map(type, tree)):
            leaves.extend(tree)
            return row
    elif kind is dict and not tree:
        return _EMPTY
    parts = _split(tree)
    if parts is None:
        leaves.append(tree)
        return LEAF
    kind, data, children = parts
    if as_inserted and kind in MAPPINGS:
        data, children = (tuple(tree), data[1]), list(tree.values())
    structures = tuple([_flatten(child, leaves, as_inserted) for child in children])
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
    if registered is None and ("jax.tree_util" in sys.modules or "optree" in sys.modules):
        from functad.trees.classes import adopted  # noqa: PLC0415 - few programs import JAX or optree

        registered = adopted(tree)
        if registered is not None:
            _REGISTERED[kind] = registered
    if registered is not None:
        children, data = registered.flatten(tree)
        return kind, data, children
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return kind, len(tree), tree
    if hasattr(kind, "__dataclass_fields__") and not getattr(kind, "is_tree_leaf", False):
        from functad.trees import classes as tree_classes  # noqa: PLC0415 - few programs have custom containers

        fields = _FIELDS.get(kind)
        if fields is None:
            fields = _FIELDS[kind] = tree_classes.read_fields(kind, ())
        children, data = tree_classes.take_apart(tree, *fields)
        return kind, data, children
    return None


def _ordered(tree: dict[Any, Any]) -> tuple[Any, ...]:
    try:
        return tuple(sorted(tree))
    except (TypeError, ValueError):  # keys of several types; a NumPy number beside a tuple compares as an array
        return tuple(tree)


def _build(structure: Structure, leaves: Any) -> Any:
    kind = structure.kind
    if kind is None:
        return next(leaves)
    if kind is type(None):
        return None
    children = [next(leaves) if child is LEAF else _build(child, leaves) for child in structure.children]
    if kind is tuple or kind is list:
        return kind(children)
    if kind in (dict, OrderedDict):
        return kind(zip(structure.data[0], children, strict=True))
    if kind is defaultdict:
        return defaultdict(structure.data[1], zip(structure.data[0], children, strict=True))
    if kind in _REGISTERED:
        return _REGISTERED[kind].unflatten(structure.data, children)
    if issubclass(kind, tuple):
        return kind(*children)
    from functad.trees import classes as tree_classes  # noqa: PLC0415 - few programs have custom containers

    return tree_classes.put_together(kind, structure.data, children)


def _text(structure: Structure, names: Iterator[str]) -> str | None:
    """Return the source text of a tree; `None` if it contains other containers than tuples, lists and dicts."""
    kind = structure.kind
    if kind is None:
        return next(names)
    if kind is type(None):
        return "None"
    parts = [_text(child, names) for child in structure.children]
    if None in parts:
        return None
    if kind is tuple:
        return f"({', '.join(map(str, parts))}{',' if len(parts) == 1 else ''})"
    if kind is list:
        return f"[{', '.join(map(str, parts))}]"
    if kind is dict and all(type(key) in (str, int) for key in structure.data[0]):
        return "{" + ", ".join(f"{key!r}: {part}" for key, part in zip(structure.data[0], parts, strict=True)) + "}"
    return None


def _steps(structure: Structure) -> list[str]:
    kind = structure.kind
    if kind in MAPPINGS:
        return [f"[{key!r}]" for key in structure.data[0]]
    if kind in _REGISTERED:
        steps = _REGISTERED[kind].steps
        named = None if steps is None else steps(structure.data)
        return [f".children[{i}]" for i in range(len(structure.children))] if named is None else named
    if kind is not None and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return [f".{name}" for name in kind._fields]
    if kind is not None and hasattr(kind, "__dataclass_fields__"):
        return [f".{name}" for name in structure.data[0]]
    return [f"[{i}]" for i in range(len(structure.children))]


def difference(expected: Structure, found: Structure, name: str) -> str:
    """Return a description of the first difference between two structures."""
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
    if structure.kind in MAPPINGS:
        return f"a {structure.kind.__name__} with keys {list(structure.data[0])}"
    if structure.kind in (list, tuple):
        return f"a {structure.kind.__name__} of {len(structure.children)}"
    if structure.kind in _REGISTERED or hasattr(structure.kind, "__dataclass_fields__"):
        return f"a {structure.kind.__name__}{_described_data(structure.data)}"
    return f"a {structure.kind.__name__}"


def _described_data(data: Any) -> str:
    """Return a description of the static fields or the extra data of a node, for a message."""
    if hasattr(data, "static"):
        return f" with {', '.join(f'{name}={value!r}' for name, value in data.static)}" if data.static else ""
    return "" if data is None else f" with {data!r}"


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
