"""`doctor`: checks of a function and its gradient at a point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functad.checkup.checks import (
    arguments,
    batching,
    compiling,
    corners,
    divisions,
    in_double,
    integers_among,
    loops,
    lost_digits,
    mixed_precision,
    not_finite,
    overflows,
    random_numbers,
    split_message,
    wrong_slopes,
)
from functad.checkup.point import SEVERITIES, Finding, Point, found
from functad.display import code, counted, cut, faint, heading, joined, table, tag, view, wrapped
from functad.errors import InputError
from functad.places import name_of
from functad.profiling.measure import Call, quiet
from functad.profiling.profile import short
from functad.transforms.transform import ArgNames, ArgNums

_COLORS = {"error": "red", "warning": "orange", "note": "blue"}
TOO_MANY = 10_000
"""The largest number of operations with checks of compiling and batching; for more, these take too long."""


class Checkup:
    """The result of `doctor`. Print it, display it in a notebook, or read its findings.

    Attributes:
        function: the name of the function.
        findings: the findings, the most severe first.
        checked: the checks that were made.
        left_out: the checks that were not made, with the reason.

    Example:
        >>> import numpy as np, functad
        >>> found = functad.doctor(lambda w, x: np.sum(np.round(w) * x), np.array([0.3, 1.2]), np.ones(2))
        >>> [(finding.severity, finding.check) for finding in found.findings]
        [('warning', 'arguments')]
        >>> found.healthy
        False
    """

    def __init__(
        self, function: str, findings: tuple[Finding, ...], checked: tuple[str, ...], left_out: tuple[str, ...] = ()
    ) -> None:
        self.function = function
        self.findings = tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))
        self.checked = checked
        self.left_out = left_out

    @property
    def healthy(self) -> bool:
        """Whether there are no errors and no warnings."""
        return all(finding.severity == "note" for finding in self.findings)

    def of(self, severity: str) -> tuple[Finding, ...]:
        """Return the findings of one severity.

        Args:
            severity: `error`, `warning` or `note`.

        Returns:
            A tuple of findings.
        """
        return tuple([finding for finding in self.findings if finding.severity == severity])

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


def doctor(
    f: Callable[..., Any],
    *args: Any,
    argnums: ArgNums | None = None,
    argnames: ArgNames | None = None,
    has_aux: bool = False,
    **kwargs: Any,
) -> Checkup:
    """Check a function and its gradient at a point, and return the findings.

    `doctor` compares the gradient with finite differences in random directions. It finds kinks and jumps near the point, lost
    digits, overflow, insufficient single precision, numbers that are not finite, arguments without influence, random numbers,
    very long loops, and code that does not compile or batch. Each finding has the line of your code and a fix. `doctor` runs
    the function about fifty times, and changes none of your objects.

    A finding is confirmed: a kink is reported if the function has one there, lost digits if they change the gradient.

    Args:
        f: a function of NumPy code. For a compiled function, `doctor` checks the original function.
        args: the arguments of `f`: arrays, numbers or pytrees of them, Variables, modules.
        argnums: the position or positions of the arguments to differentiate with respect to. Default without `argnames`: the
            trainable Variables that the function reads, or the first argument if it reads none.
        argnames: the name or names of the arguments to differentiate with respect to.
        has_aux: `f` returns a pair `(value, aux)`; `aux` is ignored.
        kwargs: the keyword arguments of `f`.

    Returns:
        A `Checkup`. Print it, or read its `findings`.

    Example:
        >>> import numpy as np, functad
        >>> def loss(w, x):
        ...     return np.mean(np.tanh(x @ w) ** 2)
        >>> functad.doctor(loss, np.array([0.5, -0.3]), np.eye(2)).findings
        ()
    """
    with quiet():
        return _checked(f, args, kwargs, argnums, argnames, has_aux)


def _checked(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    argnums: ArgNums | None,
    argnames: ArgNames | None,
    has_aux: bool,
) -> Checkup:
    name = name_of(f)
    try:
        call = Call("doctor", f, args, kwargs, argnums, argnames, has_aux)
        point = Point(call)
        recorder, outcome = point.looked_at()
    except Exception as error:  # noqa: BLE001 - every error of the function is a finding
        message, advice = split_message(error)
        integers = list(integers_among(args))
        if isinstance(error, InputError) and integers:
            message += f" Integers have no derivative: {', '.join(integers)}."
            advice = f"Pass 1.0 in place of 1, x.astype(float). {advice}"
        return Checkup(name, (found("error", "differentiating", message, advice),), ("whether it can be differentiated",))
    findings = [*not_finite(point, outcome), *arguments(point), *random_numbers(point, recorder)]
    findings += [*loops(recorder), *mixed_precision(point, recorder), *overflows(recorder.looks), *divisions(recorder.looks)]
    checked = ["value and gradient are finite", "each argument has its influence", "random numbers"]
    left_out = []
    if any(finding.check == "random" for finding in findings):
        left_out.append("the gradient against differences, as two calls are not alike")
    elif outcome.finite:
        checked += ["kinks near the point", "digits that are lost"]
        lost = list(lost_digits(point, recorder, outcome)) or list(in_double(point, outcome))
        wrong, compared = ([], False) if lost else wrong_slopes(point, recorder, outcome)  # differences lose more digits
        findings += [*corners(point, recorder.looks), *wrong, *lost]
        if lost:
            left_out.append("the gradient against differences, which would lose more digits")
        elif compared:
            checked.append("the gradient against differences")
        else:
            left_out.append("the gradient against differences, which do not settle on a number here")
    else:
        left_out.append("kinks, digits and differences, as not all numbers are finite")
    if len(recorder.places) <= TOO_MANY:
        findings += [*compiling(call), *batching(point)]
        checked += ["compiling", "batching"]
    else:
        left_out.append(f"compiling and batching, which take long with {len(recorder.places)} operations")
    return Checkup(call.name, tuple(findings), tuple(checked), tuple(left_out))
