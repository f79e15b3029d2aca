"""Displays of tapes: their records by user line or by operation, and the watched values."""

from __future__ import annotations

import linecache
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from functad.display.markup import code, faint, heading, joined, table, tag, view, whole
from functad.display.text import bytes_text, counted, cut, text_table, wrapped
from functad.eager.tape.slice import TapeSlice, arrays_in
from functad.places import line_of
from functad.tracing.shown import known

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


def holdings(tape: TapeSlice) -> list[Holding]:
    """Return the records of a tape grouped by user line, or by operation if lines are unknown, in recording order."""
    recorder = tape.recorder
    found: dict[Any, Holding] = {}
    seen: set[int] = set()
    for index, record in tape.indexed_records():
        assert recorder is not None
        name = record[0].primitive.name
        place = recorder.listed.lines.get(index) if tape.lists else None
        key = name if place is None else line_of(*place)
        if key not in found:
            text = "" if place is None else linecache.getline(place[0].co_filename, int(key.rpartition(":")[2])).strip()
            found[key] = Holding(key, text)
        holding = found[key]
        holding.names[name] = None
        holding.records += 1
        for value in arrays_in([record[2], *tape.operands_at(index)]):
            while type(value.base) is np.ndarray:
                value = value.base
            if id(value) not in seen:
                seen.add(id(value))
                holding.bytes += value.nbytes
    return list(found.values())


def _watched(tape: TapeSlice) -> str:
    """Return a sentence that lists the watched Variables and Tensors."""
    variables = [f"{variable.name} {variable.shape}" for variable in tape.watched_variables()]
    values = [known(tensor)[1] for weak in tape._watched if (tensor := weak()) is not None]
    tensors = [f"a Tensor {getattr(value, 'shape', ())}" for value in values]
    found = [*variables, *tensors]
    return "It watches " + (", ".join([*found[:6], *[f"and {len(found) - 6} more"] * (len(found) > 6)]) or "nothing") + "."


def tape_text(tape: Any, head: str) -> str:
    """Return the text of a tape: the given head line, the watched values, and a table of the records."""
    rows = holdings(tape)
    lines = [cut(head), wrapped(_watched(tape))]
    if rows:
        lists = tape.lists
        names = ["line", "operations", "records", "bytes"] if lists else ["operation", "records", "bytes"]
        cells = [
            [row.key, *([row.operations] if lists else []), f"{row.records:,}", bytes_text(row.bytes)] for row in rows[:_MOST]
        ]
        lines.append(text_table(names, cells, right=[2, 3] if lists else [1, 2], middle=[0], indent=2))
        lines += [f"  ... and {len(rows) - _MOST} more"] if len(rows) > _MOST else []
        lines += [] if lists else [wrapped(_BY_OPERATION)]
    return "\n".join(lines)


def tape_markup(tape: Any, state: str, persistent: bool) -> str:
    """Return the HTML display of a tape."""
    rows, lists = holdings(tape), tape.lists
    records, size = sum(row.records for row in rows), sum(row.bytes for row in rows)
    facts = [state, "persistent" if persistent else "gives one gradient", counted(records, "record"), bytes_text(size)]
    head = (["line", "code", "operations"] if lists else ["operation"]) + ["records", "bytes"]
    first = len(head) - 2
    cells = [
        [
            whole(code(row.key)),
            *([code(cut(row.text, 60)), row.operations] if lists else []),
            f"{row.records:,}",
            bytes_text(row.bytes),
        ]
        for row in rows[:_MOST]
    ]
    return view(
        heading("GradientTape", *facts),
        tag("div", _watched(tape)),
        table(head, cells, right=[first, first + 1]) if rows else None,
        tag("div", faint(f"... and {len(rows) - _MOST} more")) if len(rows) > _MOST else None,
        tag("div", faint(joined(_BY_OPERATION))) if rows and not lists else None,
    )
