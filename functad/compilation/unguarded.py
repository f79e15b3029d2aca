"""Lists without the guards of derivatives, for programs that check their results for NaN instead.

A guarded product (`functad.primitives.safe`), in which an exact zero wins over infinity, checks its result for NaN and replaces
it. A NaN of a plain product reaches the results if all its readers are sums, products and functions that return NaN for NaN.
So the program computes plain products, which takes a third less time. It runs the guarded list only if a result has a NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from functad.compilation.coefficients import has_factors, with_coefficients
from functad.compilation.rewrites import index
from functad.compilation.rewriting import Rewriter
from functad.compilation.scans.scan_rows import Writer
from functad.compilation.scans.shorter import with_shorter_loops
from functad.control.scan import SCAN
from functad.expressions.expressions import Equation, Expressions
from functad.expressions.records import inputs_of, marks_at
from functad.expressions.spec import ArraySpec, spec_of
from functad.primitives.indexing.choose import DROPPED, KEPT
from functad.primitives.safe import passed_on
from functad.transforms.lists import extract, trace


class Unguarded(NamedTuple):
    """A list without guards.

    Attributes:
        expressions: the list.
        checked: positions of the results that are checked: if one has a NaN, the program runs the guarded list.
        finite: `True` if an infinity in a checked result has the same effect.
    """

    expressions: Expressions
    checked: tuple[int, ...]
    finite: bool = False


def unguarded(expressions: Expressions) -> Unguarded | None:
    """Return a list without the guards that a check of the results can replace, or `None` if there are no such guards."""
    own, taken = _without_guards(expressions, [False] * len(expressions.outputs))
    if not taken:
        return None
    combined, changed = with_coefficients(own)
    shorter = with_shorter_loops(extract(combined), extract) if changed else own  # `extract` moves no signs
    if has_factors(shorter):
        shorter, changed = own, []
    reached = {*taken, *changed}
    for e in own.equations:
        if not reached.isdisjoint(inputs_of(e)):
            reached.update(e.outputs)
    checked = tuple([i for i, s in enumerate(own.outputs) if type(s) is int and s in reached])
    return Unguarded(_simplified(shorter), checked, bool(changed))


def _simplified(expressions: Expressions) -> Expressions:
    return extract(Rewriter(expressions, index(False, False)).run())


def _without_guards(expressions: Expressions, hidden: Sequence[bool]) -> tuple[Expressions, list[int]]:
    """Return a list without guards, and the slots that may be NaN because a guard is missing.

    Args:
        expressions: the list.
        hidden: for each output, `True` if a NaN in the output may stay undetected.
    """
    lost = _lost(expressions, hidden)
    writer, moved, taken = Writer(list(expressions.specs)), dict[int, Any](), list[int]()
    specs, equations = writer.specs, writer.equations
    for e in expressions.equations:
        inputs = tuple([moved.get(s, s) if type(s) is int else s for s in e.inputs])
        new = Equation(e.primitive, inputs, e.params, e.outputs)
        if e.primitive is SCAN:
            body, inside = _without_guards(e.params["body"], _hidden_in(e, lost))
            if inside:
                new = Equation(SCAN, inputs, {**e.params, "body": _simplified(body)}, e.outputs)
                taken += e.outputs
        elif e.primitive.plain is not None and not lost[e.outputs[0]] and _has_mask(e, specs):
            made = _plain(e.primitive, tuple([_spec(s, specs) for s in inputs]))
            if made.results == [specs[e.outputs[0]]]:
                [moved[e.outputs[0]]] = found = writer.inline(made, inputs)
                taken += found
                continue
        equations.append(new)
    outputs = tuple([moved.get(s, s) if type(s) is int else s for s in expressions.outputs])
    return expressions.replace(equations=tuple(equations), outputs=outputs, specs=tuple(specs)), taken


def _has_mask(e: Equation, specs: Sequence[ArraySpec]) -> bool:
    """Return `False` for `KEPT` and `DROPPED` with a second argument that is not boolean, else `True`."""
    return e.primitive not in (KEPT, DROPPED) or _spec(e.inputs[1], specs).dtype.kind == "b"


def _spec(source: Any, specs: Sequence[ArraySpec]) -> ArraySpec:
    return specs[source] if type(source) is int else spec_of(source.value)


@functools.lru_cache(maxsize=4096)
def _plain(primitive: Any, specs: Sequence[ArraySpec]) -> Expressions:
    """Return the list of the plain version of a guarded primitive."""
    return trace("jit", primitive.plain, specs)


def hides_nan(expressions: Expressions, slots: Sequence[int]) -> bool:
    """Return `True` if a NaN in one of the slots may not reach the results of a list.

    A NaN in a slot is visible if each element of the slot reaches a result through functions that return NaN for NaN. Other
    readers of the slot do not matter then.
    """
    first = min(slots, default=0)
    lost = _lost(expressions, [False] * len(expressions.outputs), first)
    candidates = {s for s in slots if lost[s]}
    if not candidates:
        return False
    outputs = [s for s in expressions.outputs if type(s) is int]
    seen = marks_at(outputs, len(expressions.specs))
    used = set(outputs)
    for e in reversed(expressions.equations):
        if e.outputs[-1] < first:
            break
        used.update(inputs_of(e))
        if e.primitive.reads_all and any(seen[s] for s in e.outputs):
            for place in passed_on(e, expressions.specs):
                if type(source := e.inputs[place]) is int:
                    seen[source] = True
    return any(not seen[s] and s in used for s in candidates)


def _lost(expressions: Expressions, hidden: Sequence[bool], first: int = 0) -> list[bool]:
    """Return for each slot `True` if a NaN in it may not reach a checked result. Slots before `first` may be wrong."""
    lost = [False] * len(expressions.specs)

    def lose(source: Any) -> None:
        if type(source) is int:
            lost[source] = True

    for source, is_hidden in zip(expressions.outputs, hidden, strict=True):
        if is_hidden:
            lose(source)
    for e in reversed(expressions.equations):
        if e.outputs[-1] < first:
            break
        if e.primitive is SCAN:
            for source, is_lost in zip(e.inputs, _lost(e.params["body"], _hidden_in(e, lost)), strict=False):
                if is_lost:
                    lose(source)
            continue
        passing = passed_on(e, expressions.specs) if not any(lost[s] for s in e.outputs) else ()
        for place, source in enumerate(e.inputs):
            if place not in passing:
                lose(source)
    return lost


def _hidden_in(scan: Equation, lost: Sequence[bool]) -> list[bool]:
    """Return for each output of the body of a scan `True` if a NaN in it may stay undetected."""
    hidden = [lost[s] for s in scan.outputs]
    for _ in range(scan.params["carries"] + 1):  # a carry hidden by a step is hidden in the step before too
        inside = _lost(scan.params["body"], hidden)
        found = [a or (i < scan.params["carries"] and inside[i]) for i, a in enumerate(hidden)]
        if found == hidden:
            break
        hidden = found
    return hidden
