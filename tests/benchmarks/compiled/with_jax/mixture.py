"""The Gaussian mixture of ADBench, with a Wishart prior, gamma 1, m 0."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from tests.benchmarks.programs import lower_triangle_index


def wishart_constant(d: int) -> float:
    """Logarithm of the normalisation of the Wishart prior with gamma 1, m 0."""
    freedom = d + 1
    log_gamma = 0.25 * d * (d - 1) * math.log(math.pi) + sum(math.lgamma(0.5 * (freedom - j)) for j in range(d))
    return -0.5 * freedom * d * math.log(2) - log_gamma


def likelihood(alphas: Any, means: Any, icf: Any, x: Any) -> Any:
    """Log-likelihood of points."""
    n, d = x.shape
    k = len(alphas)
    log_diagonal, below = icf[:, :d], icf[:, d:]
    diagonal = jnp.exp(log_diagonal)
    lower = jnp.concatenate([jnp.zeros((k, 1)), below], axis=1)[:, lower_triangle_index(d)]
    q = lower + diagonal[:, :, None] * jnp.eye(d)
    scaled = q @ (x.T - means[:, :, None])
    inner = (alphas + jnp.sum(log_diagonal, axis=1))[:, None] - 0.5 * jnp.sum(scaled**2, axis=1)
    fit = jnp.sum(logsumexp(inner, axis=0)) - n * logsumexp(alphas) - 0.5 * n * d * math.log(2 * math.pi)
    return fit + 0.5 * (jnp.sum(diagonal**2) + jnp.sum(below**2)) - k * wishart_constant(d)


PROGRAMS = {"likelihood": jax.value_and_grad(likelihood, argnums=(0, 1, 2))}
