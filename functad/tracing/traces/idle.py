"""Tensors that no trace follows: of `functad.constant`, of what is computed from them, and of tapes that do not record."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from functad.expressions.spec import is_float_array, is_inexact
from functad.primitives.entry import Primitive
from functad.tracing.constants import apart_from
from functad.tracing.traces.base import ONLOOKER, Recorded, Recorder, alike, bare, record, resolve


class IdleRecorder(Recorder):
    """What Tensors in no trace belong to: they are constants to every trace."""

    inactive = True
    reassigns = True

    def __init__(self) -> None:
        super().__init__("no transform", None)
        self.rank = inf

    def process(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Let constants take part in a call, as `process_constants`."""
        return process_constants(primitive, arrays, params)

    def resolve(self, tensor: Recorded) -> Any:
        """Return the value."""
        return tensor.below

    def value_outside(self, tensor: Recorded) -> Any:
        """Return the value."""
        return resolve(tensor)

    def keeps(self, tensor: Recorded) -> bool:
        """Say that a Tensor stays what it is."""
        return True


IDLE = IdleRecorder()
"""The recorder of all Tensors that are in no trace."""


def idle(cls: type[Recorded], value: Any) -> Any:
    """Return a plain value as a Tensor that is in no trace; an array must be one that nobody else writes into."""
    if type(value) is np.ndarray:
        value.setflags(write=False)
    return bare(cls, IDLE, value, 0)


def process_constants(primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Process a call that Tensors which no trace follows take part in, as constants; the result is a Tensor all the same."""
    inactive = [a for a in arrays if isinstance(a, Recorded) and a.recorder.inactive]
    onlooker = ONLOOKER.get()
    if onlooker is not None and onlooker(inactive):
        return record(primitive, arrays, params)
    cls = type(inactive[0])
    values = tuple(map(resolve, arrays))
    out = primitive(*values, **params)
    if out is NotImplemented:
        return out
    followed = any(isinstance(value, Recorded) for value in values)
    if followed and not all(map(is_plain, out if primitive.multiple else (out,))):
        return out
    if primitive.kind == "constant" and not (is_inexact(out) if isinstance(out, Recorded) else is_float_array(out)):
        return out  # masks, positions and counts are plain: nothing can be differentiated by them
    if not primitive.multiple:
        return idle(cls, out if followed else apart_from(arrays, out))
    return alike(out, [idle(cls, value if followed else apart_from(arrays, value)) for value in out])


def tensor_of(cls: type[Recorded], value: Any) -> Any:
    """Return a plain value, or what stands for one, as a Tensor that is in no trace; other Tensors as they are."""
    return idle(cls, value) if is_plain(value) else value


def is_plain(value: Any) -> bool:
    """Say whether a value is plain, or a Tensor that stands for a plain one: what constants give then is a constant."""
    return not isinstance(value, Recorded) or value.recorder.plain
