"""Displays of a profile: text, notebook page and picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

from functad.display.markup import Markup, code, fold, heading, picture, table, tag, view
from functad.display.text import bytes_text, counted, cut, seconds_text, share_text, text_table, wrapped
from functad.profiling.rows import Bar, Row

LONGEST = 12
"""The largest number of lines in a text; a page folds the rest."""

_COLUMNS = ["line", "code", "calls", "forward", "backward", "made", "share"]
_RIGHT = [2, 3, 4, 5, 6]


UNKNOWN = "an unknown line"


def short(line: str) -> str:
    """Return a line without the folder of its file."""
    return PurePath(line).name if not line.startswith("<") else line


def text_of(profile: Any) -> str:
    """Return a profile for a terminal."""
    lines = profile.lines()
    parts = [_title(profile), ""]
    parts.append(text_table(_COLUMNS, [_cells(row) for row in lines[:LONGEST]], right=_RIGHT, middle=[0]))
    if len(lines) > LONGEST:
        rest = sum([row.time for row in lines[LONGEST:]])
        parts.append(f"and {counted(len(lines) - LONGEST, 'more line')} that take {seconds_text(rest)}")
    parts.append("")
    parts += [wrapped(sentence, following="  ") for sentence in sentences(profile)]
    return "\n".join(parts)


def html_of(profile: Any) -> str:
    """Return a profile for a notebook."""
    lines, rows = profile.lines(), profile.rows
    cells = [[code(short(row.line)), code(row.code), *_cells(row)[2:]] for row in lines]
    more = [table(_COLUMNS, cells[LONGEST:], right=_RIGHT)] if len(lines) > LONGEST else []
    every = [[code(short(row.line)), code(row.operation), *_cells(row)[2:]] for row in rows]
    return view(
        heading(_title(profile)),
        picture_of(profile),
        table(_COLUMNS, cells[:LONGEST], right=_RIGHT),
        fold(counted(len(lines) - LONGEST, "more line"), *more) if more else None,
        fold("Operation by operation", table(["line", "operation", *_COLUMNS[2:]], every, right=_RIGHT)),
        *[tag("div", sentence) for sentence in sentences(profile)],
    )


def _title(profile: Any) -> str:
    total = profile.total
    return (
        f"{cut(profile.function, 30)}: value and gradient in {seconds_text(total.time)}, "
        f"{counted(total.operations, 'operation')}"
    )


def _cells(row: Row) -> list[Any]:
    return [
        short(row.line),
        row.code or row.operation,
        f"{row.calls:,}",
        seconds_text(row.forward),
        seconds_text(row.backward),
        bytes_text(row.bytes),
        share_text(row.share, 1.0),
    ]


def sentences(profile: Any) -> Iterator[str]:
    """Yield the summary of a profile, a sentence or two at a time."""
    total = profile.total
    parts = {"NumPy and derivative rules": total.numpy, "the rest of your code": total.python, "recording": total.recording}
    told = ", ".join([f"{name} {seconds_text(part)} ({share_text(part, total.time)})" for name, part in parts.items()])
    yield f"Of the {seconds_text(total.time)}: {told}."
    ratio = total.time / total.function if total.function else 1.0
    times = f"{ratio:.1f} times that" if ratio > 1.05 else "no more"
    yield f"The function alone takes {seconds_text(total.function)}, with its gradient {times}."
    yield f"Peak memory: {bytes_text(total.function_peak)} by the function, {bytes_text(total.peak)} with its gradient."
    yield compiling(profile)
    if profile.unseen:
        yield (
            f"Code in which nothing is differentiated takes {seconds_text(profile.unseen)} before the lines above it is listed "
            f"at. If it is the same in each call, compute it once, outside: a compiled function does so when it is compiled."
        )
    yield from profile.notes


def compiling(profile: Any) -> str:
    """Return one or two sentences about the time that compilation saves."""
    total, program = profile.total, profile.compiled
    overhead = total.python + total.recording
    if program.seconds is None:
        reason = program.reason.rstrip(".")
        return (
            f"Compiling was not measured: {reason}. What it takes away, where it can be done, is the rest of your code and "
            f"recording at least: {seconds_text(overhead)}, or {share_text(overhead, total.time)}."
        )
    static = f", static_argnums={program.static}" if program.static else ""
    how = f"functad.jit of the gradient (backend {program.backend}{static}) takes {seconds_text(program.seconds)}"
    cost = f"Compiling took {seconds_text(program.compiling)}"
    saved = total.time * (1.0 - program.seconds / program.without)
    if saved <= _WORTH * total.time:
        why = "the time is spent inside its operations"
        return f"{how}, and saves nothing: {why if overhead < 0.3 * total.time else 'its calls cost as much'}. {cost}."
    part = min(overhead, saved)
    fewer = f", and {seconds_text(saved - part)} of NumPy's" if saved - part > 0.02 * total.time else ""
    calls = max(round(program.compiling / saved), 1)
    return (
        f"{how}, {program.without / program.seconds:.1f} times less: it takes away {seconds_text(part)} of the rest of your "
        f"code and recording{fewer}. {cost}, which {counted(calls, 'call')} {'repays' if calls == 1 else 'repay'}."
    )


_WORTH = 0.05
"""The smallest share of the time that counts as saved by compilation."""


# The picture

_WIDTH, _HEIGHT, _LETTER = 760.0, 22.0, 7.3
_LEAST = 1.5


def picture_of(profile: Any) -> Markup:
    """Return the bars as a flame graph: nested as the functions called each other, with widths as times.

    The left part of each bar, blue, is the forward pass. The right part, orange, is the derivative.
    """
    bars = profile.bars()
    whole = sum([bar.time for bar in bars]) or 1.0
    drawn = list(_drawn(bars, 0.0, 0, _WIDTH / whole, whole))
    legend = _depth(bars) * _HEIGHT + 16
    key = [
        tag("rect", x=0, y=legend - 9, width=10, height=10, fill="var(--ftd-blue)", fill_opacity=0.55),
        tag("text", "forward", x=16, y=legend),
        tag("rect", x=84, y=legend - 9, width=10, height=10, fill="var(--ftd-orange)", fill_opacity=0.55),
        tag("text", "backward", x=100, y=legend),
    ]
    return picture(_WIDTH, legend + 6, *drawn, *key, label=f"Where the time of {profile.function} goes")


def _depth(bars: Sequence[Bar]) -> int:
    return max([1 + _depth(bar.bars) for bar in bars], default=0)


def _drawn(bars: Sequence[Bar], left: float, level: int, scale: float, whole: float) -> Iterator[Markup]:
    for bar in bars:
        width, ahead = bar.time * scale, bar.forward * scale
        if width >= _LEAST:
            yield _one(bar, left, level * _HEIGHT, width, ahead, whole)
            yield from _drawn(bar.bars, left, level + 1, scale, whole)
        left += width


def _one(bar: Bar, x: float, y: float, width: float, ahead: float, whole: float) -> Markup:
    high = _HEIGHT - 2
    where = short(bar.place.where or UNKNOWN)
    told = (
        f"{bar.name} ({where}): forward {seconds_text(bar.forward)}, backward {seconds_text(bar.backward)}, "
        f"{share_text(bar.time, whole)}"
    )
    letters = int((width - 8) / _LETTER)
    label = cut(bar.name, letters) if letters >= 4 else ""
    return tag(
        "g",
        tag("title", told),
        _box(x, y, ahead, high, "blue"),
        _box(x + ahead, y, width - ahead, high, "orange"),
        tag("text", label, x=f"{x + 4:.1f}", y=f"{y + 14:.1f}") if label else None,
    )


def _box(x: float, y: float, width: float, height: float, name: str) -> Markup | None:
    if width <= 0:
        return None
    return tag(
        "rect",
        x=f"{x:.2f}",
        y=f"{y:.1f}",
        width=f"{max(width - 0.6, 0.3):.2f}",
        height=f"{height:g}",
        fill=f"var(--ftd-{name})",
        fill_opacity=0.35,
    )
