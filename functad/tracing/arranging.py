"""Reshaping and transposing Tensors, by a short way in an open reverse trace: 3 to 4 us instead of 4 to 6.

`x.T`, `x.reshape(shape)` and `np.squeeze` stand in nearly every line that broadcasts, and cost NumPy 0.2 us each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.primitives.arranging.reshape import RESHAPE, TRANSPOSE
from functad.primitives.entry import Primitive
from functad.primitives.indexing.index_parts import shape_widened
from functad.tracing.operators import SHORT
from functad.tracing.traces.base import REVERSE, Recorded, append_record, record
from functad.tracing.views import note_view, shares

_ndarray = np.ndarray
_RESHAPE, _TRANSPOSE = RESHAPE.reverse_plan((0,)), TRANSPOSE.reverse_plan((0,))


def is_short(x: Recorded) -> bool:
    """Say whether a Tensor can take the short way."""
    recorder = x.recorder
    return recorder.eager and recorder.mode is REVERSE and type(x.value) is _ndarray and recorder.calls is None


def widened(x: Any, index: tuple[Any, ...]) -> Any:
    """Return `x[index]` if the index only adds axes, so that all is read; `None` if it does otherwise."""
    if index == () == x.shape:
        return None  # a number, and no view
    shape = shape_widened(x.shape, index)
    return None if shape is None else record(RESHAPE, (x,), {"shape": shape})


def reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    """Return a Tensor in another shape, whose lengths are all known."""
    if is_short(x):
        value = x.value
        out = value.reshape(shape)
        equation = (_RESHAPE, x.slot, value.shape, None)
        if not shares(out, value):
            return append_record(type(x), x.recorder, out, equation)
        return _view(x, RESHAPE, out, equation, {"shape": shape})
    return record(RESHAPE, (x,), {"shape": shape})


def transposed(x: Any, axes: tuple[int, ...]) -> Any:
    """Return a Tensor with its axes in another order."""
    if is_short(x):
        return _view(x, TRANSPOSE, x.value.transpose(axes), (_TRANSPOSE, x.slot, axes, None), {"axes": axes})
    return record(TRANSPOSE, (x,), {"axes": axes})


def _squeezed(x: Recorded, axis: Any = None, *rest: Any, **others: Any) -> Any:
    if rest or others or not is_short(x):
        return NotImplemented
    value = x.value
    out = value.squeeze(axis)
    if out.ndim == value.ndim:
        return x
    return _view(x, RESHAPE, out, (_RESHAPE, x.slot, value.shape, None), {"shape": out.shape})


SHORT[np.squeeze] = _squeezed


def _view(x: Recorded, primitive: Primitive, out: Any, equation: Any, params: dict[str, Any]) -> Any:
    """Record a view that NumPy has made."""
    tensor = append_record(type(x), x.recorder, out, equation)
    note_view(x, tensor, primitive, params)
    return tensor
