"""What a check finds."""

from __future__ import annotations

from typing import NamedTuple

from functad.profiling.recording import Place

SEVERITIES = ("error", "warning", "note")
"""`error`: the gradient is wrong or cannot be had. `warning`: it may not be what is meant. `note`: good to know."""

NOWHERE = Place("", "", "")


class Finding(NamedTuple):
    """One thing that a check found.

    Attributes:
        severity: `error`, `warning` or `note`.
        check: which check found it.
        line: file and number of the user's line; empty if it is of none.
        code: the text of that line.
        message: what is the matter.
        advice: what to do.

    Example:
        >>> import functad
        >>> [finding] = functad.doctor(lambda x: abs(x), 0.0).findings
        >>> finding.severity, finding.check
        ('warning', 'kinks')
    """

    severity: str
    check: str
    line: str
    code: str
    message: str
    advice: str


def found(severity: str, check: str, message: str, advice: str, place: Place = NOWHERE) -> Finding:
    """Make a finding at a place."""
    return Finding(severity, check, place.line, place.text, message, advice)
