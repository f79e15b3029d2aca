"""The display of an expression list: a table with one row per equation and the source line of each equation.

`Expressions` imports this module for its displays, so arguments of the types `Expressions` and `Row` have the type `Any` here.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from functad.display import (
    WIDTH,
    Markup,
    bytes_text,
    code,
    counted,
    faint,
    fold,
    heading,
    joined,
    table,
    tag,
    text_table,
    view,
    whole,
)
from functad.expressions.records import FORWARD, Place
from functad.expressions.spec import spec_or_none

MOST = 200
"""The largest number of equations of one list that a notebook shows."""
_TAIL = 5
_OPEN = 24
_COLORS = {"backward": "orange", "tangent": "green"}


# Notebooks


def list_markup(expressions: Any) -> str:
    """Return a list as HTML for a notebook."""
    rows = expressions._rows()
    shown = _Shown(MOST, opened=len(rows) <= _OPEN)
    return view(
        heading("expression list", counted(len(rows), "equation"), *_phases(rows)),
        tag("div", joined("inputs ", code(_inputs(expressions) or "none"))),
        *shown.rows(rows),
        tag("div", joined("returns ", code(_ends(expressions._returned(), 400)))),
        tag("div", tag("b", _totals(expressions))),
    )


def _inputs(expressions: Any) -> str:
    return ", ".join(f"{name}: {spec}" for name, spec in zip(expressions.inputs, expressions.specs, strict=False))


def _phases(rows: Sequence[Any]) -> list[Markup]:
    """Return the number of equations of each phase; nothing if all equations belong to the forward pass."""
    counts = Counter([row.equation.place.phase if row.equation.place is not None else FORWARD for row in rows])
    if set(counts) <= {FORWARD}:
        return []
    return [tag("span", f"{count:,} {phase}", class_=f"ftd-{_COLORS.get(phase, 'blue')}") for phase, count in counts.items()]


def _totals(expressions: Any) -> str:
    inputs = len(expressions.inputs)
    held = {id(value): spec_or_none(value) for value in expressions._constants()}
    size = sum([spec.nbytes for spec in held.values() if spec is not None and not spec.weak])
    return (
        f"{counted(len(expressions.equations), 'equation')}: results {bytes_text(_bytes_of(expressions))}, "
        f"inputs {bytes_text(sum([spec.nbytes for spec in expressions.specs[:inputs]]))}"
        + (f", constants {bytes_text(size)}" if size else "")
    )


def _bytes_of(expressions: Any) -> int:
    """Return the bytes of the results of all equations."""
    return sum([expressions.specs[slot].nbytes for equation in expressions.equations for slot in equation.outputs])


class _Shown:
    """Renders at most a given number of rows.

    Attributes:
        left: the number of rows that may still be shown.
        opened: `True` to unfold nested lists.
    """

    def __init__(self, left: int, *, opened: bool) -> None:
        self.left = left
        self.opened = opened

    def rows(self, rows: Sequence[Any]) -> list[Markup]:
        """Return the table of rows. Too many rows are cut to the first rows, a count, and the last rows."""
        tail = min(_TAIL, self.left // 2) if len(rows) > self.left else 0
        head = min(self.left - tail, len(rows))
        self.left -= head + tail
        last = len(rows) - tail
        return [*self.table(rows[:head]), *_cut(rows[head:last]), *self.table(rows[last:])]

    def table(self, rows: Sequence[Any]) -> list[Markup]:
        """Return the table of rows, with the nested lists of a row folded below it."""
        found: list[Markup] = []
        plain: list[Any] = []
        for row in rows:
            plain.append(row)
            if row.lists:
                found += [_table(plain), *[self.inner(name, inner) for name, inner in row.lists]]
                plain = []
        return [*found, _table(plain)] if plain else found

    def inner(self, name: str, expressions: Any) -> Markup:
        """Return a nested list as a fold."""
        count, size = counted(len(expressions.equations), "equation"), bytes_text(_bytes_of(expressions))
        summary = joined(code(name), f" · {count} · {size} each time ")
        ends = code(_ends(_inputs(expressions), 200)), ", returns ", code(_ends(expressions._returned(), 200))
        rows = self.rows(expressions._rows())
        return fold(summary, tag("div", joined("inputs ", *ends)), *rows, opened=self.opened)


_WIDTHS = ("min(20em,20vw)", "min(13em,10vw)", "min(6em,5vw)", "min(11em,8vw)")
"""The widths of the columns before the source: the same in all tables of a list, and small enough for narrow windows."""


def _table(rows: Sequence[Any]) -> Markup:
    columns = [tag("span", style=f"display:block;min-width:{width}") for width in _WIDTHS]
    cells = []
    for row in rows:
        place = row.equation.place
        color = _COLORS.get(place.phase) if place is not None else None
        cells.append(
            (
                tag("span", code(_ends(row.text, 160)), class_=f"ftd-{color}" if color else None),
                code(_ends(row.types, 120)),
                bytes_text(row.nbytes),
                short_line(place),
                code(_ends(place.text, 100)) if place is not None and place.file else "",
            )
        )
    head = [joined(name, width) for name, width in zip(("equation", "result", "bytes", "line"), columns, strict=True)]
    return table([*head, "source"], cells, right=[2])


def _cut(rows: Sequence[Any]) -> list[Markup]:
    if not rows:
        return []
    size = bytes_text(sum([row.nbytes for row in rows]))
    return [tag("div", faint(whole(f"... {counted(len(rows), 'equation')} more, {size}")))]


def short_line(place: Place | None) -> str:
    """Return `file:line` without folders, which differ between machines."""
    return "" if place is None else place.where.replace("\\", "/").rpartition("/")[2]


def _ends(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 40]} ... {text[-34:]}"


# Terminals


def list_table(expressions: Any, most: int | None) -> str:
    """Return a list as a text table of at most 80 columns.

    Args:
        expressions: the list.
        most: the largest number of equations; `None` for all.
    """
    cells = list(itertools.islice(_cells(expressions, ""), most))
    left = _count(expressions) - len(cells)
    lines = [text_table(["equation", "result", "bytes", "line"], cells, right=[2], middle=[3], width=WIDTH)]
    lines += [f"... {counted(left, 'equation')} more"] if left else []
    return "\n".join([*lines, _totals(expressions)])


def _count(expressions: Any) -> int:
    inner = [_count(own) for row in expressions._rows() for _, own in row.lists]
    return len(expressions.equations) + sum(inner)


def _cells(expressions: Any, indent: str) -> Iterator[tuple[str, ...]]:
    for row in expressions._rows():
        yield f"{indent}{row.text}", row.types, bytes_text(row.nbytes), short_line(row.equation.place)
        for name, inner in row.lists:
            yield from _cells(inner, f"{indent}{name}: ")
