"""The backward pass: pull cotangents back through the records of a trace, from the last to the first.

Records are in topological order, so the pass is a plain loop without sorting or recursion; a million operations work.
`functad.transforms.cotangents` accumulates the cotangents. An observed pass takes its records from a generator that
notifies the observers.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from functad.expressions.records import BACKWARD, OBSERVERS, Observer, begun, ended, inputs_of, results_of
from functad.expressions.spec import PLAIN, PYTHON_SCALARS, dtype_of, shape_of
from functad.places import user_place
from functad.primitives.arranging.reshape import unbroadcast
from functad.primitives.entry import PULL_PRODUCT, PULL_READ, PULL_SEVERAL, PULL_WRITE, Plan
from functad.primitives.indexing.write import ADD_TO, as_cotangent, part, put, written
from functad.primitives.operands import absent
from functad.primitives.safe import CAREFUL, ELEMENTWISE, PASS, current_pass, strict
from functad.process import setting
from functad.tracing.batch import BatchRecorder
from functad.tracing.float_errors import in_silence
from functad.tracing.foreign import derivative_of, lacking
from functad.tracing.trace import OPEN, Recorded, Recorder, resolve
from functad.transforms.cotangents import RowSum, Scattered, accumulate, add_piece, foreign, take
from functad.transforms.zero_wins import FEW, apply_carefully, has_nan_below, pull_carefully

_ndarray = np.ndarray


_NO_FITS = itertools.repeat(None)


@in_silence
def pull_back(records: list[Any], cotangents: list[Any], inputs: int, *, consume: bool) -> list[Any]:
    """Return the cotangents of the inputs; `None` means zero.

    Args:
        records: the records of a reverse trace.
        cotangents: the cotangents by slot, `None` except for results. May be shorter than `records`. At the end it holds the
            cotangents of the inputs.
        inputs: the slot at which the pass stops, usually the number of inputs, which have the first slots. The cotangents of
            slots without a record stay in `cotangents`.
        consume: free the records and their residuals at the end.
    """
    while inputs < len(cotangents) < len(records) and records[len(cotangents) - 1] is None:
        cotangents.append(None)  # a record with several results has the slot of the last result
    batch = OPEN.get()
    if cotangents and type(last := cotangents[-1]) not in PLAIN and (inner := foreign(last)) is not None:
        with (
            setting(PASS, current_pass() or ELEMENTWISE),
            lacking(derivative_of, type(inner)) if inner is last else nullcontext(),
        ):
            _walk(records, cotangents, inputs, consume)
    elif isinstance(batch, BatchRecorder) and batch.place is None:
        try:
            batch.place = user_place()
            _walk(records, cotangents, inputs, consume)
        finally:
            batch.place = None
    else:
        _walk(records, cotangents, inputs, consume)
    return [g.total() if type(g) is Scattered else g for g in cotangents[:inputs]]


def pull_through(recorder: Recorder, cotangents: list[Any], *, consume: bool) -> list[Any]:
    """Return the cotangents of the inputs of a trace; the watch of the trace, if any, checks them."""
    if recorder.monitor is not None:
        found: list[Any] = recorder.monitor.pull_back(cotangents)
        return found
    return pull_back(recorder.records, cotangents, recorder.inputs, consume=consume)


def seeded(recorder: Recorder, slots: Sequence[int | None], gs: Sequence[Any]) -> list[Any]:
    """Return the cotangents by slot at the start of a backward pass; `None` means zero.

    Args:
        recorder: the trace.
        slots: the slots of the results; `None` for a result that is not recorded in the trace.
        gs: the cotangents of the results, or `None` for zero.
    """
    top = max([slot for slot in slots if slot is not None], default=-1)
    cotangents: list[Any] = [None] * max(top + 1, recorder.inputs)
    for slot, g in zip(slots, gs, strict=True):
        if slot is not None and g is not None:
            held = cotangents[slot]
            cotangents[slot] = g if held is None else held + g
    return cotangents


def _walk(records: list[Any], cotangents: list[Any], inputs: int, consume: bool) -> None:
    """Pull back through all records, and repeat with a careful pass if a cotangent is NaN.

    The quick pass multiplies zero by infinity, which gives NaN. The careful pass checks each product, and needs the records
    again. Therefore `consume` frees them only at the end.
    """
    observers = begun(BACKWARD, records) if OBSERVERS.get() else ()
    try:
        careful = bool(current_pass()) and not strict()
        given = cotangents[:]
        _pass(records, cotangents, inputs, careful, observers)
        if not careful and not strict() and _is_nan(cotangents, inputs):
            cotangents[:] = given
            for g in given:
                if type(g) is RowSum:
                    g.forget()
            with setting(PASS, CAREFUL):
                _pass(records, cotangents, inputs, True, observers)
    finally:
        if observers:
            ended(observers)
    if consume:
        records[inputs : len(given)] = [None] * (len(given) - inputs)


def _pass(records: list[Any], cotangents: list[Any], inputs: int, careful: bool, observers: Sequence[Observer]) -> None:
    """Pull back through all records once, from the last to the first."""
    owned = bytearray(len(cotangents))
    order: Iterable[int] = range(len(cotangents) - 1, inputs - 1, -1)
    if observers:
        order = observed_back(order, records, cotangents, observers)
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
            if cotangents[slots] is None:  # `accumulate`, inlined: 5 % of a chain of scalars
                cotangents[slots] = found
                owned[slots] = plan.fresh and type(found) is _ndarray
            else:
                accumulate(cotangents, owned, slots, found, plan.fresh)
        elif fits is None:
            for slot, ct in zip(slots, found):  # noqa: B905 - `strict` would cost 2 % of a chain of scalars
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
        found = None  # frees arrays early: the records stay until the end, so memory use is at its peak


def _is_nan(cotangents: list[Any], inputs: int) -> bool:
    """Return `True` if a NaN is among the cotangents of the inputs, or among all cotangents if there are no inputs."""
    if inputs == 1 and type(g := cotangents[0]) is _ndarray and g.size <= FEW and g.ndim == 1:  # `has_nan_below`, inlined
        return (total := sum(g.tolist())) != total  # type: ignore[no-any-return]
    return has_nan_below(cotangents[:inputs] or [g for g in cotangents if g is not None])


def pull_record(plan: Plan, g: Any, residuals: Any) -> list[Any]:
    """Return the cotangents of the active inputs of one record, before `fit`."""
    if plan.joint:
        around = OPEN.get()
        if not isinstance(around, BatchRecorder) or around.place is None:
            found = plan.rules[0](g, *plan.arguments(residuals)[0])
        else:  # a custom rule may have its own lines of user code
            place, around.place = around.place, None
            try:
                found = plan.rules[0](g, *plan.arguments(residuals)[0])
            finally:
                around.place = place
        return [found[i] for i in plan.active]
    return [rule(g, *args) for rule, args in zip(plan.rules, plan.arguments(residuals), strict=True)]


def fit(ct: Any, spec: tuple[tuple[int, ...] | None, Any]) -> Any:
    """Return a cotangent in the shape and dtype of its input: sum over broadcast axes, take the real part, cast."""
    shape, dtype = spec
    if shape is not None and (ct.shape if type(ct) is _ndarray else shape_of(ct)) != shape:
        ct = unbroadcast(ct, shape)
    own = ct.dtype if type(ct) is _ndarray else dtype_of(ct)
    return ct if own is dtype or own == dtype else in_dtype(ct, own, dtype)


def in_dtype(derivative: Any, own: Any, dtype: Any) -> Any:
    """Return a tangent or cotangent with the dtype `own` cast to another dtype: its real part if the other dtype is real."""
    if own.kind == "c" and dtype.kind != "c":
        derivative = derivative.real
    return dtype.type(derivative) if type(derivative) in PYTHON_SCALARS else derivative.astype(dtype)


def _pull_gather(records: list[Any], index: int, cotangents: list[Any], owned: bytearray, careful: bool) -> None:
    """Pull back through an indexed read: add the cotangent to the indexed elements."""
    g = take(cotangents, index)
    if g is not None:
        _, slot, residuals, _ = records[index]
        add_piece(cotangents, owned, slot, g, residuals)


def _pull_product(records: list[Any], index: int, cotangents: list[Any], owned: bytearray, careful: bool) -> None:
    """Pull back through a product of two matrices, for both factors.

    In `A @ (x - m)`, with one `m` for all columns of `x`, the cotangent of `m` is the sum of the columns of `A^T g`. Summing
    the columns of `g` before the product avoids a matrix product: a third of the backward time of a mixture model.
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


def _sums_over(record: Any, axis: int) -> bool:
    """Return `True` if the pullback of a record only sums over `axis` and possibly changes signs."""
    plan, _, _, fits = record
    if fits is None or plan.primitive.kind != "elementwise" or plan.names:
        return False
    for spec in (fits,) if len(plan.active) == 1 else fits:
        if spec is None or spec[0] is None or (len(spec[0]) >= -axis and spec[0][axis] != 1):
            return False
    return True


def pull_several(records: list[Any], index: int, cotangents: list[Any], owned: bytearray, careful: bool) -> None:
    """Pull back through a record with a joint rule or several results."""
    record = records[index]
    plan, _, residuals, fits = record
    if plan.primitive.multiple:
        fits, outputs = fits
        first = index + 1 - len(outputs)
        parts = cotangents[first : index + 1]
        cotangents[first : index + 1] = [None] * len(outputs)
        if all(part is None for part in parts):
            return
        g = tuple([_total(part, shape, dtype) for part, (shape, dtype) in zip(parts, outputs, strict=True)])
    elif (g := take(cotangents, index)) is None:
        return
    if len(plan.active) == 1:
        fits = (fits,)
    for slot, ct, spec in zip(inputs_of(record), pull_record(plan, g, residuals), fits or _NO_FITS, strict=False):
        if ct is None:  # a custom rule returned `None`: no derivative
            continue
        accumulate(cotangents, owned, slot, ct if spec is None else fit(ct, spec))


def _total(part: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    if part is None:
        return absent(shape, dtype)
    return part.total() if type(part) is Scattered else part


def pull_write(records: list[Any], index: int, cotangents: list[Any], owned: bytearray, careful: bool) -> None:
    """Pull back through a write: extract the cotangent of the written elements, and pass the rest on in the same buffer.

    A loop that writes one element at a time thus takes time linear in its length. The VJP rule would make an array per write.
    """
    g, record = take(cotangents, index), records[index]
    if g is None:
        return
    plan, _, (path, where, shapes), fits = record
    adds = plan.primitive is ADD_TO
    number = shape_of(g) == ()
    known = resolve(g)  # a seed may be a constant Tensor, which is immutable
    buffer = known if number or (known is g and owned[index]) else known.copy()
    view = buffer if number else part(buffer, path)
    copied = path and not isinstance(buffer, Recorded) and not np.may_share_memory(view, buffer)
    if number or copied:  # a scalar, or a buffer whose layout allows no such view
        buffer, piece = plan.rules[0](buffer, path, where, shapes)
    else:
        piece = None
        if 1 in plan.active:
            piece = view[where] if adds else written(view, where)
            piece = piece if issubclass(type(piece), np.generic) else piece.copy()
            if path:
                piece = as_cotangent(piece, path)
        if not adds:
            if path and isinstance(buffer, Recorded):
                put(buffer, path, where, 0, adds=False)
            else:
                view[where] = 0
    targets = inputs_of(record)
    for position, slot, spec in zip(plan.active, targets, (fits,) if len(targets) == 1 else fits or (None, None), strict=True):
        ct = buffer if position == 0 else piece if spec is None else fit(piece, spec)
        first = cotangents[slot] is None
        accumulate(cotangents, owned, slot, ct, fresh=True)
        if first and position == 0 and not number and isinstance(ct, Recorded):
            owned[slot] = True  # the pass may write to this Tensor


_SPECIAL: dict[str, Callable[[list[Any], int, list[Any], bytearray, bool], None]] = {
    PULL_SEVERAL: pull_several,
    PULL_WRITE: pull_write,
    PULL_READ: _pull_gather,
    PULL_PRODUCT: _pull_product,
}
"""Pullback functions by `Plan.special`. Arguments: records, index of the record, cotangents, owned, careful."""


def pull_alone(record: Any, gs: Sequence[Any]) -> list[Any]:
    """Return the cotangents of the active inputs of one record.

    Args:
        record: the record.
        gs: the cotangents of its results; `None` means zero.
    """
    plan, _, residuals, fits = record
    m = len(plan.active)
    records = [*[None] * (m + len(gs) - 1), (plan, 0 if m == 1 else tuple(range(m)), residuals, fits)]
    return pull_back(records, [*[None] * m, *gs], m, consume=False)


def observed_back(
    order: Iterable[int], records: Sequence[Any], cotangents: list[Any], observers: Sequence[Observer]
) -> Iterator[int]:
    """Yield the indices of records to a backward pass, and notify the observers."""
    for index in order:
        record = records[index]
        slots = () if record is None else results_of(record, index)
        if all(cotangents[slot] is None for slot in slots):
            yield index
            continue
        given = functools.partial(derivatives_at, cotangents, slots)
        for observer in observers:
            observer.before(index, record, given)
        yield index
        for observer in observers:
            observer.after(index, record, cotangents)
    derivatives_at(cotangents, range(len(cotangents)))  # while the observers see the pass


def derivatives_at(derivatives: list[Any], slots: Sequence[int]) -> list[Any]:
    """Return the cotangents or tangents in some slots, after pieces that are not yet added have been added."""
    for slot in slots:
        if type(derivatives[slot]) is Scattered:
            derivatives[slot] = derivatives[slot].total()
    return [derivatives[slot] for slot in slots]
