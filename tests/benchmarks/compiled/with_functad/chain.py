"""A chain of operations on a number or a short vector: Python's loop, which a trace unrolls, and a scan."""

from __future__ import annotations

from typing import Any

import numpy as np

import functad


def looped(x: Any, iterations: int) -> Any:
    """Four operations an iteration."""
    for _ in range(iterations):
        x = np.sin(x) * 0.9 + x * 0.1
    return np.sum(x)


def scanned(x: Any, iterations: int) -> Any:
    """The same steps as a scan."""
    x, _ = functad.scan(lambda x, _: (np.sin(x) * 0.9 + x * 0.1, None), x, length=iterations)
    return np.sum(x)


PROGRAMS = {"looped": functad.value_and_grad(looped), "scanned": functad.value_and_grad(scanned)}
