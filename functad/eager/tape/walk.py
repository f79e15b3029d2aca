"""The backward pass of tapes: `functad.transforms.walks.reverse` over stretches of a list.

While a tape records, it records the backward pass too. The residuals of records are plain values; `raised` replaces them by
Tensors of the list, so that the rules make further records. The pass stops at each source that is not an input, and continues
from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functad.eager.tape.recorder import EagerRecorder
from functad.expressions.records import inputs_of, results_of
from functad.primitives.plan import GATHER, WRITE
from functad.tracing.tensor import Tensor
from functad.tracing.traces.base import alike, bare
from functad.transforms.walks.cotangents import RowSum, Scattered
from functad.transforms.walks.reverse import pull_back


def cotangents_at(
    recorder: EagerRecorder,
    equations: list[Any],
    seeds: dict[int, Any],
    wanted: set[int],
    cuts: set[int],
    *,
    consume: bool,
    sparse: bool,
) -> dict[int, Any]:
    """Return the cotangents of the wanted slots by slot, without slots that no path reaches.

    Args:
        recorder: the recorder of the list.
        equations: the records of the tape, by slot; `None` in place of other records.
        seeds: cotangents of the targets, by slot.
        wanted: the slots of the sources.
        cuts: slots that count as constants: the backward pass does not continue from them.
        consume: drop the records after the pass, with their residuals.
        sparse: return `RowSlices` for an input that was read by rows only.
    """
    if not seeds:
        return {}
    top = max(seeds) + 1
    cotangents: list[Any] = [None] * top
    for slot, seed in seeds.items():
        cotangents[slot] = seed
    found: dict[int, Any] = {}
    inputs = {slot for slot in wanted if slot < top and _is_input(equations, slot)}
    for slot in inputs if sparse else ():
        if cotangents[slot] is None:
            cotangents[slot] = RowSum()
    for slot in sorted((slot for slot in (wanted - inputs) | cuts if slot < top), reverse=True):
        stop = _group_end(equations, slot + 1)
        if stop < len(cotangents):
            rest = pull_back(equations, cotangents, stop, consume=consume)
            found |= _those_at(cotangents, inputs, stop)
            cotangents = rest
            for g in rest if sparse else ():
                if type(g) is RowSum:
                    g.settle()
        if cotangents[slot] is not None:
            found[slot] = cotangents[slot]
        if slot in cuts:
            cotangents[slot] = None
    pull_back(equations, cotangents, 0, consume=consume)
    found |= _those_at(cotangents, inputs, 0)
    return found


def _those_at(cotangents: list[Any], inputs: set[int], start: int) -> dict[int, Any]:
    """Return the cotangents of inputs from slot `start` on; the pass left them in place."""
    held = {slot: cotangents[slot] for slot in inputs if start <= slot < len(cotangents)}
    found = {slot: g.total() if type(g) in (Scattered, RowSum) else g for slot, g in held.items()}
    return {slot: g for slot, g in found.items() if g is not None}


def _is_input(equations: Sequence[Any], slot: int) -> bool:
    """Return `True` if a slot is an input, not a result of an operation."""
    return equations[slot] is None and _group_end(equations, slot + 1) == slot + 1


def _group_end(equations: Sequence[Any], stop: int) -> int:
    """Return the end of the results of the operation that made slot `stop - 1`; it may have several results."""
    index = stop - 1
    while index < len(equations) and equations[index] is None:
        index += 1
    return index + 1 if index < len(equations) and results_of(equations[index], index)[0] < stop else stop


def raised(recorder: EagerRecorder, index: int, record: Any) -> Any:
    """Return a record with its residuals replaced by Tensors of its own list."""
    plan, slots, saved, specs = record
    if not plan.names or plan.special in (GATHER, WRITE):
        return record
    by_position = dict(zip(plan.active, inputs_of(record), strict=True))

    def out_raised(value: Any) -> Any:
        if not plan.primitive.multiple:
            return bare(Tensor, recorder, value, index)
        slots = results_of(record, index)
        return alike(value, [bare(Tensor, recorder, part, slot) for slot, part in zip(slots, value, strict=True)])

    def arrays_raised(values: Any, start: int) -> Any:
        slots = [by_position.get(start + i) for i in range(len(values))]
        return tuple([v if s is None else bare(Tensor, recorder, v, s) for s, v in zip(slots, values, strict=True)])

    def one(name: str, value: Any) -> Any:
        if name == "out":
            return out_raised(value)
        if name in ("arrays", "rest"):
            return arrays_raised(value, int(name == "rest"))
        slot = by_position.get(plan.primitive.names.index(name)) if name in plan.primitive.names else None
        return value if slot is None else bare(Tensor, recorder, value, slot)

    if len(plan.names) == 1:
        return plan, slots, one(plan.names[0], saved), specs
    return plan, slots, tuple(map(one, plan.names, saved)), specs
