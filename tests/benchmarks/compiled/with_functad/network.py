"""A network with rectified hidden layers: the gradient of a batch, and one for each example."""

from __future__ import annotations

from typing import Any

import numpy as np

import functad


def logsumexp(a: Any) -> Any:
    """Logarithm of the sum of exponentials along the last axis."""
    largest = np.max(a, axis=-1, keepdims=True)
    return np.log(np.sum(np.exp(a - largest), axis=-1)) + np.squeeze(largest, axis=-1)


def scores(layers: Any, h: Any) -> Any:
    """The last layer, of one image or of many."""
    for weights, bias in layers[:-1]:
        h = np.maximum(h @ weights + bias, 0)
    weights, bias = layers[-1]
    return h @ weights + bias


def batch_loss(layers: Any, images: Any, labels: Any) -> Any:
    """Mean cross entropy."""
    logits = scores(layers, images)
    return np.mean(logsumexp(logits) - logits[np.arange(len(labels)), labels])


def example_loss(layers: Any, image: Any, label: Any) -> Any:
    """Cross entropy of one example."""
    logits = scores(layers, image)
    return logsumexp(logits) - logits[label]


PROGRAMS = {
    "batch": functad.value_and_grad(batch_loss),
    "per_example": functad.vmap(functad.grad(example_loss), in_axes=(None, 0, 0)),
}
