"""The other transforms of PyTorch, eager: `torch.func`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .programs import tree_map
from .torch_programs import FUNCTIONS, VERSION, _tensor, arrays

__all__ = ["VERSION", "arrays", "prepare"]


def _example_loss(layers: Any, image: Any, label: Any) -> Any:
    h = image
    for weights, bias in layers[:-1]:
        h = torch.relu(h @ weights + bias)
    weights, bias = layers[-1]
    return torch.nn.functional.cross_entropy(h @ weights + bias, label)


def prepare(name: str, arguments: tuple[Any, ...], argnums: tuple[int, ...]) -> Callable[[], Any]:
    """Return a function of no arguments that computes the derivative."""
    tensors = tree_map(_tensor, arguments)
    if name == "per_example":
        per_example = torch.func.vmap(torch.func.grad(_example_loss), in_dims=(None, 0, 0))
        return lambda: per_example(*tensors)
    if name == "hessian":
        hessian = torch.func.hessian(FUNCTIONS["logistic"])
        return lambda: hessian(*tensors)
    x, t, iterations = tensors
    chain = FUNCTIONS["chain_scalar"]
    return lambda: torch.func.jvp(lambda x: chain(x, iterations), (x,), (t,))
