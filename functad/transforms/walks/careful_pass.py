"""The careful backward pass: it runs if a NaN came out of the quick one (see `functad.transforms.walks.zero_wins`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec
from functad.primitives.plan import KEEP_GATHER, KEEP_NOTHING, KEEP_ONE
from functad.primitives.safe import CAREFUL, has_nan
from functad.settings import setting
from functad.tracing.traces.base import Recorded
from functad.transforms.walks.cotangents import RowSum, Scattered, accumulate, add_piece
from functad.transforms.walks.observed import Observer, observed_back
from functad.transforms.walks.one_record import fit, pull_several, pull_write
from functad.transforms.walks.zero_wins import apply_carefully

_ndarray = np.ndarray
_float64 = np.float64
FEW = 8  # elements up to which a list takes half the time of a product
_NO_SPECS = itertools.repeat(None)


def has_nan_below(values: Iterable[Any]) -> bool:
    """Return `True` if a NaN is among cotangents or tangents, below all traces.

    A trace without values takes note of its derivatives instead, so that compiled code looks for the NaN.
    """
    for g in values:
        kind = type(g)
        if kind is _ndarray:
            if g.size <= FEW:
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


def walk_again(
    equations: list[Any], cotangents: list[Any], given: list[Any], inputs: int, consume: bool, observer: Observer | None
) -> bool:
    """Run the careful pass from the given cotangents; return `True`: its cotangents may be exactly zero."""
    cotangents[:] = given
    for g in given:
        if type(g) is RowSum:
            g.forget()
    with setting(CAREFUL, True):
        pull_carefully(equations, cotangents, inputs, observer)
    if consume:
        equations[inputs : len(given)] = [None] * (len(given) - inputs)
    return True


def pull_carefully(equations: list[Any], cotangents: list[Any], inputs: int, observer: Observer | None) -> None:
    """Pull back through all records; an exact zero wins over infinity and NaN in each rule."""
    owned = bytearray(len(cotangents))
    order: Iterable[int] = range(len(cotangents) - 1, inputs - 1, -1)
    if observer is not None:
        order = observed_back(order, equations, cotangents, observer)
    for index in order:
        equation = equations[index]
        if equation is None:
            continue
        plan, slots, saved, specs = equation
        g = cotangents[index]
        if plan.primitive.multiple:
            pull_several(equation, index, g, cotangents, owned)
            continue
        if g is None:
            continue
        cotangents[index] = None
        if type(g) is Scattered:
            g = g.total()
        if plan.primitive.writes:
            pull_write(equation, index, g, cotangents, owned)
        elif plan.keep == KEEP_GATHER:
            add_piece(cotangents, owned, slots, g, saved)
        elif plan.joint:
            pull_several(equation, index, g, cotangents, owned)
        else:
            if plan.single is not None:
                slots, specs = (slots,), (specs,)
                saved = ((saved,),) if plan.keep == KEEP_ONE else ((),) if plan.keep == KEEP_NOTHING else (saved,)
            every = zip(plan.rules, slots, saved, specs or _NO_SPECS, plan.active, strict=False)
            for rule, slot, args, spec, position in every:
                ct = apply_carefully(plan, rule, g, args, position)
                accumulate(cotangents, owned, slot, ct if spec is None else fit(ct, spec))
