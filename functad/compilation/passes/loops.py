"""Optimize the loops of an expression list: simplify bodies, hoist loop-invariant work, eliminate dead results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from functad.compilation.passes.carries import last_rows, without_computed
from functad.compilation.passes.hoist import (
    Step,
    Writer,
    products_at_once,
    results_at_once,
    rows_at_once,
    sums_at_once,
)
from functad.compilation.passes.horizontal_fusion import side_by_side, whole_rows
from functad.compilation.passes.scalar_replacement import taken_apart, without_fixed
from functad.control.scan import SCAN
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.records import mark_needed, mark_reached, marks_at
from functad.expressions.spec import spec_of
from functad.transforms.lists import extract

_LARGEST_COMPARED = 2**20
"""Maximum bytes of a constant for the comparison of its rows."""

Simplify = Callable[[Expressions], Expressions]


def with_shorter_loops(expressions: Expressions, simplify: Simplify, exact: bool = False, fused: bool = False) -> Expressions:
    """Return an expression list with simplified lists in its loops and branches.

    Loop-invariant work of scans is hoisted, and dead results are eliminated.

    Args:
        expressions: the expression list.
        simplify: the simplification applied to the inner lists.
        exact: keep the operations of each step, so that results are bit-identical.
        fused: the backend fuses elementwise operations into one loop.
    """
    if not any(e.primitive.lists for e in expressions.equations):
        return expressions
    return _Loops(expressions, simplify, exact, fused).run()


def with_lists(equation: Equation, change: Callable[[Expressions], Expressions]) -> Equation:
    """Return a loop or branch with changed inner lists, and other equations as they are."""
    if not equation.primitive.lists:
        return equation
    params = dict(equation.params)
    for name, value in params.items():
        if isinstance(value, Expressions):
            params[name] = change(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], Expressions):
            params[name] = tuple(map(change, value))
    return Equation(equation.primitive, equation.inputs, params, equation.outputs)


class _Loops:
    """Rewrite the loops of an expression list."""

    def __init__(self, expressions: Expressions, simplify: Simplify, exact: bool, fused: bool) -> None:
        self.expressions = expressions
        self.simplify = simplify
        self.exact = exact
        self.fused = fused
        self.specs = list(expressions.specs)
        self.moved: dict[int, Any] = {}
        self.read = marks_at(expressions.outputs, len(self.specs))
        self.makers: dict[int, Equation] = {}
        self.readers: dict[int, list[Equation]] = {}
        for e in expressions.equations:
            self.makers.update(dict.fromkeys(e.outputs, e))
            for s in e.inputs:
                if type(s) is int:
                    self.read[s] = 1
                    self.readers.setdefault(s, []).append(e)

    def run(self) -> Expressions:
        """Return the rewritten expression list."""
        equations = [new for e in self.expressions.equations for new in self._written(e)]
        outputs = tuple(map(self._source, self.expressions.outputs))
        return self.expressions.replace(equations=tuple(equations), outputs=outputs, specs=tuple(self.specs))

    def _source(self, source: Any) -> Any:
        while type(source) is int and source in self.moved:
            source = self.moved[source]
        return source

    def _written(self, equation: Equation) -> Iterator[Equation]:
        inputs = tuple(map(self._source, equation.inputs))
        params = dict(equation.params)
        if not equation.primitive.lists:
            if equation.outputs[0] in self.moved:  # a row that is a carry
                return
            yield equation if not self.moved else Equation(equation.primitive, inputs, params, equation.outputs)
            return
        if equation.primitive is SCAN and params["length"]:
            yield from self._scan(inputs, params, equation.outputs)
            return
        yield with_lists(Equation(equation.primitive, inputs, params, equation.outputs), self.simplify)

    def _scan(self, inputs: Sequence[Any], params: dict[str, Any], results: Sequence[int]) -> Iterator[Equation]:
        """Yield the equations that replace a scan."""
        counts, length = (params["carries"], params["carries"] + params["rows"]), params["length"]
        parts = inputs[: counts[0]], inputs[counts[0] : counts[1]], inputs[counts[1] :]
        self._find_last_rows(Step(*parts, params["body"], results), length)
        step = live(self._without_copies(Step(*parts, params["body"], results)), self.read)
        before, first, after, last = [Writer(self.specs) for _ in range(4)]
        step = without_fixed(step._replace(body=self.simplify(step.body)), self.specs, self.moved)
        step = without_computed(step, self._source_of, last, self.moved)
        step = self._hoisted(step, before)
        if not self.exact:
            step = taken_apart(step, before, last, self.moved)
            step = self._read_only(products_at_once(step, length, before, last, self.moved))
            step = self._read_only(sums_at_once(step, length, before, last, self.moved, self.fused))
            step = results_at_once(step, length, before, after, self.moved)
            step = self._read_only(step)
            step = rows_at_once(step, length, before, self.moved)
            step = self._read_only(step)
            if not self.fused:
                step = step._replace(body=side_by_side(step.body))
                step = whole_rows(step, length, before, first, self.moved)
        yield from before.equations
        params |= {"carries": len(step.carries), "rows": len(step.rows), "body": step.body}
        if step.results:
            yield Equation(SCAN, (*step.carries, *step.rows, *step.outer), params, tuple(step.results))
        for e in (*first.equations, *after.equations, *last.equations):
            yield Equation(e.primitive, tuple(map(self._source, e.inputs)), e.params, e.outputs)

    def _source_of(self, source: Any) -> Equation | None:
        """Return the equation that defines a source, with current inputs; `None` for inputs, constants and new equations."""
        e = self.makers.get(source) if type(source) is int else None
        return None if e is None else Equation(e.primitive, tuple(map(self._source, e.inputs)), e.params, e.outputs)

    def _find_last_rows(self, step: Step, length: int) -> None:
        """Read final carries in place of the last rows of stacked results."""
        given = set(self.expressions.outputs)
        found = last_rows(step, length, self.specs, lambda slot: [] if slot in given else self.readers.get(slot, []))
        self.moved |= found
        for row, carry in found.items():
            self.read[carry] = 1
            self.read[self.makers[row].inputs[0]] = 0  # type: ignore[index]

    def _read_only(self, step: Step) -> Step:
        """Return a scan without the results that have a replacement."""
        self.read.extend(b"\1" * (len(self.specs) - len(self.read)))
        for slot in step.results:
            if slot in self.moved:
                self.read[slot] = 0
        return live(step, self.read)

    def _without_copies(self, step: Step) -> Step:
        """Return a scan without duplicate inputs and results, with the scalars shared by all steps as constants.

        Equal results are read from the first of them. Rows that are returned unchanged are read from their source.
        """
        body, first = step.body, len(step.carries) + len(step.rows)
        same: dict[int, Any] = {}
        for place, source in enumerate(step.rows, len(step.carries)):
            if (every := _every_row(source)) is not None and spec_of(every.value) == body.specs[place]:
                same[place] = every
        known: dict[int, int] = {}
        for place, source in enumerate(step.outer, first):
            if type(source) is int:
                same[place] = known.setdefault(source, place)
            elif not _is_traced(source.value) and not (spec := spec_of(source.value)).shape and spec == body.specs[place]:
                same[place] = source
        body = _reading(body, same)
        results: dict[Any, int] = {}
        for source, slot in zip(body.outputs[len(step.carries) :], step.results[len(step.carries) :], strict=True):
            if type(source) is not int:
                continue
            row = source - len(step.carries)
            if 0 <= row < len(step.rows) and type(step.rows[row]) is int and self.specs[slot] == self.specs[step.rows[row]]:
                self.moved[slot] = step.rows[row]
                self.read[slot] = 0
            elif source in results:
                self.moved[slot] = results[source]
                self.read[results[source]] |= self.read[slot]
                self.read[slot] = 0
            else:
                results[source] = slot
        return step._replace(body=body)

    def _hoisted(self, step: Step, before: Writer) -> Step:
        """Return a scan with its loop-invariant equations moved before it."""
        body, count = step.body, len(step.body.inputs)
        moving = mark_reached(marks_at(range(count - len(step.outer)), len(body.specs)), body.equations)
        early = [e for e in body.equations if not moving[e.outputs[0]]]
        if not early:
            return step
        places: dict[int, Any] = dict(zip(range(count - len(step.outer), count), step.outer, strict=True))
        before.put(early, body.specs, places)
        made = {s for e in early for s in e.outputs}
        later = [e for e in body.equations if moving[e.outputs[0]]]
        read = dict.fromkeys(s for e in (*[e.inputs for e in later], body.outputs) for s in e if s in made and type(s) is int)
        names = [*body.inputs, *[f"shared[{i}]" for i in range(len(read))]]
        inner = extract(body.replace(equations=tuple(later)), [*range(count), *read], body.outputs, names)
        return live(step._replace(outer=[*step.outer, *[places[s] for s in read]], body=inner), None)


def _every_row(source: Any) -> Constant | None:
    """Return the row that all rows of a constant equal; `None` if rows differ."""
    if type(source) is int or type(source.value) is not np.ndarray or source.value.dtype.kind not in "biuf":
        return None
    rows = source.value
    return (
        Constant(rows[0])
        if rows.nbytes <= _LARGEST_COMPARED and all(row.tobytes() == rows[0].tobytes() for row in rows)
        else None
    )


def _is_traced(value: Any) -> bool:
    return hasattr(type(value), "__functad_dispatch__")


def _reading(body: Expressions, same: dict[int, Any]) -> Expressions:
    """Return an expression list with other sources in place of some inputs."""

    def placed(sources: Sequence[Any]) -> tuple[Any, ...]:
        return tuple([same.get(s, s) if type(s) is int else s for s in sources])

    equations = [Equation(e.primitive, placed(e.inputs), e.params, e.outputs) for e in body.equations]
    return body.replace(equations=tuple(equations), outputs=placed(body.outputs))


def live(step: Step, read: Any) -> Step:
    """Return a scan without dead results, the carries used only for them, and unused inputs.

    Args:
        step: the scan.
        read: marks of the slots that the list around the scan reads; `None` if all results are read.
    """
    body, carries = step.body, len(step.carries)
    kept = [i for i, slot in enumerate(step.results) if read is None or read[slot]]
    while True:
        needed = mark_needed(marks_at([body.outputs[i] for i in kept], len(body.specs)), body.equations)
        more = [i for i in range(carries) if needed[i] and i not in kept]
        if not more:
            break
        kept = sorted([*kept, *more])
    states = [i for i in kept if i < carries]
    inputs = [*states, *[i for i in range(carries, len(body.inputs)) if needed[i]]]
    if len(inputs) == len(body.inputs) and len(kept) == len(step.results):
        return step
    names = [body.inputs[i] for i in inputs]
    given = [*step.carries, *step.rows, *step.outer]
    rows = [given[i] for i in inputs if carries <= i < carries + len(step.rows)]
    outer = [given[i] for i in inputs if i >= carries + len(step.rows)]
    inner = extract(body, inputs, [body.outputs[i] for i in kept], names)
    return Step([step.carries[i] for i in states], rows, outer, inner, [step.results[i] for i in kept])
