"""Texts of displays: amounts, tables of at most 80 columns, truncated lines, and values.

Lazy and abstract values are described without computing them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def counted(count: int, what: str, many: str = "") -> str:
    """Return a count with its noun, `1 record` or `12,345 records`; the plural has an s unless `many` gives it."""
    return f"{count:,} {what if count == 1 else many or what + 's'}"


def bytes_text(count: float) -> str:
    """Return a number of bytes with three digits and a decimal unit: `7 B`, `1.54 kB`."""
    return _scaled(float(count), _UNITS)


def seconds_text(seconds: float) -> str:
    """Return a duration with three digits in ns, us, ms or s; from two minutes on as `3 min 20 s`."""
    if seconds >= 120:
        return f"{int(seconds) // 60} min {int(seconds) % 60} s"
    return f"{seconds:.3g} s" if seconds >= 1 else _scaled(seconds * 1e9, ("ns", "us", "ms", "s"))


def share_text(part: float, whole: float) -> str:
    """Return a part of a whole in per cent; `100 %` and `0 %` appear only for exactly all and nothing."""
    if not part or not whole:
        return "0 %"
    share = 100.0 * part / whole
    if share < 0.1:
        return "< 0.1 %"
    return "> 99.9 %" if 99.9 < share < 100.0 else f"{share:.3g} %"


def _scaled(amount: float, units: tuple[str, ...]) -> str:
    """Return an amount with three digits in the largest unit that keeps it at least one."""
    unit = 0
    while unit + 1 < len(units) and float(f"{amount:.3g}") >= 1000.0:
        amount, unit = amount / 1000.0, unit + 1
    return f"{float(f'{amount:.3g}'):g} {units[unit]}"


WIDTH = 80
"""The largest width of any text display, in columns."""

_DOTS = "..."
_NARROWEST = 8
_GAP = "  "


def width_of(text: str) -> int:
    """Return the width of a text in terminal columns: two per wide character, none per combining character."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)


def cut(text: Any, width: int = WIDTH) -> str:
    """Return a text on one line, with dots in place of its end if it is wider than `width`: `sun...`."""
    line = " ".join(str(text).split())
    return line if width_of(line) <= width else _beginning(line, width - len(_DOTS)) + _DOTS[: max(width, 0)]


def cut_middle(text: Any, width: int = WIDTH) -> str:
    """Return a text on one line, with dots in place of its middle if it is too wide: `layers.../kernel`."""
    line = " ".join(str(text).split())
    if width_of(line) <= width:
        return line
    room = max(width - len(_DOTS), 0)
    ending = _beginning(line[::-1], room - room // 2)[::-1]
    return _beginning(line, room // 2) + _DOTS[: max(width, 0)] + ending


def _beginning(line: str, width: int) -> str:
    """Return the longest beginning of a line that fits."""
    taken = 0
    for place, sign in enumerate(line):
        taken += width_of(sign)
        if taken > width:
            return line[:place]
    return line


def padded(text: str, width: int, right: bool = False) -> str:
    """Return a text padded with blanks to a width: on the right, or on the left if `right` is true."""
    blanks = " " * max(width - width_of(text), 0)
    return blanks + text if right else text + blanks


def text_table(
    head: Sequence[str],
    rows: Iterable[Sequence[Any]],
    right: Collection[int] = (),
    middle: Collection[int] = (),
    indent: int = 0,
    width: int = WIDTH,
) -> str:
    """Return a table of text of at most `width` characters; the widest columns are cut until it fits.

    Tables of more than sixteen columns do not fit in 80 characters, and are wider.

    Args:
        head: the names of the columns; empty for a table without names.
        rows: the cells, one per column.
        right: indices of right-aligned columns, such as numbers. They are cut last.
        middle: indices of columns that are cut in the middle, such as paths.
        indent: number of blanks before each line.
        width: width of the table in characters.
    """
    cells = [[" ".join(str(cell).split()) for cell in row] for row in ([head] if head else []) + list(rows)]
    if not cells:
        return ""
    widths = [max(map(width_of, column)) for column in zip(*cells, strict=True)]
    _fit(widths, width - indent - len(_GAP) * (len(widths) - 1), right)
    lines = []
    for row in cells:
        shown = [(cut_middle if i in middle else cut)(cell, widths[i]) for i, cell in enumerate(row)]
        line = _GAP.join([padded(cell, widths[i], i in right) for i, cell in enumerate(shown)])
        lines.append((" " * indent + line).rstrip())
    return "\n".join(lines)


def _fit(widths: list[int], room: int, right: Collection[int]) -> None:
    """Narrow the widest columns until the table fits; right-aligned columns only when the others are narrow."""
    while sum(widths) > room:
        open_to = [i for i, width in enumerate(widths) if i not in right and width > _NARROWEST]
        open_to = open_to or [i for i, width in enumerate(widths) if width > len(_DOTS)]
        if not open_to:
            return
        widths[max(open_to, key=widths.__getitem__)] -= 1


def wrapped(text: str, indent: str = "", following: str | None = None, width: int = WIDTH) -> str:
    """Return a sentence wrapped to `width`, after `indent`, and on further lines after `following`; longer words are broken."""
    import textwrap  # noqa: PLC0415 - used only here

    rest = indent if following is None else following
    lines = textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=rest, break_on_hyphens=False)
    return "\n".join(lines) or indent.rstrip()


_EDGE = 3
_MOST = 12
_DIGITS: Any = dict.fromkeys(["float_kind", "complex_kind"], lambda number: f"{number:.4g}")
_LINE = 75
"""NumPy's default line width; a line width set by the user takes precedence."""


def value_text(value: Any, width: int = 60) -> str:
    """Return the value of an array or a number on one line; long arrays show their ends: `[0 1 2 ... 97 98 99]`.

    Arrays of other libraries show the first line of their `repr`; a Dask array is thus described, not computed.
    """
    kind = type(value)
    if issubclass(kind, np.ndarray) and value.ndim:
        shown = np.array2string(np.asarray(value), threshold=_MOST, edgeitems=_EDGE, max_line_width=10**6, formatter=_DIGITS)
        return cut(shown.replace("[ ", "["), width)
    if issubclass(kind, np.ndarray | np.generic) and value.dtype.kind in "fc":
        return cut(np.array2string(np.asarray(value), precision=6), width)
    if kind in (float, complex):
        return cut(f"{value:.6g}", width)
    if issubclass(kind, np.generic):
        return cut(str(value), width)
    return cut(next(iter(repr(value).splitlines()), ""), width)


def array_text(value: Any) -> str:
    """Return the value of an array or a number in a few lines; long arrays show their ends."""
    if issubclass(type(value), np.ndarray | np.generic):
        return np.array2string(np.asarray(value), threshold=100, edgeitems=_EDGE, max_line_width=WIDTH)
    lines = repr(value).splitlines()
    return "\n".join([*lines[:_MOST], *["..."] * (len(lines) > _MOST)])


def repr_within(opening: str, value: Any, closing: str = ")") -> str:
    """Return the `repr` of a value between two texts, with aligned lines, within NumPy's line width and 80 columns."""
    if issubclass(type(value), np.ndarray) and np.get_printoptions()["linewidth"] == _LINE:
        shown = np.array_repr(value, max_line_width=WIDTH - len(opening) - len(closing))
    else:
        shown = repr(value)
    return opening + shown.replace("\n", "\n" + " " * len(opening)) + closing


def dtype_text(dtype: Any) -> str:
    """Return the name of a dtype; any other object as a string."""
    return str(getattr(dtype, "name", dtype))
