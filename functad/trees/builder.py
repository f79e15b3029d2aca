"""Compiled functions that build trees from leaves, for code that builds the same tree often."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from functad.trees.structure import Structure


def builder(structure: Structure) -> Callable[..., Any]:
    """Return a function that builds the tree from its leaves, ten times faster than `unflatten` for plain containers.

    Args:
        structure: the structure of the tree. Containers other than tuples, lists and dicts fall back to `unflatten`.

    Example:
        >>> from functad.trees.structure import flatten
        >>> leaves, structure = flatten({"a": 1, "b": (2, [3])})
        >>> builder(structure)(*leaves)
        {'a': 1, 'b': (2, [3])}
    """
    names = [f"x{i}" for i in range(structure.leaves)]
    text = _text(structure, iter(names))
    if text is None:
        return lambda *leaves: structure.unflatten(leaves)
    made: Callable[..., Any] = eval(f"lambda {', '.join(names)}: {text}", {})  # noqa: S307 - generated names and literals
    return made


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
