"""The display of the table of `functad.coverage()`: text for terminals, and HTML with a search field for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from functad.display.amounts import counted
from functad.display.markup import Markup, code, heading, joined, table, tag, view
from functad.display.terminal import text_table, wrapped

_IN_TEXT = ("function", "status", "reverse", "forward", "batch", "jit")
_FEW = 12
"""The largest number of rows for which a terminal shows the notes too."""

_COLORS = {"refused": "red", "unlisted": "red", "constant": "grey"}

# Inline script without external files. It keeps the rows that contain every typed word.
_SEARCH = """
const words = this.value.toLowerCase().split(' ').filter(word => word);
const box = this.closest('.ftd-view');
let count = 0;
for (const row of box.querySelectorAll('tbody tr')) {
  const text = row.textContent.toLowerCase();
  row.hidden = !words.every(word => text.includes(word));
  count += !row.hidden;
}
box.querySelector('.ftd-count').textContent = count.toLocaleString('en');
"""


def coverage_text(rows: Sequence[Any], counts: Mapping[str, int]) -> str:
    """Return the table as text of 80 columns: the main columns, and the notes if there are few rows."""
    parts = [text_table(_IN_TEXT, [[getattr(row, name) for name in _IN_TEXT] for row in rows], middle=[0])]
    if len(rows) <= _FEW:
        parts += [wrapped(f"{row.function}: {row.note}", "", "  ") for row in rows if row.note]
    return "\n".join([*parts, wrapped(f"{counted(len(rows), 'function')}: {summary(counts)}", "", "  ")])


def coverage_markup(heads: Sequence[str], rows: Sequence[Any], counts: Mapping[str, int]) -> str:
    """Return the table as HTML for notebooks, with a field that filters the rows."""
    search = tag(
        "input",
        type="search",
        placeholder="search: norm composite, refused, xla ...",
        oninput=" ".join(_SEARCH.split()),
        aria_label="search the table",
        data_lm_suppress_shortcuts="true",
    )
    shown = joined(tag("span", f"{len(rows):,}", class_="ftd-count"), f" of {counted(len(rows), 'function')}")
    cells = [[code(row.function), _status(row.status), *row.cells[2:]] for row in rows]
    return view(
        heading("Coverage", summary(counts)),
        tag("div", search, " ", shown),
        tag("div", table(heads, cells), class_="ftd-scroll"),
    )


def summary(counts: Mapping[str, int]) -> str:
    """Return the number of functions of each status, in one line."""
    return ", ".join([f"{count} {status}" for status, count in counts.items()]) or "none is like that"


def _status(status: str) -> Markup:
    return tag("span", status, class_=f"ftd-{_COLORS[status]}" if status in _COLORS else None)
