"""A recurrent network, by Python's loop and by a scan."""

from __future__ import annotations

from typing import Any

import numpy as np

import functad


def looped(by_input: Any, by_state: Any, bias: Any, out: Any, sequences: Any, targets: Any) -> Any:
    """Mean square of the errors of what is read from the last state."""
    h = np.zeros((sequences.shape[1], len(bias)), np.float32)
    for x in sequences:
        h = np.tanh(x @ by_input + h @ by_state + bias)
    return np.mean((h @ out - targets) ** 2)


def scanned(by_input: Any, by_state: Any, bias: Any, out: Any, sequences: Any, targets: Any) -> Any:
    """The same by a scan."""

    def step(h: Any, x: Any) -> tuple[Any, None]:
        return np.tanh(x @ by_input + h @ by_state + bias), None

    h, _ = functad.scan(step, np.zeros((sequences.shape[1], len(bias)), np.float32), sequences)
    return np.mean((h @ out - targets) ** 2)


PROGRAMS = {
    "looped": functad.value_and_grad(looped, argnums=(0, 1, 2, 3)),
    "scanned": functad.value_and_grad(scanned, argnums=(0, 1, 2, 3)),
}
