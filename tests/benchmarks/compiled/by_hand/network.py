"""A network with rectified hidden layers, by back-propagation."""

from __future__ import annotations

from typing import Any

import numpy as np


def forward(layers: Any, images: Any) -> tuple[list[Any], Any]:
    """Return the input of each layer, and the scores of the last."""
    inputs = [images]
    for weights, bias in layers[:-1]:
        h = inputs[-1] @ weights
        h += bias
        inputs.append(np.maximum(h, 0, out=h))
    weights, bias = layers[-1]
    logits = inputs[-1] @ weights
    logits += bias
    return inputs, logits


def softmax(logits: Any) -> tuple[Any, Any]:
    """Return softmax and its sums; what is given is overwritten by the differences to the largest."""
    logits -= logits.max(axis=1, keepdims=True)
    p = np.exp(logits)
    total = p.sum(axis=1, keepdims=True)
    p /= total
    return p, total


def batch(layers: Any, images: Any, labels: Any) -> Any:
    """The gradient by the scores is the softmax minus the labels."""
    n = len(labels)
    rows = np.arange(n)
    inputs, logits = forward(layers, images)
    p, total = softmax(logits)
    value = (np.log(total[:, 0]) - logits[rows, labels]).mean()
    p[rows, labels] -= 1
    p /= n
    gradient: list[Any] = []
    for h, (weights, _) in zip(reversed(inputs), reversed(layers), strict=True):
        gradient.insert(0, (h.T @ p, p.sum(axis=0)))
        if h is not images:
            p = p @ weights.T
            p *= h > 0
    return value, gradient


def per_example(layers: Any, images: Any, labels: Any) -> Any:
    """The same for each example: outer products instead of sums of them."""
    inputs, logits = forward(layers, images)
    p, _ = softmax(logits)
    p[np.arange(len(labels)), labels] -= 1
    gradient: list[Any] = []
    for h, (weights, _) in zip(reversed(inputs), reversed(layers), strict=True):
        gradient.insert(0, (h[:, :, None] * p[:, None, :], p))
        if h is not images:
            p = p @ weights.T
            p *= h > 0
    return gradient


PROGRAMS = {"batch": batch, "per_example": per_example}
