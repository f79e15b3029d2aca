"""Displays of tapes: their records by user line or by operation, and the watched values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from functad.display.amounts import bytes_text, counted
from functad.display.markup import code, faint, heading, joined, table, tag, view, whole
from functad.display.terminal import cut, text_table, wrapped
from functad.expressions.expressions import Constant
from functad.primitives.operands import all_examples
from functad.tracing.shown import known
from functad.tracing.traces.base import Recorded

_MOST = 40
"""The largest number of rows in a display."""

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
        entry = tape.recorder.listed.get(index)
        equation = entry[0] if type(entry) is tuple else None
        place = equation.place if equation is not None and tape.lists else None
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


def _arrays_in(saved: Any) -> list[Any]:
    """Return the arrays in the residuals of a record."""
    if isinstance(saved, Recorded):
        return _arrays_in(all_examples(saved))
    if type(saved) is np.ndarray:
        return [saved]
    return [a for part in saved for a in _arrays_in(part)] if isinstance(saved, (tuple, list)) else []


def _watched(tape: Any) -> str:
    """Return a sentence that lists the watched Variables and Tensors."""
    variables = [f"{variable.name} {variable.shape}" for variable in tape.watched_variables()]
    values = [known(tensor)[1] for weak in tape._watched if (tensor := weak()) is not None]
    tensors = [f"a Tensor {getattr(value, 'shape', ())}" for value in values]
    found = [*variables, *tensors]
    return "It watches " + (", ".join([*found[:6], *[f"and {len(found) - 6} more"] * (len(found) > 6)]) or "nothing") + "."


def _cells(row: Holding, *columns: Any) -> list[Any]:
    return [*columns, f"{row.records:,}", bytes_text(row.bytes)]


def tape_text(tape: Any, head: str) -> str:
    """Return the text of a tape: the given head line, the watched values, and a table of the records."""
    rows = holdings(tape)
    lines = [cut(head), wrapped(_watched(tape))]
    if rows:
        names = ["line", "operations"] if tape.lists else ["operation"]
        cells = [_cells(row, row.key, *[row.operations] * tape.lists) for row in rows[:_MOST]]
        right = [len(names), len(names) + 1]
        lines.append(text_table([*names, "records", "bytes"], cells, right=right, middle=[0], indent=2))
        lines += [f"  ... and {len(rows) - _MOST} more"] if len(rows) > _MOST else []
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
        for row in rows[:_MOST]
    ]
    right = [len(names), len(names) + 1]
    return view(
        heading("GradientTape", *facts),
        tag("div", _watched(tape)),
        table([*names, "records", "bytes"], cells, right=right) if rows else None,
        tag("div", faint(f"... and {len(rows) - _MOST} more")) if len(rows) > _MOST else None,
        tag("div", faint(joined(_BY_OPERATION))) if rows and not tape.lists else None,
    )
