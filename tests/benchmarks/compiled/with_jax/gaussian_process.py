"""The log marginal likelihood of a Gaussian process, by its hyperparameters."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular


def likelihood(log_lengths: Any, log_amplitude: Any, log_noise: Any, places: Any, measured: Any) -> Any:
    """With a squared exponential kernel, a length scale for each dimension and independent noise."""
    n = len(measured)
    scaled = places / jnp.exp(log_lengths)
    squares = jnp.sum((scaled[:, None, :] - scaled[None, :, :]) ** 2, axis=-1)
    covariance = jnp.exp(2.0 * log_amplitude - 0.5 * squares) + jnp.exp(2.0 * log_noise) * jnp.eye(n)
    lower = jnp.linalg.cholesky(covariance)
    whitened = solve_triangular(lower, measured, lower=True)
    return -0.5 * whitened @ whitened - jnp.sum(jnp.log(jnp.diagonal(lower))) - 0.5 * n * math.log(2 * math.pi)


PROGRAMS = {"likelihood": jax.value_and_grad(likelihood, argnums=(0, 1, 2))}
