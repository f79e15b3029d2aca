"""The programs for JAX, compiled as a whole by `jax.jit`; compilation is not timed.

The Runge-Kutta steps are a `scan`: compiled step by step from a Python loop they take minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from .jax_programs import FUNCTIONS as PLAIN
from .jax_programs import VERSION, arrays, runge_kutta_step, transform
from .programs import LORENZ_STEPS

__all__ = ["FUNCTIONS", "VERSION", "arrays", "prepare"]


def lorenz(state: Any, sigma: Any, rho: Any, beta: Any) -> Any:
    """Squared length of the state of the Lorenz system after some steps of the classical Runge-Kutta method."""

    def step(state: Any, _: Any) -> tuple[Any, None]:
        return runge_kutta_step(state, sigma, rho, beta), None

    state, _ = jax.lax.scan(step, state, length=LORENZ_STEPS)
    return jnp.sum(state**2)


FUNCTIONS = {**PLAIN, "lorenz": lorenz}


def prepare(name: str, arguments: tuple[Any, ...], argnums: tuple[int, ...]) -> Callable[[], Any]:
    """Return a function of no arguments that computes value and gradient, and waits for both."""
    transformed, given = transform(FUNCTIONS[name], arguments, argnums)
    compiled = jax.jit(transformed)
    return lambda: jax.block_until_ready(compiled(*given))
