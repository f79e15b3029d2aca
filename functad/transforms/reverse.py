"""The backward pass: pull cotangents back through the records of a trace, from the last to the first.

Records are in topological order, so the pass is a plain loop without sorting or recursion; a million operations work. An
observed pass takes the indices of its records from a generator that notifies the observers.

**Sums.** The pass owns a buffer that it made by adding two cotangents, or that a rule made. Further cotangents are added to
such a buffer in place (value and gradient of `sum(tanh(a x + b) exp(-x x))` for 1e6 float64: 32 ms instead of 36). The
cotangent of an indexed read is added to the indexed elements in place. A loop that reads an array element by element
therefore takes time linear in its length.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from functad.expressions.records import BACKWARD, OBSERVERS, Observer, begun, ended, inputs_of, results_of
from functad.expressions.spec import PLAIN, PYTHON_SCALARS, ArraySpec, dtype_of, inexact, shape_of
from functad.places import user_place
from functad.primitives.arranging.reshape import unbroadcast
from functad.primitives.entry import PULL_PRODUCT, PULL_READ, PULL_SEVERAL, PULL_WRITE, Plan
from functad.primitives.indexing.index_map import add_at
from functad.primitives.indexing.read import SCATTER
from functad.primitives.indexing.write import as_cotangent, cotangent_of_written, part, put
from functad.primitives.operands import absent, innermost, zeros_for
from functad.primitives.safe import CAREFUL, ELEMENTWISE, PASS, current_pass, has_nan, strict
from functad.process import setting
from functad.tracing.batch import BatchRecorder
from functad.tracing.float_errors import in_silence
from functad.tracing.foreign import derivative_of, lacking
from functad.tracing.trace import OPEN, Recorded, Recorder, resolve
from functad.transforms.zero_wins import apply_carefully, pull_carefully

if TYPE_CHECKING:
    from functad.transforms.row_slices import RowSlices

_ndarray = np.ndarray
_float64 = np.float64

_NO_FITS = itertools.repeat(None)


@in_silence
def pull_back(records: list[Any], cotangents: list[Any], inputs: int, *, consume: bool) -> list[Any]:
    """Return the cotangents of the inputs; `None` means zero.

    In the quick pass, rules without the products of `functad.primitives.safe` may multiply zero by infinity, which gives NaN.
    If a result has a NaN, a careful pass follows.

    Args:
        records: the records of a reverse trace.
        cotangents: the cotangents by slot, `None` except for results. May be shorter than `records`. At the end it holds the
            cotangents of the inputs.
        inputs: the slot at which the pass stops, usually the number of inputs, which have the first slots. A tape may stop the
            pass anywhere, and continue later. The cotangents of slots without a record stay in `cotangents`.
        consume: free the records and their residuals at the end.
    """
    while inputs < len(cotangents) < len(records) and records[len(cotangents) - 1] is None:
        cotangents.append(None)  # a record with several results has the slot of the last result
    last = cotangents[-1] if cotangents else None
    if type(last) not in PLAIN and not current_pass() and (inner := foreign_array(last)) is not None:
        with setting(PASS, ELEMENTWISE), lacking(derivative_of, type(inner)) if inner is last else nullcontext():
            return pull_back(records, cotangents, inputs, consume=consume)
    if isinstance(batch := OPEN.get(), BatchRecorder) and batch.place is None:
        with _Placed(batch, user_place()):
            return pull_back(records, cotangents, inputs, consume=consume)
    given = cotangents[:]
    observers = begun(BACKWARD, records) if OBSERVERS.get() else ()
    try:
        careful = bool(current_pass()) and not strict()
        _pass(records, cotangents, inputs, careful, observers)
        if not careful and not strict() and has_nan_below(cotangents[:inputs] or cotangents):
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
    return derivatives_at(cotangents, range(inputs))


def _pass(records: list[Any], cotangents: list[Any], inputs: int, careful: bool, observers: Sequence[Observer]) -> None:
    """Pull back through all records once, from the last to the first; if `careful`, by `apply_carefully`."""
    owned = bytearray(len(cotangents))
    order: Iterable[int] = range(len(cotangents) - 1, inputs - 1, -1)
    for index in observed(order, records, cotangents, results_of, observers) if observers else order:
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
        else:
            if fits is not None:
                found = [ct if spec is None else fit(ct, spec) for ct, spec in zip(found, fits, strict=True)]
            for slot, ct in zip(slots, found):  # noqa: B905 - `strict` would cost 2 % of a chain of scalars
                if cotangents[slot] is None:
                    cotangents[slot] = ct
                    owned[slot] = plan.fresh and type(ct) is _ndarray
                else:
                    accumulate(cotangents, owned, slot, ct, plan.fresh)
        found = ct = None  # frees arrays early: the records stay until the end, so memory use is at its peak


class _Placed:
    """A context in which all operations of a batch belong to one line of the user; `None`: each operation finds its own."""

    def __init__(self, batch: BatchRecorder, place: Any) -> None:
        self.batch, self.place = batch, place

    def __enter__(self) -> None:
        self.batch.place, self.place = self.place, self.batch.place

    def __exit__(self, *error: object) -> None:
        self.__enter__()


def pull_record(plan: Plan, g: Any, residuals: Any) -> list[Any]:
    """Return the cotangents of the active inputs of one record, before `fit`."""
    if plan.joint:
        batch = OPEN.get()
        with _Placed(batch, None) if isinstance(batch, BatchRecorder) else nullcontext():  # a custom rule may have own lines
            found = plan.rules[0](g, *plan.arguments(residuals)[0])
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


def _pull_read(records: list[Any], index: int, cotangents: list[Any], owned: bytearray, careful: bool) -> None:
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


def _pull_several(records: list[Any], index: int, cotangents: list[Any], owned: bytearray, careful: bool) -> None:
    """Pull back through a record with a joint rule or several results."""
    record = records[index]
    plan, _, residuals, fits = record
    if plan.primitive.multiple:
        fits, outputs = fits
        parts = [take(cotangents, slot) for slot in results_of(record, index)]
        if all(part is None for part in parts):
            return
        g = tuple([absent(*spec) if part is None else part for part, spec in zip(parts, outputs, strict=True)])
    elif (g := take(cotangents, index)) is None:
        return
    if len(plan.active) == 1:
        fits = (fits,)
    for slot, ct, spec in zip(inputs_of(record), pull_record(plan, g, residuals), fits or _NO_FITS, strict=False):
        if ct is None:  # a custom rule returned `None`: no derivative
            continue
        accumulate(cotangents, owned, slot, ct if spec is None else fit(ct, spec))


def _pull_write(records: list[Any], index: int, cotangents: list[Any], owned: bytearray, careful: bool) -> None:
    """Pull back through a write: extract the cotangent of the written elements, and pass the rest on in the same buffer.

    A loop that writes one element at a time thus takes time linear in its length. The VJP rule would make an array per write.
    """
    g, record = take(cotangents, index), records[index]
    if g is None:
        return
    plan, _, (path, where, shapes), fits = record
    adds = plan.primitive.adds
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
            piece = view[where] if adds else cotangent_of_written(view, where)
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
    PULL_SEVERAL: _pull_several,
    PULL_WRITE: _pull_write,
    PULL_READ: _pull_read,
    PULL_PRODUCT: _pull_product,
}
"""Pullback functions by `Plan.special`. Arguments: records, index of the record, cotangents, owned, careful."""


def pull_through(recorder: Recorder, slots: Sequence[int | None], gs: Sequence[Any], *, consume: bool) -> list[Any]:
    """Return the cotangents of the inputs of a trace; the monitor of the trace, if any, checks them.

    Args:
        recorder: the trace.
        slots, gs: the slots and the cotangents of the results, as for `seeded`.
        consume: free the records.
    """
    cotangents = seeded(recorder, slots, gs)
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


def observed(
    order: Iterable[int],
    records: Sequence[Any],
    derivatives: list[Any],
    slots_of: Callable[[Any, int], Sequence[int]],
    observers: Sequence[Observer],
) -> Iterator[int]:
    """Yield the indices of records to a pass, and notify the observers.

    Args:
        order: the indices.
        records: the records.
        derivatives: the cotangents or tangents by slot.
        slots_of: returns the slots of the derivatives that the rules of a record take, from the record and its index.
        observers: the observers.
    """
    for index in order:
        record = records[index]
        slots = () if record is None else slots_of(record, index)
        if all(derivatives[slot] is None for slot in slots):
            yield index
            continue
        given = functools.partial(derivatives_at, derivatives, slots)
        for observer in observers:
            observer.before(index, record, given)
        yield index
        for observer in observers:
            observer.after(index, record, derivatives)
    derivatives_at(derivatives, range(len(derivatives)))  # while the observers see the pass


def derivatives_at(derivatives: list[Any], slots: Sequence[int]) -> list[Any]:
    """Return the cotangents or tangents in some slots, after pieces that are not yet added have been added."""
    found = []
    for slot in slots:
        g = derivatives[slot]
        if type(g) is Scattered:
            g = derivatives[slot] = g.total()
        found.append(g)
    return found


# Sums of cotangents


def take(cotangents: list[Any], index: int) -> Any:
    """Remove a cotangent from the list and return it; `None` means zero."""
    g, cotangents[index] = cotangents[index], None
    return g.total() if type(g) is Scattered else g


def accumulate(cotangents: list[Any], owned: bytearray, slot: int, ct: Any, fresh: bool = False) -> None:
    """Add `ct` to the cotangent of a slot, in place if the pass owns the buffer of the slot.

    Args:
        cotangents: the cotangents by slot.
        owned: by slot, 1 if the pass owns the buffer.
        slot: the slot.
        ct: the cotangent to add.
        fresh: `ct` has no other references, so the pass may own it.
    """
    held = cotangents[slot]
    if held is None:
        cotangents[slot] = ct
        owned[slot] = fresh and type(ct) is _ndarray
    elif type(held) is Scattered:
        if owned[slot] and type(ct) is _ndarray:
            held.whole += ct
            return
        held.whole = ct if held.whole is None else held.whole + ct
        owned[slot] = type(held.whole) is _ndarray and held.whole is not ct
    elif owned[slot] and type(ct) is _ndarray:
        held += ct
        cotangents[slot] = held  # `+=` on a Tensor of a tape makes a new Tensor
    else:
        total = held + ct
        cotangents[slot] = total
        owned[slot] = type(total) is _ndarray


def add_piece(cotangents: list[Any], owned: bytearray, slot: int, g: Any, residuals: tuple[Any, ...]) -> None:
    """Add the cotangent of an indexed read to the indexed elements of a slot's cotangent."""
    held = cotangents[slot]
    if owned[slot] and type(held) is Scattered and type(g) in PLAIN:
        add_at(held.whole, residuals[0], g)
        return
    index, shape, dtype = residuals
    if type(held) is RowSum:
        if held.takes(index, g, shape):
            return
        total = held.total()
        held = cotangents[slot] = None if total is None else total.dense()
    if type(held) is not Scattered:
        held = cotangents[slot] = Scattered(shape, dtype, held)
    if isinstance(held.whole, Recorded) and owned[slot]:
        add_at(held.whole, index, g)
        return
    if isinstance(g, Recorded) or isinstance(held.whole, Recorded):
        held.indices.append(index)
        held.pieces.append(g)
        return
    if not owned[slot]:
        if type(held.whole) is _ndarray:
            held.whole = held.whole.copy()
        else:  # `None`, or a scalar, which is immutable
            zeros = np.zeros(shape, dtype) if type(g) in PLAIN else zeros_for(shape, dtype, g)
            if held.whole is not None:
                zeros[...] += held.whole  # `+` of two arrays of shape () would give a scalar
            held.whole = zeros
        owned[slot] = True
    add_at(held.whole, index, g)


class Scattered:
    """A partial cotangent: `whole` (or zero if `None`), plus `pieces` to be added at `indices`.

    Plain pieces are added to `whole` at once. Pieces that are Tensors of an outer trace are collected and recorded as one
    operation, so that second derivatives also take time linear in the number of pieces.
    """

    __slots__ = ("dtype", "indices", "pieces", "shape", "whole")

    def __init__(self, shape: tuple[int, ...], dtype: Any, whole: Any) -> None:
        self.shape = shape
        self.dtype = dtype
        self.whole = whole
        self.indices: list[Any] = []
        self.pieces: list[Any] = []

    def values(self) -> list[Any]:
        """Return `whole` and the pieces."""
        return [self.whole, *self.pieces]

    def total(self) -> Any:
        """Return the full cotangent."""
        if not self.pieces:
            return self.whole
        total = SCATTER(*self.pieces, indices=tuple(self.indices), shape=self.shape, dtype=self.dtype)
        return total if self.whole is None else self.whole + total


class RowSum:
    """The cotangent of a table in a backward pass with `sparse=True`: a sum of rows, if the function reads rows only."""

    __slots__ = ("_parts", "_settled")

    def __init__(self) -> None:
        self._parts: list[tuple[Any, Any, tuple[int, ...]]] = []
        self._settled = 0

    def settle(self) -> None:
        """Keep the pieces found so far, at the end of a pass."""
        self._settled = len(self._parts)

    def forget(self) -> None:
        """Drop the pieces found since the last `settle`, before a pass is repeated."""
        del self._parts[self._settled :]

    def values(self) -> list[Any]:
        """Return the cotangents of the rows."""
        return [piece for _, piece, _ in self._parts]

    def takes(self, index: Any, piece: Any, shape: tuple[int, ...]) -> bool:
        """Add the cotangent of a read at `index` if the index selects rows; return `True` if it does."""
        if type(index) is tuple and len(index) == 1:
            index = index[0]
        if not shape or not (type(index) is int or (type(index) is _ndarray and index.dtype.kind in "iu")):
            return False
        self._parts.append((index, piece, shape))
        return True

    def total(self) -> RowSlices | None:
        """Return the sum as `RowSlices`; `None` if no row was read."""
        from functad.transforms.row_slices import RowSlices  # noqa: PLC0415 - few programs ask for them

        if not self._parts:
            return None
        shape = self._parts[0][2]
        indices = np.concatenate([np.ravel(index).astype(np.intp) % max(shape[0], 1) for index, _, _ in self._parts])
        pieces = [piece.reshape((np.size(index), *shape[1:])) for index, piece, _ in self._parts]
        return RowSlices(indices, np.concatenate(pieces), shape)

    def __add__(self, other: Any) -> Any:
        """Return the sum with a dense cotangent: a new array that the pass owns, or a Tensor."""
        total = self.total()
        if total is not None:
            return total.dense() + other
        return np.copy(other) if type(other) is _ndarray else other


def zero_tangent(value: Any) -> Any:
    """Return a zero tangent or cotangent of a value."""
    shape, dtype = shape_of(value), inexact(value)
    if (inner := foreign_array(value)) is not None:
        return zeros_for(shape, dtype, inner)
    return np.zeros(shape, dtype) if shape else dtype.type(0)


def foreign_array(value: Any) -> Any:
    """Return the innermost value if it is an array of another library, otherwise `None`."""
    if type(value) in PLAIN or type(value) is RowSum:
        return None
    inner = innermost(value)
    if hasattr(type(inner), "__functad_read__"):
        return None
    return None if type(inner) in PLAIN or issubclass(type(inner), (np.ndarray, np.generic, ArraySpec)) else inner


_SHORT = 8  # up to this number of elements, `tolist` and `sum` take half the time of `has_nan`


def has_nan_below(values: Iterable[Any]) -> bool:
    """Return `True` if an innermost value of cotangents or tangents has a NaN.

    An abstract trace has no values. It notes the slots of the derivatives instead, and the compiled code searches for NaN.
    """
    for g in values:
        kind = type(g)
        if kind is _ndarray:
            if g.size <= _SHORT:
                total = sum(g.tolist() if g.ndim == 1 else g.ravel().tolist())
                if total != total:
                    return True
            elif has_nan(g):
                return True
            continue
        if kind is _float64:
            if g != g:
                return True
            continue
        if g is None:
            continue
        if kind is RowSum or kind is Scattered:
            if has_nan_below(g.values()):
                return True
            continue
        value = g
        while isinstance(value, Recorded):
            recorder, slot = value.recorder, value.slot
            value = value.below
            value = getattr(value, "array", value)
            if type(value) is ArraySpec and (noted := getattr(recorder, "derivatives", None)) is not None:
                noted.append(slot)
        if type(value) is _ndarray or issubclass(type(value), np.inexact):
            if has_nan(value):
                return True
        elif type(value) is float and value != value:
            return True
    return False
