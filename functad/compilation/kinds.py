"""Kinds of arguments of compiled functions. Calls with equal kinds use the same list."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.errors import InputError
from functad.expressions.spec import ArraySpec
from functad.places import here, name_of
from functad.tracing.trace import Recorded
from functad.transforms.transform import parameters_of, positions_of


def is_foreign(a: Any, kind: Any) -> bool:
    """Return `True` if an argument is an array of another library with a known shape and dtype."""
    return type(kind) is tuple and kind[-1] is not TENSOR and not issubclass(type(a), (np.ndarray, np.generic, Recorded))


def quick_key(args: tuple[Any, ...], foreign: set[type]) -> Any:
    """Return a key of the arguments if all are arrays or numbers, else `None`."""
    kinds: list[Any] = []
    for a in args:
        kind = type(a)
        if kind is np.ndarray:
            kinds.append((a.dtype, a.shape, a.flags.c_contiguous))
        elif kind in NUMBERS:
            if kind is int and is_large(a):
                return None
            kinds.append(kind)
        elif kind in foreign:
            kinds.append((a.dtype, a.shape))
        else:
            return None
    return tuple(kinds)


def is_large(number: int) -> bool:
    """Return `True` if an integer does not fit into int64."""
    return not -(2**63) <= number < 2**63


LARGE = "large integer"
"""The kind of an integer that does not fit into int64. Such calls run the function itself."""

NUMBERS = frozenset({float, int, bool, complex, np.float64, np.float32})


def static_places(
    f: Callable[..., Any], argnums: int | Sequence[int], argnames: str | Sequence[str], option: str = "static"
) -> tuple[frozenset[int], frozenset[str]]:
    """Return the positions and the names of static or donated arguments. Each argument may be passed by position or by name.

    Negative positions count from the last parameter. They stay negative for a function with `*args` or without a known
    signature, and count from the last argument of each call.

    Raises:
        InputError: a position is not an integer, or the function has no such argument.
    """
    positions = set(positions_of("jit", f, argnums, f"{option}_argnums"))
    names = {argnames} if isinstance(argnames, str) else set(argnames)
    known = parameters_of(f)
    if known is None:
        return frozenset(positions), frozenset(names)
    kinds = [p.kind for p in known.values()]
    unknown = sorted(names - known.keys())
    if unknown and inspect.Parameter.VAR_KEYWORD not in kinds:
        raise InputError(
            f"jit of {name_of(f)}, at {here()}: {option}_argnames has {unknown[0]!r}; its arguments are {', '.join(known)}."
        )
    ordered = [name for name, p in known.items() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        beyond = sorted(i for i in positions if not -len(ordered) <= i < len(ordered))
        if beyond:
            raise InputError(
                f"jit of {name_of(f)}, at {here()}: {option}_argnums has {beyond[0]}; its positional arguments are "
                f"{', '.join([f'{i} ({name})' for i, name in enumerate(ordered)]) or 'none'}. Names go into {option}_argnames."
            )
        positions = {i % len(ordered) for i in positions}
    by_name = {name for i, name in enumerate(ordered) if i in positions}
    by_place = {i for i, name in enumerate(ordered) if name in names}
    return frozenset(positions | by_place), frozenset(names | by_name)


class Static:
    """A wrapper that makes a static argument a leaf of the arguments."""

    is_tree_leaf = True

    def __init__(self, value: Any) -> None:
        self.value = value


SCALAR = "scalar"
"""The last part of the kind of a NumPy scalar. An array of shape `()` has `True` there."""

STATIC = "static"
TENSOR = "tensor"
"""The last part of the kind of a Tensor outside all traces. Values computed from it are such Tensors too."""


def likeness_of(kind: Any, other: Any) -> int:
    """Return the number of equal parts of two kinds of leaves."""
    if isinstance(kind, tuple) and isinstance(other, tuple):
        return sum(a == b for a, b in zip(kind, other, strict=False))
    return 3 if kind == other else 0


def shown(kind: Any) -> str:
    """Return the text of a kind for messages."""
    if kind is STATIC:
        return "static"
    if kind is LARGE:
        return "an integer beyond int64"
    if isinstance(kind, type) or isinstance(kind[0], type):
        return f"a {(kind if isinstance(kind, type) else kind[0]).__name__} of Python"
    spec = ArraySpec(kind[1], kind[0])
    if kind[2] is SCALAR:
        return f"{spec}, a scalar"
    if type(kind[2]) is tuple:
        return f"{spec} in chunks of {' x '.join([_lengths(chunks) for chunks in kind[2]])}"
    return f"{spec}" if kind[2] else f"{spec}, not in C order"


def _lengths(chunks: tuple[int, ...]) -> str:
    """Return a short text of the chunk lengths along an axis: `(6, 6, 6, 2)`, or `1000` if all are equal."""
    if len(set(chunks)) == 1:
        return str(chunks[0])
    return f"({', '.join(map(str, chunks[:3]))}{', ...' * (len(chunks) > 4)}, {chunks[-1]})".replace("(, ", "(")


class Same:
    """A static argument compared by identity, such as a Variable. The compiled function reads and assigns this object."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


class Weak:
    """A static argument compared by identity that the cache does not keep alive, such as `self` of a method."""

    __slots__ = ("ref",)

    def __init__(self, value: Any) -> None:
        self.ref = weakref.ref(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Weak) and self.ref == other.ref  # a dead reference equals only itself

    def __hash__(self) -> int:
        return hash(self.ref)  # the reference keeps the hash of a freed object

    def __repr__(self) -> str:
        value = self.ref()
        return "an object that is gone" if value is None else repr(value)


def without_owner(value: Any) -> Any:
    """Return a static argument as `Weak` if its class compares by identity; other values unchanged."""
    kind: Any = type(value)
    if kind.__eq__ is object.__eq__ and kind.__hash__ is object.__hash__:
        try:
            return Weak(value)
        except TypeError:  # the class has `__slots__` without `__weakref__`
            return value
    return value
