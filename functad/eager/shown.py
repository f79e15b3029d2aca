"""Displays of Variables, modules and tapes. A display is not a read, so tapes do not record it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from functad.display import (
    Markup,
    array_text,
    bytes_text,
    code,
    counted,
    cut,
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
    wrapped,
)
from functad.expressions.expressions import Constant
from functad.primitives.operands import all_examples
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


# Tapes

_MOST_LINES = 40
"""The largest number of rows in the display of a tape."""

_NAMES = 4
_BY_OPERATION = "A tape knows the lines if it is opened as GradientTape(lists=True)."


@dataclass
class Holding:
    """The records of one user line or of one operation.

    Attributes:
        key: the line, as `file:line`, or the name of the operation.
        text: the code of the line; empty if unknown.
        names: the operations, each once.
        records: the number of records.
        bytes: the size of the arrays that the records keep alive. A shared array counts for its first holder only.
    """

    key: str
    text: str = ""
    names: dict[str, None] = field(default_factory=dict)
    records: int = 0
    bytes: int = 0

    @property
    def operations(self) -> str:
        """The names of the first operations, with `...` if there are more."""
        return ", ".join([*list(self.names)[:_NAMES], *["..."] * (len(self.names) > _NAMES)])


def holdings(tape: Any) -> list[Holding]:
    """Return the records of a tape grouped by user line, or by operation if lines are unknown, in recording order."""
    found: dict[Any, Holding] = {}
    seen: set[int] = set()
    for index, record in enumerate(tape.records()):
        if record is None:
            continue
        name = record[0].primitive.name
        equation = None if tape.listed is None else tape.listed.equation_at(index)
        place = None if equation is None else equation.place
        key = name if place is None else place.where
        if key not in found:
            found[key] = Holding(key, "" if place is None else place.text)
        holding = found[key]
        holding.names[name] = None
        holding.records += 1
        operands = [] if equation is None else [a.value for a in equation.inputs if isinstance(a, Constant)]
        for value in _arrays_in([record[2], *operands]):
            while type(value.base) is np.ndarray:
                value = value.base
            if id(value) not in seen:
                seen.add(id(value))
                holding.bytes += value.nbytes
    return list(found.values())


def _arrays_in(residuals: Any) -> list[Any]:
    """Return the arrays in the residuals of a record."""
    if isinstance(residuals, Recorded):
        return _arrays_in(all_examples(residuals))
    if type(residuals) is np.ndarray:
        return [residuals]
    return [a for part in residuals for a in _arrays_in(part)] if isinstance(residuals, (tuple, list)) else []


def _watches(tape: Any) -> str:
    """Return a sentence that lists the watched Variables and Tensors."""
    variables = [f"{variable.name} {variable.shape}" for variable in tape.watched_variables()]
    values = [known(tensor)[1] for tensor in tape._watched_tensors()]
    tensors = [f"a Tensor {getattr(value, 'shape', ())}" for value in values]
    found = [*variables, *tensors]
    return "It watches " + (", ".join([*found[:6], *[f"and {len(found) - 6} more"] * (len(found) > 6)]) or "nothing") + "."


def _cells(row: Holding, *columns: Any) -> list[Any]:
    return [*columns, f"{row.records:,}", bytes_text(row.bytes)]


def tape_text(tape: Any, head: str) -> str:
    """Return the text of a tape: the given head line, the watched values, and a table of the records."""
    rows = holdings(tape)
    lines = [cut(head), wrapped(_watches(tape))]
    if rows:
        names = ["line", "operations"] if tape.lists else ["operation"]
        cells = [_cells(row, row.key, *[row.operations] * tape.lists) for row in rows[:_MOST_LINES]]
        right = [len(names), len(names) + 1]
        lines.append(text_table([*names, "records", "bytes"], cells, right=right, middle=[0], indent=2))
        lines += [f"  ... and {len(rows) - _MOST_LINES} more"] if len(rows) > _MOST_LINES else []
        lines += [] if tape.lists else [wrapped(_BY_OPERATION)]
    return "\n".join(lines)


def tape_markup(tape: Any, state: str, persistent: bool) -> str:
    """Return the HTML display of a tape."""
    rows = holdings(tape)
    records, size = sum(row.records for row in rows), sum(row.bytes for row in rows)
    facts = [state, "persistent" if persistent else "gives one gradient", counted(records, "record"), bytes_text(size)]
    names = ["line", "code", "operations"] if tape.lists else ["operation"]

    cells = [
        _cells(row, whole(code(row.key)), *([code(cut(row.text, 60)), row.operations] if tape.lists else []))
        for row in rows[:_MOST_LINES]
    ]
    right = [len(names), len(names) + 1]
    return view(
        heading("GradientTape", *facts),
        tag("div", _watches(tape)),
        table([*names, "records", "bytes"], cells, right=right) if rows else None,
        tag("div", faint(f"... and {len(rows) - _MOST_LINES} more")) if len(rows) > _MOST_LINES else None,
        tag("div", faint(joined(_BY_OPERATION))) if rows and not tape.lists else None,
    )
