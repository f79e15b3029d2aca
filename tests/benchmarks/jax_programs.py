"""The programs for JAX, without jit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from .programs import GMM_DIMENSION, LORENZ_DT, LORENZ_STEPS, leaves, lower_triangle_index, tree_map

jax.config.update("jax_enable_x64", True)

VERSION = jax.__version__

_LOWER = lower_triangle_index(GMM_DIMENSION)


def chain(x: Any, iterations: int) -> Any:
    """Four operations an iteration."""
    for _ in range(iterations):
        x = jnp.sin(x) * 0.9 + x * 0.1
    return jnp.sum(x)


def chain_scalar(x: Any, iterations: int) -> Any:
    """The chain on one number, which needs no sum."""
    for _ in range(iterations):
        x = jnp.sin(x) * 0.9 + x * 0.1
    return x


def logistic(weights: Any, features: Any, labels: Any) -> Any:
    """Mean of `log(1 + exp(z)) - y z`."""
    z = features @ weights
    return jnp.mean(jnp.logaddexp(0.0, z) - labels * z)


def network(layers: Any, images: Any, labels: Any) -> Any:
    """Mean cross entropy of a network with rectified hidden layers."""
    h = images
    for weights, bias in layers[:-1]:
        h = jax.nn.relu(h @ weights + bias)
    weights, bias = layers[-1]
    logits = h @ weights + bias
    return jnp.mean(logsumexp(logits, axis=1) - logits[jnp.arange(len(labels)), labels])


def mixture(alphas: Any, means: Any, icf: Any, x: Any) -> Any:
    """Log-likelihood of a Gaussian mixture with a Wishart prior."""
    n, d = x.shape
    k = len(alphas)
    log_diagonal, below = icf[:, :d], icf[:, d:]
    diagonal = jnp.exp(log_diagonal)
    lower = jnp.concatenate([jnp.zeros((k, 1)), below], axis=1)[:, _LOWER]
    q = lower + diagonal[:, :, None] * jnp.eye(d)
    scaled = q @ (x.T - means[:, :, None])
    inner = (alphas + jnp.sum(log_diagonal, axis=1))[:, None] - 0.5 * jnp.sum(scaled**2, axis=1)
    likelihood = jnp.sum(logsumexp(inner, axis=0)) - n * logsumexp(alphas) - 0.5 * n * d * math.log(2 * math.pi)
    prior = 0.5 * (jnp.sum(diagonal**2) + jnp.sum(below**2)) - k * _wishart_constant(d)
    return likelihood + prior


def _wishart_constant(d: int) -> float:
    freedom = d + 1
    log_gamma = 0.25 * d * (d - 1) * math.log(math.pi) + sum(math.lgamma(0.5 * (freedom - j)) for j in range(d))
    return -0.5 * freedom * d * math.log(2) - log_gamma


def lorenz(state: Any, sigma: Any, rho: Any, beta: Any) -> Any:
    """Squared length of the state of the Lorenz system after some steps of the classical Runge-Kutta method."""
    for _ in range(LORENZ_STEPS):
        state = runge_kutta_step(state, sigma, rho, beta)
    return jnp.sum(state**2)


def runge_kutta_step(state: Any, sigma: Any, rho: Any, beta: Any) -> Any:
    """One step of the classical Runge-Kutta method on the Lorenz system."""

    def slope(s: Any) -> Any:
        x, y, z = s
        return jnp.stack([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])

    h = LORENZ_DT
    k1 = slope(state)
    k2 = slope(state + 0.5 * h * k1)
    k3 = slope(state + 0.5 * h * k2)
    k4 = slope(state + h * k3)
    return state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def tanh_exp(a: Any, b: Any, x: Any) -> Any:
    """Few operations on many elements."""
    return jnp.sum(jnp.tanh(a * x + b) * jnp.exp(-x * x))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "chain_scalar": chain_scalar,
    "chain_vector": chain,
    "chain_memory": chain,
    "logistic": logistic,
    "network": network,
    "mixture": mixture,
    "lorenz": lorenz,
    "tanh_exp": tanh_exp,
}


def prepare(name: str, arguments: tuple[Any, ...], argnums: tuple[int, ...]) -> Callable[[], Any]:
    """Return a function of no arguments that computes value and gradient, and waits for both."""
    transformed, given = transform(FUNCTIONS[name], arguments, argnums)
    return lambda: jax.block_until_ready(transformed(*given))


def transform(function: Callable[..., Any], arguments: tuple[Any, ...], argnums: tuple[int, ...]) -> tuple[Any, Any]:
    """Return the function that computes value and gradient of the arguments that are arrays, and these arguments."""
    known = {i: a for i, a in enumerate(arguments) if isinstance(a, int)}

    def of_arrays(*given: Any) -> Any:
        it = iter(given)
        return function(*[known[i] if i in known else next(it) for i in range(len(arguments))])

    given = tree_map(jnp.asarray, tuple(a for a in arguments if not isinstance(a, int)))
    return jax.value_and_grad(of_arrays, argnums=argnums), given


def arrays(result: Any) -> list[np.ndarray[Any, Any]]:
    """Return value and gradients as arrays."""
    return [np.asarray(leaf) for leaf in leaves(result)]
