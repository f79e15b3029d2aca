"""`Finding`: one result of a check."""

from __future__ import annotations

from typing import NamedTuple

from functad.expressions.place import Place

SEVERITIES = ("error", "warning", "note")
"""`error`: the gradient is wrong or fails. `warning`: the gradient may not be the intended one. `note`: other facts."""

NOWHERE = Place("", "", 0, 0)


class Finding(NamedTuple):
    """One result of a check of `doctor`.

    Attributes:
        severity: `error`, `warning` or `note`.
        check: the name of the check.
        line: the file and number of the user's line; empty if the finding has no line.
        code: the text of the line.
        message: the problem.
        advice: the fix.

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
    """Return a finding at a place."""
    return Finding(severity, check, place.where, place.text, message, advice)
