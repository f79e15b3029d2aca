"""The checks of `doctor`: gradient, digits, kinks, arguments, random numbers, loops, compiling, batching and branches.

If a function loses digits, a change in the last digits of its operations changes the leading digits of its gradient. The check
measures this change with perturbed rounding. It repeats the measurement at a nearby point, because relative errors mean nothing
at a minimum, where the gradient vanishes.

The check of branches finds all of them, while `jit` raises at the first. It uses an abstract trace that supplies the values at
the point when the function needs them.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from functad.checkup.point import (
    CANCELLATION,
    CONDITION,
    DECISION,
    DIVISION,
    JUMP,
    KINK,
    NEAR,
    OVERFLOW,
    Finding,
    Look,
    LookingRecorder,
    Outcome,
    Point,
    Rounding,
    found,
)
from functad.compilation.jit import jit
from functad.diagnostics.explain import explain_call
from functad.diagnostics.nan_origins import FIX
from functad.diagnostics.nans import debug_nans
from functad.errors import AbstractValueError, FunctadError, NotFiniteError
from functad.expressions.expressions import Constant, Equation
from functad.expressions.records import Place
from functad.expressions.spec import PYTHON_SCALARS, dtype_of, is_array_or_number
from functad.places import user_frame
from functad.profiling.measure import NOT_SELECTED, NOWHERE, Call, gradient_of, place_of_frame, sentences_of
from functad.testing.numerical import measure, paired, pairing
from functad.tracing.conversions import asked
from functad.tracing.equations import AbstractRecorder
from functad.tracing.trace import Recorded
from functad.transforms.leaves import replaced
from functad.transforms.lists import make_list
from functad.transforms.transform import Selection
from functad.transforms.vmap import vmap
from functad.trees import flatten

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
    values = f"in {where} functad gives {wrong[0]:.6g}, differences {wrong[1]:.6g}."
    if "stop_gradient" in recorder.names:
        return found(
            "note",
            "gradient",
            f"The gradient is not that of the function, since stop_gradient takes a part away: {values}",
            "That is as it should be if the part is meant to count as a constant.",
            recorder.places[recorder.names.index("stop_gradient")],
        )
    if recorder.ruled:
        name, place = recorder.ruled[0]
        return found(
            "warning",
            "gradient",
            f"The gradient is not that of the function: {values} {name} has a derivative rule of its own.",
            "If the rule is meant to be another than the derivative, as that of a straight-through estimator, all is well. "
            "Otherwise mend it; functad.testing.check_grads shows by how much it is off.",
            place,
        )
    return found(
        "error",
        "gradient",
        f"The gradient is not that of the function: {values}",
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


ALLOWED = {False: 1e-7, True: 2e-3}
"""The largest accepted relative change of value and gradient, in double and in single precision."""

_TRIED = 8
_LINES = 40
_ADVICE = {
    CANCELLATION: "Write the difference otherwise: np.expm1(x), np.log1p(x), 2 * np.sin(x / 2) ** 2 for 1 - cos(x), "
    "(a - b) * (a + b) for a * a - b * b, np.var in place of a mean of squares.",
    CONDITION: "Scale the rows and columns, add to the diagonal (A + 1e-6 * np.eye(n)), or solve by np.linalg.lstsq.",
}
_TEXTS = {
    CANCELLATION: "{name} of numbers that nearly agree: up to {digits} digits are lost in {count} of {of} elements",
    CONDITION: "{name} of a matrix with condition number {size:.0e}",
}


def lost_digits(point: Point, recorder: LookingRecorder, outcome: Outcome) -> Iterator[Finding]:
    """Yield findings for the lines that lose digits of value or gradient."""
    allowed = ALLOWED[point.single]
    if _spread(point, outcome, Rounding(outputs=None)) <= allowed:
        return
    suspects = sorted([look for look in recorder.looks if look.kind in _ADVICE], key=lambda look: -look.size)
    if not _elsewhere_too(point, allowed):
        suspects = [look for look in suspects if look.kind == CONDITION and not _stationary(point, outcome)]
        if not suspects:  # a nearly singular matrix may be regular at the nearby point
            return
    lines: set[str] = set()
    for look in suspects[:_TRIED]:
        spread = _spread(point, outcome, Rounding(inputs=look.number)) if look.place.where not in lines else 0.0
        if spread > allowed:
            lines.add(look.place.where)
            yield _finding(point, look, spread)
    if not lines:
        yield _by_line(point, recorder, outcome)


def _elsewhere_too(point: Point, allowed: float) -> bool:
    """Return `True` if digits are lost at a nearby point too, so that the loss is not an effect of a vanishing gradient."""
    values = point.moved(_NEARBY[point.single])
    _, beside = point.looked_at(values)
    return beside.finite and _spread(point, beside, Rounding(outputs=None), values) > allowed


def _stationary(point: Point, outcome: Outcome) -> bool:
    """Return `True` if the gradient is small compared with the value."""
    pairs = zip(outcome.gradients, point.primals, strict=True)
    change = sum([float(np.sum(np.abs(np.multiply(g, x)))) for g, x in pairs if g is not None])
    return change < 1e-4 * sum([float(np.sum(np.abs(value))) for value in outcome.values])


_NEARBY = {False: 1e-5, True: 1e-4}


def _finding(point: Point, look: Look, spread: float) -> Finding:
    digits = round(np.log10(look.size)) if look.kind == CANCELLATION else 0
    text = _TEXTS[look.kind].format(name=look.name, digits=digits, count=look.bad, of=look.of, size=look.size)
    return found("warning", "precision", f"{text}. {_consequence(spread, point)}", _advice(look.kind, point), look.place)


def _advice(kind: str, point: Point) -> str:
    return _ADVICE[kind] + (" Or compute in float64." if point.single else "")


def _consequence(spread: float, point: Point) -> str:
    right = max(int(-np.log10(spread)), 0) if spread > 0 else 0
    left = "no digit" if right == 0 else f"about {right} digit{'s' if right > 1 else ''}"
    return f"Of value and gradient {left} can be trusted{' in single precision' if point.single else ''}."


def _by_line(point: Point, recorder: LookingRecorder, outcome: Outcome) -> Finding:
    """Return a finding for the line with the largest growth of rounding errors."""
    places = {place.where: place for place in recorder.places}
    spreads = {
        line: _spread(point, outcome, Rounding(outputs=frozenset([line])), rounds=1) for line in list(places)[:_LINES] if line
    }
    line = max(spreads, key=lambda line: spreads[line], default="")
    spread = max(spreads.values(), default=1.0)
    return found(
        "warning",
        "precision",
        f"Rounding errors of this line grow until the gradient shows them. {_consequence(spread, point)}",
        "Look at what is done with its result: differences of near numbers, divisions by small ones, long recurrences."
        + (" Or compute in float64." if point.single else ""),
        places.get(line, recorder.places[0]),
    )


def _spread(point: Point, outcome: Outcome, rounding: Rounding, values: Sequence[Any] | None = None, rounds: int = 3) -> float:
    """Return the largest relative change of values and gradients under perturbed rounding."""
    worst = 0.0
    for seed in range(rounds):
        _, other = point.looked_at(values, rounding._replace(seed=seed))
        worst = max(worst, _difference(outcome, other))
    return worst


def _difference(one: Outcome, other: Outcome) -> float:
    pairs = [*zip(one.values, other.values, strict=False), *zip(one.gradients, other.gradients, strict=False)]
    worst = 0.0
    for a, b in pairs:
        if a is None or b is None or np.shape(a) != np.shape(b) or not np.size(a):
            continue
        size = float(np.linalg.norm(np.ravel(np.asarray(a, complex))))
        apart = float(np.linalg.norm(np.ravel(np.asarray(a, complex) - np.asarray(b, complex))))
        if not np.isfinite(apart):
            return 1.0
        worst = max(worst, apart / size if size else float(apart > 0))
    return min(worst, 1.0)


def in_double(point: Point, outcome: Outcome) -> Iterator[Finding]:
    """Yield a finding if the results in single and double precision differ."""
    if not point.single:
        return
    precise = point.differentiated(values=point.doubles)
    apart = _difference(precise, outcome)
    if apart > 10 * ALLOWED[True]:
        beside = [np.asarray(x, np.float32)[()] if x.dtype == np.float64 else x for x in point.moved(_NEARBY[True])]
        doubles = [np.asarray(x, np.promote_types(x.dtype, np.float64))[()] for x in beside]
        again = _difference(point.differentiated(values=doubles), point.differentiated(values=beside))
        if again > 10 * ALLOWED[True]:
            yield found(
                "warning",
                "precision",
                f"In double precision value or gradient is another by {100 * min(apart, again):.2g} %.",
                "Compute what loses digits in float64: x.astype(np.float64), sums with dtype=np.float64.",
            )


def mixed_precision(point: Point, recorder: LookingRecorder) -> Iterator[Finding]:
    """Yield a finding for the line that turns single into double precision."""
    if point.single and all(x.dtype in (np.float32, np.complex64) for x in point.primals) and recorder.doubles is not None:
        place, name = recorder.doubles
        yield found(
            "note",
            "precision",
            f"{name} makes float64 of float32 here: what follows takes twice the memory and the time.",
            "Make the other array float32 too: a.astype(np.float32), np.zeros(n, np.float32), np.float32(number).",
            place,
        )


def overflows(looks: Sequence[Look]) -> Iterator[Finding]:
    """Yield findings for operations that turn finite numbers into infinities."""
    for look in _first_of_lines(looks, OVERFLOW):
        yield found(
            "note",
            "overflow",
            f"{look.name} overflows to infinity in {look.bad} of {look.of} elements.",
            "Take out the largest first: np.exp(x - np.max(x)); or use np.logaddexp, np.logaddexp.reduce, "
            "scipy.special.expit, scipy.special.softmax.",
            look.place,
        )


def divisions(looks: Sequence[Look]) -> Iterator[Finding]:
    """Yield findings for divisors near zero whose quotients outweigh all others."""
    for look in _first_of_lines(looks, DIVISION):
        yield found(
            "note",
            "division",
            f"{look.name} by numbers near zero, down to {look.size:.0e}, in {look.bad} of {look.of} elements: these "
            f"outweigh the others, in the gradient still more.",
            "If they are to be left out: np.where(mask, divisor, 1.0) in the divisor. Otherwise add a small number to it.",
            look.place,
        )


def _first_of_lines(looks: Sequence[Look], kind: str) -> list[Look]:
    """Return the first suspicion of a kind on each line."""
    first: dict[str, Look] = {}
    for look in looks:
        if look.kind == kind:
            first.setdefault(look.place.where, look)
    return list(first.values())


MANY = 1000
"""The number of operations from which a line counts as a loop that takes longer to record than to run."""

_CUTTING = ("np.floor", "np.ceil", "np.rint", "np.round", "np.trunc", "np.fix", "np.sign", "astype(")


def not_finite(point: Point, outcome: Outcome) -> Iterator[Finding]:
    """Yield a finding if value or gradient is not finite, with the origin."""
    if outcome.finite:
        return
    text, origin = "Value or gradient is not finite.", ""
    f, args, kwargs = gradient_of(point.call)
    try:
        with point.call.undisturbed(), debug_nans(infinities=True):
            f(*args, **kwargs)
    except NotFiniteError as error:
        origin = error.origin.removesuffix(FIX)
        text = f"Value or gradient is {error.found}. It {origin}"
    yield found(
        "error",
        "not finite",
        text,
        "Keep its arguments away from there, as in np.where(mask, x, 1.0) before the operation. notebooks/kinks.md says "
        "what is infinite and why.",
        _place(origin.rpartition("born in")[2]),
    )


def arguments(point: Point) -> Iterator[Finding]:
    """Yield findings for inputs with an integer dtype, without a differentiable path to the result, or with a cut path."""
    call = point.call
    for path, leaf, reason in zip(call.paths, call.leaves, call.reasons, strict=True):
        if reason not in (None, NOT_SELECTED) and is_array_or_number(leaf) and dtype_of(leaf).kind in "iu":
            yield found(
                "warning",
                "arguments",
                f"{path} is {_kind(leaf)}, which has no derivative.",
                "Pass a float: 1.0 in place of 1, x.astype(float).",
            )
    selection = Selection("doctor", point.alone(), range(len(point.primals)))
    with call.undisturbed():
        explanation = explain_call(selection, tuple(point.primals), {}, False)
    moving = _moving(point) if any(finding.status == "zero" for finding in explanation.findings) else set()
    for i, (path, finding) in enumerate(zip(point.paths, explanation.findings, strict=True)):
        reasons = ", ".join(finding.reasons)
        if finding.status in ("missing", "zero") and not finding.connected:
            unused = finding.status == "missing"
            yield found(
                "warning",
                "arguments",
                f"{path} has no influence on the gradient: {reasons}.",
                "Use it, or leave it out of what is differentiated."
                if unused
                else "Replace what cuts the path by a smooth function, or say that it is meant by functad.stop_gradient.",
                _place(reasons),
            )
        elif finding.status == "zero":
            if i in moving or not np.size(point.primals[i]):
                continue
            yield found(
                "note",
                "arguments",
                f"The gradient by {path} is exactly zero here: {reasons}.",
                "It is zero nearby too, so nothing will move it: take another initial value, or what does not saturate.",
                _place(reasons),
            )
        else:
            cuts = [
                r for r in finding.reasons if r.startswith("but another path is cut") and any(name in r for name in _CUTTING)
            ]
            if cuts:
                yield found(
                    "note",
                    "arguments",
                    f"A part of the gradient by {path} is lost: {', '.join(cuts)}.",
                    "If that is meant, say so by functad.stop_gradient.",
                    _place(cuts[0]),
                )


def _moving(point: Point) -> set[int]:
    """Return the inputs with a nonzero gradient at a nearby point; the present point is stationary for them."""
    gradients = point.differentiated(values=point.moved(0.01)).gradients
    return {i for i, gradient in enumerate(gradients) if gradient is not None and np.any(gradient)}


def integers_among(args: tuple[Any, ...]) -> Iterator[str]:
    """Yield a text with path and kind for each integer argument."""
    for i, argument in enumerate(args):
        leaves, structure = flatten(argument)
        for path, leaf in zip(structure.paths(f"args[{i}]"), leaves, strict=True):
            if is_array_or_number(leaf) and dtype_of(leaf).kind in "iu":
                yield f"{path} is {_kind(leaf)}"


def _kind(leaf: Any) -> str:
    return type(leaf).__name__ if type(leaf) in PYTHON_SCALARS else f"an array of {dtype_of(leaf)}"


def _place(text: str) -> Place:
    """Return the place of the first `at FILE:LINE` in a text, or `NOWHERE`."""
    match = _LINE.search(text)
    if match is None:
        return NOWHERE
    name, number = match.groups()
    return Place("", name, int(number), 0)


_LINE = re.compile(r" at ([^,;]+?):(\d+)\b")


def random_numbers(point: Point, recorder: LookingRecorder) -> Iterator[Finding]:
    """Yield a finding if two runs differ, because the function draws random numbers or keeps state."""
    numpys, pythons = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        np.random.seed(12345)  # noqa: NPY002
        random.seed(12345)
        again, _ = point.looked_at()
    finally:
        np.random.set_state(numpys)  # noqa: NPY002
        random.setstate(pythons)
    if again.names == recorder.names and again.constants == recorder.constants:
        return
    places = [
        place for place, one, other in zip(recorder.places, recorder.constants, again.constants, strict=False) if one != other
    ]
    yield found(
        "note",
        "random",
        "Two calls with the same arguments compute with other numbers: it draws random numbers, or remembers something.",
        "Under jit such numbers are drawn once and then frozen, and differences cannot check the gradient. Draw them outside, "
        "and pass them as an argument.",
        places[0] if places else NOWHERE,
    )


def loops(recorder: LookingRecorder) -> Iterator[Finding]:
    """Yield a finding for the line with the most operations, if it has `MANY` or more."""
    counts = Counter([place.where for place in recorder.places if place.file])
    if not counts:
        return
    line, count = counts.most_common(1)[0]
    if count >= MANY:
        place = next(place for place in recorder.places if place.where == line)
        yield found(
            "note",
            "loops",
            f"This line records {count} operations, of {len(recorder.places)} in all.",
            "Compute with whole arrays in place of elements. Where each step needs the last, functad.scan or functad.fori_loop "
            "is one operation, and functad.jit is quick with loops.",
            place,
        )


def compiling(call: Call) -> Iterator[Finding]:
    """Yield a finding if value and gradient cannot be compiled, or not for all values at once."""
    f, args, kwargs = gradient_of(call)
    options = [{"static_argnums": static} for static in dict.fromkeys([(), call.integers()])]

    def refusal(**own: Any) -> BaseException | None:
        """Return the error of a compilation, or `None`."""
        try:
            with call.undisturbed():
                program: Any = jit(f, backend="numpy", **own)
                program.lower(*args, **kwargs)
        except Exception as raised:  # noqa: BLE001 - the finding reports every error
            return raised
        return None

    errors = [refusal(guards=False, **own) for own in options]
    if None in errors:
        return
    error = errors[0]
    in_paths = isinstance(error, AbstractValueError) and None in [refusal(**own) for own in options]
    said = "It compiles to one path for each way through its branches" if in_paths else "It does not compile"
    message, advice = split_message(error)
    place = _place(str(error))
    yield found("note", "compiling", f"{said}: {message}", advice, place)
    if isinstance(error, AbstractValueError):
        yield from branches(call, place.where)


def batching(point: Point) -> Iterator[Finding]:
    """Yield a finding if the function cannot be batched."""
    batch = [np.stack([x, x]) for x in point.primals]
    try:
        with point.call.undisturbed():
            vmap(point.alone())(*batch)
    except Exception as error:  # noqa: BLE001 - the finding reports every error
        message, advice = split_message(error)
        yield found("note", "batching", f"vmap cannot batch it: {message}", advice, _place(str(error)))


def split_message(error: BaseException | None) -> tuple[str, str]:
    """Return the first sentence of an error message, and the rest as advice."""
    first, rest = sentences_of(error)
    known = isinstance(error, FunctadError)
    return first, rest or ("See notebooks/errors.md." if known else "Call the function itself with these.")


class AnsweringRecorder(AbstractRecorder):
    """An abstract trace that computes values on demand.

    Attributes:
        values: the computed values, by slot; at first the inputs only.
        reached: the number of equations already computed.
        asked: the lines that needed values, by `file:line`, each with its use of the value.
    """

    def __init__(self, function: object, values: list[Any]) -> None:
        super().__init__("doctor", function)
        self.values: dict[int, Any] = dict(enumerate(values))
        self.reached = 0
        self.asked: dict[str, tuple[Place, str]] = {}

    def concrete_value(self, tensor: Recorded, wanted: str) -> Any:
        """Compute all equations so far, and return the value of a Tensor."""
        frame = user_frame(sys._getframe(1))
        if frame is not None:
            place = place_of_frame(frame)
            self.asked.setdefault(place.where, (place, wanted))
        for equation in self.records[self.reached :]:
            if equation is not None:
                self._compute(equation)
        self.reached = len(self.records)
        return self.values[tensor.slot]

    def _compute(self, equation: Equation) -> None:
        given = [source.value if isinstance(source, Constant) else self.values[source] for source in equation.inputs]
        out = equation.primitive(*given, **equation.params)
        outs = out if equation.primitive.multiple else (out,)
        self.values.update(zip(equation.outputs, outs, strict=True))


def places_asked(call: Call) -> list[tuple[Place, str]]:
    """Return the lines that need values in the value and gradient of a call, in order, each with its use of the value."""
    f, args, kwargs = gradient_of(call)
    leaves, structure = flatten((args, kwargs))
    static = (bool, int)  # `jit` can take these as static arguments
    places = [i for i, leaf in enumerate(leaves) if is_array_or_number(leaf) and type(leaf) not in static]

    def of_leaves(*own: Any) -> Any:
        args, kwargs = structure.unflatten(replaced(leaves, places, own))
        return f(*args, **kwargs)

    recorder = AnsweringRecorder(call.function, [leaves[i] for i in places])
    # An error here is reported already by `compiling`; the lines before it are still found.
    with suppress(Exception), call.undisturbed():
        make_list(recorder, of_leaves, [leaves[i] for i in places])
    return list(recorder.asked.values())


def branches(call: Call, known: str) -> Iterator[Finding]:
    """Yield findings for the lines that need values, except the line `known`, which has a finding already."""
    for place, wanted in places_asked(call):
        if place.where == known:
            continue
        if wanted == "bool":
            message = "This branch is decided by a value. Under jit, each way through it is a path of its own."
            advice = (
                "Choose between values by np.where, between computations by functad.cond; a loop until something holds is "
                "functad.while_loop."
            )
        else:
            message = f"This line asks for the value of a Tensor by {asked(wanted)}, which jit guards, or refuses for a float."
            advice = "Take lengths from shapes, name settings in static_argnums, or do this outside the compiled function."
        yield found("note", "branches", message, advice, place)
