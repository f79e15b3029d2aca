"""A list without the guards of its derivatives, for programs that look for a NaN in their results instead.

Where an exact zero wins over infinity (`functad.primitives.safe`), each product of a derivative is looked through for a NaN,
which would be replaced. But a NaN that arises in one of these products reaches the results, if all that reads it on the way is
sums, products and functions that make NaN of NaN. So plain products are computed, which takes a third less time, and only if
there is a NaN in a result in the end, the guarded list is computed after all.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from functad.compilation.coefficients import has_factors, with_coefficients
from functad.compilation.placing import put
from functad.compilation.rewrites import index
from functad.compilation.rewriting import Rewriter
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
        checked: positions of the results in which a NaN says that the guarded list is to be computed.
        finite: an infinity says so, too.
    """

    expressions: Expressions
    checked: tuple[int, ...]
    finite: bool = False


def unguarded(expressions: Expressions) -> Unguarded | None:
    """Return a list without those guards whose work can be seen in the results; `None` if there are none."""
    own, taken = _without_guards(expressions, [False] * len(expressions.outputs))
    if not taken:
        return None
    combined, changed = with_coefficients(own)
    shorter = with_shorter_loops(extract(combined), extract) if changed else own  # which leaves signs where they are
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
    """Return a list without guards, and the slots of what may be NaN for want of one.

    Args:
        expressions: the list.
        hidden: for each output whether a NaN in it might not be seen.
    """
    lost = _lost(expressions, hidden)
    specs, moved, taken = list(expressions.specs), dict[int, Any](), list[int]()
    equations: list[Equation] = []
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
                moved[e.outputs[0]] = source = put(made, inputs, specs, equations)
                taken.append(source)
                continue
        equations.append(new)
    outputs = tuple([moved.get(s, s) if type(s) is int else s for s in expressions.outputs])
    return expressions.replace(equations=tuple(equations), outputs=outputs, specs=tuple(specs)), taken


def _has_mask(e: Equation, specs: Sequence[ArraySpec]) -> bool:
    """Say whether the second argument is true or false, if it is one that lets the first through."""
    return e.primitive not in (KEPT, DROPPED) or _spec(e.inputs[1], specs).dtype.kind == "b"


def _spec(source: Any, specs: Sequence[ArraySpec]) -> ArraySpec:
    return specs[source] if type(source) is int else spec_of(source.value)


@functools.lru_cache(maxsize=4096)
def _plain(primitive: Any, specs: Sequence[ArraySpec]) -> Expressions:
    """List what a guarded function computes where no NaN arises."""
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
    """Return for each slot, from the first one on, whether a NaN in it might not reach a result in which it is seen."""
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
    """Return for each output of the body of a scan whether a NaN in it might not be seen."""
    hidden = [lost[s] for s in scan.outputs]
    for _ in range(scan.params["carries"] + 1):  # what a step hides of what it is given, it hides of what the last one gave
        inside = _lost(scan.params["body"], hidden)
        found = [a or (i < scan.params["carries"] and inside[i]) for i, a in enumerate(hidden)]
        if found == hidden:
            break
        hidden = found
    return hidden
