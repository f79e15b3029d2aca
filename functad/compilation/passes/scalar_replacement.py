"""Scalar replacement: pieces in place of the carries of a scan.

Programs with a few named states stack them into an array, such as `np.stack([y - x, x * z])`, and read its elements again in
each step. A carry that each step stacks and reads by element becomes one carry per element, and a carry that no step changes
becomes a loop-invariant input.
"""

from __future__ import annotations

from typing import Any

from functad.compilation.passes.hoist import Step, Writer
from functad.expressions.expressions import Constant, Equation, source_spec
from functad.expressions.spec import ArraySpec
from functad.primitives.arranging.join import STACK
from functad.primitives.indexing.read import GETITEM, SCATTER
from functad.transforms.lists import extract

_MOST = 16
"""Maximum number of carries that replace one."""


def without_fixed(step: Step, specs: list[ArraySpec], moved: dict[int, Any]) -> Step:
    """Return a scan without carries that no step changes; they become loop-invariant inputs.

    Args:
        step: the scan.
        specs: the specs of the list around it.
        moved: receives the replacement of each removed result.
    """
    body, carries = step.body, len(step.carries)
    fixed = [i for i in range(carries) if body.outputs[i] == i and _spec(step.carries[i], specs) == body.specs[i]]
    if not fixed:
        return step
    moved |= {step.results[i]: step.carries[i] for i in fixed}
    left = [i for i in range(carries) if i not in fixed]
    inputs = [*left, *range(carries, len(body.inputs)), *fixed]
    kept = [*left, *range(carries, len(body.outputs))]
    inner = extract(body, inputs, [body.outputs[i] for i in kept], [body.inputs[i] for i in inputs])
    outer = [*step.outer, *[step.carries[i] for i in fixed]]
    return Step([step.carries[i] for i in left], step.rows, outer, inner, [step.results[i] for i in kept])


def taken_apart(step: Step, before: Writer, after: Writer, moved: dict[int, Any]) -> Step:
    """Return a scan with one carry per piece in place of an array that each step splits and stacks again.

    Args:
        step: the scan.
        before: receives the equations before the scan.
        after: receives the equations after the scan.
        moved: receives the replacement of each removed result.
    """
    for i in reversed(range(len(step.carries))):
        parts = _pieces(step, i)
        if parts is not None:
            step = _without(step, i, parts, before, after, moved)
    return step


def _pieces(step: Step, place: int) -> list[Any] | None:
    """Return the pieces that a step stacks into a carry; `None` if the carry is read as a whole."""
    body, spec = step.body, step.body.specs[place]
    if not spec.shape or not 0 < spec.shape[0] <= _MOST or place in body.outputs:
        return None
    if any(place in e.inputs and not _is_piece(e) for e in body.equations):
        return None
    maker = next((e for e in body.equations if body.outputs[place] in e.outputs), None)
    if (
        maker is None
        or [*body.outputs].count(body.outputs[place]) > 1
        or any(maker.outputs[0] in e.inputs for e in body.equations)
    ):
        return None
    piece = ArraySpec(spec.shape[1:], spec.dtype)
    if any(_spec(s, body.specs) != piece for s in maker.inputs):
        return None
    if maker.primitive is STACK and maker.params["axis"] == 0:
        return list(maker.inputs)
    if maker.primitive is SCATTER and sorted(map(repr, maker.params["indices"])) == sorted(map(repr, range(spec.shape[0]))):
        return [maker.inputs[maker.params["indices"].index(j)] for j in range(spec.shape[0])]
    return None


def _is_piece(e: Equation) -> bool:
    return e.primitive is GETITEM and type(e.params.get("index")) is int


def _without(step: Step, place: int, parts: list[Any], before: Writer, after: Writer, moved: dict[int, Any]) -> Step:
    """Return a scan with carries for the pieces of one carry."""
    body, count = step.body, len(parts)
    spec = ArraySpec(body.specs[place].shape[1:], body.specs[place].dtype)
    first = len(body.specs)
    specs = (*body.specs, *[spec] * count)
    same = {e.outputs[0]: first + e.params["index"] % count for e in body.equations if _is_piece(e) and e.inputs[0] == place}
    equations = [
        Equation(e.primitive, tuple([same.get(s, s) if type(s) is int else s for s in e.inputs]), e.params, e.outputs)
        for e in body.equations
        if e.outputs[0] not in same
    ]

    def spliced(sources: Any, own: Any) -> list[Any]:
        return [*sources[:place], *own, *sources[place + 1 :]]

    outputs = [same.get(s, s) if type(s) is int else s for s in spliced(body.outputs, parts)]
    inputs = spliced(range(len(body.inputs)), range(first, first + count))
    names = spliced(body.inputs, [f"{body.inputs[place]}[{j}]" for j in range(count)])
    inner = extract(body.replace(equations=tuple(equations), specs=specs), inputs, outputs, names)
    source = step.carries[place]
    if isinstance(source, Constant):
        given: list[Any] = [Constant(source.value[j]) for j in range(count)]
    else:
        given = list(before.new([spec] * count))
        before.equations += [Equation(GETITEM, (source,), {"index": j}, (slot,)) for j, slot in enumerate(given)]
    results, [whole] = before.new([spec] * count), before.new([body.specs[place]])
    after.equations.append(Equation(STACK, results, {"axis": 0}, (whole,)))
    moved[step.results[place]] = whole
    return Step(spliced(step.carries, given), step.rows, step.outer, inner, spliced(step.results, results))


def _spec(source: Any, specs: Any) -> ArraySpec:
    return source_spec(source, specs)
