"""The derivative of a step of a scan: a list that runs forward with the step, and one that pulls cotangents back.

The backward pass of a step is traced once, together with the step. What of it does not depend on a cotangent is computed on the
way forward, and what the rest reads of that is stacked, one row for each step. Rows of the inputs are read again instead, and
what depends only on values that all steps share, such as the transpose of a matrix, is computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from functad.control.equation import part
from functad.errors import FunctadError
from functad.expressions.expressions import Equation, Expressions
from functad.expressions.records import inputs_of, mark_needed, mark_reached, marks_at
from functad.expressions.spec import is_inexact, strong_spec
from functad.transforms.abstract import trace
from functad.transforms.closed_lists import Closed, closed_anywhere, extract
from functad.transforms.leaves import pulled_with_results
from functad.transforms.walks.forward import with_zeros

SHARED, FORWARD, BACKWARD = range(3)


class StepDerivative:
    """How a step is differentiated.

    Attributes:
        forward: the step, whose results are followed by what is stacked.
        backward: from what was kept, outer values and cotangents of the results to those of carry, rows and outer values.
        rows: the inputs with rows that `backward` reads first, by number.
        stacked: how many results of `forward` it reads after them.
        leaves, by_rows, outer: positions, among the arguments of the scan, of what `backward` gives cotangents of.
    """

    def __init__(self, body: Expressions, carries: int, rows: int, wrt: Sequence[int]) -> None:
        specs = body.specs[: len(body.inputs)]
        self.leaves = [i for i in range(carries) if is_inexact(specs[i])]
        self.by_rows = [i for i in wrt if carries <= i < carries + rows]
        self.outer = [i for i in wrt if i >= carries + rows]
        moving = [*self.leaves, *self.by_rows, *self.outer]
        results = body.results
        gs = [strong_spec(spec) for spec in results if is_inexact(spec)]

        def both(primals: Any, gs: Any) -> Any:
            outs, found = pulled_with_results(Closed(body), primals, moving, gs)
            return outs, with_zeros(found, [primals[i] for i in moving])

        whole = trace("scan", both, (list(specs), gs), {})
        count = len(specs)
        levels = _levels(whole, range(carries + rows), range(count, len(whole.inputs)))
        cotangents = whole.outputs[len(results) :]
        kept = _read_backward(whole, levels, cotangents)
        self.rows = [slot - carries for slot in kept if carries <= slot < carries + rows]
        stacked = [slot for slot in kept if not carries <= slot < carries + rows]
        self.stacked = len(stacked)
        self.forward = extract(whole, range(count), [*whole.outputs[: len(results)], *stacked], body.inputs)
        given = [*[carries + i for i in self.rows], *stacked, *range(carries + rows, len(whole.inputs))]
        names = [f"kept[{i}]" for i in range(len(kept))] + [
            *body.inputs[carries + rows :],
            *[f"g[{i}]" for i in range(len(gs))],
        ]
        self.backward = extract(whole, given, cotangents, names)


class LoopDerivative(NamedTuple):
    """The step of a loop whose number of steps is not known, and its way back, as lists.

    Attributes:
        forward: the step, whose results are followed by what is kept of it.
        backward: from cotangents of the carry, sums over the later steps of those of outer values, what was kept and outer
            values, to these cotangents and sums before the step.
        leaves: how many cotangents are of the carry.
        order: where each of the cotangents asked for stands among what `backward` returns.
    """

    forward: Expressions
    backward: Expressions
    leaves: int
    order: tuple[int, ...]


def loop_derivative(body: Expressions, carries: int, by: Sequence[int]) -> LoopDerivative | None:
    """Return the derivative of a `while_loop`; `None` if its step has none, or none that holds for all values.

    Args:
        body: the step.
        carries: how many of its inputs are the carry.
        by: positions of the inputs by which the loop is differentiated.
    """
    try:
        split = StepDerivative(body, carries, 0, by)
    except FunctadError:  # it is refused when values are known
        return None
    gs, sums = [[body.specs[i] for i in each] for each in (split.leaves, split.outer)]
    kept = split.forward.results[carries:]

    def back(*values: Any) -> list[Any]:
        own, totals, rest = part(values, len(gs), len(sums))
        stacked, outer = part(rest, len(kept))
        found, more = part(Closed(split.backward)(*stacked, *outer, *own), len(gs))
        return [*found, *[a + b for a, b in zip(totals, more, strict=True)]]

    specs = [*map(strong_spec, (*gs, *sums)), *kept, *body.specs[carries : len(body.inputs)]]
    backward = closed_anywhere("while_loop", back, back, specs)
    if backward.captured:
        return None
    places = [*split.leaves, *split.outer]
    return LoopDerivative(split.forward, backward.expressions, len(gs), tuple([places.index(i) for i in by]))


def _levels(whole: Expressions, moving: range, cotangents: range) -> list[int]:
    """Return for each slot whether it depends on a cotangent, else on a carry or row, else on what all steps share alone."""
    back, forward = (mark_reached(marks_at(slots, len(whole.specs)), whole.equations) for slots in (cotangents, moving))
    return [BACKWARD if b else FORWARD if f else SHARED for b, f in zip(back, forward, strict=True)]


def _read_backward(whole: Expressions, levels: Sequence[int], cotangents: Sequence[Any]) -> list[int]:
    """Return the slots computed on the way forward that the way back reads.

    The way back are the equations that depend on cotangents or on what is shared alone, and lead to `cotangents`.
    """

    def reads(equation: Equation, index: int) -> Sequence[int]:
        return () if levels[equation.outputs[0]] == FORWARD else inputs_of(equation)

    needed = mark_needed(marks_at(cotangents, len(whole.specs)), whole.equations, reads)
    return [slot for slot, level in enumerate(levels) if needed[slot] and level == FORWARD]
