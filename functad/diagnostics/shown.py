"""Displays of `explain`: a line for each input, and its way with the cut marked."""

from __future__ import annotations

from typing import Any

from functad.diagnostics.ways import Way
from functad.display.markup import Markup, code, faint, fold, heading, joined, tag, view
from functad.display.terminal import cut_middle, wrapped

_MOST = 7
"""The largest number of operations of a way in a display."""

_COLORS = {"connected": "green", "zero": "orange", "missing": "red", "refused": "grey"}


def explanation_text(function: str, findings: Any) -> str:
    """Return the text of an explanation: each input with its reasons, and below it its way if the derivative is cut."""
    lines = [f"gradient of {function}:"]
    for finding in findings:
        lines.append(wrapped(repr(finding), "  ", "      "))
        if finding.way.cut is not None:
            lines += [f"    {mark} {cut_middle(text, 72)}" for mark, text in _stations(finding.way, finding.path)]
    return "\n".join(lines)


def explanation_markup(function: str, findings: Any) -> str:
    """Return the HTML display of an explanation."""
    counts = {status: sum(finding.status == status for finding in findings) for status in _COLORS}
    facts = [tag("span", f"{count} {status}", class_=f"ftd-{_COLORS[status]}") for status, count in counts.items() if count]
    return view(heading(joined("Gradient of ", code(function)), *facts), *map(_shown, findings))


def _shown(finding: Any) -> Markup:
    told = ["connected, at these values zero" if finding.status == "zero" and finding.connected else finding.status]
    head = joined(code(finding.path), " ", tag("b", *told, class_=f"ftd-{_COLORS[finding.status]}"))
    reasons = [tag("div", reason) for reason in finding.reasons]
    marks = {"x": tag("span", "✕", class_="ftd-red"), ">": "↓", ".": "·"}
    ends = f": the derivative {'is zero' if finding.connected else 'ends'} here" if finding.way.cut is not None else None
    way = [
        tag("div", joined(marks[mark], " ", (faint if mark == "." else code)(text), ends if mark == "x" else None))
        for mark, text in _stations(finding.way, finding.path)
    ]
    if not finding.way.steps:
        return tag("div", head, *[joined(" · ", reason) for reason in finding.reasons])
    return fold(head, *reasons, tag("div", *way, class_="ftd-way"), opened=finding.status != "connected")


def _stations(way: Way, path: str) -> list[tuple[str, str]]:
    """Return the operations of a way with marks: `>` before the derivative ends, `x` where it ends, `.` after that."""
    cut = len(way.steps) if way.cut is None else way.cut
    passed = [(">" if i < cut else "x" if i == cut else ".", text) for i, text in enumerate(way.steps)]
    if len(passed) > _MOST:
        first = min(max(cut - _MOST // 2, 1), len(passed) - _MOST + 1)
        kept = range(first, first + _MOST - 2)
        left, right = first - 1, len(passed) - 1 - kept.stop
        passed = [
            passed[0],
            *_omitted(left, passed[first - 1][0]),
            *[passed[i] for i in kept],
            *_omitted(right, passed[-1][0]),
            passed[-1],
        ]
    end = (
        [(".", "the result")]
        if way.cut is not None
        else [(">", "the result")]
        if way.arrives
        else [("x", "nothing reads this")]
    )
    return [(">", path), *passed, *end]


def _omitted(count: int, mark: str) -> list[tuple[str, str]]:
    return [(">" if mark == "x" else mark, f"... {count} more")] if count > 0 else []
