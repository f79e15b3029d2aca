"""The derivative of a step of a scan: a forward list with residuals, and a backward list that pulls cotangents back.

The step and its backward pass are traced together once. Backward work that does not depend on a cotangent moves to the forward
list, and the residuals are stacked with one row per step. Rows of the inputs are read again instead of being stacked. Values
that depend only on shared inputs, such as the transpose of a matrix, are recomputed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functad.expressions.expressions import Equation, Expressions
from functad.expressions.records import inputs_of, mark_needed, mark_reached, marks_at
from functad.expressions.spec import is_inexact, strong_spec
from functad.transforms.leaves import pulled_with_results
from functad.transforms.lists import Closed, extract, trace
from functad.transforms.walks.forward import with_zeros

SHARED, FORWARD, BACKWARD = range(3)


class StepDerivative:
    """The forward and backward lists of a step.

    Attributes:
        forward: the step, with the residuals to stack as additional results.
        backward: maps residuals, outer values and cotangents of the results to cotangents of carry, rows and outer values.
        rows: the numbers of the inputs with rows that `backward` reads first.
        stacked: the number of residuals of `forward` that `backward` reads next.
        leaves, by_rows, outer: positions, among the arguments of the scan, of the cotangents that `backward` returns.
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

        whole = trace("scan", both, (list(specs), gs))
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


def _levels(whole: Expressions, moving: range, cotangents: range) -> list[int]:
    """Return for each slot `BACKWARD` if it depends on a cotangent, else `FORWARD` for a carry or row, else `SHARED`."""
    back, forward = (mark_reached(marks_at(slots, len(whole.specs)), whole.equations) for slots in (cotangents, moving))
    return [BACKWARD if b else FORWARD if f else SHARED for b, f in zip(back, forward, strict=True)]


def _read_backward(whole: Expressions, levels: Sequence[int], cotangents: Sequence[Any]) -> list[int]:
    """Return the `FORWARD` slots that the backward pass reads.

    The backward pass are the `BACKWARD` and `SHARED` equations that lead to `cotangents`.
    """

    def reads(equation: Equation, index: int) -> Sequence[int]:
        return () if levels[equation.outputs[0]] == FORWARD else inputs_of(equation)

    needed = mark_needed(marks_at(cotangents, len(whole.specs)), whole.equations, reads)
    return [slot for slot, level in enumerate(levels) if needed[slot] and level == FORWARD]
