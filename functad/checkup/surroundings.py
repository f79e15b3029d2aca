"""Further checks: finite results, arguments, random numbers, loops, compiling, batching, and branches that depend on values.

The check of branches finds all of them, while `jit` raises at the first. It uses an abstract trace that supplies the values at
the point when the function needs them.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from functad.checkup.point import Finding, LookingRecorder, Outcome, Point, found
from functad.compilation.jit import jit
from functad.diagnostics.explain import explain_call
from functad.diagnostics.nan_origins import FIX
from functad.diagnostics.nans import debug_nans
from functad.errors import AbstractValueError, FunctadError, NotFiniteError
from functad.expressions.expressions import Constant, Equation
from functad.expressions.observers import Place
from functad.expressions.spec import PYTHON_SCALARS, dtype_of, is_array_or_number
from functad.places import user_frame
from functad.profiling.call import NOT_SELECTED, Call
from functad.profiling.measure import NOWHERE, gradient_of, place_of_frame, sentences_of
from functad.tracing.conversions import asked
from functad.tracing.equations import AbstractRecorder
from functad.tracing.trace import Recorded
from functad.transforms.leaves import replaced
from functad.transforms.lists import make_list
from functad.transforms.transform import Selection
from functad.transforms.vmap import vmap
from functad.trees.structure import flatten

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
    again = LookingRecorder(point.call.function, user_frame(sys._getframe(1)))
    try:
        np.random.seed(12345)  # noqa: NPY002
        random.seed(12345)
        point.differentiated(again)
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
    """Yield a finding if value and gradient cannot be compiled."""
    f, args, kwargs = gradient_of(call)
    error: BaseException | None = None
    for static in dict.fromkeys([(), call.integers()]):
        try:
            with call.undisturbed():
                program: Any = jit(f, backend="numpy", static_argnums=static)
                program.lower(*args, **kwargs)
        except Exception as raised:  # noqa: BLE001 - the finding reports every error
            error = error or raised
        else:
            return
    message, advice = split_message(error)
    place = _place(str(error))
    yield found("note", "compiling", f"It does not compile: {message}", advice, place)
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
            message = "This branch is decided by a value. A trace without values, as under jit, cannot take it."
            advice = (
                "Choose between values by np.where, between computations by functad.cond; a loop until something holds is "
                "functad.while_loop."
            )
        else:
            message = (
                f"This line asks for a value, by {asked(wanted)}, which a trace without values, such as that of jit, lacks."
            )
            advice = (
                "Take lengths from shapes, name what is a setting in static_argnums, or do this outside of what is compiled."
            )
        yield found("note", "branches", message, advice, place)
