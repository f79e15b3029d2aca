"""Checks of a value that is assigned to a Variable: its traces, its dtype and its plain value."""

from __future__ import annotations

from typing import Any
from weakref import ref

import numpy as np

from functad.errors import AbstractValueError
from functad.expressions.spec import ArraySpec
from functad.places import here, name_of
from functad.tracing.traces.base import Recorded, resolve
from functad.tracing.traces.batch import Batched
from functad.tracing.traces.concrete import ConcreteRecorder


def note_assigned(value: Any, method: str) -> None:
    """Tell the recorders of a Tensor that its value is assigned to a Variable."""
    while isinstance(value, Recorded):
        value.recorder.assigned(value, method)
        value = value.below


def followers(value: Any) -> Any:
    """Return weak references to the open traces that follow a value, and the user's line; `None` without such traces."""
    found = []
    while isinstance(value, Recorded):
        recorder = value.recorder
        follows = isinstance(recorder, ConcreteRecorder) or not recorder.has_values
        if follows and not (recorder.closed or recorder.inactive):
            found.append(ref(recorder))
        value = value.below
    return (found, here()) if found else None


def check_cast(dtype: np.dtype[Any], variable: Any, call: str) -> None:
    """Refuse floats for a Variable of integers, and complex numbers for a real Variable.

    Raises:
        TypeError: the dtype cannot be cast to the dtype of the Variable.
    """
    if not np.can_cast(dtype, variable.dtype, "same_kind"):
        raise TypeError(
            f"{call} of {variable.dtype}, at {here()}, of a value of {dtype}, would lose information. "
            f"Cast it first: value.astype(v.dtype)."
        )


def plain_of(value: Any, call: str) -> Any:
    """Return the plain value of a value that is assigned.

    Raises:
        AbstractValueError: the value is a Tensor of a batch or of an abstract trace.
    """
    value = resolve(value)
    while isinstance(value, Recorded):
        recorder, value = value.recorder, value.current()  # type: ignore[attr-defined]
        if isinstance(value, Batched):
            raise AbstractValueError(
                f"{call}, at {here()}, of a value that stands for all examples in {recorder.transform} of "
                f"{name_of(recorder.function)}: a Variable holds one. Return the value from the function, and assign what "
                f"comes back: v.assign(np.mean(out, axis=0)). For a Variable of each example's own, use functional_call."
            )
        if isinstance(value, ArraySpec):
            raise AbstractValueError(
                f"{call}, at {here()}, of a value of which only {value} is known: an abstract trace has no values. Return the "
                f"value from the function, and assign what comes back."
            )
    return value
