"""The programs for PyTorch, eager."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .programs import GMM_DIMENSION, LORENZ_DT, LORENZ_STEPS, leaves, lower_triangle_index, tree_map

VERSION = torch.__version__

_LOWER = torch.from_numpy(lower_triangle_index(GMM_DIMENSION))


def chain(x: Any, iterations: int) -> Any:
    """Four operations an iteration."""
    for _ in range(iterations):
        x = torch.sin(x) * 0.9 + x * 0.1
    return torch.sum(x)


def chain_scalar(x: Any, iterations: int) -> Any:
    """The chain on one number, which needs no sum."""
    for _ in range(iterations):
        x = torch.sin(x) * 0.9 + x * 0.1
    return x


def logistic(weights: Any, features: Any, labels: Any) -> Any:
    """Mean of `log(1 + exp(z)) - y z`."""
    return torch.nn.functional.binary_cross_entropy_with_logits(features @ weights, labels)


def network(layers: Any, images: Any, labels: Any) -> Any:
    """Mean cross entropy of a network with rectified hidden layers."""
    h = images
    for weights, bias in layers[:-1]:
        h = torch.relu(torch.addmm(bias, h, weights))
    weights, bias = layers[-1]
    return torch.nn.functional.cross_entropy(torch.addmm(bias, h, weights), labels)


def mixture(alphas: Any, means: Any, icf: Any, x: Any) -> Any:
    """Log-likelihood of a Gaussian mixture with a Wishart prior."""
    n, d = x.shape
    k = len(alphas)
    log_diagonal, below = icf[:, :d], icf[:, d:]
    diagonal = torch.exp(log_diagonal)
    lower = torch.cat([torch.zeros((k, 1), dtype=icf.dtype), below], dim=1)[:, _LOWER]
    q = lower + torch.diag_embed(diagonal)
    scaled = q @ (x.T - means[:, :, None])
    inner = (alphas + torch.sum(log_diagonal, dim=1))[:, None] - 0.5 * torch.sum(scaled**2, dim=1)
    likelihood = torch.sum(torch.logsumexp(inner, 0)) - n * torch.logsumexp(alphas, 0) - 0.5 * n * d * math.log(2 * math.pi)
    prior = 0.5 * (torch.sum(diagonal**2) + torch.sum(below**2)) - k * _wishart_constant(d)
    return likelihood + prior


def _wishart_constant(d: int) -> float:
    freedom = d + 1
    log_gamma = 0.25 * d * (d - 1) * math.log(math.pi) + sum(math.lgamma(0.5 * (freedom - j)) for j in range(d))
    return -0.5 * freedom * d * math.log(2) - log_gamma


def lorenz(state: Any, sigma: Any, rho: Any, beta: Any) -> Any:
    """Squared length of the state of the Lorenz system after some steps of the classical Runge-Kutta method."""

    def slope(s: Any) -> Any:
        x, y, z = s
        return torch.stack([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])

    h = LORENZ_DT
    for _ in range(LORENZ_STEPS):
        k1 = slope(state)
        k2 = slope(state + 0.5 * h * k1)
        k3 = slope(state + 0.5 * h * k2)
        k4 = slope(state + h * k3)
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return torch.sum(state**2)


def tanh_exp(a: Any, b: Any, x: Any) -> Any:
    """Few operations on many elements."""
    return torch.sum(torch.tanh(a * x + b) * torch.exp(-x * x))


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


def _tensor(leaf: Any) -> Any:
    if isinstance(leaf, float):
        return torch.tensor(leaf, dtype=torch.float64)
    return torch.from_numpy(leaf) if isinstance(leaf, np.ndarray) else leaf


def prepare(name: str, arguments: tuple[Any, ...], argnums: tuple[int, ...]) -> Callable[[], Any]:
    """Return a function of no arguments that computes value and gradient."""
    function = FUNCTIONS[name]
    tensors = tree_map(_tensor, arguments)
    inputs = [leaf.requires_grad_() for leaf in leaves([tensors[i] for i in argnums])]

    def step() -> Any:
        value = function(*tensors)
        return value.detach(), torch.autograd.grad(value, inputs)

    return step


def arrays(result: Any) -> list[np.ndarray[Any, Any]]:
    """Return value and gradients as arrays."""
    return [leaf.numpy() for leaf in leaves(result)]
