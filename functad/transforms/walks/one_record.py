"""How cotangents pass one record: run its rules, and bring the results to the shapes and dtypes of its inputs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from functad.expressions.records import inputs_of
from functad.expressions.spec import PYTHON_SCALARS, dtype_of, shape_of
from functad.primitives.arranging.broadcast import unbroadcast
from functad.primitives.indexing.write import ADD_TO, as_cotangent, part, put, written
from functad.primitives.operands import absent
from functad.primitives.plan import KEEP_NOTHING, KEEP_ONE, Plan
from functad.tracing.traces.base import OPEN, Recorded, resolve
from functad.transforms.walks.cotangents import Scattered, accumulate

_ndarray = np.ndarray
_NO_SPECS = itertools.repeat(None)


def pull_several(equation: Any, index: int, g: Any, cotangents: list[Any], owned: bytearray) -> None:
    """Pull back through a record with a joint rule or several results."""
    plan, _, saved, specs = equation
    if plan.primitive.multiple:
        specs, outputs = specs
        first = index + 1 - len(outputs)
        parts = [*cotangents[first:index], g]
        cotangents[first : index + 1] = [None] * len(outputs)
        if all(part is None for part in parts):
            return
        g = tuple([_total(part, shape, dtype) for part, (shape, dtype) in zip(parts, outputs, strict=True)])
    if len(plan.active) == 1:
        specs = (specs,)
    for slot, ct, spec in zip(inputs_of(equation), pull_record(plan, g, saved), specs or _NO_SPECS, strict=False):
        if ct is None:  # a rule of the user's says that there is no path
            continue
        if spec is not None:
            ct = fit(ct, spec)
        accumulate(cotangents, owned, slot, ct)


def pull_write(equation: Any, index: int, g: Any, cotangents: list[Any], owned: bytearray) -> None:
    """Pull back through a write: take out what belongs to the elements written, and hand the rest on in the same buffer.

    So a loop that writes one element at a time costs time linear in its length, where the rule makes an array for each.
    """
    plan, _, (path, where, shapes), specs = equation
    adds = plan.primitive is ADD_TO
    number = shape_of(g) == ()
    known = resolve(g)  # a seed may be a constant Tensor, into which nothing can be written
    buffer = known if number or (known is g and owned[index]) else known.copy()
    view = buffer if number else part(buffer, path)
    copied = path and not isinstance(buffer, Recorded) and not np.may_share_memory(view, buffer)
    if number or copied:  # the layout of this buffer has no such view
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
    targets = inputs_of(equation)
    for position, slot, spec in zip(
        plan.active, targets, (specs,) if len(targets) == 1 else specs or (None, None), strict=True
    ):
        ct = buffer if position == 0 else piece if spec is None else fit(piece, spec)
        first = cotangents[slot] is None
        accumulate(cotangents, owned, slot, ct, fresh=True)
        if first and position == 0 and not number and isinstance(ct, Recorded):
            owned[slot] = True  # a Tensor in which the walk may go on writing


def pull_record(plan: Plan, g: Any, saved: Any) -> list[Any]:
    """Return the cotangents of the differentiated inputs of one record, not yet fitted to these."""
    if plan.joint:
        around = OPEN.get()
        if around is None or around.place is None:
            found = plan.rules[0](g, *saved)
        else:  # the rule may be the user's, with lines of its own
            place, around.place = around.place, None
            try:
                found = plan.rules[0](g, *saved)
            finally:
                around.place = place
        return [found[i] for i in plan.active]
    if plan.single is None:
        return [rule(g, *args) for rule, args in zip(plan.rules, saved, strict=False)]
    if plan.keep == KEEP_ONE:
        return [plan.single(g, saved)]
    return [plan.single(g) if plan.keep == KEEP_NOTHING else plan.single(g, *saved)]


def _total(part: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    if part is None:
        return absent(shape, dtype)
    return part.total() if type(part) is Scattered else part


def fit(ct: Any, spec: tuple[tuple[int, ...] | None, Any]) -> Any:
    """Bring a cotangent to the shape and dtype of its input: sum over broadcast axes, cast, drop what is imaginary."""
    shape, dtype = spec
    if shape is not None and (ct.shape if type(ct) is _ndarray else shape_of(ct)) != shape:
        ct = unbroadcast(ct, shape)
    own = ct.dtype if type(ct) is _ndarray else dtype_of(ct)
    if own is not dtype and own != dtype:
        if own.kind == "c" and dtype.kind != "c":
            ct = ct.real
        ct = dtype.type(ct) if type(ct) in PYTHON_SCALARS else ct.astype(dtype)
    return ct
