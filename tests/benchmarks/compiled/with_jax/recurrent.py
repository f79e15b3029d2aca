"""A recurrent network, by Python's loop and by a scan."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def looped(by_input: Any, by_state: Any, bias: Any, out: Any, sequences: Any, targets: Any) -> Any:
    """Mean square of the errors of what is read from the last state."""
    h = jnp.zeros((sequences.shape[1], len(bias)), jnp.float32)
    for x in sequences:
        h = jnp.tanh(x @ by_input + h @ by_state + bias)
    return jnp.mean((h @ out - targets) ** 2)


def scanned(by_input: Any, by_state: Any, bias: Any, out: Any, sequences: Any, targets: Any) -> Any:
    """The same by a scan."""

    def step(h: Any, x: Any) -> tuple[Any, None]:
        return jnp.tanh(x @ by_input + h @ by_state + bias), None

    h, _ = jax.lax.scan(step, jnp.zeros((sequences.shape[1], len(bias)), jnp.float32), sequences)
    return jnp.mean((h @ out - targets) ** 2)


PROGRAMS = {
    "looped": jax.value_and_grad(looped, argnums=(0, 1, 2, 3)),
    "scanned": jax.value_and_grad(scanned, argnums=(0, 1, 2, 3)),
}
