"""A chain of operations on a number or a short vector: Python's loop, which a trace unrolls, and a scan."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def looped(x: Any, iterations: int) -> Any:
    """Four operations an iteration."""
    for _ in range(iterations):
        x = jnp.sin(x) * 0.9 + x * 0.1
    return jnp.sum(x)


def scanned(x: Any, iterations: int) -> Any:
    """The same steps as a scan."""
    x, _ = jax.lax.scan(lambda x, _: (jnp.sin(x) * 0.9 + x * 0.1, None), x, length=iterations)
    return jnp.sum(x)


PROGRAMS = {"looped": jax.value_and_grad(looped), "scanned": jax.value_and_grad(scanned)}
