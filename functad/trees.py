"""Nested containers as leaves and a structure, and the public functions on trees: flatten, unflatten, map.

Containers are dicts, lists, tuples, namedtuples, dataclasses, `None` and registered classes, including classes that are
registered with JAX or optree, if the program has imported these. A `Registration` describes each kind of container.

`None` is a tree without leaves. Any object that is not a container is a leaf. Dict entries are sorted by key if the keys can
be sorted; otherwise, and in an `OrderedDict`, they keep their insertion order.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np

from functad.errors import InputError, RegistrationError, StructureError
from functad.immutable import Immutable, assign, exact_key
from functad.places import here

C = TypeVar("C")
Children = tuple[Sequence[Any], Any]

MAPPINGS = (dict, OrderedDict, defaultdict)
LEAF_KINDS: set[type] = {np.ndarray, np.float64, np.float32, float, int, complex, bool, str}
"""Common types of leaves. The lookup saves 1.5 us for each leaf."""


class Registration(NamedTuple):
    """The functions of one kind of container.

    Attributes:
        flatten: returns children and data.
        unflatten: makes a container from data and children.
        steps: returns the accessors of the children, such as `.weight`, from the data; `None` if there are none.
    """

    flatten: Callable[[Any], Children]
    unflatten: Callable[[Any, Sequence[Any]], Any]
    steps: Callable[[Any], list[str] | None] = lambda data: None


def _of_mapping(kind: type, keys: Callable[[Any], tuple[Any, ...]]) -> Registration:
    """Return the functions of a kind of dict. Its data are the keys and the default factory."""

    def flatten(tree: Any) -> Children:
        own = keys(tree)
        return list(map(tree.__getitem__, own)), (own, getattr(tree, "default_factory", None))

    def unflatten(data: Any, children: Sequence[Any]) -> Any:
        pairs = zip(data[0], children, strict=True)
        return defaultdict(data[1], pairs) if kind is defaultdict else kind(pairs)

    return Registration(flatten, unflatten, lambda data: [f"[{key!r}]" for key in data[0]])


def _ordered(tree: Iterable[Any]) -> tuple[Any, ...]:
    """Return the keys of a dict in the order of its children."""
    try:
        return tuple(sorted(tree))
    except (TypeError, ValueError):  # keys of several types; a NumPy number beside a tuple compares as an array
        return tuple(tree)


def _of_sequence(kind: type) -> Registration:
    """Return the functions of `tuple` or `list`. The data is the length."""
    return Registration(
        lambda tree: (tree, len(tree)), lambda _, children: kind(children), lambda n: [f"[{i}]" for i in range(n)]
    )


_BUILT_IN: dict[Any, Registration] = {
    tuple: _of_sequence(tuple),
    list: _of_sequence(list),
    dict: _of_mapping(dict, _ordered),
    OrderedDict: _of_mapping(OrderedDict, tuple),
    defaultdict: _of_mapping(defaultdict, _ordered),
}
_REGISTERED: dict[type, Registration] = {}
_DATACLASSES: dict[type, Registration] = {}  # reading the fields takes 3 us


def _registration(kind: Any, tree: Any = None) -> Registration | None:
    """Return the functions of a kind of container; `None` for a leaf. Classes of JAX and optree are found by `tree` only."""
    found = _BUILT_IN.get(kind) or _REGISTERED.get(kind)
    if found is None and tree is not None and ("jax.tree_util" in sys.modules or "optree" in sys.modules):
        found = _adopted(tree)
        if found is not None:
            _REGISTERED[kind] = found
    if found is not None:
        return found
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        names = [f".{name}" for name in kind._fields]
        return Registration(lambda tree: (tree, None), lambda _, children: kind(*children), lambda _: names)
    if hasattr(kind, "__dataclass_fields__") and not getattr(kind, "is_tree_leaf", False):
        if kind not in _DATACLASSES:
            _DATACLASSES[kind] = _of_fields(kind, ())
        return _DATACLASSES[kind]
    return None


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
    if flatten is not None and names:
        raise RegistrationError(
            f"register_tree of {cls.__name__}, called at {here()}: what flatten does not return among the children is static "
            f"already; leave static= out."
        )
    for prefix in ("", "__"):  # the names of the methods of JAX and of optree
        if flatten is None and not names:
            flatten = getattr(cls, f"{prefix}tree_flatten{prefix}", None)
            unflatten = getattr(cls, f"{prefix}tree_unflatten{prefix}", None)
    _REGISTERED[cls] = _of_fields(cls, names) if flatten is None or unflatten is None else Registration(flatten, unflatten)
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


class FieldData(NamedTuple):
    """The data of an object with fields, without its children.

    Attributes:
        names: the names of the fields that hold children.
        static: names and values of the static fields.
    """

    names: tuple[str, ...]
    static: tuple[tuple[str, Any], ...]


def _of_fields(cls: type, static: Sequence[str]) -> Registration:
    """Return the functions of a dataclass or an attrs class.

    Raises:
        RegistrationError: the class has no fields, or no field with a name in `static`.
    """
    if hasattr(cls, "__dataclass_fields__"):
        import dataclasses  # noqa: PLC0415 - 1 ms of the import; `dataclasses.fields` omits pseudo-fields (`ClassVar`)

        fields: Sequence[Any] = dataclasses.fields(cls)
    elif "__attrs_attrs__" in vars(cls):
        fields = vars(cls)["__attrs_attrs__"]
    else:
        raise RegistrationError(
            f"{cls.__name__} does not say which parts it has, at {here()}: write @functad.register_tree above @dataclass, give "
            f"it methods tree_flatten(self) -> (children, data) and tree_unflatten(cls, data, children), or pass two "
            f"functions: functad.register_tree({cls.__name__}, flatten, unflatten)."
        )
    all_names = [field.name for field in fields]
    if unknown := [name for name in static if name not in all_names]:
        raise RegistrationError(
            f"{cls.__name__} has no field {' and no field '.join(map(repr, unknown))}, at {here()}; its fields are {all_names}."
        )
    fixed = [field.name for field in fields if field.name in static or field.metadata.get("static", False)]
    names = tuple([name for name in all_names if name not in fixed])

    def flatten(tree: Any) -> Children:
        held = tuple([(name, _comparable(getattr(tree, name), tree, name)) for name in fixed])
        return [getattr(tree, name) for name in names], FieldData(names, held)

    def unflatten(data: FieldData, children: Sequence[Any]) -> Any:
        """Return an object without calling `__init__`, whose checks may fail for Tensors."""
        made: Any = object.__new__(cls)
        for name, value in (*zip(data.names, children, strict=True), *data.static):
            object.__setattr__(made, name, value)
        return made

    return Registration(flatten, unflatten, lambda data: [f".{name}" for name in data.names])


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


def _adopted(tree: Any) -> Registration | None:
    """Return the registration of an object's class in JAX or optree, or `None`. Neither package is imported."""
    jax, optree = sys.modules.get("jax.tree_util"), sys.modules.get("optree")
    found = _of_jax(jax, tree) if hasattr(jax, "treedef_is_leaf") else None  # `jax` may be partially imported
    return _of_optree(optree, type(tree)) if found is None and hasattr(optree, "register_pytree_node") else found


def _of_jax(jax: Any, tree: Any) -> Registration | None:
    """Return the registration of a class in JAX. The data is a treedef of one level: hashable and comparable."""
    if isinstance(tree, tuple | Iterator):
        return None  # namedtuples are containers of functad; for iterators JAX gives a warning

    def flatten(tree: Any) -> Children:
        return jax.tree_flatten(tree, is_leaf=lambda part: part is not tree)  # type: ignore[no-any-return]

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
    return Registration(entry.flatten_func, lambda data, children: entry.unflatten_func(data, tuple(children)))


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


def _flatten(
    tree: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None = None, as_inserted: bool = False
) -> Structure:
    """Append the leaves of a tree to `leaves`, and return the structure of the tree."""
    kind = type(tree)
    if kind in LEAF_KINDS or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return LEAF
    if tree is None:
        return _NONE
    if kind is tuple or kind is list:  # most trees; this saves three calls
        row = _ROWS.get((kind, len(tree)))
        if row is not None and is_leaf is None and LEAF_KINDS.issuperset(map(type, tree)):
            leaves.extend(tree)
            return row
        parts: Any = kind, len(tree), tree
    elif kind is dict and not tree:
        return _EMPTY
    elif (parts := _split(tree)) is None:
        leaves.append(tree)
        return LEAF
    _, data, children = parts
    if as_inserted and kind in MAPPINGS:
        data, children = (tuple(tree), data[1]), list(tree.values())
    if is_leaf is None and LEAF_KINDS.issuperset(map(type, children)):  # saves a call for each leaf
        leaves.extend(children)
        return Structure(kind, data, (LEAF,) * len(children), len(children))
    structures = tuple([_flatten(child, leaves, is_leaf, as_inserted) for child in children])
    return Structure(kind, data, structures, sum([s.leaves for s in structures]))


def _split(tree: Any) -> tuple[type, Any, Sequence[Any]] | None:
    """Return type, data and children of a container; `None` for a leaf and for `None`."""
    kind = type(tree)
    registration = _BUILT_IN.get(kind) or _registration(kind, tree)
    if registration is None:
        return None
    children, data, *_ = registration.flatten(tree)  # optree allows names as a third result
    return kind, data, children if type(children) in (list, tuple) else list(children)


def _build(structure: Structure, leaves: Any) -> Any:
    kind = structure.kind
    if kind is None:
        return next(leaves)
    if kind is type(None):
        return None
    if structure is _EMPTY:
        return {}
    children = [next(leaves) if child is LEAF else _build(child, leaves) for child in structure.children]
    if kind is tuple or kind is list:  # most trees
        return kind(children)
    return (_BUILT_IN.get(kind) or _registration(kind)).unflatten(structure.data, children)  # type: ignore[union-attr]


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
    """Return the accessors of the children of a node."""
    registration = _registration(structure.kind)
    named = None if registration is None else registration.steps(structure.data)
    return [f".children[{i}]" for i in range(len(structure.children))] if named is None else named


def difference(expected: Structure, found: Structure, name: str) -> str:
    """Return a description of the first difference between two structures."""
    if expected.kind is not found.kind or expected.data != found.data:
        return f"{name} should be {_describe(expected)}, not {_describe(found)}"
    for left, right, step in zip(expected.children, found.children, _steps(expected), strict=True):
        if left != right:
            return difference(left, right, name + step)
    return f"{name} differs"


def _describe(structure: Structure) -> str:
    kind, data = structure.kind, structure.data
    if kind is None:
        return "a leaf"
    if kind is type(None):
        return "None"
    if kind in MAPPINGS:
        return f"a {kind.__name__} with keys {list(data[0])}"
    if kind in (list, tuple):
        return f"a {kind.__name__} of {data}"
    if isinstance(data, FieldData):
        data = ", ".join([f"{name}={value!r}" for name, value in data.static])
        return f"a {kind.__name__} with {data}" if data else f"a {kind.__name__}"
    return f"a {kind.__name__}" if data is None else f"a {kind.__name__} with {data!r}"


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
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, is_leaf)


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
        tree: the tree, as for `tree_flatten`.
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
        tree: the tree, as for `tree_flatten`.
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
