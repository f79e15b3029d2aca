"""Displays of Variables and modules. A display is not a read, so tapes do not record it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from functad.display import (
    Markup,
    array_text,
    bytes_text,
    code,
    counted,
    faint,
    fold,
    heading,
    joined,
    repr_within,
    table,
    tag,
    text_table,
    value_text,
    view,
    whole,
)
from functad.tracing.shown import known, tensor_text
from functad.tracing.trace import Recorded

_MOST = 200
"""The largest number of Variables in the text of a module."""

Found = Sequence[tuple[str, Any]]
"""Pairs of path and Variable, or of path and module."""


def variable_text(name: str, value: Any) -> str:
    """Return the text of a Variable; the value may be a Tensor from `functional_call`."""
    closing = f", name={name!r})"
    if issubclass(type(value), Recorded):
        return f"Variable({tensor_text(value)}{closing}"
    return repr_within("Variable(", value, closing)


def variable_markup(variable: Any, value: Any) -> str:
    """Return the HTML display of a Variable."""
    plain = known(value)[1] if issubclass(type(value), Recorded) else value
    return view(
        heading(
            joined("Variable ", code(variable.name)), variable.dtype, str(variable.shape), _bytes(variable), _state(variable)
        ),
        tag("pre", array_text(plain)),
        tag("div", faint("functional_call has given it this value for now.")) if plain is not variable.held else None,
    )


def module_text(kind: str, variables: Found) -> str:
    """Return the text of a module; `kind` is the name of its class."""
    if not variables:
        return f"{kind} without Variables"
    rows = [[path, *_facts(variable), _note(variable)] for path, variable in variables]
    head = ["path", "dtype", "shape", "numbers", "bytes", ""]
    if not any(row[-1] for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    lines = text_table(head, rows[:_MOST], right=[3, 4], middle=[0], indent=2)
    more = [f"  ... and {counted(len(rows) - _MOST, 'more', 'more')}"] if len(rows) > _MOST else []
    return "\n".join([f"{kind} with {_sum(variables)}", lines, *more])


def module_markup(kind: str, name: str, variables: Found, modules: Found) -> str:
    """Return the HTML display of a module: a table of its own Variables, and a fold for each submodule.

    Args:
        kind: the name of the class.
        name: the name of the module.
        variables: all Variables in the module.
        modules: all submodules, each after its parent.
    """
    if not variables and not modules:
        return view(heading(kind, name), faint("It holds no Variables."))
    owned: dict[str, list[tuple[str, Any]]] = {path: [] for path, _ in [("", None), *modules]}
    inside: dict[str, list[tuple[str, Any]]] = {path: [] for path in owned}
    for path, variable in variables:
        owned[_owner(path, owned)].append((path, variable))
    for path, module in modules:
        inside[_owner(path.rpartition("/")[0], owned)].append((path, module))

    def shown(path: str) -> Markup:
        own = owned[path]
        rows = [
            [code(where[len(path) :].lstrip("/")), *map(whole, [*_facts(v), _state(v)]), code(value_text(v.held, 40))]
            for where, v in own
        ]
        return joined(
            table(["path", "dtype", "shape", "numbers", "bytes", "trained", "value"], rows, right=[3, 4]) if own else None,
            *[
                _fold(where, path, module, [v for v in variables if v[0].startswith(f"{where}/")], shown(where))
                for where, module in inside[path]
            ],
        )

    return view(heading(kind, code(name), _sum(variables)), shown(""))


def _fold(where: str, outer: str, module: Any, variables: Found, content: Markup) -> Markup:
    path = where[len(outer) :].lstrip("/")
    frozen = None if module.trainable else faint(" · frozen")
    return fold(joined(code(path), " ", tag("b", type(module).__name__), " · ", _sum(variables), frozen), content)


def _owner(path: str, owned: dict[str, Any]) -> str:
    """Return the path of the innermost module that contains the object at `path`."""
    while path and path not in owned:
        path = path.rpartition("/")[0]
    return path


def _facts(variable: Any) -> list[str]:
    return [str(variable.dtype), str(variable.shape), f"{math.prod(variable.shape):,}", _bytes(variable)]


def _bytes(variable: Any) -> str:
    return bytes_text(math.prod(variable.shape) * variable.dtype.itemsize)


def _note(variable: Any) -> str:
    return "" if variable.trainable else "frozen" if variable._frozen else "not trainable"


def _state(variable: Any) -> str:
    return _note(variable) or "trainable"


def _sum(variables: Found) -> str:
    numbers = sum(math.prod(variable.shape) for _, variable in variables)
    size = sum(math.prod(variable.shape) * variable.dtype.itemsize for _, variable in variables)
    trained = sum(math.prod(variable.shape) for _, variable in variables if variable.trainable)
    of_these = "" if trained == numbers else f", {trained:,} trainable"
    return f"{counted(len(variables), 'Variable')} of {counted(numbers, 'number')}, {bytes_text(size)}{of_these}"
