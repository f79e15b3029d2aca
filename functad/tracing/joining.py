"""The fast path of `np.concatenate` and `np.stack` in an open reverse trace: a third of the time of `record`.

A function that returns a vector often ends in `np.stack`, and a loop over it spends half of its time there. Without the fast
path, the steps of the Lorenz system in the benchmarks take 1.2 to 1.3 times as long.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.primitives.arranging.join import CONCATENATE, STACK
from functad.primitives.entry import Primitive
from functad.tracing.operators import SHORT
from functad.tracing.traces.base import Recorded, user_place

_ndarray = np.ndarray
_float64 = np.float64
_FLOAT64 = np.dtype(np.float64)


def _enter(primitive: Primitive, *, adds: int) -> None:
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
                    recorder = a.recorder
                    if not recorder.eager or not recorder.pulls:
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
        return recorder.append((plan, place, plan.save(values, out, params), None), out, *user_place())

    SHORT[primitive.function] = short


_enter(CONCATENATE, adds=0)
_enter(STACK, adds=1)
