"""A network with rectified hidden layers: the gradient of a batch, and one for each example."""

from __future__ import annotations

from typing import Any

import torch

from .gradients import value_and_grad


def batch_loss(layers: Any, images: Any, labels: Any) -> Any:
    """Mean cross entropy."""
    h = images
    for weights, bias in layers[:-1]:
        h = torch.relu(torch.addmm(bias, h, weights))
    weights, bias = layers[-1]
    return torch.nn.functional.cross_entropy(torch.addmm(bias, h, weights), labels)


def example_loss(layers: Any, image: Any, label: Any) -> Any:
    """Cross entropy of one example."""
    h = image
    for weights, bias in layers[:-1]:
        h = torch.relu(h @ weights + bias)
    weights, bias = layers[-1]
    return torch.nn.functional.cross_entropy(h @ weights + bias, label)


PROGRAMS = {
    "batch": value_and_grad(batch_loss),
    "per_example": torch.func.vmap(torch.func.grad(example_loss), in_dims=(None, 0, 0)),
}
