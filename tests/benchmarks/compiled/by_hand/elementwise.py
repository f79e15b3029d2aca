"""Few operations on few and on many elements."""

from __future__ import annotations

from typing import Any

from tests.benchmarks.handwritten_programs import tanh_exp


def tiny(x: Any, y: Any) -> Any:
    """Hardly anything."""
    return x * y + 1.0


PROGRAMS = {"tanh_exp": tanh_exp, "tiny": tiny}
