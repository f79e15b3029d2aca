"""A network with rectified hidden layers: the gradient of a batch, and one for each example."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp


def scores(layers: Any, h: Any) -> Any:
    """The last layer, of one image or of many."""
    for weights, bias in layers[:-1]:
        h = jax.nn.relu(h @ weights + bias)
    weights, bias = layers[-1]
    return h @ weights + bias


def batch_loss(layers: Any, images: Any, labels: Any) -> Any:
    """Mean cross entropy."""
    logits = scores(layers, images)
    return jnp.mean(logsumexp(logits, axis=1) - logits[jnp.arange(len(labels)), labels])


def example_loss(layers: Any, image: Any, label: Any) -> Any:
    """Cross entropy of one example."""
    logits = scores(layers, image)
    return logsumexp(logits) - logits[label]


PROGRAMS = {
    "batch": jax.value_and_grad(batch_loss),
    "per_example": jax.vmap(jax.grad(example_loss), in_axes=(None, 0, 0)),
}
