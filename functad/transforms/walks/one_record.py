"""The backward pass through one record: apply its VJP rules and fit the cotangents to the inputs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from functad.expressions.records import inputs_of
from functad.expressions.spec import PYTHON_SCALARS, dtype_of, shape_of
from functad.primitives.arranging.broadcast import unbroadcast
from functad.primitives.indexing.write import ADD_TO, as_cotangent, part, put, written
from functad.primitives.operands import absent
from functad.primitives.plan import Plan
from functad.tracing.traces.base import OPEN, Recorded, resolve
from functad.tracing.traces.batch import BatchRecorder
from functad.transforms.walks.cotangents import Scattered, accumulate, take

_ndarray = np.ndarray
_NO_FITS = itertools.repeat(None)


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


def pull_write(records: list[Any], index: int, cotangents: list[Any], owned: bytearray, careful: bool) -> None:
    """Pull back through a write: extract the cotangent of the written elements, and pass the rest on in the same buffer.

    A loop that writes one element at a time thus takes time linear in its length. The VJP rule would make an array per write.
    """
    g, record = take(cotangents, index), records[index]
    if g is None:
        return
    plan, _, (path, where, shapes), specs = record
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
    for position, slot, spec in zip(
        plan.active, targets, (specs,) if len(targets) == 1 else specs or (None, None), strict=True
    ):
        ct = buffer if position == 0 else piece if spec is None else fit(piece, spec)
        first = cotangents[slot] is None
        accumulate(cotangents, owned, slot, ct, fresh=True)
        if first and position == 0 and not number and isinstance(ct, Recorded):
            owned[slot] = True  # the pass may write to this Tensor


def pull_record(plan: Plan, g: Any, saved: Any) -> list[Any]:
    """Return the cotangents of the active inputs of one record, before `fit`."""
    if plan.joint:
        around = OPEN.get()
        if not isinstance(around, BatchRecorder) or around.place is None:
            found = plan.rules[0](g, *plan.arguments(saved)[0])
        else:  # a custom rule may have its own lines of user code
            place, around.place = around.place, None
            try:
                found = plan.rules[0](g, *plan.arguments(saved)[0])
            finally:
                around.place = place
        return [found[i] for i in plan.active]
    return [rule(g, *args) for rule, args in zip(plan.rules, plan.arguments(saved), strict=True)]


def _total(part: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    if part is None:
        return absent(shape, dtype)
    return part.total() if type(part) is Scattered else part


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
