"""Display of patterns and colourings: entries as squares, densities of large patterns, colours of products."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from functad.display import (
    COLORS,
    Markup,
    color,
    counted,
    faint,
    heading,
    joined,
    picture,
    share_text,
    table,
    tag,
    view,
    wrapped,
)

Array = np.ndarray[Any, np.dtype[Any]]

_SINGLE = 64
"""Patterns with up to this number of rows and columns show each entry as a square."""

_PARTS = 96
"""A larger pattern is shown in at most this number of parts per side."""

_SIDE = 300.0
_LARGEST, _SMALLEST = 16.0, 3.0
_MARGIN = 26.0
_SHADES = (0.25, 0.45, 0.65, 0.85, 1.0)
_SIGNS = ".:+#"


class Parts(NamedTuple):
    """The numbers of entries in the parts of a matrix.

    Attributes:
        counts: an array of shape `(parts along the rows, parts along the columns)`.
        rows, columns: the size of a part.
    """

    counts: Array
    rows: int
    columns: int

    @property
    def single(self) -> bool:
        """Whether each part is one position."""
        return self.rows == self.columns == 1


def parts_of(pattern: Any, along_rows: int, along_columns: int) -> Parts:
    """Return the numbers of entries in parts, with at most the given numbers of parts."""
    (m, n), rows, columns = pattern.shape, pattern.rows, pattern.columns
    height, width = max(1, -(-m // along_rows)), max(1, -(-n // along_columns))
    shape = -(-m // height), -(-n // width)
    counts = np.bincount(rows // height * shape[1] + columns // width, minlength=shape[0] * shape[1])
    return Parts(counts.reshape(shape), height, width)


# In a terminal


def pattern_text(pattern: Any) -> str:
    """Return a large pattern as text, with a sign for the density of each part."""
    parts = parts_of(pattern, 20, 60)
    share = parts.counts / (parts.rows * parts.columns)
    levels = (share > 0).astype(int) + (share > 0.1) + (share > 0.5)
    lines = ["".join([_SIGNS[level] for level in row]) for row in levels.tolist()]
    return "\n".join(
        [
            *lines,
            wrapped(
                f"Each sign is {parts.rows} x {parts.columns} places: {_SIGNS[0]} no entry, {_SIGNS[1]} up to a tenth of them, "
                f"{_SIGNS[2]} up to half, {_SIGNS[3]} more."
            ),
        ]
    )


def saved_text(coloring: Any) -> str:
    """Return a sentence with the number of products of a colouring, and their number without a colouring."""
    m, n = coloring.shape
    plain = {"row": (m, "one for each row"), "bidirectional": (min(m, n), "one for each row or column")}
    count, each = plain.get(coloring.mode, (n, "one for each column"))
    found = f"{counted(coloring.colors, 'product')} in place of {count:,}, {each}"
    return found + (f": {share_text(count - coloring.colors, count)} saved." if count > coloring.colors else ".")


# In a notebook


def pattern_markup(pattern: Any) -> str:
    """Return the display of a pattern: its entries as squares, or the density of the parts of a large pattern."""
    m, n = pattern.shape
    facts = [str((m, n)), counted(pattern.nnz, "entry", "entries"), share_text(pattern.nnz, m * n)]
    return view(heading("SparsityPattern", *facts), *_drawn(pattern))


def coloring_markup(coloring: Any) -> str:
    """Return the display of a colouring: the columns and the rows in their colours."""
    strips = [
        _strip(name, colors, first)
        for name, colors, first in (("columns", coloring.columns, 0), ("rows", coloring.rows, coloring.forward))
        if len(colors) and colors.max(initial=-1) >= 0
    ]
    return view(_coloring_head(coloring), *strips)


def plan_markup(pattern: Any, coloring: Any) -> str:
    """Return the display of a `SparsePlan`: the pattern with each entry in the colour of its product."""
    m, n = pattern.shape
    facts = [str((m, n)), counted(pattern.nnz, "entry", "entries"), share_text(pattern.nnz, m * n)]
    group = groups(pattern, coloring)
    chosen = np.ones(pattern.nnz, bool)
    if max(m, n) > _SINGLE:
        chosen = (pattern.rows < _SINGLE) & (pattern.columns < _SINGLE)
    shape = min(m, _SINGLE), min(n, _SINGLE)
    drawn = _colored(pattern.rows[chosen], pattern.columns[chosen], group[chosen], shape)
    corner = f" The first {shape[0]} rows and {shape[1]} columns:" if max(m, n) > _SINGLE else ""
    again = f" There are {len(COLORS)} colours; after these they come again." if coloring.colors > len(COLORS) else ""
    told = faint(f"Entries of one colour come from one product.{again}{corner}")
    return view(
        heading("SparsePlan", *facts),
        *(_drawn(pattern) if max(m, n) > _SINGLE else ()),
        _coloring_head(coloring),
        tag("div", told),
        tag("div", drawn),
    )


def groups(pattern: Any, coloring: Any) -> Array:
    """Return the number of the product of each entry of a pattern; forward products come first."""
    i, j = pattern.rows, pattern.columns
    if coloring.mode == "star":
        return np.asarray(coloring.columns[np.where(coloring.by_row, i, j)])
    return np.asarray(np.where(coloring.by_row, coloring.forward + coloring.rows[i], coloring.columns[j]))


def _coloring_head(coloring: Any) -> Markup:
    kinds = [(coloring.forward, "forward"), (coloring.reverse, "reverse")]
    told = ", ".join([f"{count} {kind}" for count, kind in kinds if count])
    return heading("Coloring", coloring.mode, joined(saved_text(coloring), f" ({told})" if coloring.reverse else None))


def _drawn(pattern: Any) -> list[Markup]:
    """Return the picture of a pattern, with a legend if a square is more than one position."""
    m, n = pattern.shape
    if not m * n:
        return [tag("div", faint("It has no places."))]
    parts = parts_of(pattern, *(side if side <= _SINGLE else _PARTS for side in (m, n)))
    share = parts.counts / (parts.rows * parts.columns)
    # Thin lines have a low density in their part, so the shade grows with the square root of the density.
    shade = np.ceil(np.sqrt(share / max(share.max(), 1e-300)) * len(_SHADES)).astype(int)
    squares = [
        tag("path", d=_squares(shade == level + 1), fill="currentColor", fill_opacity=opacity)
        for level, opacity in enumerate(_SHADES)
        if (shade == level + 1).any()
    ]
    drawn = tag(
        "div", _framed(parts.counts.shape, pattern.shape, squares, f"Where a matrix of shape {pattern.shape} has entries")
    )
    if parts.single:
        return [drawn]
    told = f"Each square is {parts.rows} x {parts.columns} places: the stronger its colour, the more of these are entries."
    return [drawn, tag("div", faint(told))]


def _colored(rows: Array, columns: Array, group: Array, shape: tuple[int, int]) -> Markup:
    """Return the picture of some entries, each in the colour of its group."""
    squares = []
    for number in range(len(COLORS)):
        mask = np.zeros(shape, bool)
        own = group % len(COLORS) == number
        mask[rows[own], columns[own]] = True
        if own.any():
            squares.append(tag("path", d=_squares(mask), fill=color(number)))
    return _framed(shape, shape, squares, f"Entries in the colours of {counted(len(np.unique(group)), 'product')}")


def _strip(name: str, colors: Array, first: int) -> Markup:
    """Return a row of squares, one for each column or row of a matrix in its colour, and a table of counts per colour."""
    shown = colors[: 2 * _SINGLE]
    squares = [
        tag("rect", x=i * 5 + 0.5, y=0.5, width=4, height=14, fill=color(first + int(c)) if c >= 0 else "var(--ftd-ground)")
        for i, c in enumerate(shown)
    ]
    drawn = picture(5 * len(shown) + 1, 15, *squares, label=f"The colours of the {name}")
    counts = np.bincount(colors[colors >= 0])
    rows = [
        [
            joined(tag("span", "■ ", style=f"color:{color(first + c)}"), c),
            f"{count:,}",
            _listed(np.flatnonzero(colors == c)[:9], count),
        ]
        for c, count in enumerate(counts[:20].tolist())
    ]
    more = [tag("div", faint(f"... and {len(counts) - 20:,} more colours"))] if len(counts) > 20 else []
    told = f"The first {len(shown)} of {len(colors):,} {name}" if len(shown) < len(colors) else f"All {len(colors):,} {name}"
    return joined(tag("div", faint(told)), tag("div", drawn), table(["colour", name, "which"], rows, right=[1]), *more)


def _listed(places: Array, count: int) -> str:
    return ", ".join(map(str, places.tolist())) + (", ..." if count > len(places) else "")


def _framed(cells: tuple[int, int], shape: tuple[int, int], squares: list[Markup], label: str) -> Markup:
    """Return a picture of squares in a frame, with the numbers of the first and last rows and columns."""
    height, width = (min(_LARGEST, max(_SMALLEST, _SIDE / max(count, 1))) for count in cells)
    width, height = min(width, 4 * height), min(height, 4 * width)
    wide, high = width * cells[1], height * cells[0]
    margin = max(_MARGIN, 8.0 * len(str(max(shape))) + 6)
    scaled = tag(
        "g", *squares, transform=f"translate({margin:g} {_MARGIN:g}) scale({width:g} {height:g})", shape_rendering="crispEdges"
    )
    frame = {"fill": "none", "stroke": "var(--ftd-line)"}
    marks = [
        tag("text", 0, x=margin, y=_MARGIN - 7),
        tag("text", shape[1] - 1, x=margin + wide, y=_MARGIN - 7, text_anchor="end") if shape[1] > 3 else None,
        tag("text", 0, x=margin - 5, y=_MARGIN + 10, text_anchor="end"),
        tag("text", shape[0] - 1, x=margin - 5, y=_MARGIN + high, text_anchor="end") if shape[0] > 2 else None,
    ]
    border = tag("rect", x=margin - 0.5, y=_MARGIN - 0.5, width=wide + 1, height=high + 1, **frame)
    return picture(margin + max(wide, 20) + 6, _MARGIN + high + 6, border, scaled, *marks, label=label)


def _squares(mask: Array) -> str:
    """Return the SVG path that covers the true elements of a mask; neighbours in a row are one rectangle."""
    drawn = []
    for i in np.flatnonzero(mask.any(1)).tolist():
        steps = np.flatnonzero(np.diff(mask[i].astype(np.int8), prepend=0, append=0)).tolist()
        drawn += [f"M{start} {i}h{stop - start}v1H{start}z" for start, stop in zip(steps[::2], steps[1::2], strict=True)]
    return "".join(drawn)
