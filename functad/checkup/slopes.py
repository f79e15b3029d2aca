"""Checks of the gradient against finite differences, and of kinks and jumps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from functad.checkup.point import DECISION, JUMP, KINK, NEAR, Finding, Look, LookingRecorder, Outcome, Point, found
from functad.testing.differences import measure, paired
from functad.testing.numerical import pairing

DIRECTIONS = 2
_BLAMED = 8
_TOLERANCE = {False: 1e-5, True: 1e-2}
"""The largest accepted error relative to the sizes of the terms, in double and in single precision."""


def wrong_slopes(point: Point, recorder: LookingRecorder, outcome: Outcome) -> tuple[list[Finding], bool]:
    """Compare the gradient with differences in random directions; return findings, and `False` if no comparison worked."""
    compared = False
    for seed in range(DIRECTIONS):
        direction = point.direction(seed)
        wrong = _off(point, outcome, direction)
        if wrong is None:
            continue
        compared = True
        if wrong:
            return [_blamed(point, recorder, outcome, direction, wrong)], True
    return [], compared


def _off(point: Point, outcome: Outcome, direction: Sequence[Any]) -> tuple[float, float] | tuple[()] | None:
    """Return two directional derivatives, by functad and by differences; `()` if they agree, `None` if differences fail."""
    real = 4 if point.single else 8
    measured = measure(point.function, point.doubles, direction, real_bytes=real)
    if not measured or not all(bool(np.all(m.smooth)) for m in measured):
        return None
    expected, size, doubt = paired([np.ones(np.shape(m.derivative)) for m in measured], measured)
    pairs = [(g, v) for g, v in zip(outcome.gradients, direction, strict=True) if g is not None]
    ours = pairing([g for g, _ in pairs], [v for _, v in pairs])
    terms = sum([float(np.sum(np.abs(np.multiply(g, v)))) for g, v in pairs])
    allowed = _TOLERANCE[point.single] * max(size, terms) + 2 * doubt + 1e-9
    return () if abs(ours - expected) <= allowed else (ours, expected)


def _blamed(
    point: Point, recorder: LookingRecorder, outcome: Outcome, direction: Sequence[Any], wrong: Sequence[float]
) -> Finding:
    """Return the finding for a wrong gradient, with the input if the gradient of a single input is wrong."""
    where = "a random direction"
    for i, path in enumerate(point.paths[:_BLAMED] if len(point.paths) > 1 else ()):
        alone = [v if i == j else v * 0 for j, v in enumerate(direction)]
        off = _off(point, outcome, alone)
        if off:
            where, wrong = f"a random direction of {path}", off
            break
    ours, expected = wrong
    if "stop_gradient" in recorder.names:
        return found(
            "note",
            "gradient",
            f"The gradient is not that of the function, since stop_gradient takes a part away: in {where} functad gives "
            f"{ours:.6g}, differences {expected:.6g}.",
            "That is as it should be if the part is meant to count as a constant.",
            recorder.places[recorder.names.index("stop_gradient")],
        )
    if recorder.ruled:
        name, place = recorder.ruled[0]
        return found(
            "warning",
            "gradient",
            f"The gradient is not that of the function: in {where} functad gives {ours:.6g}, differences {expected:.6g}. "
            f"{name} has a derivative rule of its own.",
            "If the rule is meant to be another than the derivative, as that of a straight-through estimator, all is well. "
            "Otherwise mend it; functad.testing.check_grads shows by how much it is off.",
            place,
        )
    return found(
        "error",
        "gradient",
        f"The gradient is not that of the function: in {where} functad gives {ours:.6g}, differences {expected:.6g}.",
        "Look for values kept from an earlier call, for parts that become plain numbers, and for rules that were registered. "
        "functad.testing.check_grads names the element.",
    )


def corners(point: Point, looks: Sequence[Look]) -> Iterator[Finding]:
    """Yield findings for suspected kinks and jumps near the point, if one-sided differences confirm a kink or jump."""
    suspects = [look for look in looks if look.kind in (KINK, JUMP, DECISION)]
    if not suspects or not any(_bends(point, seed) for seed in range(DIRECTIONS)):
        return
    seen = set()
    for look in suspects:
        if (look.place.where, look.name) in seen:
            continue
        seen.add((look.place.where, look.name))
        many = f"{look.bad} of {look.of} elements are"
        what = "a jump" if look.kind == JUMP else "a kink"
        where = f"{'The argument is' if look.of == 1 else many} at {what} of {look.name}, or within {NEAR:g} of it"
        if look.kind == DECISION:
            where = f"{look.name} decides {'it' if look.of == 1 else f'{look.bad} of {look.of} elements'} by less than {NEAR:g}"
        yield found(
            "warning",
            "kinks",
            f"{where}: on the other side the gradient, or the value, is another.",
            "functad takes the convention of notebooks/kinks.md there. Move the point, or use a smooth function "
            "(np.logaddexp(0, x) for a maximum with 0, np.sqrt(x * x + small) for abs).",
            look.place,
        )


def _bends(point: Point, seed: int) -> bool:
    """Return `True` if one-sided differences disagree equally for two steps, as at a kink or jump."""
    direction = point.direction(seed)
    step = 1e-6 if not point.single else 1e-3

    def at(multiple: float) -> list[Any]:
        return point.function(*[x + multiple * v for x, v in zip(point.doubles, direction, strict=True)])

    here = at(0.0)
    apart = []
    for h in (step, step / 4):
        ahead, behind = at(h), at(-h)
        if not all(np.shape(a) == np.shape(b) == np.shape(y) for a, b, y in zip(ahead, behind, here, strict=True)):
            return True
        bend = [np.abs(a - 2 * y + b) / h for a, b, y in zip(ahead, behind, here, strict=True)]
        slope = [(np.abs(a - y) + np.abs(y - b)) / h for a, b, y in zip(ahead, behind, here, strict=True)]
        noise = [64 * np.finfo(np.float32 if point.single else np.float64).eps * np.abs(y) / h for y in here]
        apart.append([b > np.maximum(1e-3 * s, n) for b, s, n in zip(bend, slope, noise, strict=True)] + bend)
    count = len(here)
    return any(
        bool(np.any(far & near & (small > 0.6 * large)))
        for far, near, large, small in zip(apart[0][:count], apart[1][:count], apart[0][count:], apart[1][count:], strict=True)
    )
