"""The other transforms of JAX, without jit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from .jax_programs import FUNCTIONS, VERSION, arrays
from .programs import tree_map

__all__ = ["VERSION", "arrays", "prepare"]


def _example_loss(layers: Any, image: Any, label: Any) -> Any:
    h = image
    for weights, bias in layers[:-1]:
        h = jax.nn.relu(h @ weights + bias)
    weights, bias = layers[-1]
    logits = h @ weights + bias
    return logsumexp(logits) - logits[label]


def _array(leaf: Any) -> Any:
    return leaf if isinstance(leaf, int) else jnp.asarray(leaf)


def transform(name: str, arguments: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the derivative and its arguments, without numbers of iterations."""
    given = tree_map(_array, arguments)
    if name == "per_example":
        return jax.vmap(jax.grad(_example_loss), in_axes=(None, 0, 0)), given
    if name == "hessian":
        return jax.hessian(FUNCTIONS["logistic"]), given
    x, t, iterations = given
    chain = FUNCTIONS["chain_scalar"]
    return lambda x, t: jax.jvp(lambda x: chain(x, iterations), (x,), (t,)), (x, t)


def prepare(name: str, arguments: tuple[Any, ...], argnums: tuple[int, ...]) -> Callable[[], Any]:
    """Return a function of no arguments that computes the derivative, and waits for it."""
    derivative, given = transform(name, arguments)
    return lambda: jax.block_until_ready(derivative(*given))
