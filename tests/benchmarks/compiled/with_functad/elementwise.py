"""Few operations on few and on many elements."""

from __future__ import annotations

from typing import Any

import numpy as np

import functad


def tanh_exp(a: Any, b: Any, x: Any) -> Any:
    """Sum of a product of two curves."""
    return np.sum(np.tanh(a * x + b) * np.exp(-x * x))


def tiny(x: Any, y: Any) -> Any:
    """Hardly anything, so that the call is what is timed."""
    return x * y + 1.0


PROGRAMS = {"tanh_exp": functad.value_and_grad(tanh_exp, argnums=(0, 1, 2)), "tiny": tiny}
