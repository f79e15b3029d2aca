"""Write the page on migration: `python -m tests.migration.page`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.migration.lines import LIBRARIES, POINT, Library
from tests.migration.record import RECORD

PAGE = Path(__file__).parents[2] / "notebooks" / "migration.md"
_INTRODUCTION = f"""# Migration

This page shows code of other libraries next to the equivalent functad code. Both columns give the same numbers at
`x = {POINT}`. The tests run the functad code. The other code was run with the version in the head of the table.

The page is generated from `tests/migration/lines.py`. `python -m tests.migration.record` runs the code of the installed
libraries again, and `python -m tests.migration.page` writes the page.
"""


def page() -> str:
    """Return the text of the page."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    parts = [_INTRODUCTION]
    for name, library in LIBRARIES.items():
        parts += [f"\n## From {library.title}\n", _table(library, record[name]["version"])]
        parts += ["".join(f"- {note}\n" for note in library.notes)]
    return "\n".join(parts)


def _table(library: Library, version: str) -> str:
    rows = [("program begins with", library.before, library.after)]
    rows += [(pair.wanted, pair.old, pair.new) for pair in library.pairs]
    lines = [f"| | {library.title} {version} | functad |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {wanted} | {_cell(old)} | {_cell(new)} |" for wanted, old, new in rows)]) + "\n"


def _cell(code: str) -> str:
    return "<br>".join(f"`{line}`" for line in code.splitlines())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
