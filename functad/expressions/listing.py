"""The display of an expression list: a table with one row per equation and the source line of each equation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

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
from functad.expressions.observers import FORWARD, Place
from functad.expressions.spec import ArraySpec

MOST = 200
"""The largest number of equations of one list that a notebook shows."""
_TAIL = 5
_OPEN = 24
_COLORS = {"backward": "orange", "tangent": "green"}


@dataclass(frozen=True, slots=True)
class Row:
    """A displayed equation.

    Attributes:
        names: the names of the results.
        specs: the specs of the results.
        write: returns the right-hand side. It is called only for rows that are shown.
        primitive: the name of the primitive.
        place: the location in the user's code; `None` if it is unknown.
        lists: nested lists, such as the body of a loop, with their names.
    """

    names: tuple[str, ...]
    specs: tuple[ArraySpec, ...]
    write: Callable[[], str]
    primitive: str
    place: Place | None
    lists: tuple[tuple[str, Listing], ...] = ()

    @property
    def text(self) -> str:
        """The equation without its types."""
        return f"{', '.join(self.names)} = {self.write()}"

    @property
    def types(self) -> str:
        """The types of the results."""
        return ", ".join(map(str, self.specs))

    @property
    def nbytes(self) -> int:
        """The bytes of the results."""
        return sum([spec.nbytes for spec in self.specs])


@dataclass(frozen=True, slots=True)
class Listing:
    """A displayed list.

    Attributes:
        inputs: the names and specs of the inputs.
        rows: the equations.
        result: the text of the result.
        constants: the bytes of embedded arrays.
    """

    inputs: tuple[tuple[str, ArraySpec], ...]
    rows: tuple[Row, ...]
    result: str
    constants: int

    @property
    def nbytes(self) -> int:
        """The bytes of the results of all equations."""
        return sum([row.nbytes for row in self.rows])


# Notebooks


def list_markup(listing: Listing) -> str:
    """Return a list as HTML for a notebook."""
    typed = ", ".join(f"{name}: {spec}" for name, spec in listing.inputs)
    shown = _Shown(MOST, opened=len(listing.rows) <= _OPEN)
    return view(
        heading("expression list", counted(len(listing.rows), "equation"), *_phases(listing.rows)),
        tag("div", joined("inputs ", code(typed or "none"))),
        *shown.rows(listing.rows),
        tag("div", joined("returns ", code(_ends(listing.result, 400)))),
        tag("div", tag("b", _totals(listing))),
    )


def _phases(rows: Sequence[Row]) -> list[Markup]:
    """Return the number of equations of each phase; nothing if all equations belong to the forward pass."""
    counts: dict[str, int] = {}
    for row in rows:
        phase = row.place.phase if row.place is not None else FORWARD
        counts[phase] = counts.get(phase, 0) + 1
    if set(counts) <= {FORWARD}:
        return []
    return [tag("span", f"{count:,} {phase}", class_=f"ftd-{_COLORS.get(phase, 'blue')}") for phase, count in counts.items()]


def _totals(listing: Listing) -> str:
    inputs = sum([spec.nbytes for _, spec in listing.inputs])
    constants = f", constants {bytes_text(listing.constants)}" if listing.constants else ""
    return (
        f"{counted(len(listing.rows), 'equation')}: results {bytes_text(listing.nbytes)}, "
        f"inputs {bytes_text(inputs)}{constants}"
    )


class _Shown:
    """Renders at most a given number of rows.

    Attributes:
        left: the number of rows that may still be shown.
        opened: `True` to unfold nested lists.
    """

    def __init__(self, left: int, *, opened: bool) -> None:
        self.left = left
        self.opened = opened

    def rows(self, rows: Sequence[Row]) -> list[Markup]:
        """Return the table of rows. Too many rows are cut to the first rows, a count, and the last rows."""
        tail = min(_TAIL, self.left // 2) if len(rows) > self.left else 0
        head = min(self.left - tail, len(rows))
        self.left -= head + tail
        last = len(rows) - tail
        return [*self.table(rows[:head]), *_cut(rows[head:last]), *self.table(rows[last:])]

    def table(self, rows: Sequence[Row]) -> list[Markup]:
        """Return the table of rows, with the nested lists of a row folded below it."""
        found: list[Markup] = []
        plain: list[Row] = []
        for row in rows:
            plain.append(row)
            if row.lists:
                found += [_table(plain), *[self.inner(name, inner) for name, inner in row.lists]]
                plain = []
        return [*found, _table(plain)] if plain else found

    def inner(self, name: str, listing: Listing) -> Markup:
        """Return a nested list as a fold."""
        summary = joined(code(name), f" · {counted(len(listing.rows), 'equation')} · {bytes_text(listing.nbytes)} each time ")
        typed = ", ".join(f"{own}: {spec}" for own, spec in listing.inputs)
        ends = tag("div", joined("inputs ", code(_ends(typed, 200)), ", returns ", code(_ends(listing.result, 200))))
        return fold(summary, ends, *self.rows(listing.rows), opened=self.opened)


_WIDTHS = ("min(20em,20vw)", "min(13em,10vw)", "min(6em,5vw)", "min(11em,8vw)")
"""The widths of the columns before the source: the same in all tables of a list, and small enough for narrow windows."""


def _table(rows: Sequence[Row]) -> Markup:
    columns = [tag("span", style=f"display:block;min-width:{width}") for width in _WIDTHS]
    cells = []
    for row in rows:
        color = _COLORS.get(row.place.phase) if row.place is not None else None
        cells.append(
            (
                tag("span", code(_ends(row.text, 160)), class_=f"ftd-{color}" if color else None),
                code(_ends(row.types, 120)),
                bytes_text(row.nbytes),
                short_line(row.place),
                code(_ends(row.place.text, 100)) if row.place is not None and row.place.file else "",
            )
        )
    head = [joined(name, width) for name, width in zip(("equation", "result", "bytes", "line"), columns, strict=True)]
    return table([*head, "source"], cells, right=[2])


def _cut(rows: Sequence[Row]) -> list[Markup]:
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


def list_table(listing: Listing, most: int | None) -> str:
    """Return a list as a text table of at most 80 columns.

    Args:
        listing: the displayed list.
        most: the largest number of equations; `None` for all.
    """
    cells = list(itertools.islice(_cells(listing, ""), most))
    count = _count(listing)
    lines = [text_table(["equation", "result", "bytes", "line"], cells, right=[2], middle=[3], width=WIDTH)]
    if count > len(cells):
        lines.append(f"... {counted(count - len(cells), 'equation')} more")
    return "\n".join([*lines, _totals(listing)])


def _count(listing: Listing) -> int:
    return len(listing.rows) + sum([_count(inner) for row in listing.rows for _, inner in row.lists])


def _cells(listing: Listing, indent: str) -> Iterator[tuple[str, ...]]:
    for row in listing.rows:
        yield f"{indent}{row.text}", row.types, bytes_text(row.nbytes), short_line(row.place)
        for name, inner in row.lists:
            yield from _cells(inner, f"{indent}{name}: ")
