"""Markup for notebooks; text is always escaped and every tag is closed.

`Markup` is inserted unchanged, any other content as escaped text. `view` returns a display that includes its style.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

from functad.display.style import STYLE, STYLE_OF_FILES

_WITHOUT_CONTENT = ("input", "br")


class Markup(str):
    """Text that is already markup."""

    __slots__ = ()


def marked_up(content: Any) -> Markup:
    """Return markup for a content: `Markup` unchanged, anything else as escaped text.

    Example:
        >>> marked_up("<lambda>")
        '&lt;lambda&gt;'
    """
    return content if type(content) is Markup else Markup(escape(str(content)))


def joined(*contents: Any) -> Markup:
    """Return the concatenated contents; `None` is skipped."""
    return Markup("".join([marked_up(content) for content in contents if content is not None]))


def tag(kind: str, *contents: Any, **attributes: Any) -> Markup:
    """Return an element.

    Args:
        kind: the name of the element: `td`, `path`.
        contents: the contents, as for `joined`.
        attributes: the attributes by name. `_` means `-`; a final `_` is dropped, as in `class_`. `None` and `False` omit the
            attribute, and `True` gives it without a value.

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
    """Return a drawing that shrinks to the available width.

    Args:
        width, height: the size in SVG coordinates.
        contents: SVG elements, created by `tag`.
        label: a description for screen readers.
        attributes: further attributes of the element.
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
    """Return a notebook display: the contents in a box that includes the style."""
    return tag("div", tag("style", Markup(STYLE)), *contents, class_="ftd-view")


def drawing(content: Markup) -> str:
    """Return a `picture` as the text of an SVG file, with a style for light and dark pages."""
    opening, _, rest = content.partition(">")
    return f'{opening} class="ftd-view">{tag("style", Markup(STYLE_OF_FILES))}{rest}'
