"""Combine equal operations on several rows of a small array, for example the gates of a recurrent network.

NumPy takes the same time for three rows of twenty numbers as for one. Compiled loops do not benefit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.backends.blocks import is_elementwise
from functad.compilation.passes.hoist import Step, Writer
from functad.expressions.expressions import Constant, Equation, Expressions
from functad.expressions.spec import ArraySpec
from functad.primitives.indexing.read import GETITEM
from functad.transforms.lists import extract

_LARGEST = 2**14
"""Maximum bytes of an array with rows to combine."""

_ROUNDS = 8
"""Maximum number of consecutive operations to combine."""


def side_by_side(body: Expressions) -> Expressions:
    """Return an expression list that applies the same function to neighbouring rows of an array at once."""
    for _ in range(_ROUNDS):
        found = _joined(body)
        if found is None:
            break
        body = found
    return body


def _joined(body: Expressions) -> Expressions | None:
    """Return the list after one round of combining operations; `None` if there are none."""
    pieces = {e.outputs[0]: e for e in body.equations if _is_row(e, body.specs)}
    groups: dict[Any, list[tuple[int, Equation]]] = {}
    for e in body.equations:
        slots = [s for s in e.inputs if type(s) is int]
        if len(slots) == 1 and slots[0] in pieces and _is_simple(e, body.specs[slots[0]], body.specs):
            piece = pieces[slots[0]]
            given = tuple([repr(s.value) if isinstance(s, Constant) else "" for s in e.inputs])
            key = e.primitive, piece.inputs[0], given, repr(sorted(e.params.items()))
            groups.setdefault(key, []).append((piece.params["index"], e))
    specs, heads, gone = list(body.specs), dict[int, list[Equation]](), set[int]()
    for (_, source, _, _), members in groups.items():
        run = _longest_run(sorted(members, key=lambda member: member[0]))
        if len(run) > 1:
            [first, *_] = [e for e in body.equations if any(e is own for _, own in run)]
            heads[first.outputs[0]] = _at_once(run, source, specs)
            gone.update(e.outputs[0] for _, e in run)
    if not heads:
        return None
    order = [new for e in body.equations for new in heads.get(e.outputs[0], [] if e.outputs[0] in gone else [e])]
    moved = body.replace(equations=tuple(order), specs=tuple(specs))
    return extract(moved)


def _is_row(e: Equation, specs: Sequence[ArraySpec]) -> bool:
    """Return `True` if an equation reads a row of a small array."""
    if e.primitive is not GETITEM or type(e.params.get("index")) is not int or type(e.inputs[0]) is not int:
        return False
    spec = specs[e.inputs[0]]
    return spec.ndim > 1 and e.params["index"] >= 0 and spec.size * spec.dtype.itemsize <= _LARGEST


def _is_simple(e: Equation, row: ArraySpec, specs: Sequence[ArraySpec]) -> bool:
    """Return `True` if an equation computes an elementwise function of a row and numbers."""
    numbers = [s.value for s in e.inputs if isinstance(s, Constant)]
    return (
        is_elementwise(e)
        and specs[e.outputs[0]].shape == row.shape
        and all(type(n) in (int, float) or issubclass(type(n), np.generic) for n in numbers)
    )


def _longest_run(members: Sequence[tuple[int, Equation]]) -> list[tuple[int, Equation]]:
    """Return the longest run of members with neighbouring rows, each row once."""
    best: list[tuple[int, Equation]] = []
    run: list[tuple[int, Equation]] = []
    for member in members:
        if run and member[0] == run[-1][0]:
            continue
        run = [*run, member] if run and member[0] == run[-1][0] + 1 else [member]
        best = run if len(run) > len(best) else best
    return best


def _at_once(run: Sequence[tuple[int, Equation]], source: Any, specs: list[ArraySpec]) -> list[Equation]:
    """Return the equations that compute the results of several equations at once."""
    (start, e), count = run[0], len(run)
    equations, rows = list[Equation](), source
    if count < specs[source].shape[0]:
        rows = len(specs)
        specs.append(ArraySpec((count, *specs[source].shape[1:]), specs[source].dtype))
        equations.append(Equation(GETITEM, (source,), {"index": slice(start, start + count, None)}, (rows,)))
    whole, spec = len(specs), specs[e.outputs[0]]
    specs.append(ArraySpec((count, *spec.shape), spec.dtype))
    inputs = tuple([s if isinstance(s, Constant) else rows for s in e.inputs])
    equations.append(Equation(e.primitive, inputs, e.params, (whole,)))
    return equations + [Equation(GETITEM, (whole,), {"index": i - start}, own.outputs) for i, own in run]


def whole_rows(step: Step, length: int, before: Writer, after: Writer, moved: dict[int, Any]) -> Step:
    """Return a scan with one result in place of several results that are rows of one array.

    Args:
        step: the scan.
        length: the number of steps.
        before: holds the specs of the list around the scan.
        after: receives the reads of the rows, directly after the scan.
        moved: receives the replacement of each removed result.
    """
    body, carries = step.body, len(step.carries)
    makers: dict[Any, Any] = {e.outputs[0]: e for e in body.equations if _is_row(e, body.specs)}
    places: dict[int, list[int]] = {}
    for i in range(carries, len(body.outputs)):
        if body.outputs[i] in makers and makers[body.outputs[i]].inputs[0] >= len(body.inputs):
            places.setdefault(makers[body.outputs[i]].inputs[0], []).append(i)
    places = {source: own for source, own in places.items() if len(own) > 1}
    if not places:
        return step
    results: list[int] = []
    for source, own in places.items():
        spec = body.specs[source]
        [whole] = before.new([ArraySpec((length, *spec.shape), spec.dtype)])
        results.append(whole)
        for i in own:
            [slot] = before.new([before.specs[step.results[i]]])
            index = (slice(None, None, None), makers[body.outputs[i]].params["index"])
            after.equations.append(Equation(GETITEM, (whole,), {"index": index}, (slot,)))
            moved[step.results[i]] = slot
    gone = {i for own in places.values() for i in own}
    kept = [i for i in range(len(body.outputs)) if i not in gone]
    inner = extract(body, range(len(body.inputs)), [*[body.outputs[i] for i in kept], *places], body.inputs)
    return step._replace(body=inner, results=[*[step.results[i] for i in kept], *results])
