"""A recurrent network; there is no scan, so the loop is Python's."""

from __future__ import annotations

from typing import Any

import torch

from .gradients import value_and_grad


def looped(by_input: Any, by_state: Any, bias: Any, out: Any, sequences: Any, targets: Any) -> Any:
    """Mean square of the errors of what is read from the last state."""
    h = torch.zeros((sequences.shape[1], len(bias)))
    for x in sequences:
        h = torch.tanh(x @ by_input + h @ by_state + bias)
    return torch.mean((h @ out - targets) ** 2)


PROGRAMS = {"looped": value_and_grad(looped, (0, 1, 2, 3)), "scanned": value_and_grad(looped, (0, 1, 2, 3))}
