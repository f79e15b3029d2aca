"""The other transforms of functad, on plain NumPy programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import functad

from .functad_programs import FUNCTIONS, VERSION, arrays, logsumexp

__all__ = ["VERSION", "arrays", "example_loss", "prepare"]


def example_loss(layers: Any, image: Any, label: Any) -> Any:
    """Cross entropy of one example, of a network with rectified hidden layers."""
    h = image
    for weights, bias in layers[:-1]:
        h = np.maximum(h @ weights + bias, 0)
    weights, bias = layers[-1]
    logits = h @ weights + bias
    return logsumexp(logits, axis=0) - logits[label]


def prepare(name: str, arguments: tuple[Any, ...], argnums: tuple[int, ...]) -> Callable[[], Any]:
    """Return a function of no arguments that computes the derivative."""
    if name == "per_example":
        per_example = functad.vmap(functad.grad(example_loss), in_axes=(None, 0, 0))
        return lambda: per_example(*arguments)
    if name == "hessian":
        hessian = functad.hessian(FUNCTIONS["logistic"])
        return lambda: hessian(*arguments)
    x, t, iterations = arguments
    chain = FUNCTIONS["chain_scalar"]
    return lambda: functad.jvp(lambda x: chain(x, iterations), (x,), (t,))
