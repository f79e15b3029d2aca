"""`functad.coverage()`: a table of the support for each NumPy function that can be overridden.

NumPy lists these functions. Every cell is derived from the entry of the function. The table prints as text, and shows as HTML
with a search field in notebooks.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any

import numpy as np

from functad.display import Markup, code, counted, heading, joined, table, tag, text_table, view, wrapped
from functad.primitives import vocabulary
from functad.primitives.batching import elementwise, loop, rule_of
from functad.primitives.entry import ENTRIES, Composite, Entry, Primitive
from functad.primitives.refused import Refused

ORDER_CHECKED = 2
"""The largest order for which `functad.testing.check_primitive` compares derivatives with numerical ones."""


def coverage(status: str | None = None, module: str | None = None, search: str | None = None) -> Coverage:
    """Return the table of all NumPy functions that can be overridden, or of SciPy's functions, with functad's support.

    Args:
        status: keep only functions with this status: `primitive`, `composite`, `constant` or `refused`; for SciPy also `rule`
            or `adoption`.
        module: keep only functions of `numpy`, `numpy.linalg`, `numpy.fft`, ...; or show the public functions of a SciPy
            module, such as `scipy.stats`, or of all SciPy modules with `scipy`.
        search: keep only rows that contain all these words, in names, notes or any other cell.

    Returns:
        A table that prints as text, shows in notebooks with a search field, and iterates over its rows.

    Example:
        >>> import functad
        >>> [row.status for row in functad.coverage() if row.function in ("np.sin", "np.var", "np.argmax", "np.save")]
        ['constant', 'refused', 'primitive', 'primitive']
        >>> [row.function for row in functad.coverage("rule", "scipy.fft")][:3]
        ['scipy.fft.dct', 'scipy.fft.dctn', 'scipy.fft.dst']
        >>> functad.coverage(search="arctan2")
        function    status     reverse  forward  batch       jit
        np.arctan2  primitive  rule     same     broadcasts  native
        np.arctan2: d arctan2(x, y) = (y dx - x dy) / (x^2 + y^2); 0 at (0, 0); real
          numbers only; also np.atan2
        1 function: 1 primitive
    """
    if module is not None and module.partition(".")[0] == "scipy":
        # The SciPy modules depend on this one, and need SciPy.
        found: Coverage = import_module("functad.scipy._coverage").table_of_scipy(module)
        return found.filter(status, search=search)
    return table_of_all().filter(status, module, search)


@dataclass(frozen=True, slots=True)
class Row:
    """The support for one function.

    Attributes:
        function: the qualified name, such as `np.linalg.inv`.
        status: `primitive`, `composite`, `constant`, `refused`, or `unlisted` if the function has no entry. SciPy functions
            without an entry have a `rule` of functad.scipy, or are differentiated through SciPy's own code (`adoption`).
        reverse: the source of the pullback: a `rule`, or the `body` of a composite; `zero` for a constant.
        forward: the source of the tangent: a `rule`, the `same` rule as in reverse mode, the function `itself` if it is linear
            in an argument, the `transposed` pullback, or the `body` of a composite; `zero` for a constant.
        batch: the method of `vmap`: the function `broadcasts`, a `rule`, the `body` of a composite, or the `shape` of one
            example; `-` if the function needs concrete values, is refused, or is an untested SciPy function without an entry.
        order: the largest order for which generated tests compare derivatives with numerical ones.
        jit: the method of `functad.jit` with machine code: a part of `native` loops, a call of `NumPy` between them, or the
            `body` of a composite; `-` if the function needs concrete values or is refused.
        xla: the method of the backend `xla`: `XLA` operations, or a call of `NumPy` on the host; otherwise as for `jit`.
        note: the derivative, and the other names of the function.
    """

    function: str
    status: str
    reverse: str
    forward: str
    batch: str
    order: str
    jit: str
    xla: str
    note: str

    @property
    def module(self) -> str:
        """The module name, such as `numpy.linalg`."""
        place = self.function.rpartition(".")[0]
        return f"numpy{place[2:]}" if place.partition(".")[0] == "np" else place

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as text."""
        return tuple([str(getattr(self, field.name)) for field in fields(self)])


class Coverage(Sequence[Row]):
    """A table of functions, which prints as text and shows as HTML in notebooks.

    Example:
        >>> import functad
        >>> table = functad.coverage(module="numpy.linalg").filter(status="primitive")
        >>> "np.linalg.inv" in [row.function for row in table]
        True
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = tuple(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return Coverage(self.rows[index]) if isinstance(index, slice) else self.rows[index]

    def filter(self, status: str | None = None, module: str | None = None, search: str | None = None) -> Coverage:
        """Return the rows with a status, of a module (`numpy`, `numpy.linalg`, `numpy.fft`, ...), or with some words.

        Args:
            status, module: keep only rows with these values.
            search: keep only rows that contain all these words in any cell, ignoring case.

        Returns:
            A table of the matching rows.

        Example:
            >>> import functad
            >>> [row.function for row in functad.coverage().filter(search="cumulative SUM")]
            ['np.cumulative_sum']
        """
        words = (search or "").lower().split()
        return Coverage(
            [
                row
                for row in self.rows
                if status in (None, row.status) and module in (None, row.module) and _holds(row.cells, words)
            ]
        )

    def counts(self) -> dict[str, int]:
        """Return the number of functions of each status."""
        return dict(sorted(Counter(row.status for row in self.rows).items()))

    def __str__(self) -> str:
        return _text(self.rows, self.counts())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _markup([field.name for field in fields(Row)], self.rows, self.counts())

    def markdown(self) -> str:
        """Return the table in Markdown."""
        heads = [field.name for field in fields(Row)]
        rows = [" | ".join(cell.replace("|", "\\|") for cell in row.cells) for row in self.rows]
        return "\n".join([f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *[f"| {row} |" for row in rows]])


def _holds(cells: Sequence[str], words: Sequence[str]) -> bool:
    text = " ".join(cells).lower()
    return all(word in text for word in words)


# The display

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


def _text(rows: Sequence[Row], counts: Mapping[str, int]) -> str:
    """Return the table as text of 80 columns: the main columns, and the notes if there are few rows."""
    parts = [text_table(_IN_TEXT, [[getattr(row, name) for name in _IN_TEXT] for row in rows], middle=[0])]
    if len(rows) <= _FEW:
        parts += [wrapped(f"{row.function}: {row.note}", "", "  ") for row in rows if row.note]
    return "\n".join([*parts, wrapped(f"{counted(len(rows), 'function')}: {_summary(counts)}", "", "  ")])


def _markup(heads: Sequence[str], rows: Sequence[Row], counts: Mapping[str, int]) -> str:
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
        heading("Coverage", _summary(counts)),
        tag("div", search, " ", shown),
        tag("div", table(heads, cells), class_="ftd-scroll"),
    )


def _summary(counts: Mapping[str, int]) -> str:
    """Return the number of functions of each status, in one line."""
    return ", ".join([f"{count} {status}" for status, count in counts.items()]) or "none is like that"


def _status(status: str) -> Markup:
    return tag("span", status, class_=f"ftd-{_COLORS[status]}" if status in _COLORS else None)


# The rows


def dispatching_functions() -> dict[Any, list[str]]:
    """Return every public NumPy function that supports an override protocol, with all its names.

    These are the ufuncs and functions that NumPy lists in `numpy`, `numpy.linalg` and `numpy.fft`, and functions with `like=`.
    """
    from numpy.testing import overrides  # noqa: PLC0415 - it imports unittest

    listed = {*overrides.get_overridable_numpy_array_functions(), *overrides.get_overridable_numpy_ufuncs()}
    names: dict[Any, list[str]] = {}
    for namespace, module in (("np", np), ("np.linalg", np.linalg), ("np.fft", np.fft)):
        for name, value in sorted(vars(module).items()):
            if not callable(value) or isinstance(value, type):
                continue
            if value in listed or "like : array_like" in (value.__doc__ or ""):
                names.setdefault(value, []).append(f"{namespace}.{name}")
    return names


def _other_names(function: Any) -> list[str]:
    """Return the public names of a function that has an entry but is not listed by NumPy."""
    places: dict[str, Any] = {"np": np, "np.emath": np.emath, "np.lib.stride_tricks": np.lib.stride_tricks}
    if "scipy.special" in sys.modules:
        places["scipy.special"] = sys.modules["scipy.special"]
    return [f"{place}.{name}" for place, module in places.items() for name, value in vars(module).items() if value is function]


def _row(function: Any, names: list[str], entry: Entry | None) -> Row:
    own = getattr(function, "__name__", "")
    name = next((name for name in names if name.rpartition(".")[2] == own), names[0])
    if entry is None:
        return Row(name, "unlisted", "-", "-", "-", "-", "-", "-", "functad does not know it yet")
    return row_of_entry(name, entry, [f"also {other}" for other in names if other != name])


def row_of_entry(name: str, entry: Entry, others: Sequence[str] = ()) -> Row:
    """Return the row of a function with an entry. The note ends with `others`."""
    constant = entry.kind == "constant"
    limits = [
        *(["real numbers only"] if not entry.complex and not constant else []),
        *(["not in abstract traces"] if entry.value_dependent else []),
    ]
    note = "; ".join([entry.doc.rstrip("."), *limits, *others])
    status = "constant" if constant else entry.status
    reverse, forward = ("zero", "zero") if constant else _derivatives(entry)
    order = str(ORDER_CHECKED) if status in ("primitive", "composite") else "-"
    return Row(name, status, reverse, forward, batching(entry), order, *_compiled(entry), note)


def _derivatives(entry: Entry) -> tuple[str, str]:
    """Return the sources of the pullback and of the tangent."""
    if isinstance(entry, Composite):
        return "body", "body"
    if not isinstance(entry, Primitive):
        return "-", "-"
    if entry.kind in ("linear", "multilinear"):
        return "rule", "itself"
    return "rule", "rule" if entry.jvps is not None else "same" if entry.kind == "elementwise" else "transposed"


def _compiled(entry: Entry) -> tuple[str, str]:
    """Return the methods of the backends `llvm` and `xla` for an entry: `native` or `XLA`, `NumPy`, `body` or `-`."""
    if isinstance(entry, Composite) and not entry.value_dependent:
        return "body", "body"
    if not isinstance(entry, Primitive) or entry.value_dependent:
        return "-", "-"
    # The backends depend on the vocabulary, so they are imported late.
    native = import_module("functad.backends.native.lowering").has_row(entry)
    of_xla = import_module("functad.backends.xla.replay").row_of(entry) is not None
    return "native" if native else "NumPy", "XLA" if of_xla else "NumPy"


def batching(entry: Entry) -> str:
    """Return the method of `vmap` for an entry; `loop` for a primitive without a batching rule."""
    if entry.value_dependent or isinstance(entry, Refused):
        return "-"
    if isinstance(entry, Composite):
        return "body"
    if not isinstance(entry, Primitive):
        return "shape"
    rule = rule_of(entry)
    return "broadcasts" if rule is elementwise else "loop" if rule is loop else "rule"


def table_of_all() -> Coverage:
    """Return the table of all functions that NumPy lists, and of other functions with an entry."""
    vocabulary.import_families()
    names = dispatching_functions()
    for function in ENTRIES:
        if function not in names and (found := _other_names(function)):
            names[function] = found
    rows = [_row(function, found, ENTRIES.get(function)) for function, found in names.items()]
    return Coverage(sorted(rows, key=lambda row: (row.module, row.function)))
