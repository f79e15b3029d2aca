"""Logistic regression: gradient, Hessian, and its product with a direction."""

from __future__ import annotations

from typing import Any

import torch

from .gradients import value_and_grad


def logistic(weights: Any, features: Any, labels: Any) -> Any:
    """Mean of `log(1 + exp(z)) - y z`."""
    return torch.nn.functional.binary_cross_entropy_with_logits(features @ weights, labels)


def product(weights: Any, direction: Any, features: Any, labels: Any) -> Any:
    """The Hessian times a direction."""
    gradient = torch.func.grad(logistic)
    return torch.func.jvp(lambda w: gradient(w, features, labels), (weights,), (direction,))[1]


PROGRAMS = {"gradient": value_and_grad(logistic), "hessian": torch.func.hessian(logistic), "product": product}
