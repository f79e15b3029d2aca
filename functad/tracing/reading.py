"""Reading the elements of a Tensor: `t[i]`, `for v in t` and `x, y = t`, by a short way in an open reverse trace.

Loops over the elements of an array are where Python code spends its operations, so reading one takes neither NumPy's dispatch
nor `record`: 1 us instead of 3.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType
from typing import Any

from functad.primitives.indexing import GETITEM, gather
from functad.primitives.indices import holds_tensors, plain_index, widened
from functad.primitives.shaping import RESHAPE
from functad.tracing.recorder import Recorded

_getframe = sys._getframe
_PLAN = GETITEM.reverse_plan((0,))


class Reading:
    """Indexing and iteration."""

    __slots__ = ()

    def __getitem__(self: Any, index: Any) -> Any:
        if type(index) is not int:
            index = plain_index(index)
            if type(index) is tuple or index is None:
                shape = widened(self.shape, (None,) if index is None else index)
                if shape is not None:  # a reshape neither scatters its cotangent nor counts as a selection
                    return RESHAPE(self, shape=shape)
            if type(index) is not slice and holds_tensors(index):
                return gather(self, index)
        recorder = self.recorder
        if not recorder.eager:
            return GETITEM(self, index=index)
        value = self.value
        tensor = type(self)()
        tensor.value = value[index]
        tensor.recorder = recorder
        equations = recorder.equations
        tensor.slot = len(equations)
        frame = _getframe(1)
        tensor.code = frame.f_code
        tensor.instruction = frame.f_lasti
        equations.append((_PLAN, self.slot, (index, value.shape, value.dtype), None))
        return tensor

    def __iter__(self: Any) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a Tensor of shape ()")
        frame = _getframe(1)
        return _elements(self, frame.f_code, frame.f_lasti)


def _elements(t: Any, code: CodeType, instruction: int) -> Iterator[Any]:
    """Read the elements of a Tensor one after the other, as `t[0], t[1], ...` would on the given line."""
    cls, recorder, slot, value = type(t), t.recorder, t.slot, t.value
    equations = recorder.equations
    shape, dtype = t.shape, t.dtype
    for i in range(shape[0]):
        if not recorder.eager:
            yield GETITEM(t, index=i)
            continue
        tensor: Recorded = cls()
        tensor.value = value[i]
        tensor.recorder = recorder
        tensor.slot = len(equations)
        tensor.code = code
        tensor.instruction = instruction
        equations.append((_PLAN, slot, (i, shape, dtype), None))
        yield tensor
