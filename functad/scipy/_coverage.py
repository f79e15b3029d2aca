"""The status of each public function of SciPy: the rows of `functad.coverage(module="scipy")`.

The rows of ufuncs follow from their entries. The status of the other functions was determined by running samples of them, and
is stored in `_table.py`. The reason for a refusal is stored in the module that refuses the function.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from functad.primitives import vocabulary
from functad.primitives.coverage import Coverage, Row, row_of_entry
from functad.primitives.entry import ENTRIES, Entry
from functad.scipy._table import TABLE

_NAMES = "fft integrate interpolate linalg ndimage optimize signal signal.windows sparse.linalg spatial spatial.distance"
_OTHERS = "spatial.transform special stats stats.contingency stats.mstats stats.qmc"

PARTS = tuple([f"scipy.{name}" for name in (*_NAMES.split(), *_OTHERS.split())])
"""The submodules of SciPy that functad covers."""


def public_names(part: str) -> list[str]:
    """Return the public functions, classes and objects of a SciPy submodule, without modules, errors and warnings."""
    module = import_module(part)
    return sorted({name for name in module.__all__ if _counts(getattr(module, name))})


def _counts(value: Any) -> bool:
    return not isinstance(value, ModuleType) and not (isinstance(value, type) and issubclass(value, Exception))


def shown_entry(function: Any) -> Entry | None:
    """Return the entry of a ufunc, or `None` if it has none."""
    vocabulary.import_scipy_families()
    return ENTRIES.get(function) if callable(function) else None


@cache
def refusals() -> dict[str, str]:
    """Return the reasons of all refusals in `functad.scipy`, by the full name of the function."""
    found: dict[str, str] = {}
    for file in dict.fromkeys(part.split(".")[1] for part in PARTS):
        module = import_module(f"functad.scipy.{file}")
        part = getattr(module, "PART", f"scipy.{file}")
        found.update({f"{part}.{name}": reason for name, reason in getattr(module, "REFUSED", {}).items()})
    return found


def listed() -> dict[str, dict[str, list[str]]]:
    """Return the names of the table, by submodule and status."""
    return {part: {status: names.split() for status, names in rows.items()} for part, rows in TABLE.items()}


def table_of_scipy(module: str = "scipy") -> Coverage:
    """Return the coverage of a SciPy submodule, or of all submodules."""
    known = listed()
    rows = []
    for part in PARTS:
        if module in ("scipy", part):
            status = {name: status for status, names in known.get(part, {}).items() for name in names}
            rows += [_row(part, name, status.get(name, "unlisted")) for name in public_names(part)]
    return Coverage(rows)


def _row(part: str, name: str, status: str) -> Row:
    full = f"{part}.{name}"
    entry = shown_entry(getattr(import_module(part), name))
    if entry is not None:
        return row_of_entry(full, entry)
    notes = [refusals().get(full, "")] if status == "refused" else []
    notes += [f"not {key.removeprefix(f'{part}.')}: {why}" for key, why in refusals().items() if _is_case(key, full)]
    how = {"rule": "body", "adoption": "body", "constant": "zero"}.get(status, "-")
    return Row(full, status, how, how, "-", "1" if how == "body" else "-", "-", "-", "; ".join(filter(None, notes)))


def _is_case(key: str, full: str) -> bool:
    return key.startswith((f"{full}.", f"{full}("))
