"""The second walk: pull cotangents back through a list of records, from the last to the first.

Recording order is topological, so the walk is a plain loop: no sort and no recursion, a million operations work.
How cotangents are added up is the business of `functad.transforms.walks.cotangents`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from sys import _getframe
from typing import Any

import numpy as np

from functad.expressions.spec import PLAIN
from functad.places import place_of, user_frame
from functad.primitives.plan import CONTRACTION, GATHER, SEVERAL, WRITE
from functad.primitives.safe import CAREFUL, ELEMENTWISE, PASS, current_pass, strict
from functad.settings import setting
from functad.tracing.engines import derivative_of, lacking
from functad.tracing.float_errors import in_silence
from functad.tracing.traces.base import OPEN, Recorder
from functad.tracing.traces.batch import BatchRecorder
from functad.transforms.walks.cotangents import RowSum, Scattered, accumulate, add_piece, foreign, take
from functad.transforms.walks.observed import Observer, observed_back
from functad.transforms.walks.one_record import fit, pull_several, pull_write
from functad.transforms.walks.zero_wins import FEW, apply_carefully, has_nan_below, pull_carefully

_ndarray = np.ndarray
_NO_FITS = itertools.repeat(None)


def pull_back(
    equations: list[Any], cotangents: list[Any], inputs: int, *, consume: bool, observer: Observer | None = None
) -> list[Any]:
    """Return the cotangents of the inputs; `None` for an input that nothing depends on.

    Args:
        equations: the records of a reverse trace.
        cotangents: by slot, the cotangents of the results, `None` elsewhere; its length may be shorter than the list.
        inputs: the number of inputs, which have the first slots.
        consume: records are dropped as the walk passes, and with them the values that they hold.
        observer: sees the records that are passed; they are not to be dropped.
    """
    walk_back(equations, cotangents, inputs, consume=consume, observer=observer)
    return [g.total() if type(g) is Scattered else g for g in cotangents[:inputs]]


def walk_back(
    equations: list[Any], cotangents: list[Any], inputs: int, *, consume: bool, observer: Observer | None = None
) -> None:
    """Pull cotangents back as `pull_back` does, and leave those that no record takes where they are."""
    while inputs < len(cotangents) < len(equations) and equations[len(cotangents) - 1] is None:
        cotangents.append(None)  # the record of several results stands at the last of them
    if cotangents and (type(last := cotangents[-1]) not in PLAIN) and (inner := foreign(last)) is not None:
        with (
            setting(PASS, current_pass() or ELEMENTWISE),
            lacking(derivative_of, type(inner)) if inner is last else nullcontext(),
        ):
            _walk(equations, cotangents, inputs, consume, observer)
        return
    batch = OPEN.get()
    if not isinstance(batch, BatchRecorder) or batch.place is not None:
        _walk(equations, cotangents, inputs, consume, observer)
        return
    try:
        batch.place = place_of(user_frame(_getframe(1)))
        _walk(equations, cotangents, inputs, consume, observer)
    finally:
        batch.place = None


def pull_through(recorder: Recorder, cotangents: list[Any], *, consume: bool) -> list[Any]:
    """Pull back as `pull_back` does, through the records of a trace, looked at on the way if the trace is watched."""
    if recorder.watch is not None:
        found: list[Any] = recorder.watch.pull_back(cotangents)
        return found
    return pull_back(recorder.equations, cotangents, recorder.inputs, consume=consume)


def seeded(recorder: Recorder, slots: Sequence[int | None], gs: Sequence[Any]) -> list[Any]:
    """Return the cotangents, by slot, with which a walk begins, given those of some results; `None` stands for zero in both.

    Args:
        recorder: the trace.
        slots: of the results; `None` for what no operation on the inputs made.
        gs: their cotangents.
    """
    top = max([slot for slot in slots if slot is not None], default=-1)
    cotangents: list[Any] = [None] * max(top + 1, recorder.inputs)
    for slot, g in zip(slots, gs, strict=True):
        if slot is not None and g is not None:
            held = cotangents[slot]
            cotangents[slot] = g if held is None else held + g
    return cotangents


@in_silence
def _walk(records: list[Any], cotangents: list[Any], inputs: int, consume: bool, observer: Observer | None) -> None:
    """Pull back through all records, and a second time, carefully, if a NaN comes out.

    The quick pass multiplies zero by infinity, which gives NaN. The careful pass looks at each product, and needs the records
    again: `consume` drops them at the end.
    """
    careful = bool(current_pass()) and not strict()
    given = cotangents[:]
    _pass(records, cotangents, inputs, careful, observer)
    if not careful and not strict() and _is_nan(cotangents, inputs):
        cotangents[:] = given
        for g in given:
            if type(g) is RowSum:
                g.forget()
        with setting(PASS, CAREFUL):
            _pass(records, cotangents, inputs, True, observer)
    if consume:
        records[inputs : len(given)] = [None] * (len(given) - inputs)


def _pass(records: list[Any], cotangents: list[Any], inputs: int, careful: bool, observer: Observer | None) -> None:
    """Pull back through all records once, from the last to the first."""
    owned = bytearray(len(cotangents))
    order: Iterable[int] = range(len(cotangents) - 1, inputs - 1, -1)
    if observer is not None:
        order = observed_back(order, records, cotangents, observer)
    for index in order:
        record = records[index]
        if record is None:
            continue
        plan, slots, residuals, fits = record
        pull = plan.pull
        if pull is None:
            _SPECIAL[plan.special](records, index, cotangents, owned, careful)
            continue
        g = cotangents[index]
        if g is None:
            continue
        cotangents[index] = None
        if type(g) is Scattered:
            g = g.total()
        found = pull(g, residuals) if not careful else pull_carefully(plan, g, residuals)
        if type(slots) is int:
            if fits is not None:
                found = fit(found, fits)
            if cotangents[slots] is None:  # as `accumulate` does, without a call: a twentieth of a chain of numbers
                cotangents[slots] = found
                owned[slots] = plan.fresh and type(found) is _ndarray
            else:
                accumulate(cotangents, owned, slots, found, plan.fresh)
        elif fits is None:
            for slot, ct in zip(slots, found):  # noqa: B905 - `strict` would cost 2 % of a chain of numbers
                if cotangents[slot] is None:
                    cotangents[slot] = ct
                    owned[slot] = plan.fresh and type(ct) is _ndarray
                else:
                    accumulate(cotangents, owned, slot, ct, plan.fresh)
            ct = None
        else:
            for slot, ct, spec in zip(slots, found, fits, strict=True):
                accumulate(cotangents, owned, slot, ct if spec is None else fit(ct, spec), plan.fresh)
            ct = None
        found = None  # frees arrays: the records stay, so memory is at its peak in each step


def _is_nan(cotangents: list[Any], inputs: int) -> bool:
    """Return `True` if a NaN is among the cotangents of the inputs, or among all if there are no inputs."""
    if inputs == 1 and type(g := cotangents[0]) is _ndarray and g.size <= FEW and g.ndim == 1:  # as `has_nan_below` does
        return (total := sum(g.tolist())) != total  # type: ignore[no-any-return]
    return has_nan_below(cotangents[:inputs] or [g for g in cotangents if g is not None])


def _pull_gather(records: list[Any], index: int, cotangents: list[Any], owned: bytearray, careful: bool) -> None:
    """Add a cotangent into the place that was read by indexing."""
    g = take(cotangents, index)
    if g is not None:
        _, slot, residuals, _ = records[index]
        add_piece(cotangents, owned, slot, g, residuals)


def _pull_product(records: list[Any], index: int, cotangents: list[Any], owned: bytearray, careful: bool) -> None:
    """Pull back through a product of two matrices, both of which are wanted.

    Of `A @ (x - m)`, with one `m` for all columns of `x`, the sum of the columns of `A^T g` is wanted: it is taken of `g`,
    before the product. That saves a product of the size of the forward one, a third of the backward time of a mixture.
    """
    g = take(cotangents, index)
    if g is None:
        return
    plan, slots, residuals, fits = records[index]
    every = zip(plan.rules, slots, plan.arguments(residuals), fits or _NO_FITS, strict=False)
    for position, (rule, slot, args, spec) in enumerate(every):
        other, shape = args
        axis = -1 - (position == 0)
        below = records[slot] if slot == index - 1 and slots[0] != slots[1] and cotangents[slot] is None else None
        if careful:
            ct = apply_carefully(plan, rule, g, args, position)
        elif below is not None and len(shape) > 1 and other.ndim > 1 and _sums_over(below, axis):
            summed = (*shape[:axis], 1, *shape[axis:][1:])
            ct = rule(g.sum(axis, keepdims=True), other, summed)
            spec = (summed, spec[1]) if spec is not None and spec[0] is not None else spec
        else:
            ct = rule(g, *args)
        accumulate(cotangents, owned, slot, ct if spec is None else fit(ct, spec))


def _sums_over(equation: Any, axis: int) -> bool:
    """Say whether pulling back through a record is to sum over an axis, and to change signs at most."""
    plan, _, _, specs = equation
    if specs is None or not plan.elementwise or plan.names:
        return False
    for spec in (specs,) if len(plan.active) == 1 else specs:
        if spec is None or spec[0] is None or (len(spec[0]) >= -axis and spec[0][axis] != 1):
            return False
    return True


def pull_alone(record: Any, gs: Sequence[Any]) -> list[Any]:
    """Return the cotangents that one record gives its inputs, from those of its results.

    Args:
        record: it.
        gs: the cotangents of its results; `None` for zero.
    """
    plan, _, saved, specs = record
    m = len(plan.active)
    records = [*[None] * (m + len(gs) - 1), (plan, 0 if m == 1 else tuple(range(m)), saved, specs)]
    return pull_back(records, [*[None] * m, *gs], m, consume=False)


_SPECIAL: dict[str, Callable[[list[Any], int, list[Any], bytearray, bool], None]] = {
    SEVERAL: pull_several,
    WRITE: pull_write,
    GATHER: _pull_gather,
    CONTRACTION: _pull_product,
}
"""Pulls back through the record at an index, by `Plan.special`. Arguments: records, index, cotangents, owned, careful."""
