from __future__ import annotations
from typing import Any
import numpy as np
from functad.primitives.kinds import linear
def _sum(a: Any, *, axis: Any, keepdims: bool) -> Any:
    return np.add.reduce(a, axis=axis, keepdims=keepdims)
def _sum_vjp(g: Any, a_shape: tuple[int, ...], axis: Any, keepdims: bool) -> Any:
    if axis is not None and not keepdims:
        g = np.expand_dims(g, axis)
    return np.broadcast_to(g, a_shape)
SUM = linear(np.sum, _sum_vjp, compute=_sum, doc="sum", samples=None)
def _front(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=True):
    return SUM(a, axis=axis, keepdims=keepdims)
SUM.front=_front
