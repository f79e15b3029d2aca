"""Arguments that are constants: what is computed of these is a constant too, compiled as well as eagerly."""

from __future__ import annotations

from typing import Any

from functad.primitives.operands import read
from functad.tracing.traces.base import Recorded
from functad.transforms.calling.arguments import value_of


def operand_of(leaf: Any) -> Any:
    """Look up the value of an argument of an operation, as `value_of` does; a constant of a compiled function stays one."""
    value = value_of(leaf)
    return read(leaf) if isinstance(value, Recorded) and value.recorder.plain else value
