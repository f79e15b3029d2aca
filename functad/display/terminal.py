"""Text for terminals: tables of at most 80 columns, and truncation of long texts."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from typing import Any

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
    """Return a text on one line, with dots in place of its end if it is wider than `width`.

    Example:
        >>> cut("one" + chr(10) + "two", 10), cut("sunflower", 6)
        ('one two', 'sun...')
    """
    line = " ".join(str(text).split())
    return line if width_of(line) <= width else _beginning(line, width - len(_DOTS)) + _DOTS[: max(width, 0)]


def cut_middle(text: Any, width: int = WIDTH) -> str:
    """Return a text on one line, with dots in place of its middle if it is too wide; the ends of paths matter most.

    Example:
        >>> cut_middle("layers/0/attention/kernel", 16)
        'layers.../kernel'
    """
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

    Returns:
        The lines, without a final line break.

    Example:
        >>> print(text_table(["name", "bytes"], [["kernel", 24], ["bias", 8]], right=[1]))
        name    bytes
        kernel     24
        bias        8
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
    """Return a sentence wrapped to lines of at most `width` characters; longer words are broken.

    Args:
        text: the sentence.
        indent: the beginning of the first line.
        following: the beginning of the other lines. Default: `indent`.
        width: the largest width of a line.
    """
    import textwrap  # noqa: PLC0415 - used only here

    rest = indent if following is None else following
    lines = textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=rest, break_on_hyphens=False)
    return "\n".join(lines) or indent.rstrip()
