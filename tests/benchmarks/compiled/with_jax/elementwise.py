"""Few operations on few and on many elements."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def tanh_exp(a: Any, b: Any, x: Any) -> Any:
    """Sum of a product of two curves."""
    return jnp.sum(jnp.tanh(a * x + b) * jnp.exp(-x * x))


def tiny(x: Any, y: Any) -> Any:
    """Hardly anything, so that the call is what is timed."""
    return x * y + 1.0


PROGRAMS = {"tanh_exp": jax.value_and_grad(tanh_exp, argnums=(0, 1, 2)), "tiny": tiny}
