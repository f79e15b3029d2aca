"""Markup and style of displays in notebooks and SVG files.

Text is always escaped and every tag is closed: `Markup` is inserted unchanged, any other content as escaped text.

`view` returns a display with its style: fonts and background from the page, and colours that are readable on light and dark
pages. JupyterLab defines its colours as variables (`--jp-*`). Other pages mark a dark theme by an attribute or a class, or
follow the system (`prefers-color-scheme`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

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
