"""The shared parts of all displays: amounts, values, tables and lines as text, and markup for notebooks and SVG files.

This package knows none of the displayed objects. They import it when they are displayed, not at `import functad`. Lazy and
abstract values are described without computing them.

Markup: text is always escaped and every tag is closed. `Markup` is inserted unchanged, any other content as escaped text.
`view` returns a display with its style: fonts and background from the page, and colours that are readable on light and dark
pages. JupyterLab defines its colours as variables (`--jp-*`). Other pages mark a dark theme by an attribute or a class, or
follow the system (`prefers-color-scheme`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from html import escape
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


COLORS = ("blue", "orange", "green", "red", "purple", "brown", "pink", "olive", "cyan", "grey")
"""Colour names in `var(--ftd-NAME)`: blue for the forward pass, orange for the backward pass, red for stopped derivatives."""

_LIGHT = ("#1f6fb2", "#a85400", "#2b7d3f", "#c0303a", "#7a50b5", "#86564b", "#bb4a94", "#6a6f0e", "#0b7280", "#6b6b6b")
_DARK = ("#6db3f2", "#f0a04b", "#6cc784", "#ff7b7f", "#b794f0", "#c9a097", "#f08cc8", "#c5ca52", "#58cbd8", "#a8a8a8")
_INKS = "#222", "#ddd"


def color(number: int) -> str:
    """Return the colour of a group by its number; the colours repeat."""
    return f"var(--ftd-{COLORS[number % len(COLORS)]})"


def palette(theme: str | None) -> list[tuple[str, str]]:
    """Return the names and values of the colours and of the ink of a theme, `light` or `dark`."""
    values, ink = (_DARK, _INKS[1]) if theme == "dark" else (_LIGHT, _INKS[0])
    return [*zip(COLORS, values, strict=True), ("ink", ink)]


def _palette(values: tuple[str, ...]) -> str:
    return ";".join([f"--ftd-{name}:{value}" for name, value in zip(COLORS, values, strict=True)])


_ON_DARK = '[data-jp-theme-light="false"] .ftd-view,[data-theme="dark"] .ftd-view,.vscode-dark .ftd-view,.theme-dark .ftd-view'
_ON_LIGHT = '[data-jp-theme-light="true"] .ftd-view,[data-theme="light"] .ftd-view,.vscode-light .ftd-view'

_INSIDE = "".join(
    [
        "& code,& pre,& text{font-family:var(--ftd-mono);font-size:12px}",
        "& code,& pre{background:none;color:inherit;padding:0;margin:0;border:0}",
        "& pre{white-space:pre-wrap;overflow-wrap:anywhere}",
        "& .ftd-head{margin:2px 0 4px}& .ftd-faint{opacity:.65}& .ftd-whole{white-space:nowrap}",
        "& table{border-collapse:collapse;border:0;margin:2px 0 6px;font-size:12px;width:auto;display:table;table-layout:auto}",
        "& th,& td{text-align:left;vertical-align:top;padding:2px 14px 2px 0;border:0;max-width:44em;",
        "white-space:normal;overflow-wrap:break-word;background:none;color:inherit}",
        "& thead th{font-weight:600;border-bottom:1px solid var(--ftd-line);white-space:nowrap}",
        "& tbody tr{background:none}& tbody tr:hover{background:var(--ftd-ground)}",
        "& tfoot td{border-top:1px solid var(--ftd-line);font-weight:600}",
        "& .ftd-number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}",
        "& details{margin:1px 0}& details>:not(summary){margin-left:16px}",
        "& .ftd-way{margin:2px 0 4px;border-left:2px solid var(--ftd-line);padding-left:8px}",
        "& .ftd-scroll{max-height:30em;overflow:auto}& .ftd-scroll td:last-child{min-width:14em}",
        "& .ftd-scroll td:first-child{overflow-wrap:anywhere;min-width:12em}",
        "& input{font:inherit;color:inherit;background:transparent;border:1px solid var(--ftd-line);border-radius:3px;",
        "padding:2px 6px;min-width:22em;margin:2px 6px 4px 0}",
        "& summary{cursor:pointer;display:list-item}",
        "& svg{max-width:100%;height:auto;color:inherit}& text{fill:currentColor}",
        *[f"& .ftd-{name}{{color:var(--ftd-{name})}}" for name in COLORS],
    ]
)
"""Rules for the contents of a display; `&` is the selector of the display."""

STYLE = "".join(
    [
        ".ftd-view{--ftd-line:var(--jp-border-color2,rgba(128,128,128,.4));--ftd-ground:rgba(128,128,128,.12);",
        "--ftd-mono:var(--jp-code-font-family,ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace);",
        f"color:var(--jp-content-font-color1,currentColor);font-size:13px;line-height:1.45;overflow-x:auto;{_palette(_LIGHT)}}}",
        f"@media (prefers-color-scheme:dark){{.ftd-view{{{_palette(_DARK)}}}}}",
        f"{_ON_LIGHT}{{{_palette(_LIGHT)}}}{_ON_DARK}{{{_palette(_DARK)}}}",
        _INSIDE.replace("&", ".ftd-view.ftd-view"),  # repeated to override the notebook's rules for all tables and code
    ]
)
"""The content of a `style` element; all rules apply to `.ftd-view` and its contents only."""

STYLE_OF_FILES = (
    f"{STYLE}svg.ftd-view{{color:{_INKS[0]}}}@media (prefers-color-scheme:dark){{svg.ftd-view{{color:{_INKS[1]}}}}}"
)
"""The same style for SVG files, which have no page to set the text colour."""


_WITHOUT_CONTENT = ("input", "br")


class Markup(str):
    """Text that is already markup."""

    __slots__ = ()


def marked_up(content: Any) -> Markup:
    """Return markup for a content: `Markup` unchanged, anything else as escaped text."""
    return content if type(content) is Markup else Markup(escape(str(content)))


def joined(*contents: Any) -> Markup:
    """Return the concatenated contents; `None` is skipped."""
    return Markup("".join([marked_up(content) for content in contents if content is not None]))


def tag(kind: str, *contents: Any, **attributes: Any) -> Markup:
    """Return an element with contents as for `joined`.

    In names of attributes `_` means `-`, and a final `_` is dropped, as in `class_`. `None` and `False` omit the attribute, and
    `True` gives it without a value.
    """
    parts = [kind]
    for key, value in attributes.items():
        name = key.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(name)
        elif value is not None and value is not False:
            parts.append(f'{name}="{escape(str(value))}"')
    ending = "" if kind in _WITHOUT_CONTENT else f"{joined(*contents)}</{kind}>"
    return Markup(f"<{' '.join(parts)}>{ending}")


def code(content: Any) -> Markup:
    """Return a content in the font of code."""
    return tag("code", content)


def faint(content: Any) -> Markup:
    """Return a less important content in a fainter colour."""
    return tag("span", content, class_="ftd-faint")


def whole(content: Any) -> Markup:
    """Return a content without line breaks."""
    return tag("span", content, class_="ftd-whole")


def heading(what: Any, *more: Any) -> Markup:
    """Return the first line of a display: a title in bold, then facts separated by dots."""
    rest = [joined(" · ", part) for part in more if part]
    return tag("div", tag("b", what), *rest, class_="ftd-head")


def table(
    head: Sequence[Any],
    rows: Iterable[Sequence[Any]],
    right: Collection[int] = (),
    total: Sequence[Any] | None = None,
    **attributes: Any,
) -> Markup:
    """Return a table.

    Args:
        head: the names of the columns; empty for a table without names.
        rows: the cells, one per column.
        right: indices of right-aligned columns, such as numbers.
        total: the cells of a final row of totals.
        attributes: attributes of the element.
    """

    def row(cells: Sequence[Any], kind: str) -> Markup:
        return tag("tr", *[tag(kind, cell, class_="ftd-number" if i in right else None) for i, cell in enumerate(cells)])

    return tag(
        "table",
        tag("thead", row(head, "th")) if head else None,
        tag("tbody", *[row(cells, "td") for cells in rows]),
        tag("tfoot", row(total, "td")) if total else None,
        **attributes,
    )


def fold(summary: Any, *contents: Any, opened: bool = False) -> Markup:
    """Return contents that a click on the summary shows and hides."""
    return tag("details", tag("summary", summary), *contents, open=opened)


def picture(width: float, height: float, *contents: Any, label: str, **attributes: Any) -> Markup:
    """Return a drawing of SVG elements that shrinks to the available width; screen readers read the label."""
    return tag(
        "svg",
        tag("title", label),
        *contents,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=f"{width:g}",
        height=f"{height:g}",
        role="img",
        **attributes,
    )


def view(*contents: Any) -> str:
    """Return a notebook display: the contents in a box that includes the style."""
    return tag("div", tag("style", Markup(STYLE)), *contents, class_="ftd-view")


def drawing(content: Markup) -> str:
    """Return a `picture` as the text of an SVG file, with a style for light and dark pages."""
    opening, _, rest = content.partition(">")
    return f'{opening} class="ftd-view">{tag("style", Markup(STYLE_OF_FILES))}{rest}'
