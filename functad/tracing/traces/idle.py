"""Tensors outside all traces: of `functad.constant`, of operations on constants, and of tapes that do not record."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from functad.expressions.spec import PLAIN, is_float_array, is_inexact
from functad.primitives.entry import Primitive
from functad.tracing.ownership import copy_if_shared
from functad.tracing.traces.base import ONLOOKER, Recorded, Recorder, alike, bare, dispatch, resolve


class IdleRecorder(Recorder):
    """The recorder of Tensors outside all traces: they are constants to every trace."""

    inactive = True
    reassigns = True

    def __init__(self) -> None:
        super().__init__("no transform", None)
        self.rank = inf

    def process(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Process a call with constants, as `process_constants`."""
        return process_constants(primitive, arrays, params)

    def operate(self, primitive: Primitive, x: Recorded, other: Any = None, flipped: bool = False) -> Any:
        """Compute an operator of constants, unless a `graph` may record it."""
        value = x.below
        if isinstance(other, Recorded) and other.recorder is self:
            other = other.below
        if ONLOOKER.get() is not None or type(value) not in PLAIN or not (other is None or type(other) in PLAIN):
            return None
        out = primitive.compute(*((value,) if other is None else (other, value) if flipped else (value, other)))
        return idle(type(x), out)

    def resolve(self, tensor: Recorded) -> Any:
        """Return the value of the Tensor."""
        return tensor.below

    def value_outside(self, tensor: Recorded) -> Any:
        """Return the resolved value of the Tensor."""
        return resolve(tensor)

    def keeps(self, tensor: Recorded) -> bool:
        """Return `True`: constants must not be written to."""
        return True


IDLE = IdleRecorder()
"""The recorder of all Tensors outside traces."""


def idle(cls: type[Recorded], value: Any) -> Any:
    """Return a plain value as a Tensor outside all traces; an array becomes read-only and must have no other writer."""
    if type(value) is np.ndarray:
        value.setflags(write=False)
    return bare(cls, IDLE, value, 0)


def process_constants(primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Process a call with Tensors of inactive recorders as constants; the result is a Tensor too."""
    inactive = [a for a in arrays if isinstance(a, Recorded) and a.recorder.inactive]
    onlooker = ONLOOKER.get()
    if onlooker is not None and onlooker(inactive):
        return dispatch(primitive, arrays, params)
    cls = type(inactive[0])
    values = tuple(map(resolve, arrays))
    out = primitive(*values, **params)
    if out is NotImplemented:
        return out
    followed = any(isinstance(value, Recorded) for value in values)
    if followed and not all(map(is_plain, out if primitive.multiple else (out,))):
        return out
    if primitive.kind == "constant" and not (is_inexact(out) if isinstance(out, Recorded) else is_float_array(out)):
        return out  # masks, positions and counts are plain: they have no derivatives
    if not primitive.multiple:
        return idle(cls, out if followed else copy_if_shared(out, arrays))
    return alike(out, [idle(cls, value if followed else copy_if_shared(value, arrays)) for value in out])


def tensor_of(cls: type[Recorded], value: Any) -> Any:
    """Return a plain value, or a Tensor with a plain recorder, as a Tensor outside all traces; other Tensors unchanged."""
    return idle(cls, value) if is_plain(value) else value


def is_plain(value: Any) -> bool:
    """Return `True` if a value is plain or a Tensor with a plain recorder: operations with constants then give constants."""
    return not isinstance(value, Recorded) or value.recorder.plain
