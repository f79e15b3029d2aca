"""The programs in plain NumPy, differentiated by functad."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import functad

from .programs import GMM_DIMENSION, LORENZ_DT, LORENZ_STEPS, leaves, lower_triangle_index

VERSION = getattr(functad, "__version__", "in development")

functad.keep_freed_memory()  # as the pages on benchmarks and memory recommend

_LOWER = lower_triangle_index(GMM_DIMENSION)


def chain(x: Any, iterations: int) -> Any:
    """Four operations an iteration."""
    for _ in range(iterations):
        x = np.sin(x) * 0.9 + x * 0.1
    return np.sum(x)


def chain_scalar(x: Any, iterations: int) -> Any:
    """The chain on one number, which needs no sum."""
    for _ in range(iterations):
        x = np.sin(x) * 0.9 + x * 0.1
    return x


def logistic(weights: Any, features: Any, labels: Any) -> Any:
    """Mean of `log(1 + exp(z)) - y z`."""
    z = features @ weights
    return np.mean(np.logaddexp(0.0, z) - labels * z)


def logsumexp(a: Any, axis: int) -> Any:
    """Logarithm of the sum of exponentials along an axis."""
    largest = np.max(a, axis=axis, keepdims=True)
    return np.log(np.sum(np.exp(a - largest), axis=axis)) + np.squeeze(largest, axis=axis)


def network(layers: Any, images: Any, labels: Any) -> Any:
    """Mean cross entropy of a network with rectified hidden layers."""
    h = images
    for weights, bias in layers[:-1]:
        h = np.maximum(h @ weights + bias, 0)
    weights, bias = layers[-1]
    logits = h @ weights + bias
    return np.mean(logsumexp(logits, axis=1) - logits[np.arange(len(labels)), labels])


def mixture(alphas: Any, means: Any, icf: Any, x: Any) -> Any:
    """Log-likelihood of a Gaussian mixture with a Wishart prior (Srajer, Kukelova, Fitzgibbon 2018), gamma 1, m 0.

    `icf` has shape `(K, d + d (d - 1) / 2)`: for each component the logarithms of the diagonal of a lower triangular `Q` with
    inverse covariance `Q^T Q`, and then what is below the diagonal.
    """
    n, d = x.shape
    k = len(alphas)
    log_diagonal, below = icf[:, :d], icf[:, d:]
    diagonal = np.exp(log_diagonal)
    lower = np.concatenate([np.zeros((k, 1)), below], axis=1)[:, _LOWER]
    q = lower + diagonal[:, :, None] * np.eye(d)
    scaled = q @ (x.T - means[:, :, None])
    inner = (alphas + np.sum(log_diagonal, axis=1))[:, None] - 0.5 * np.sum(scaled**2, axis=1)
    likelihood = np.sum(logsumexp(inner, axis=0)) - n * logsumexp(alphas, axis=0) - 0.5 * n * d * math.log(2 * math.pi)
    prior = 0.5 * (np.sum(diagonal**2) + np.sum(below**2)) - k * wishart_constant(d)
    return likelihood + prior


def wishart_constant(d: int) -> float:
    """Logarithm of the normalisation of the Wishart prior with gamma 1, m 0."""
    freedom = d + 1
    log_gamma = 0.25 * d * (d - 1) * math.log(math.pi) + sum(math.lgamma(0.5 * (freedom - j)) for j in range(d))
    return -0.5 * freedom * d * math.log(2) - log_gamma


def lorenz(state: Any, sigma: Any, rho: Any, beta: Any) -> Any:
    """Squared length of the state of the Lorenz system after some steps of the classical Runge-Kutta method."""

    def slope(s: Any) -> Any:
        x, y, z = s
        return np.stack([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])

    h = LORENZ_DT
    for _ in range(LORENZ_STEPS):
        k1 = slope(state)
        k2 = slope(state + 0.5 * h * k1)
        k3 = slope(state + 0.5 * h * k2)
        k4 = slope(state + h * k3)
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return np.sum(state**2)


def tanh_exp(a: Any, b: Any, x: Any) -> Any:
    """Few operations on many elements."""
    return np.sum(np.tanh(a * x + b) * np.exp(-x * x))


def neighbours(x: Any) -> Any:
    """Sum of products of neighbours, read element by element."""
    return sum(x[i] * x[i - 1] for i in range(1, len(x)))


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
    """Return a function of no arguments that computes value and gradient."""
    transformed = functad.value_and_grad(FUNCTIONS[name], argnums=argnums)
    return lambda: transformed(*arguments)


def arrays(result: Any) -> list[np.ndarray[Any, Any]]:
    """Return value and gradients as arrays."""
    return [np.asarray(leaf) for leaf in leaves(result)]
