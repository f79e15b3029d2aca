"""A chain of operations on a number or a short vector: there is no scan, so the loop is Python's."""

from __future__ import annotations

from typing import Any

import torch

from .gradients import value_and_grad


def looped(x: Any, iterations: int) -> Any:
    """Four operations an iteration."""
    for _ in range(iterations):
        x = torch.sin(x) * 0.9 + x * 0.1
    return torch.sum(x)


PROGRAMS = {"looped": value_and_grad(looped), "scanned": value_and_grad(looped)}
