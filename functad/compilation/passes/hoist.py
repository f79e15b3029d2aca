"""Move work out of the steps of a scan: values of rows alone, results that no step reads, and sums of products.

The first two are most of the work of the derivative of a recurrent network for its inputs and results. One product of
matrices replaces one product of a matrix and a vector per step. Derivatives with respect to weights are sums over all steps
of outer products; they become one product of matrices too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from string import ascii_letters
from typing import Any, NamedTuple

import numpy as np

from functad.compilation.passes.peephole import reorders
from functad.expressions.expressions import Equation, Expressions, evaluate
from functad.expressions.records import mark_reached, marks_at
from functad.expressions.spec import ArraySpec, spec_of
from functad.primitives.arranging.reshape import TRANSPOSE
from functad.primitives.batching import one_by_one
from functad.primitives.entry import ENTRIES, Primitive
from functad.primitives.linalg.contractions import contraction_of, letters_before
from functad.transforms.lists import extract, trace
from functad.transforms.vmap import vmap

_LARGEST = 2**22
"""Maximum bytes of the values of all steps, when they are computed at once instead of step by step."""


class Step(NamedTuple):
    """A scan: the sources of its arguments, its body, and its results.

    Attributes:
        carries, rows, outer: the sources of the arguments.
        body: the expression list of a step.
        results: the slots of the results.
    """

    carries: Sequence[Any]
    rows: Sequence[Any]
    outer: Sequence[Any]
    body: Expressions
    results: Sequence[int]


class Writer:
    """Write equations into a list, such as the list around a scan.

    Attributes:
        specs: the specs of the slots of the list; extended for new slots.
        equations: the equations written.
    """

    def __init__(self, specs: list[ArraySpec]) -> None:
        self.specs = specs
        self.equations: list[Equation] = []

    def new(self, specs: Sequence[ArraySpec]) -> tuple[int, ...]:
        """Return new slots."""
        first = len(self.specs)
        self.specs += specs
        return tuple(range(first, len(self.specs)))

    def put(self, equations: Sequence[Equation], specs: Sequence[ArraySpec], places: dict[int, Any]) -> None:
        """Write equations of another list; `places` maps its slots to slots of this list, and is extended."""
        for e in equations:
            slots = self.new([specs[s] for s in e.outputs])
            self.equations.append(Equation(e.primitive, _placed(e.inputs, places), e.params, slots))
            places |= dict(zip(e.outputs, slots, strict=True))

    def call(self, f: Callable[..., Any], sources: Sequence[Any], expected: Sequence[ArraySpec]) -> list[Any] | None:
        """Write the equations of a function of sources; return its results, or `None` if their specs differ."""
        given = [self.specs[s] if type(s) is int else spec_of(s.value) for s in sources]
        made = trace("simplify", f, given)
        if made.results != list(expected):
            return None
        return self.inline(made, sources)

    def inline(self, made: Expressions, sources: Sequence[Any]) -> list[Any]:
        """Write the equations of a list, and return the sources of its results."""
        places = dict(enumerate(sources))
        self.put(made.equations, made.specs, places)
        return list(_placed(made.outputs, places))


def _placed(sources: Sequence[Any], places: dict[int, Any]) -> tuple[Any, ...]:
    return tuple([places[s] if type(s) is int else s for s in sources])


def rows_at_once(step: Step, length: int, before: Writer, moved: dict[int, Any]) -> Step:
    """Return a scan with values that depend on rows alone computed before it, for all rows at once.

    Args:
        step: the scan.
        length: the number of steps.
        before: receives the equations before the scan.
        moved: receives the replacement of each removed result.
    """
    body, carries, rows = step.body, len(step.carries), len(step.rows)
    moving = mark_reached(marks_at(range(carries, carries + rows), len(body.specs)), body.equations)
    fixed = mark_reached(marks_at(range(carries), len(body.specs)), body.equations)
    early: list[Equation] = []
    for e in body.equations:
        large = sum(map(_bytes, map(body.specs.__getitem__, e.outputs))) * length > _LARGEST
        waits = any(fixed[s] for s in (*e.inputs, *e.outputs) if type(s) is int)
        if waits or not moving[e.outputs[0]] or large or not _is_batched(e.primitive):
            for s in e.outputs:
                fixed[s] = 1
        else:
            early.append(e)
    if not early:
        return step
    made = {s for e in early for s in e.outputs}
    later = [e for e in body.equations if e.outputs[0] not in made]
    read = list(dict.fromkeys(s for e in (*[e.inputs for e in later], body.outputs) for s in e if type(s) is int and s in made))
    part = extract(body, range(carries, len(body.inputs)), read, body.inputs[carries:])
    every = vmap(lambda *own: tuple(evaluate(part, own)), in_axes=(0,) * rows + (None,) * len(step.outer), axis_size=length)
    expected = [_stacked(length, body.specs[s]) for s in read]
    found = None if any(body.specs[s].weak for s in read) else before.call(every, [*step.rows, *step.outer], expected)
    if found is None:
        return step
    for source, slot in zip(body.outputs[carries:], step.results[carries:], strict=True):
        if source in made:
            moved[slot] = found[read.index(source)]
    names = [*body.inputs[: carries + rows], *[f"early[{i}]" for i in range(len(read))], *body.inputs[carries + rows :]]
    inputs = [*range(carries + rows), *read, *range(carries + rows, len(body.inputs))]
    inner = extract(body.replace(equations=tuple(later)), inputs, body.outputs, names)
    return step._replace(rows=[*step.rows, *found], body=inner)


def results_at_once(step: Step, length: int, before: Writer, after: Writer, moved: dict[int, Any]) -> Step:
    """Return a scan with values that no later step reads computed after it, for all steps at once.

    The arguments are the same as in `products_at_once`.
    """
    body, carries, rows = step.body, len(step.carries), len(step.rows)
    stays = marks_at(body.outputs[:carries], len(body.specs))
    for e in reversed(body.equations):
        large = sum(map(_bytes, map(body.specs.__getitem__, e.outputs))) * length > _LARGEST
        weak = any(body.specs[s].weak for s in e.outputs)
        if any(stays[s] for s in e.outputs) or large or weak or not _is_batched(e.primitive):
            for s in (*e.inputs, *e.outputs):
                if type(s) is int:
                    stays[s] = 1
    late = [e for e in body.equations if not stays[e.outputs[0]]]
    made = {s for e in late for s in e.outputs}
    ended = [i for i in range(carries, len(body.outputs)) if body.outputs[i] in made]
    first_outer = carries + rows
    crossing = list(dict.fromkeys(s for e in late for s in e.inputs if type(s) is int and s not in made and s < first_outer))
    crossing += [
        s for s in dict.fromkeys(s for e in late for s in e.inputs if type(s) is int) if s not in made and s >= len(body.inputs)
    ]
    known: dict[Any, Any] = {carries + i: source for i, source in enumerate(step.rows)}
    known |= {s: slot for s, slot in zip(body.outputs[carries:], step.results[carries:], strict=True) if s not in made}
    new = [s for s in crossing if s not in known]
    if not ended or len(new) > len(ended) or any(body.specs[s].weak for s in crossing):
        return step
    known |= dict(zip(new, before.new([_stacked(length, body.specs[s]) for s in new]), strict=True))
    wanted = [body.outputs[i] for i in ended]
    inputs = [*crossing, *range(first_outer, len(body.inputs))]
    part = extract(body, inputs, wanted, [f"late[{i}]" for i in range(len(crossing))] + list(body.inputs[first_outer:]))
    axes = (0,) * len(crossing) + (None,) * len(step.outer)
    every = vmap(lambda *own: tuple(evaluate(part, own)), in_axes=axes, axis_size=length)
    expected = [before.specs[step.results[i]] for i in ended]
    found = after.call(every, [*[known[s] for s in crossing], *step.outer], expected)
    if found is None:
        return step
    moved |= dict(zip([step.results[i] for i in ended], found, strict=True))
    return _with_results(step, {s: known[s] for s in new})


def _stacked(length: int, spec: ArraySpec) -> ArraySpec:
    return ArraySpec((length, *spec.shape), spec.dtype)


def _with_results(step: Step, more: dict[int, int]) -> Step:
    """Return a scan with further results; `more` maps slots of the body to slots of the list around the scan."""
    outputs = (*step.body.outputs, *more)
    inner = extract(step.body, range(len(step.body.inputs)), outputs, step.body.inputs)
    return step._replace(body=inner, results=[*step.results, *more.values()])


def _is_batched(primitive: Primitive) -> bool:
    """Return `True` if a primitive computes all examples of a batch at once."""
    own = primitive.inner is not None or primitive.owner is not None or primitive.lists or primitive.value_dependent
    return not own and primitive.batch is not None and primitive.batch is not one_by_one


def products_at_once(step: Step, length: int, before: Writer, after: Writer, moved: dict[int, Any]) -> Step:
    """Return a scan with sums of products of vectors or matrices replaced by one product after it.

    Args:
        step: the scan.
        length: the number of steps.
        before: holds the specs of the list around the scan.
        after: receives the equations after the scan.
        moved: receives the replacement of each removed result.
    """
    sums = _Sums(step, length)
    kept: dict[int, Any] = {}
    for i in range(len(step.carries)):
        product = sums.product(i)
        if product is None:
            continue
        subscripts, factors = product
        given = [_all_rows(step, s, length, before, kept) for s in factors]
        found = after.call(partial(_sum_of_products, subscripts), [step.carries[i], *given], [step.body.specs[i]])
        if found is not None:
            [moved[step.results[i]]] = found
    return _with_results(step, kept) if kept else step


def _sum_of_products(subscripts: str, total: Any, a: Any, b: Any) -> Any:
    return total + np.einsum(subscripts, a, b, optimize=True)


def sums_at_once(step: Step, length: int, before: Writer, after: Writer, moved: dict[int, Any], fused: bool) -> Step:
    """Return a scan with accumulated arrays summed after it, so that later passes can move their computation too.

    The arguments are the same as in `products_at_once`. With `fused`, additions are free, as part of a fused loop. Then only
    terms that are already results are summed.
    """
    sums = _Sums(step, length)
    kept: dict[int, Any] = {}
    for i in range(len(step.carries)):
        term = None if step.results[i] in moved else sums.term(i)
        if term is None or _bytes(step.body.specs[i]) * length > _LARGEST or (fused and not sums.is_of_results(term)):
            continue
        total = after.call(
            lambda total, a: total + np.sum(a, axis=0),
            [step.carries[i], _all_rows(step, term, length, before, kept)],
            [step.body.specs[i]],
        )
        if total is not None:
            [moved[step.results[i]]] = total
    return _with_results(step, kept) if kept else step


def _all_rows(step: Step, slot: Any, length: int, before: Writer, kept: dict[int, Any]) -> Any:
    """Return the slot of the values of all steps; they become a result of the scan if they are not one of its rows."""
    first = len(step.carries)
    if first <= slot < first + len(step.rows):
        return step.rows[slot - first]
    known = dict(zip(step.body.outputs[first:], step.results[first:], strict=True))
    if slot in known:
        return known[slot]
    if slot not in kept:
        [kept[slot]] = before.new([_stacked(length, step.body.specs[slot])])
    return kept[slot]


class _Sums:
    """The carries of a scan that each step only adds to."""

    def __init__(self, step: Step, length: int) -> None:
        self.step, self.body, self.length = step, step.body, length
        self.makers = {e.outputs[0]: e for e in step.body.equations}
        self.uses = np.zeros(len(step.body.specs), int)
        for sources in (*[e.inputs for e in step.body.equations], step.body.outputs):
            for s in sources:
                if type(s) is int:
                    self.uses[s] += 1

    def term(self, place: int) -> Any:
        """Return the slot of the term that each step adds to a carry; `None` if the carry is no sum."""
        total: Any = self.body.outputs[place]
        add = self.makers.get(total) if type(total) is int else None
        if add is None or add.primitive is not ENTRIES[np.add] or self.uses[place] != 1 or self.uses[total] != 1:
            return None
        terms: list[Any] = [s for s in add.inputs if s != place]
        spec = self.body.specs[place]
        fits = len(terms) == 1 and type(terms[0]) is int and self.body.specs[terms[0]] == spec and not spec.weak
        fits = fits and (spec.dtype.kind != "f" or reorders(spec.dtype))
        return terms[0] if fits and self._is_kept(terms[0]) else None

    def is_of_results(self, term: int) -> bool:
        """Return `True` if a term is a result of the scan, or one equation computes it from results."""
        e = self.makers.get(term)
        return term in self.body.outputs or (e is not None and all(s in self.body.outputs for s in e.inputs if type(s) is int))

    def _is_kept(self, slot: int) -> bool:
        """Return `True` if the values of all steps can be stacked as rows: neither a loop-invariant input nor a carry."""
        shared = len(self.body.inputs) - len(self.step.outer)
        return not shared <= slot < len(self.body.inputs) and slot >= len(self.step.carries)

    def product(self, place: int) -> tuple[str, list[int]] | None:
        """Return the contraction of the rows of two factors that sums the products of a carry; `None` if it is no such sum.

        Returns:
            The subscripts for `np.einsum`, and the slots of the factors.
        """
        term = self.term(place)
        e = self.makers.get(term)
        if e is None or self.uses[term] != 1 or len(e.inputs) != 2 or not all(type(s) is int for s in e.inputs):
            return None
        specs = self.body.specs
        found = contraction_of(e.primitive, e.params, [specs[s].ndim for s in e.inputs])  # type: ignore[index]
        if found is None:
            return None
        inputs: Sequence[Any] = e.inputs
        (a, b), factors = zip(*map(self._untransposed, found.terms, inputs), strict=True)
        own, given = specs[place], [specs[s] for s in factors]
        if not all(map(self._is_kept, factors)) or any(s.dtype != own.dtype or not reorders(s.dtype) for s in given):
            return None
        rows = range(len(self.step.carries), len(self.body.inputs))
        new = sum(_bytes(specs[s]) for s in {*factors} if s not in rows and s not in self.body.outputs)
        every = sum(map(_bytes, given)) * self.length
        step = next(letter for letter in ascii_letters if letter not in a + b)
        return (f"{step}{a},{step}{b}->{found.result}", [*factors]) if new <= _bytes(own) and every <= _LARGEST else None

    def _untransposed(self, letters: str, slot: int) -> tuple[str, int]:
        """Return the letters and the slot of a factor, or those of its argument if the factor is a transpose."""
        maker = self.makers.get(slot)
        if maker is None or maker.primitive is not TRANSPOSE or type(maker.inputs[0]) is not int:
            return letters, slot
        return letters_before(maker.params["axes"], letters), maker.inputs[0]


def _bytes(spec: ArraySpec) -> int:
    return spec.size * spec.dtype.itemsize
