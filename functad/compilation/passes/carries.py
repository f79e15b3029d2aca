"""Carries of a scan: those that a step can compute from the others, and those that are the last rows of stacked results.

A loop that is rolled from a trace begins at any of its operations. Its carries may then hold values that the loop computes from
other carries, and results may be read from stacks of the values of all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.compilation.passes.hoist import Step, Writer
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import ArraySpec, spec_of
from functad.primitives.indexing.index_map import is_basic
from functad.primitives.indexing.read import GETITEM
from functad.primitives.indexing.write import WRITE
from functad.transforms.lists import extract

MOST_REPEATED = 4
"""Maximum number of operations that a step repeats in place of a carry."""

CHEAP = 2.0
"""Maximum cost of each of them, in additions."""

LONGEST = 100
"""Maximum number of operations that compute a carry."""


class Term(NamedTuple):
    """A value computed from carries.

    Attributes:
        primitive, params: the operation.
        operands: terms, numbers of carries, and constants.
        spec: the spec of the value.
    """

    primitive: Any
    params: Any
    operands: tuple[Any, ...]
    spec: ArraySpec


def without_computed(step: Step, source_of: Callable[[Any], Equation | None], after: Writer, moved: dict[int, Any]) -> Step:
    """Return a scan without carries that a step computes from the others.

    Such a carry is, in the beginning and after each step, the same function of the other carries. The operations that compute
    it for the next step move to the next step. A few of them may also be repeated there, because this step needs them too.

    Args:
        step: the scan.
        source_of: returns the equation of a source of the list around the scan, with current inputs; `None` for no equation.
        after: receives the equations after the scan.
        moved: receives the replacement of each removed result.
    """
    for place in reversed(range(len(step.carries))):
        terms = _Terms(step.body, len(step.carries), place)
        term = terms.of(step.body.outputs[place])
        if isinstance(term, Term) and terms.are_moved() and _is_equal(term, step.carries[place], step.carries, source_of, {}):
            moved[step.results[place]] = _written(term, step.results, after, {})
            step = _without(step, place, term)
    return step


class _Terms:
    """The values of a step as terms of the carries after it, except the carry `place`."""

    def __init__(self, body: Expressions, carries: int, place: int) -> None:
        self.body = body
        self.makers: dict[Any, Equation] = {slot: e for e in body.equations for slot in e.outputs}
        self.ends: dict[Any, int] = {slot: i for i, slot in enumerate(body.outputs[:carries]) if i != place}
        self.found: dict[int, Any] = {}
        self.place = place
        self.written: dict[Any, tuple[int, Any]] = {}  # values that the step writes into the carries
        for slot, i in self.ends.items():
            e = self.makers.get(slot)
            if e is not None and e.primitive is WRITE and not e.params["path"] and is_basic(e.params["index"]):
                self.written[e.inputs[1]] = i, e.params["index"]

    def of(self, source: Any) -> Any:
        """Return a source as the number of a carry, a constant, or a term, else `None`."""
        if type(source) is not int or source in self.ends:
            return source if type(source) is not int else self.ends[source]
        if source not in self.found:
            self.found[source] = self._new(source)
        return self.found[source]

    def _new(self, slot: int) -> Term | None:
        spec = self.body.specs[slot]
        if slot in self.written:
            i, index = self.written[slot]
            whole = self.body.specs[i]
            if spec == ArraySpec(np.empty(whole.shape, np.bool_)[index].shape, whole.dtype):
                return Term(GETITEM, {"index": index}, (i,), spec)
        e = self.makers.get(slot)
        if (
            e is None
            or len(self.found) > LONGEST
            or not (_is_view(e) or isinstance(e.primitive.function, np.ufunc))
            or spec.weak
        ):
            return None
        self.found[slot] = None
        operands = tuple([self.of(s) for s in e.inputs])
        return None if None in operands else Term(e.primitive, e.params, operands, spec)

    def are_moved(self) -> bool:
        """Return `True` if the step needs few of the operations for other values too, and these are cheap."""
        own = {slot for slot in self.found if slot not in self.written}
        outside = [s for e in self.body.equations if own.isdisjoint(e.outputs) for s in e.inputs]
        outside += [source for i, source in enumerate(self.body.outputs) if i != self.place]
        shared = own.intersection(s for s in outside if type(s) is int)
        pending = list(shared)
        while pending:
            more = own.intersection(s for s in self.makers[pending.pop()].inputs if type(s) is int) - shared
            shared |= more
            pending += more
        repeated = [self.makers[slot] for slot in shared if not _is_view(self.makers[slot])]
        return len(repeated) <= MOST_REPEATED and all(e.primitive.cost <= CHEAP for e in repeated)


def _is_view(equation: Equation) -> bool:
    return equation.primitive is GETITEM and is_basic(equation.params["index"])


def _is_equal(
    term: Any, source: Any, carries: Sequence[Any], source_of: Callable[[Any], Equation | None], known: dict[Any, bool]
) -> bool:
    """Return `True` if a term of the first carries is the value of a source, by the same operations."""
    if type(term) is int:
        return bool(carries[term] == source)
    if isinstance(term, Constant):
        same = isinstance(source, Constant) and spec_of(term.value) == spec_of(source.value)
        return same and np.asarray(term.value).tobytes() == np.asarray(source.value).tobytes()
    key = id(term), source
    if key not in known:
        e = source_of(source)
        known[key] = (
            e is not None
            and e.primitive is term.primitive
            and dict(e.params) == dict(term.params)
            and len(e.inputs) == len(term.operands)
            and all(
                _is_equal(own, other, carries, source_of, known) for own, other in zip(term.operands, e.inputs, strict=True)
            )
        )
    return known[key]


def _written(term: Any, carries: Sequence[Any], writer: Writer, known: dict[int, Any]) -> Any:
    """Write the equations of a term, given the sources of the carries, and return its source."""
    if not isinstance(term, Term):
        return carries[term] if type(term) is int else term
    if id(term) not in known:
        operands = tuple([_written(operand, carries, writer, known) for operand in term.operands])
        [known[id(term)]] = slots = writer.new([term.spec])
        writer.equations.append(Equation(term.primitive, operands, term.params, slots))
    return known[id(term)]


def _without(step: Step, place: int, term: Term) -> Step:
    """Return a scan that computes a carry from the others at the start of a step."""
    body, writer = step.body, Writer(list(step.body.specs))
    new = _written(term, range(len(step.carries)), writer, {})

    def placed(sources: Sequence[Any]) -> tuple[Any, ...]:
        return tuple([new if type(s) is int and s == place else s for s in sources])

    later = [Equation(e.primitive, placed(e.inputs), e.params, e.outputs) for e in body.equations]
    whole = body.replace(equations=(*writer.equations, *later), outputs=placed(body.outputs), specs=tuple(writer.specs))
    inputs = [i for i in range(len(body.inputs)) if i != place]
    outputs = [source for i, source in enumerate(whole.outputs) if i != place]
    inner = extract(whole, inputs, outputs, [body.inputs[i] for i in inputs])
    left = [i for i in range(len(step.results)) if i != place]
    carries = [source for i, source in enumerate(step.carries) if i != place]
    return step._replace(carries=carries, body=inner, results=[step.results[i] for i in left])


def last_rows(
    step: Step, length: int, specs: Sequence[ArraySpec], readers: Callable[[int], Sequence[Equation]]
) -> dict[int, int]:
    """Return the carries that replace stacked results: maps reads of a row of the last steps to final carries.

    Args:
        step: the scan.
        length: the number of steps.
        specs: the specs of the list around it.
        readers: returns the equations that read a result, if no other result of that list needs it.
    """
    body, count = step.body, len(step.carries)
    found: dict[int, int] = {}
    for source, slot in zip(body.outputs[count:], step.results[count:], strict=True):
        read = readers(slot)
        if type(source) is not int or not read or any(e.primitive is not GETITEM for e in read):
            continue
        rows: dict[Any, int] = {}
        for n in range(length - 1, -1, -1):
            place = next((i for i, own in enumerate(body.outputs[:count]) if own == source), None)
            if place is None:
                break
            rows[n], source = step.results[place], place  # before this step, the value was the carry
            if len(rows) > count:
                break
        if all(_row_of(e) in rows and specs[rows[_row_of(e)]] == specs[e.outputs[0]] for e in read):
            found |= {e.outputs[0]: rows[_row_of(e)] for e in read}
    return found


def _row_of(equation: Equation) -> Any:
    """Return the number of the row that an equation reads, or another index."""
    index = equation.params["index"]
    return (
        index[0]
        if type(index) is tuple and len(index) == 1 and type(index[0]) is int
        else index
        if type(index) is int
        else None
    )
