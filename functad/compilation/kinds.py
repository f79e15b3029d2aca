"""Kinds of arguments of compiled functions: what is equal for calls that one list serves."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec
from functad.tracing.traces.base import Recorded


def is_foreign(a: Any, kind: Any) -> bool:
    """Say whether an argument is an array of another library, known by its shape and dtype."""
    return type(kind) is tuple and kind[-1] is not TENSOR and not issubclass(type(a), (np.ndarray, np.generic, Recorded))


def quick_key(args: tuple[Any, ...], foreign: set[type]) -> Any:
    """Return a key of arguments that are arrays and numbers; `None` for others."""
    kinds: list[Any] = []
    for a in args:
        kind = type(a)
        if kind is np.ndarray:
            kinds.append((a.dtype, a.shape, a.flags.c_contiguous))
        elif kind in NUMBERS:
            kinds.append(kind)
        elif kind in foreign:
            kinds.append((a.dtype, a.shape))
        else:
            return None
    return tuple(kinds)


NUMBERS = frozenset({float, int, bool, complex, np.float64, np.float32})


class Static:
    """A static argument: a leaf of the arguments that no trace enters."""

    is_tree_leaf = True

    def __init__(self, value: Any) -> None:
        self.value = value


STATIC = "static"
TENSOR = "tensor"
"""Ends the kind of a Tensor that no trace follows: what is computed from it is one too."""


def likeness_of(kind: Any, other: Any) -> int:
    """Return in how many respects two kinds of leaves are alike."""
    if isinstance(kind, tuple) and isinstance(other, tuple):
        return sum(a == b for a, b in zip(kind, other, strict=False))
    return 3 if kind == other else 0


def shown(kind: Any) -> str:
    """Return how a kind is called in messages."""
    if kind is STATIC:
        return "static"
    if isinstance(kind, type) or isinstance(kind[0], type):
        return f"a {(kind if isinstance(kind, type) else kind[0]).__name__} of Python"
    spec = ArraySpec(kind[1], kind[0])
    if type(kind[2]) is tuple:
        return f"{spec} in chunks of {' x '.join([_lengths(chunks) for chunks in kind[2]])}"
    return f"{spec}" if kind[2] else f"{spec}, not in C order"


def _lengths(chunks: tuple[int, ...]) -> str:
    """Return how long chunks along an axis are, in few words: `(6, 6, 6, 2)`, or `1000` if all are."""
    if len(set(chunks)) == 1:
        return str(chunks[0])
    return f"({', '.join(map(str, chunks[:3]))}{', ...' * (len(chunks) > 4)}, {chunks[-1]})".replace("(, ", "(")


class Same:
    """A static argument that equals only itself, such as a Variable: a compiled function reads and assigns this one."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)

    def __repr__(self) -> str:
        return repr(self.value)
