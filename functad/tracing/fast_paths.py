"""Fast paths of functions that are no ufuncs, in an open trace with values.

`np.sum`, `np.mean`, `np.max` and `np.min` take half of the time of `dispatch`. Loss functions end in one of these reductions,
and a normalization along an axis begins with two.

`np.concatenate` and `np.stack` take a third of the time of `dispatch`, in reverse traces. A function that returns a vector
often ends in `np.stack`, and a loop over it spends half of its time there. Without the fast path, the steps of the Lorenz
system in the benchmarks take 1.2 to 1.3 times as long.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from functad.places import user_place
from functad.primitives.arranging.join import CONCATENATE, STACK
from functad.primitives.entry import Primitive, names_read
from functad.primitives.reductions.extremes import MAX, MIN
from functad.primitives.reductions.sums import MEAN, SUM
from functad.tracing.operators import SHORT
from functad.tracing.traces.base import Recorded

_getframe = sys._getframe
_ndarray = np.ndarray
_float64 = np.float64
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def _enter_reduction(primitive: Primitive, function: Any) -> None:
    """Register the fast path of a reduction under a function of NumPy."""
    compute, plan = primitive.compute, primitive.reverse_plan((0,))
    reads = names_read(plan.rules[0])
    reads_shape = reads == ["a_layout", "axis", "keepdims"]
    assert plan.pushes is not None
    assert reads_shape or reads == ["a", "out", "axis", "keepdims"]

    def short(x: Any, axis: Any = None, *rest: Any, keepdims: Any = False, **others: Any) -> Any:
        if rest or others or (keepdims is not False and keepdims is not True):
            return NotImplemented
        recorder, value = x.recorder, x.below
        if not recorder.fast or type(value) is not _ndarray:
            return NotImplemented
        if value.dtype is not _FLOAT64 and value.dtype is not _FLOAT32:
            return NotImplemented
        axes = None
        if axis is not None:
            ndim = value.ndim
            if type(axis) is not int or not -ndim <= axis < ndim:
                return NotImplemented
            axes = None if ndim == 1 else (axis % ndim,)
        out = compute(value, axis=axes, keepdims=keepdims)
        residuals = (value.shape, axes, keepdims) if reads_shape else (value, out, axes, keepdims)
        frame = _getframe(2)
        return recorder.append((plan, x.slot, residuals, None), out, frame.f_code, frame.f_lasti, type(x))

    SHORT[function] = short


_enter_reduction(SUM, np.sum)
_enter_reduction(MEAN, np.mean)
for _extreme, _names in ((MAX, (np.max, np.amax)), (MIN, (np.min, np.amin))):
    for _name in _names:
        _enter_reduction(_extreme, _name)


def _enter_join(primitive: Primitive, *, adds: int) -> None:
    """Register the fast path of a primitive; its result has `adds` more axes than its arguments."""
    compute = primitive.compute

    def short(arrays: Any, axis: Any = 0, *rest: Any, **others: Any) -> Any:
        if rest or others or type(axis) is not int or (type(arrays) is not list and type(arrays) is not tuple):
            return NotImplemented
        values, active, slots, recorder = [], [], [], None
        for i, a in enumerate(arrays):
            value = a
            if isinstance(a, Recorded):
                if recorder is None:
                    recorder, cls = a.recorder, type(a)
                    if not recorder.fast or not recorder.pulls:
                        return NotImplemented
                elif a.recorder is not recorder:
                    return NotImplemented
                active.append(i)
                slots.append(a.slot)
                value = a.below
            if type(value) is not _float64 and (type(value) is not _ndarray or value.dtype is not _FLOAT64):
                return NotImplemented
            values.append(value)
        ndim = values[0].ndim + adds
        if recorder is None or not -ndim <= axis < ndim:
            return NotImplemented
        params = {"axis": axis % ndim}
        out = compute(*values, **params)
        plan = primitive.reverse_plan(tuple(active))
        place = slots[0] if len(slots) == 1 else tuple(slots)
        return recorder.append((plan, place, plan.save(values, out, params), None), out, *user_place(), cls)

    SHORT[primitive.function] = short


_enter_join(CONCATENATE, adds=0)
_enter_join(STACK, adds=1)
