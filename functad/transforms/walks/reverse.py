"""The second walk: pull cotangents back through a list of records, from the last to the first.

Recording order is topological, so the walk is a plain loop: no sort and no recursion, a million operations work.
How cotangents are added up is the business of `functad.transforms.walks.cotangents`.

Sums and products are written out in the loop: with a call of their rules, a chain takes a fifth longer.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from itertools import compress
from operator import is_not
from sys import _getframe
from typing import Any

import numpy as np

from functad.expressions.spec import PLAIN, ArraySpec
from functad.places import place_of, user_frame
from functad.primitives.elementwise.arithmetic import MULTIPLY
from functad.primitives.plan import (
    KEEP_GATHER,
    KEEP_NOTHING,
    KEEP_ONE,
    MAPS,
    PAIRS,
    PASSES,
    PICKS,
    PRODUCTS,
    SCALES,
    SUMS,
    Plan,
)
from functad.primitives.safe import CAREFUL, mended, product, strict
from functad.tracing.allocation import Allocation
from functad.tracing.engines import derivative_of, lacking
from functad.tracing.float_errors import in_silence
from functad.tracing.foreign import overrides
from functad.tracing.traces.base import OPEN, Recorded, Recorder
from functad.transforms.walks.careful_pass import FEW, has_nan_below, walk_again
from functad.transforms.walks.cotangents import Scattered, accumulate, add_piece
from functad.transforms.walks.observed import Observer, observed_back
from functad.transforms.walks.one_record import fit, pull_several, pull_write

_ndarray = np.ndarray
_float64 = np.float64
_LARGE = 1 << 16
_NO_SPECS = _NOTHING = itertools.repeat(None)


def pull_back(
    equations: list[Any],
    cotangents: list[Any],
    inputs: int,
    *,
    consume: bool,
    guard: bool = False,
    observer: Observer | None = None,
) -> list[Any]:
    """Return the cotangents of the inputs; `None` for an input that nothing depends on.

    Args:
        equations: the records of a reverse trace.
        cotangents: by slot, the cotangents of the results, `None` elsewhere; its length may be shorter than the list.
        inputs: the number of inputs, which have the first slots.
        consume: records are dropped as the walk passes, and with them the values that they hold.
        guard: cotangents may be exactly zero for what was not selected; they must not become NaN by a product with an
            infinity. The walk sets it where it passes a selection, such as `np.where` or indexing, and from there on knows
            which slots are `dense`: reached also by a way without selection, on which zeros would be coincidence. To guard
            these as well would take 5 % of the time of a Gaussian mixture.
        observer: sees the records that are passed; they are not to be dropped.
    """
    guard = walk_back(equations, cotangents, inputs, consume=consume, guard=guard, observer=observer)
    found = [g.total() if type(g) is Scattered else g for g in cotangents[:inputs]]
    if guard:
        guard_outer(found)
    return found


def walk_back(
    equations: list[Any],
    cotangents: list[Any],
    inputs: int,
    *,
    consume: bool,
    guard: bool,
    observer: Observer | None = None,
) -> bool:
    """Pull cotangents back as `pull_back` does, and leave those that no record takes where they are.

    Returns:
        Whether they are to be guarded; then the caller is to tell the traces around, by `guard_outer`.
    """
    while inputs < len(cotangents) < len(equations) and equations[len(cotangents) - 1] is None:
        cotangents.append(None)  # the record of several results stands at the last of them
    if Allocation.undecided:
        Allocation.look(equations)
    if cotangents and type(cotangents[-1]) not in PLAIN and (kind := _of_another_library(cotangents)) is not None:
        with lacking(derivative_of, kind):
            return _walk(equations, cotangents, inputs, consume, guard, observer)
    batch = OPEN.get()
    if batch is None or not batch.batches or batch.place is not None:
        return _walk(equations, cotangents, inputs, consume, guard, observer)
    try:
        batch.place = place_of(user_frame(_getframe(1)))
        return _walk(equations, cotangents, inputs, consume, guard, observer)
    finally:
        batch.place = None


def _of_another_library(cotangents: list[Any]) -> type | None:
    """Return the type of the last cotangent if it is an array of another library, such as Dask, that may convert it."""
    value = cotangents[-1]
    if value is None or isinstance(value, Recorded) or not overrides(value):
        return None
    return type(value)


def pull_through(recorder: Recorder, cotangents: list[Any], *, consume: bool, guard: bool) -> list[Any]:
    """Pull back as `pull_back` does, through the records of a trace, looked at on the way if the trace is watched."""
    if recorder.watch is not None:
        found: list[Any] = recorder.watch.pull_back(cotangents, guard=guard)
        return found
    return pull_back(recorder.equations, cotangents, recorder.inputs, consume=consume, guard=guard)


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


def guard_outer(found: list[Any]) -> None:
    """Tell the traces that recorded this walk that there are exact zeros in it, for when it is pulled back itself."""
    for g in found:
        while isinstance(g, Recorded):
            g.recorder.guard = True
            g = g.below
            if isinstance(g, ArraySpec):  # of a Tensor that stands for a batch, the array may be one of a trace around
                g = getattr(g, "array", None)


@in_silence
def _walk(
    equations: list[Any], cotangents: list[Any], inputs: int, consume: bool, guard: bool, observer: Observer | None
) -> bool:
    """Pull back through all records, and a second time if a NaN comes out; return whether a selection was passed.

    The quick pass multiplies zero by infinity, which gives NaN, unless the zero belongs to an element that was not selected.
    The careful pass looks at each product, and needs the records again: `consume` drops them at the end.
    """
    if CAREFUL.get() and not strict():
        return walk_again(equations, cotangents, cotangents[:], inputs, consume, observer)
    given = cotangents[:]
    owned = bytearray(len(cotangents))
    dense = bytearray(len(cotangents)) if guard else owned
    careful = by_array = False  # as long as nothing is guarded
    scattered = False  # some cotangents may be in pieces
    order: Iterable[int] = range(len(cotangents) - 1, inputs - 1, -1)
    if observer is not None:
        order = observed_back(order, equations, cotangents, observer)
    for index in order:
        g = cotangents[index]
        equation = equations[index]
        if g is None or equation is None:
            if equation is None or not equation[0].primitive.multiple:
                continue
            if not guard and equation[0].selects:  # the last of several results, which is not used
                guard = True
                dense = bytearray(map(is_not, cotangents, _NOTHING))
            pull_several(equation, index, g, cotangents, owned)
            continue
        cotangents[index] = None
        if scattered and type(g) is Scattered:
            g = g.total()
        plan, slots, saved, specs = equation
        if guard or plan.selects:
            if not guard:
                guard = True
                dense = bytearray(map(is_not, cotangents, _NOTHING))
            if not dense[index] or plan.selects or plan.primitive.multiple:
                careful = plan.fresh
                by_array = careful and type(g) is not _float64
            else:
                careful = by_array = False
                if type(slots) is int:
                    dense[slots] = 1
                else:
                    for slot in slots:
                        dense[slot] = 1
        step = plan.step
        if step and specs is None and not careful:
            if step < SUMS:
                if step == SCALES:
                    ct = g * saved
                elif step == MAPS:
                    ct = plan.single(g, saved)
                else:
                    ct = g if step == PASSES else plan.single(g, *saved) if step == PICKS else plan.single(g)
            else:
                first, second = slots
                ct = other = g
                if step == PRODUCTS:
                    (y,), (x,) = saved
                    ct = g * y
                    other = ct if first == second else g * x  # a square is added to itself, in its place
                elif step == PAIRS:
                    (rule, other_rule), (read, others) = plan.rules, saved
                    ct, other = rule(g, *read), other_rule(g, *others)
                accumulate(cotangents, owned, first, ct, plan.fresh)
                accumulate(cotangents, owned, second, other, plan.fresh)
                other = None  # frees an array: the records stay, so memory is at its peak in each step
                continue
        elif (single := plan.single) is None:
            if plan.separate:
                for rule, slot, args, spec in zip(plan.rules, slots, saved, specs or _NO_SPECS, strict=False):
                    if spec is not None or by_array:
                        ct = _pull_fitted(plan, rule, g, args, spec, careful)
                    else:
                        ct = rule(g, *args)
                        if careful and (type(ct) is not _float64 or ct != ct):  # a number is looked at here, without a call
                            ct = _pull_fitted(plan, rule, g, args, spec, careful)
                    accumulate(cotangents, owned, slot, ct, plan.fresh)
            elif plan.primitive.writes:
                pull_write(equation, index, g, cotangents, owned)
            elif plan.contracts:
                _pull_product(equation, index, g, cotangents, owned, equations)
            else:
                pull_several(equation, index, g, cotangents, owned)
            continue
        else:
            keep = plan.keep
            if keep == KEEP_GATHER:
                add_piece(cotangents, owned, slots, g, saved)
                scattered = True
                continue
            fitted = True
            if specs is None and not by_array:
                ct = single(g, saved) if keep == KEEP_ONE else single(g) if keep == KEEP_NOTHING else single(g, *saved)
                fitted = careful and (type(ct) is not _float64 or ct != ct)
            if fitted:
                args = (saved,) if keep == KEEP_ONE else () if keep == KEEP_NOTHING else saved
                ct = _pull_fitted(plan, single, g, args, specs, careful)
        accumulate(cotangents, owned, slots, ct, plan.fresh)
    if inputs == 1 and type(g := cotangents[0]) is _ndarray and g.size <= FEW and g.ndim == 1:  # as `has_nan_below` does
        again = (total := sum(g.tolist())) != total
    else:
        again = has_nan_below(cotangents[:inputs] or compress(cotangents, map(is_not, cotangents, _NOTHING)))
    if again and not strict():
        return walk_again(equations, cotangents, given, inputs, consume, observer)
    if consume:
        equations[inputs : len(given)] = [None] * (len(given) - inputs)
    return guard


def _pull_product(equation: Any, index: int, g: Any, cotangents: list[Any], owned: bytearray, equations: list[Any]) -> None:
    """Pull back through a product of two matrices, both of which are wanted.

    Of `A @ (x - m)`, with one `m` for all columns of `x`, the sum of the columns of `A^T g` is wanted: it is taken of `g`,
    before the product. That saves a product of the size of the forward one, a third of the backward time of a mixture.
    """
    plan, slots, saved, specs = equation
    for position, (rule, slot, args, spec) in enumerate(zip(plan.rules, slots, saved, specs or (None, None), strict=True)):
        other, shape = args
        axis = -1 - (position == 0)
        if slot == index - 1 and slots[0] != slots[1] and cotangents[slot] is None and len(shape) > 1 and other.ndim > 1:
            below = equations[slot]
            if below is not None and _sums_over(below, axis):
                args = other, (*shape[:axis], 1, *shape[axis:][1:])
                if spec is not None and spec[0] is not None:
                    spec = args[1], spec[1]
                ct = rule(g.sum(axis, keepdims=True), *args)
                cotangents[slot] = ct if spec is None else fit(ct, spec)
                continue
        ct = rule(g, *args)
        if spec is not None:
            ct = fit(ct, spec)
        accumulate(cotangents, owned, slot, ct)


def _sums_over(equation: Any, axis: int) -> bool:
    """Say whether pulling back through a record is to sum over an axis, and to change signs at most."""
    plan, _, saved, specs = equation
    if specs is None or not plan.elementwise or not (all(args == () for args in saved) if plan.separate else saved is None):
        return False
    for spec in (specs,) if len(plan.active) == 1 else specs:
        if spec is None or spec[0] is None or (len(spec[0]) >= -axis and spec[0][axis] != 1):
            return False
    return True


def pull_alone(record: Any, gs: Sequence[Any], *, guard: bool) -> list[Any]:
    """Return the cotangents that one record gives its inputs, from those of its results.

    Args:
        record: it.
        gs: the cotangents of its results; `None` for zero.
        guard: as for `pull_back`.
    """
    plan, _, saved, specs = record
    m = len(plan.active)
    records = [*[None] * (m + len(gs) - 1), (plan, 0 if m == 1 else tuple(range(m)), saved, specs)]
    return pull_back(records, [*[None] * m, *gs], m, consume=False, guard=guard)


def _pull_fitted(plan: Plan, rule: Any, g: Any, args: tuple[Any, ...], spec: Any, careful: bool) -> Any:
    """Return the cotangent of an input where more is to be done than to run a rule.

    That is where the input was broadcast or cast; then large arrays should have as few temporaries as may be. Or where zeros
    in `g` are guarded: a product then is one in which zeros win, and what other rules poisoned is mended.
    """
    if spec is not None and plan.elementwise and not args:  # the rule is a sign at most, and what was summed is smaller
        return rule(fit(g, spec))
    if not careful:
        ct = rule(g, *args)
    elif plan.primitive is MULTIPLY:
        ct = product(g, args[0])
    else:
        ct = mended(rule(g, *args), g)
    return ct if spec is None else fit(ct, spec)
