"""Markup for notebooks, put together so that text is always escaped and every tag is closed.

What is `Markup` is taken as it is, and everything else is text. `view` makes a display of it, which brings its style along.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

from functad.display.style import STYLE, STYLE_OF_FILES

_WITHOUT_CONTENT = ("input", "br")


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def marked_up(content: Any) -> Markup:
    """Return markup for a content: itself if it is `Markup`, otherwise its text with the signs of markup escaped.

    Example:
        >>> marked_up("<lambda>")
        '&lt;lambda&gt;'
    """
    return content if type(content) is Markup else Markup(escape(str(content)))


def joined(*contents: Any) -> Markup:
    """Return contents one after the other; `None` is none."""
    return Markup("".join([marked_up(content) for content in contents if content is not None]))


def tag(kind: str, *contents: Any, **attributes: Any) -> Markup:
    """Return an element.

    Args:
        kind: its name: `td`, `path`.
        contents: what is in it, as for `joined`.
        attributes: by name; `_` stands for `-`, one at the end is dropped, as in `class_`. `None` and `False` leave one out,
            and `True` gives it without a value.

    Example:
        >>> tag("td", "a < b", class_="number", title=None)
        '<td class="number">a &lt; b</td>'
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
    """Return names and lines of code in the letters of code."""
    return tag("code", content)


def faint(content: Any) -> Markup:
    """Return a content of less weight in fainter letters."""
    return tag("span", content, class_="ftd-faint")


def whole(content: Any) -> Markup:
    """Return a content that is never broken into lines."""
    return tag("span", content, class_="ftd-whole")


def heading(what: Any, *more: Any) -> Markup:
    """Return the first line of a display: what it is in bold letters, then what is to be known of it, set apart by dots."""
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
        head: the names of the columns; empty for a table without them.
        rows: the cells, one for each column.
        right: the numbers of the columns that stand at the right: those of numbers.
        total: the cells of a last row that sums up.
        attributes: of the element.
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
    """Return contents that a click on a summary shows and hides."""
    return tag("details", tag("summary", summary), *contents, open=opened)


def picture(width: float, height: float, *contents: Any, label: str, **attributes: Any) -> Markup:
    """Return a drawing, as wide as there is room and at most as wide as it says.

    Args:
        width, height: of the coordinates.
        contents: elements of SVG, made by `tag`.
        label: what it shows, for those who cannot see it.
        attributes: further ones of the element.
    """
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
    """Return a display for a notebook: contents in a box that has the style with it."""
    return tag("div", tag("style", Markup(STYLE)), *contents, class_="ftd-view")


def drawing(content: Markup) -> str:
    """Return a `picture` as a file of its own, with the style in it: it reads whether the page is light or dark."""
    opening, _, rest = content.partition(">")
    return f'{opening} class="ftd-view">{tag("style", Markup(STYLE_OF_FILES))}{rest}'
