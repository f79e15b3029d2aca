"""Source text of values, so that a random program can be pasted and run."""

from __future__ import annotations

import re
from typing import Any

import numpy as np


class Impossible(Exception):  # noqa: N818 - not an error: another line is drawn
    """The drawn line does not fit the existing values."""


def listed(table: str) -> list[str]:
    """Return the entries of a table; semicolons and line ends separate them.

    Example:
        >>> listed("np.sin(x); abs(x)")
        ['np.sin(x)', 'abs(x)']
    """
    return [text.strip() for text in re.split(r"[;\n]", table) if text.strip()]


class Text(str):
    """The source text of an argument, as a leaf of the pytree of arguments."""

    __slots__ = ()


def literal(value: Any) -> str:
    """Return the source text of an argument.

    Raises:
        Impossible: the argument has no source text.
    """
    if type(value) is Text:
        return value
    if isinstance(value, np.ndarray):
        if not value.size:
            return f"np.zeros({value.shape}, np.{value.dtype.name})"
        plain = value.dtype in (np.float64, np.int64, np.bool_)
        return f"np.array({_spelled(value.tolist())}{'' if plain else f', np.{value.dtype.name}'})"
    if isinstance(value, np.generic):
        return f"np.{value.dtype.name}({_spelled(value.item())})"
    if isinstance(value, np.dtype):
        return f"np.{value.name}"
    if isinstance(value, type) and issubclass(value, np.generic):
        return f"np.{value.__name__}"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if type(value) is tuple:
        return f"({''.join(f'{literal(part)}, ' for part in value)})"
    if isinstance(value, slice):
        return f"slice({value.start!r}, {value.stop!r}, {value.step!r})"
    if value is None or isinstance(value, (bool, int, float, str)) or value is Ellipsis:
        return _spelled(value) if value is not Ellipsis else "..."
    raise Impossible


def _spelled(value: Any) -> str:
    """Return `repr` of numbers and lists, with `np.nan` and `np.inf`."""
    return repr(value) if isinstance(value, str) else re.sub(r"\b(nan|inf)\b", r"np.\1", repr(value))
