"""Directional derivatives by finite differences, with an uncertainty and a mask of the elements that have a derivative.

A kink is detected by its scale. The two one-sided differences of a smooth function differ by the step times its second
derivative, so by twice as much for twice the step. At a kink they differ by the same amount for every step. If a kink is near
the point, or the function varies within the step, central differences depend on the step; then smaller steps are tried.
Steps of another size also reject a staircase: over many of its steps, a staircase looks like a slope.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from functad.expressions.spec import shape_of
from functad.testing.numerical import bytes_of_real, complex_step

STEPS = {8: (2.0**-13, 2.0**-19, 2.0**-25), 4: (2.0**-6, 2.0**-8, 2.0**-10)}
"""Finite-difference steps to try, by the bytes of a real number of the result."""

TRUSTED = {8: 1e-5, 4: 2e-2}
"""Largest uncertainty of a usable difference, relative to the derivatives of the same result."""

NEGLIGIBLE = {8: 1e-9, 4: 1e-5}
"""Uncertainty that is always accepted, for derivatives that are zero."""

Function = Callable[..., Sequence[Any]]


@dataclass(frozen=True)
class Measured:
    """The derivative of one result in one direction.

    Attributes:
        derivative: one value per element.
        uncertainty: a bound on the error of `derivative`, per element.
        smooth: a mask of the elements with a reliable derivative.
    """

    derivative: Any
    uncertainty: Any
    smooth: Any

    def allowed(self, atol: float, rtol: float) -> Any:
        """Return the largest accepted error of a derivative, per element; valid where `smooth` is true.

        Args:
            atol: absolute tolerance, added to the uncertainty.
            rtol: tolerance relative to the largest derivative.
        """
        return atol + rtol * float(np.max(np.abs(self.derivative), initial=0.0, where=self.smooth)) + self.uncertainty


def paired(gs: Sequence[Any], measured: Sequence[Measured]) -> tuple[float, float, float]:
    """Return the sum of `g * derivative` over smooth elements, the sum of its absolute terms and the sum of uncertainties."""
    terms = [np.multiply(g, np.where(m.smooth, m.derivative, 0)) for g, m in zip(gs, measured, strict=True)]
    doubts = [np.abs(g) * np.where(m.smooth, m.uncertainty, 0) for g, m in zip(gs, measured, strict=True)]
    expected, size, doubt = (
        math.fsum(float(np.sum(part).real) for part in parts) for parts in (terms, [np.abs(term) for term in terms], doubts)
    )
    return expected, size, doubt


def measure(
    function: Function, primals: Sequence[Any], direction: Sequence[Any], *, real_bytes: int = 8, twice: bool = False
) -> list[Measured]:
    """Return the derivative of each result of a function in a direction.

    Args:
        function: takes arrays, returns a sequence of inexact arrays.
        primals: the point, in double precision.
        direction: one array per primal, with elements of size 1.
        twice: accept an element only if steps of two sizes agree and no third step contradicts them.
        real_bytes: bytes of the real numbers that `function` computes with, if it rounds intermediate results: 8 or 4.

    Example:
        >>> [kinked] = measure(lambda x: [abs(x)], [np.array([0.0, 3.0])], [np.array([1.0, 2.0])])
        >>> kinked.smooth
        array([False,  True])
        >>> kinked.derivative.round(6)[1]
        np.float64(2.0)
    """
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        here = [np.asarray(y) for y in function(*primals)]
        real_bytes = 4 if min([real_bytes, *map(bytes_of_real, here)]) <= 4 else 8
        steps = STEPS[real_bytes]
        first = 2 if twice else 1
        best = [_differences(function, primals, direction, here, step, real_bytes) for step in steps[:first]]
        for step in steps[first:]:
            if all(bool(np.all(m.smooth)) for column in best[-first:] for m in column):
                break
            best.append(_differences(function, primals, direction, here, step, real_bytes))
        found = [_best(column, twice) for column in zip(*best, strict=True)]
        return found if real_bytes == 4 else _sharpened(function, primals, direction, found)


def _differences(
    function: Function, primals: Sequence[Any], direction: Sequence[Any], here: Sequence[Any], step: float, real_bytes: int
) -> list[Measured]:
    def at(multiple: int) -> list[Any]:
        moved = function(*[x + (multiple * step) * v for x, v in zip(primals, direction, strict=True)])
        return [np.asarray(y) for y in moved]

    rows = zip(at(1), at(-1), at(2), at(-2), here, strict=True)
    return [_measured(*row, step, real_bytes) for row in rows]


def _measured(ahead: Any, behind: Any, far_ahead: Any, far_behind: Any, here: Any, step: float, real_bytes: int) -> Measured:
    """Return the derivative of one result from its values at `here` and at four neighbours."""
    if not ahead.shape == behind.shape == far_ahead.shape == far_behind.shape == here.shape:
        never = np.zeros(here.shape, bool)  # for example a mask that selects other elements nearby
        return Measured(np.zeros(here.shape), np.full(here.shape, np.inf), never)
    precision = float(np.finfo(np.float32 if real_bytes == 4 else np.float64).eps)
    near, far = (ahead - behind) / (2 * step), (far_ahead - far_behind) / (4 * step)
    derivative = (4 * near - far) / 3
    known = np.isfinite(derivative)
    noise = 8 * precision * float(np.max(np.abs(here), initial=0.0, where=np.isfinite(here))) / step
    uncertainty = np.where(known, np.abs(near - far) + noise, np.inf)
    bend = np.abs(ahead - 2 * here + behind) / step
    far_bend = np.abs(far_ahead - 2 * here + far_behind) / (2 * step)
    size = np.where(known, np.abs(derivative), 0.0)
    typical = float(np.median(size)) if size.size else 0.0
    kinked = (bend > 8 * noise + 1e-9 * size) & (far_bend < 1.5 * bend)
    allowed = TRUSTED[real_bytes] * (size + typical) + 2 * noise + NEGLIGIBLE[real_bytes]
    return Measured(derivative, uncertainty, known & ~kinked & (uncertainty <= allowed))


def _best(tries: Sequence[Measured], twice: bool) -> Measured:
    """Return the most certain measurement per element; with `twice`, accept an element only if two agree and none differs."""
    best, agree, disagree = tries[0], *np.zeros((2, *tries[0].smooth.shape), bool)
    for other in tries[1:]:
        apart = np.abs(other.derivative - best.derivative) > best.uncertainty + other.uncertainty
        agree |= best.smooth & other.smooth & ~apart
        disagree |= best.smooth & other.smooth & apart
        better = (other.smooth & ~best.smooth) | (other.smooth & (other.uncertainty < best.uncertainty))
        best = Measured(
            np.where(better, other.derivative, best.derivative),
            np.where(better, other.uncertainty, best.uncertainty),
            best.smooth | other.smooth,
        )
    return replace(best, smooth=agree & ~disagree if twice else best.smooth)


def _sharpened(function: Function, primals: Sequence[Any], direction: Sequence[Any], found: list[Measured]) -> list[Measured]:
    """Replace differences by complex-step derivatives, which only have rounding error, where the two agree."""
    sharper = complex_step(function, primals, direction)
    if sharper is None or len(sharper) != len(found):
        return found
    result = []
    for rough, sharp in zip(found, sharper, strict=True):
        if shape_of(sharp) != rough.derivative.shape or rough.derivative.dtype != np.float64:
            result.append(rough)
            continue
        size = float(np.max(np.abs(rough.derivative), initial=0.0, where=rough.smooth))
        confirmed = rough.smooth & (np.abs(sharp - rough.derivative) <= rough.uncertainty + 1e-9 * size)
        result.append(
            Measured(
                np.where(confirmed, sharp, rough.derivative),
                np.where(confirmed, 1e-13 * size, rough.uncertainty),
                rough.smooth,
            )
        )
    return result
