"""The programs with their gradients derived by hand, in NumPy: what functad's overhead is measured against.

They are written as a good NumPy programmer would: common factors are shared, large temporaries are reused where that is
natural, and nothing is computed that is not needed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .programs import LORENZ_DT, LORENZ_STEPS, leaves

VERSION = f"NumPy {np.__version__}"

_below_diagonal = functools.cache(lambda d: np.triu_indices(d, 1)[::-1])
"""Rows and columns of what is below the diagonal of a matrix, column by column."""


def chain(x: Any, iterations: int) -> Any:
    """Forward keeping every `x`, then the product of `0.9 cos(x) + 0.1` backwards."""
    kept = []
    for _ in range(iterations):
        kept.append(x)
        x = np.sin(x) * 0.9 + x * 0.1
    g = np.ones_like(x)
    for x_i in reversed(kept):
        g = g * (0.9 * np.cos(x_i) + 0.1)
    return x.sum(), (g,)


def chain_memory(x: Any, iterations: int) -> Any:
    """The chain on a large array, with buffers reused and values dropped once used."""
    kept = []
    for _ in range(iterations):
        kept.append(x)
        out = np.sin(x)
        out *= 0.9
        out += x * 0.1
        x = out
    g = np.ones_like(x)
    value = x.sum()
    del x, out
    while kept:
        factor = np.cos(kept.pop())
        factor *= 0.9
        factor += 0.1
        g *= factor
    return value, (g,)


def logistic(weights: Any, features: Any, labels: Any) -> Any:
    """The gradient is `X^T (sigmoid(z) - y) / n`."""
    z = features @ weights
    e = np.exp(-np.abs(z))
    value = (np.maximum(z, 0.0) + np.log1p(e) - labels * z).mean()
    sigmoid = np.where(z >= 0, 1.0, e) / (1.0 + e)
    return value, ((sigmoid - labels) @ features / len(labels),)


def network(layers: Any, images: Any, labels: Any) -> Any:
    """Back-propagation; the gradient by the logits is the softmax minus the labels."""
    (w1, b1), (w2, b2), (w3, b3) = layers
    n = len(labels)
    rows = np.arange(n)
    h1 = images @ w1
    h1 += b1
    np.maximum(h1, 0, out=h1)
    h2 = h1 @ w2
    h2 += b2
    np.maximum(h2, 0, out=h2)
    logits = h2 @ w3
    logits += b3
    logits -= logits.max(axis=1, keepdims=True)
    p = np.exp(logits)
    total = p.sum(axis=1, keepdims=True)
    value = (np.log(total[:, 0]) - logits[rows, labels]).mean()
    p /= total
    p[rows, labels] -= 1
    p /= n
    g3 = p
    g2 = g3 @ w3.T
    g2 *= h2 > 0
    g1 = g2 @ w2.T
    g1 *= h1 > 0
    gradient = [
        (images.T @ g1, g1.sum(axis=0)),
        (h1.T @ g2, g2.sum(axis=0)),
        (h2.T @ g3, g3.sum(axis=0)),
    ]
    return value, (gradient,)


def mixture(alphas: Any, means: Any, icf: Any, x: Any) -> Any:
    """With responsibilities `r`: sums over the points are taken before multiplying with `Q`."""
    n, d = x.shape
    k = len(alphas)
    log_diagonal, below = icf[:, :d], icf[:, d:]
    diagonal = np.exp(log_diagonal)
    rows, columns = _below_diagonal(d)
    on_diagonal = np.arange(d)
    q = np.zeros((k, d, d))
    q[:, rows, columns] = below
    q[:, on_diagonal, on_diagonal] = diagonal
    centred = x.T - means[:, :, None]
    scaled = q @ centred
    inner = np.einsum("kin,kin->kn", scaled, scaled)
    inner *= -0.5
    inner += (alphas + log_diagonal.sum(axis=1))[:, None]
    largest = inner.max(axis=0)
    inner -= largest
    r = np.exp(inner, out=inner)
    total = r.sum(axis=0)
    weights = np.exp(alphas - alphas.max())
    value = (
        (np.log(total) + largest).sum()
        - n * (np.log(weights.sum()) + alphas.max())
        - 0.5 * n * d * math.log(2 * math.pi)
        + 0.5 * ((diagonal * diagonal).sum() + (below * below).sum())
        - k * _wishart_constant(d)
    )
    r /= total
    counts = r.sum(axis=1)
    scaled *= r[:, None, :]  # minus the cotangent of `scaled`
    g_alphas = counts - n / weights.sum() * weights
    g_means = (scaled.sum(axis=2)[:, None, :] @ q)[:, 0, :]
    g_q = scaled @ centred.swapaxes(1, 2)
    g_icf = np.empty_like(icf)
    g_icf[:, :d] = counts[:, None] + diagonal * (diagonal - g_q[:, on_diagonal, on_diagonal])
    g_icf[:, d:] = below - g_q[:, rows, columns]
    return value, (g_alphas, g_means, g_icf)


def _wishart_constant(d: int) -> float:
    freedom = d + 1
    log_gamma = 0.25 * d * (d - 1) * math.log(math.pi) + sum(math.lgamma(0.5 * (freedom - j)) for j in range(d))
    return -0.5 * freedom * d * math.log(2) - log_gamma


def _slope(s: Any, sigma: float, rho: float, beta: float) -> Any:
    x, y, z = s
    return np.array([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])


def _pull_slope(g: Any, s: Any, sigma: float, rho: float, beta: float) -> tuple[Any, Any]:
    """Pull a cotangent of the slope back to the state and to the three parameters."""
    x, y, z = s
    gx, gy, gz = g
    by_state = np.array([-sigma * gx + (rho - z) * gy + y * gz, sigma * gx - gy + x * gz, -x * gy - beta * gz])
    return by_state, np.array([(y - x) * gx, x * gy, -z * gz])


def lorenz(state: Any, sigma: float, rho: float, beta: float) -> Any:
    """The steps backwards, by the transposed scheme."""
    h = LORENZ_DT
    p = (sigma, rho, beta)
    kept = []
    for _ in range(LORENZ_STEPS):
        k1 = _slope(state, *p)
        s2 = state + 0.5 * h * k1
        k2 = _slope(s2, *p)
        s3 = state + 0.5 * h * k2
        k3 = _slope(s3, *p)
        s4 = state + h * k3
        k4 = _slope(s4, *p)
        kept.append((state, s2, s3, s4))
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    g = 2 * state
    g_p = np.zeros(3)
    for s1, s2, s3, s4 in reversed(kept):
        g_s4, p4 = _pull_slope(h / 6 * g, s4, *p)
        g_s3, p3 = _pull_slope(h / 3 * g + h * g_s4, s3, *p)
        g_s2, p2 = _pull_slope(h / 3 * g + 0.5 * h * g_s3, s2, *p)
        g_s1, p1 = _pull_slope(h / 6 * g + 0.5 * h * g_s2, s1, *p)
        g = g + g_s1 + g_s2 + g_s3 + g_s4
        g_p += p1 + p2 + p3 + p4
    return (state * state).sum(), (g, *g_p)


def tanh_exp(a: float, b: float, x: Any) -> Any:
    """With `t = tanh(a x + b)`, `e = exp(-x x)`: `(1 - t t) e` is common to all three."""
    t = a * x
    t += b
    np.tanh(t, out=t)
    e = x * x
    np.negative(e, out=e)
    np.exp(e, out=e)
    value = t.dot(e)
    g = t * t
    np.subtract(1.0, g, out=g)
    g *= e
    g_a, g_b = g.dot(x), g.sum()
    g *= a
    t *= e
    t *= x
    t *= 2.0
    g -= t
    return value, (g_a, g_b, g)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "chain_scalar": chain,
    "chain_vector": chain,
    "chain_memory": chain_memory,
    "logistic": logistic,
    "network": network,
    "mixture": mixture,
    "lorenz": lorenz,
    "tanh_exp": tanh_exp,
}


def prepare(name: str, arguments: tuple[Any, ...], argnums: tuple[int, ...]) -> Callable[[], Any]:
    """Return a function of no arguments that computes value and gradient."""
    function = FUNCTIONS[name]
    return lambda: function(*arguments)


def arrays(result: Any) -> list[np.ndarray[Any, Any]]:
    """Return value and gradients as arrays."""
    return [np.asarray(leaf) for leaf in leaves(result)]
