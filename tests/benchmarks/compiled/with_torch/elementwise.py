"""Few operations on few and on many elements."""

from __future__ import annotations

from typing import Any

import torch

from .gradients import value_and_grad


def tanh_exp(a: Any, b: Any, x: Any) -> Any:
    """Sum of a product of two curves."""
    return torch.sum(torch.tanh(a * x + b) * torch.exp(-x * x))


def tiny(x: Any, y: Any) -> Any:
    """Hardly anything, so that the call is what is timed."""
    return x * y + 1.0


PROGRAMS = {"tanh_exp": value_and_grad(tanh_exp, (0, 1, 2)), "tiny": tiny}
