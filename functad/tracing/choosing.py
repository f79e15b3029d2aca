"""`np.where` on Tensors, by a short way if the mask is a plain array and the trace an open reverse one.

That takes 3 us for eight numbers instead of 8.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from functad.primitives.indexing import choose as selection
from functad.primitives.indexing.choose import WHERE
from functad.tracing.constants import held
from functad.tracing.fitting import specs_for
from functad.tracing.traces.base import Recorded

_getframe = sys._getframe
_ndarray = np.ndarray
_PLAIN = frozenset({np.ndarray, np.float64, float, int})


def where(condition: Any, *values: Any) -> Any:
    """`np.where`, with one argument or three."""
    if len(values) == 2 and type(condition) is _ndarray:
        x, y = values
        if isinstance(x, Recorded):
            if type(y) in _PLAIN and x.recorder.eager:
                return _choose(condition, x, x.value, y, (1,), x.slot)
            if isinstance(y, Recorded) and y.recorder is x.recorder and x.recorder.eager:
                return _choose(condition, x, x.value, y.value, (1, 2), (x.slot, y.slot))
        elif isinstance(y, Recorded) and type(x) in _PLAIN and y.recorder.eager:
            return _choose(condition, y, x, y.value, (2,), y.slot)
    return selection.where(condition, *values)


def _choose(condition: Any, one: Recorded, x: Any, y: Any, active: tuple[int, ...], slots: Any) -> Any:
    """Choose between the values `x` and `y`, and record it in the trace of the Tensor `one`."""
    out = np.where(condition, x, y)
    specs = None
    for i in active:
        value = x if i == 1 else y
        if type(value) is not _ndarray or value.shape != out.shape or value.dtype is not out.dtype:
            specs = specs_for(one.recorder.mode, WHERE, (condition, x, y), active, out)
    recorder = one.recorder
    condition = held(condition, recorder)
    equations = recorder.equations
    if recorder.calls is not None and len(active) == 1:
        other = y if active[0] == 1 else x
        recorder.calls[len(equations)] = other.copy() if type(other) is _ndarray else other
    tensor = type(one)()
    tensor.value = out
    tensor.recorder = recorder
    tensor.slot = len(equations)
    frame = _getframe(3)
    tensor.code = frame.f_code
    tensor.instruction = frame.f_lasti
    saved = condition if len(active) == 1 else ((condition,), (condition,))
    equations.append((WHERE.reverse_plans[active], slots, saved, specs))
    return tensor


for _active in ((1,), (2,), (1, 2)):
    WHERE.reverse_plan(_active)
WHERE.front = where
