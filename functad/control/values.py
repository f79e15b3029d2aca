"""What control flow asks of the values that it is given: whether they are known, and what they are below all traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functad.expressions.spec import ArraySpec
from functad.primitives.operands import innermost
from functad.tracing.traces.base import ABSTRACT, OPEN, Recorded, Recorder
from functad.tracing.traces.batch import Batched


def below(value: Any) -> Any:
    """Return what a value is below all traces: an array, that of all examples if it is batched, or a spec if none is known."""
    value = innermost(value)
    while isinstance(value, Batched):
        value = innermost(value.array)
    return value


def unknown(value: Any) -> bool:
    """Say whether only shape and dtype of a value are known."""
    return isinstance(value, Recorded) and isinstance(below(value), ArraySpec)


def listing(leaves: Sequence[Any]) -> bool:
    """Say whether control flow on these values is to become an equation of an expression list."""
    running = OPEN.get()
    return any(map(unknown, leaves)) or (type(running) is Recorder and running.mode is ABSTRACT)
