"""What a scan need not do step by step: values that depend on rows alone, results that no step reads, and sums of products.

The first two are most of what a derivative of a recurrent network does with its inputs and results: one product of matrices
takes the place of as many products of a matrix and a vector as there are steps. Derivatives by weights, which are sums over all
steps of outer products, are such a product too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.expressions.expressions import Equation, Expressions, evaluate
from functad.expressions.records import mark_reached, marks_at
from functad.expressions.spec import ArraySpec, spec_of
from functad.primitives.arranging.reshape import TRANSPOSE
from functad.primitives.batching import one_by_one
from functad.primitives.entry import ENTRIES, Primitive
from functad.primitives.linalg.products import MATMUL, OUTER
from functad.transforms.abstract import trace
from functad.transforms.closed_lists import extract
from functad.transforms.vmap import vmap

_LARGEST = 2**22
"""Bytes that the values of all steps may take, of which otherwise one at a time is there."""


class Step(NamedTuple):
    """A scan: the sources of its arguments, its body, and its results.

    Attributes:
        carries, rows, outer: sources of the arguments.
        body: the list.
        results: slots of the results.
    """

    carries: Sequence[Any]
    rows: Sequence[Any]
    outer: Sequence[Any]
    body: Expressions
    results: Sequence[int]


class Writer:
    """Writes equations into the list around a scan.

    Attributes:
        specs: those of its slots, to which new ones are added.
        equations: what was written.
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
        """Write equations of another list; `places` says where its slots are in this one, and is added to."""
        for e in equations:
            slots = self.new([specs[s] for s in e.outputs])
            self.equations.append(Equation(e.primitive, _placed(e.inputs, places), e.params, slots))
            places |= dict(zip(e.outputs, slots, strict=True))

    def call(self, f: Callable[..., Any], sources: Sequence[Any], expected: Sequence[ArraySpec]) -> list[Any] | None:
        """Write what a function computes of some sources; return those of its results, or `None` if these are other ones."""
        given = [self.specs[s] if type(s) is int else spec_of(s.value) for s in sources]
        made = trace("simplify", f, tuple(given), {})
        if made.results != list(expected):
            return None
        places = dict(enumerate(sources))
        self.put(made.equations, made.specs, places)
        return list(_placed(made.outputs, places))


def _placed(sources: Sequence[Any], places: dict[int, Any]) -> tuple[Any, ...]:
    return tuple([places[s] if type(s) is int else s for s in sources])


def rows_at_once(step: Step, length: int, before: Writer, moved: dict[int, Any]) -> Step:
    """Return a scan whose steps read what depends on rows alone, computed before for all rows.

    Args:
        step: the scan.
        length: the number of steps.
        before: takes what is computed before.
        moved: takes what is read in place of results of the scan.
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
    """Return a scan whose steps do not compute what no later step reads: that is computed after it, for all steps.

    The arguments are those of `products_at_once`.
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
    """Return a scan with further results: by slot of the body, the slot of the list around it."""
    outputs = (*step.body.outputs, *more)
    inner = extract(step.body, range(len(step.body.inputs)), outputs, step.body.inputs)
    return step._replace(body=inner, results=[*step.results, *more.values()])


def _is_batched(primitive: Primitive) -> bool:
    """Say whether a primitive is computed for all examples at once."""
    own = primitive.inner is not None or primitive.owner is not None or primitive.lists or primitive.value_dependent
    return not own and primitive.batch is not None and primitive.batch is not one_by_one


def products_at_once(step: Step, length: int, before: Writer, after: Writer, moved: dict[int, Any]) -> Step:
    """Return a scan that does not add up products of vectors or matrices: one product after it does.

    Args:
        step: the scan.
        length: the number of steps.
        before: has the specs of the list around.
        after: takes what is computed after the scan.
        moved: takes what is read in place of results of the scan.
    """
    carries = len(step.carries)
    makers = {e.outputs[0]: e for e in step.body.equations}
    uses = np.zeros(len(step.body.specs), int)
    for sources in (*[e.inputs for e in step.body.equations], step.body.outputs):
        for s in sources:
            if type(s) is int:
                uses[s] += 1
    kept: dict[int, Any] = {}
    for i in range(carries):
        factors = _summed_product(step, i, makers, uses, length)
        if factors is None:
            continue
        spec = step.body.specs[i]
        given: list[Any] = []
        for s in factors:
            if not carries <= s < carries + len(step.rows) and s not in kept:
                [kept[s]] = before.new([_stacked(length, step.body.specs[s])])
            given.append(kept[s] if s in kept else step.rows[s - carries])
        found = after.call(_PRODUCTS[len(factors), step.body.specs[factors[0]].ndim], [step.carries[i], *given], [spec])
        if found is not None:
            [moved[step.results[i]]] = found
    for i in range(carries):
        [*terms] = _terms(step, i, makers, uses)
        if terms and terms[0] in kept and step.results[i] not in moved:
            total = after.call(
                lambda total, a: total + np.sum(a, axis=0), [step.carries[i], kept[terms[0]]], [step.body.specs[i]]
            )
            if total is not None:
                [moved[step.results[i]]] = total
    return _with_results(step, kept) if kept else step


def _terms(step: Step, place: int, makers: dict[int, Equation], uses: Any) -> list[Any]:
    """Return the value that each step adds to a carry, if it does nothing else with it."""
    total = step.body.outputs[place]
    add = makers.get(total) if type(total) is int else None
    if add is None or add.primitive is not ENTRIES[np.add] or uses[place] != 1 or uses[total] != 1:
        return []
    [*terms] = [s for s in add.inputs if s != place]
    return terms if len(terms) == 1 and type(terms[0]) is int and step.body.specs[terms[0]] == step.body.specs[place] else []


def _summed_product(step: Step, place: int, makers: dict[int, Equation], uses: Any, length: int) -> list[int] | None:
    """Return the factors of the product that a carry is the sum of; `None` if it is no such sum."""
    body = step.body
    terms = _terms(step, place, makers, uses)
    if not terms:
        return None
    product = makers.get(terms[0])
    if product is None or product.primitive not in (OUTER, MATMUL) or uses[terms[0]] != 1:
        return None
    factors = list(product.inputs)
    if product.primitive is MATMUL:
        first = makers.get(factors[0]) if type(factors[0]) is int else None
        if first is None or first.primitive is not TRANSPOSE or len(first.params["axes"]) != 2:
            return None
        factors[0] = first.inputs[0]
    shared = len(body.inputs) - len(step.outer)
    if any(type(s) is not int or shared <= s < len(body.inputs) or s < len(step.carries) for s in factors):
        return None
    specs = [body.specs[s] for s in factors if type(s) is int]
    new = sum(_bytes(spec) for spec in specs)
    wanted = all(
        spec.dtype == body.specs[place].dtype and spec.dtype.kind == "f" and spec.ndim == specs[0].ndim for spec in specs
    )
    return (
        [s for s in factors if type(s) is int]
        if wanted and new <= _bytes(body.specs[place]) and new * length <= _LARGEST
        else None
    )


_PRODUCTS: dict[tuple[int, int], Callable[..., Any]] = {
    (2, 1): lambda total, a, b: total + a.T @ b,
    (2, 2): lambda total, a, b: total + np.reshape(a, (-1, a.shape[-1])).T @ np.reshape(b, (-1, b.shape[-1])),
}
"""By the number of factors and their axes, the sum of their products over all steps."""


def _bytes(spec: ArraySpec) -> int:
    return spec.size * spec.dtype.itemsize
