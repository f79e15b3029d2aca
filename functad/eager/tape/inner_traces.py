"""Tensors of transforms that started after a tape: the tape does not see the operations inside the transform."""

from __future__ import annotations

from typing import Any

from functad.errors import SourceError
from functad.places import here, name_of
from functad.tracing.traces.base import Recorded, Recorder, resolve


def refuse_within(value: Any, recorder: Recorder, call: str) -> None:
    """Refuse a Tensor of a transform that started after a tape.

    The tape records the operations of the transform, not the operations of its function.

    Raises:
        SourceError: `value` is such a Tensor.
    """
    value = resolve(value)
    while isinstance(value, Recorded) and value.recorder.serial > recorder.serial:
        inner = value.recorder
        if not (inner.closed or inner.reassigns):
            raise SourceError(
                f"{call} of a Tensor of {inner.transform} of {name_of(inner.function)}, at {here()}: the function runs inside "
                f"{recorder.transform}, which sees what {inner.transform} gives and not what the function does. Open a tape or "
                f"graph within the function for that."
            )
        value = resolve(value.below)


def has_value(tensor: Recorded, recorder: Recorder) -> bool:
    """Return `True` if the value of a Tensor at the level of a recorder is known; newer abstract and batch traces hide it."""
    value: Any = resolve(tensor)
    while isinstance(value, Recorded) and value.recorder.serial > recorder.serial:
        if not value.recorder.has_values:
            return False
        value = resolve(value.below)
    return True
