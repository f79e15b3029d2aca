"""Indexing and iteration of Tensors: `t[i]`, `for v in t` and `x, y = t`, with a fast path in an open concrete trace.

Python code often loops over the elements of an array. The fast path skips NumPy's dispatch and `dispatch`: 1 us instead of 3 us
per element.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType
from typing import Any

import numpy as np

from functad.primitives.arranging.reshape import RESHAPE
from functad.primitives.indexing.index_parts import (
    OTHER,
    PART,
    WIDENS,
    holds_tensors,
    plain_index,
    shape_widened,
    way_of_reading,
)
from functad.primitives.indexing.read import GATHER, GETITEM, taken_apart
from functad.tracing.engines import check_shape
from functad.tracing.layouts import note_view_at
from functad.tracing.ownership import hold, map_arrays
from functad.tracing.traces.base import dispatch as recorded
from functad.tracing.views import note_view, shares

_getframe = sys._getframe
_float64 = np.float64
_ndarray = np.ndarray
_PLAN = GETITEM.reverse_plan((0,))
_RESHAPE = RESHAPE.reverse_plan((0,))


def _widened(x: Any, index: tuple[Any, ...]) -> Any:
    """Return `x[index]` if the index only adds axes; otherwise `None`."""
    if index == () == x.shape:
        return None  # the result is a scalar, not a view
    shape = shape_widened(x.shape, index)
    return None if shape is None else recorded(RESHAPE, (x,), {"shape": shape})


class Reading:
    """Indexing and iteration."""

    __slots__ = ()

    def __getitem__(self: Any, index: Any) -> Any:
        way = PART
        if type(index) is not int:
            way = way_of_reading(index)
            if way is OTHER:
                index = plain_index(index)
                wider = _widened(self, (None,) if index is None else index) if type(index) is tuple or index is None else None
                if wider is not None:
                    return wider
                if type(index) is not slice and holds_tensors(index):
                    template, arrays = taken_apart(index)
                    out = GATHER(self, *arrays, template=template)
                    note_view_at(self, out, template, arrays)
                    return out
            elif way is WIDENS:
                wider = _widened(self, index)
                if wider is not None:
                    return wider
        recorder = self.recorder
        if not recorder.fast:
            return GETITEM(self, index=index)
        value = self.below
        out = value[index]
        frame = _getframe(1)
        if way is WIDENS and type(out) is _ndarray:
            # Recorded as a reshape: its VJP rule does not scatter, and it does not count as a selection.
            tensor = recorder.append((_RESHAPE, self.slot, value.shape, None), out, frame.f_code, frame.f_lasti, type(self))
            note_view(self, tensor, RESHAPE, {"shape": out.shape})
            return tensor
        is_view = type(out) is not _float64 and shares(out, value)
        kept = index
        if type(out) is not _float64 and not is_view:  # the user may later overwrite a mask or an array of integers
            if type(out) is not _ndarray:
                check_shape(out)
            kept = hold(index, recorder) if type(index) is _ndarray else map_arrays(lambda a: hold(a, recorder), index)
        record = (_PLAN, self.slot, (kept, value.shape, value.dtype), None)
        tensor = recorder.append(record, out, frame.f_code, frame.f_lasti, type(self))
        if is_view:
            note_view(self, tensor, GETITEM, {"index": index})
        return tensor

    def __iter__(self: Any) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a Tensor of shape ()")
        frame = _getframe(1)
        return _elements(self, frame.f_code, frame.f_lasti)


def _elements(t: Any, code: CodeType, instruction: int) -> Iterator[Any]:
    """Yield `t[0], t[1], ...`, recorded at the given line."""
    shape, dtype = t.shape, t.dtype
    for i in range(shape[0]):
        recorder = t.recorder
        if not recorder.fast:
            yield GETITEM(t, index=i)
            continue
        value = t.below
        out = value[i]
        tensor = recorder.append((_PLAN, t.slot, (i, shape, dtype), None), out, code, instruction, type(t))
        if type(out) is not _float64 and shares(out, value):
            note_view(t, tensor, GETITEM, {"index": i})
        yield tensor
