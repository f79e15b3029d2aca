"""The classical Runge-Kutta method on the Lorenz system, by the first state and the parameters."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

STEP = 0.01


def slope(s: Any, sigma: Any, rho: Any, beta: Any) -> Any:
    """The Lorenz system."""
    x, y, z = s
    return jnp.stack([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])


def stepped(s: Any, *parameters: Any) -> Any:
    """One step."""
    k1 = slope(s, *parameters)
    k2 = slope(s + 0.5 * STEP * k1, *parameters)
    k3 = slope(s + 0.5 * STEP * k2, *parameters)
    k4 = slope(s + STEP * k3, *parameters)
    return s + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def looped(state: Any, sigma: Any, rho: Any, beta: Any, steps: int) -> Any:
    """Squared length of the last state, by Python's loop."""
    for _ in range(steps):
        state = stepped(state, sigma, rho, beta)
    return jnp.sum(state**2)


def scanned(state: Any, sigma: Any, rho: Any, beta: Any, steps: int) -> Any:
    """Squared length of the last state, by a scan."""
    state, _ = jax.lax.scan(lambda s, _: (stepped(s, sigma, rho, beta), None), state, length=steps)
    return jnp.sum(state**2)


PROGRAMS = {
    "looped": jax.value_and_grad(looped, argnums=(0, 1, 2, 3)),
    "scanned": jax.value_and_grad(scanned, argnums=(0, 1, 2, 3)),
}
