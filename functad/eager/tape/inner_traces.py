"""Tensors of functions that run under a transform which began after a tape did: what the tape can know of them."""

from __future__ import annotations

from typing import Any

from functad.errors import SourceError
from functad.places import here, name_of
from functad.tracing.traces.base import Recorded, Recorder, resolve


def refuse_within(value: Any, recorder: Recorder, call: str) -> None:
    """Refuse a Tensor of a function under a transform that began after a tape did, which sees what the transform does.

    Raises:
        SourceError: it is one.
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
    """Say whether a Tensor has a value at the level of a recorder: not if it is one of a newer trace that knows no values."""
    value: Any = resolve(tensor)
    while isinstance(value, Recorded) and value.recorder.serial > recorder.serial:
        if not value.recorder.has_values:
            return False
        value = resolve(value.below)
    return True


def refuse_outside(value: Any, recorder: Recorder) -> None:
    """Refuse a Tensor of a transform that a `graph` does not follow: what depends on it is not in the list.

    Raises:
        SourceError: it is one.
    """
    value = resolve(value)
    if isinstance(value, Recorded) and not value.recorder.reassigns:
        refuse_within(value, recorder, "gradients()")
        outer = value.recorder
        raise SourceError(
            f"gradients() by a Tensor of {outer.transform} of {name_of(outer.function)}, at {here()}, which began before the "
            f"graph. Make it a source, x = functad.constant(x), in the graph and before it is used."
        )
