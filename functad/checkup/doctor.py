"""`doctor`: the checks that a colleague would make of a function before its gradient is trusted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functad.checkup.finding import SEVERITIES, Finding, found
from functad.checkup.point import Point
from functad.checkup.precision import divisions, in_double, lost_digits, mixed_precision, overflows
from functad.checkup.shown import Shown
from functad.checkup.slopes import corners, wrong_slopes
from functad.checkup.surroundings import (
    arguments,
    batching,
    compiling,
    integers_among,
    loops,
    not_finite,
    random_numbers,
    split_message,
)
from functad.errors import InputError
from functad.places import name_of
from functad.profiling.call import Call, quiet
from functad.transforms.calling.selection import ArgNames, ArgNums

TOO_MANY = 10_000
"""Lists of more operations are not compiled and not batched here: that takes long."""


class Checkup(Shown):
    """What `doctor` returns: print it, let a notebook show it, or read its findings.

    Attributes:
        function: the name of the function.
        findings: what was found, the worst first.
        checked: what was looked at.
        left_out: what could not be, and why.

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


def doctor(
    f: Callable[..., Any],
    *args: Any,
    argnums: ArgNums | None = None,
    argnames: ArgNames | None = None,
    has_aux: bool = False,
    **kwargs: Any,
) -> Checkup:
    """Check a function at a point as a colleague would, before its gradient is trusted.

    The gradient is compared with differences in random directions. Kinks and jumps near the point, digits that are lost,
    overflow, single precision that is not enough, numbers that are not finite, arguments that have no influence, random
    numbers, loops of very many operations, and what neither compiles nor batches are found, each with the line of your code and
    an advice. The function is run some fifty times; nothing of yours changes.

    What is only suspected is not told: a kink counts if the function bends there, and lost digits if the gradient shows them.

    Args:
        f: a function of NumPy code; of a compiled one the function that was compiled is checked.
        args: its arguments: arrays, numbers or trees of them, Variables, modules.
        argnums: position, or positions, of the arguments to differentiate. If neither these nor `argnames` are given, it is the
            trainable Variables that the function reads; if it reads none, its first argument.
        argnames: name, or names, of arguments to differentiate.
        has_aux: `f` returns a pair `(value, aux)`, and `aux` does not count.
        kwargs: keyword arguments of `f`.

    Returns:
        A `Checkup`: print it, or read its `findings`.

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
    except Exception as error:  # noqa: BLE001 - whatever the function raises is the first thing to tell
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
        wrong, compared = ([], False) if lost else wrong_slopes(point, recorder, outcome)  # differences would lose more
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
