"""A chain of operations on a number or a short vector."""

from __future__ import annotations

from typing import Any

from tests.benchmarks.handwritten_programs import chain


def gradient(x: Any, iterations: int) -> Any:
    """Forward keeping every `x`, then the factors backwards."""
    value, (slope,) = chain(x, iterations)
    return value, slope


PROGRAMS = {"looped": gradient, "scanned": gradient}
