"""Whether control flow is given values or specs alone: by that it runs, or becomes an equation of a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functad.expressions.spec import ArraySpec
from functad.tracing.traces.abstract import AbstractRecorder
from functad.tracing.traces.base import OPEN, Recorded
from functad.tracing.traces.batch import lowest


def unknown(value: Any) -> bool:
    """Say whether only shape and dtype of a value are known."""
    return isinstance(value, Recorded) and isinstance(lowest(value), ArraySpec)


def listing(leaves: Sequence[Any]) -> bool:
    """Say whether control flow on these values is to become an equation of an expression list."""
    running = OPEN.get()
    return any(map(unknown, leaves)) or type(running) is AbstractRecorder
