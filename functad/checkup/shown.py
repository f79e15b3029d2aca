"""Displays of a checkup: text and HTML."""

from __future__ import annotations

from functad.checkup.finding import SEVERITIES, Finding
from functad.display.amounts import counted
from functad.display.markup import code, faint, heading, joined, table, tag, view
from functad.display.terminal import cut, wrapped
from functad.profiling.shown import short

_COLORS = {"error": "red", "warning": "orange", "note": "blue"}


class Shown:
    """The display methods of `Checkup`.

    Attributes:
        function, findings, checked, left_out: as in `Checkup`.
    """

    function: str
    findings: tuple[Finding, ...]
    checked: tuple[str, ...]
    left_out: tuple[str, ...]

    def __repr__(self) -> str:
        parts = [f"{cut(self.function, 40)}: {self._counts()}"]
        for finding in self.findings:
            where = f" at {finding.line}" if finding.line else ""
            parts.append("")
            parts.append(wrapped(f"{finding.severity}: {finding.check}{where}"))
            if finding.code:
                parts.append("    " + cut(finding.code, 76))
            parts.append(wrapped(finding.message, "  "))
            parts.append(wrapped(f"Advice: {finding.advice}", "  "))
        parts.append("")
        parts += [wrapped(sentence, following="  ") for sentence in self._summary()]
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        rows = [
            [
                tag("b", finding.severity, class_=f"ftd-{_COLORS[finding.severity]}"),
                joined(tag("div", code(short(finding.line))), tag("div", code(finding.code))) if finding.line else faint("-"),
                joined(tag("div", finding.message), tag("div", faint(finding.advice))),
            ]
            for finding in self.findings
        ]
        return view(
            heading(f"{self.function}: {self._counts()}"),
            table(["", "line", "finding and advice"], rows) if rows else None,
            *[tag("div", sentence) for sentence in self._summary()],
        )

    def _counts(self) -> str:
        if not self.findings:
            return "nothing found"
        counts = {kind: sum([finding.severity == kind for finding in self.findings]) for kind in SEVERITIES}
        return ", ".join([counted(count, kind) for kind, count in counts.items() if count])

    def _summary(self) -> list[str]:
        told = [f"Checked: {'; '.join(self.checked)}."]
        return [*told, f"Not checked: {'; '.join(self.left_out)}."] if self.left_out else told
