"""What the other transforms are measured by: functad's gradient of a batch, a Hessian by hand, the plain run of a chain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import functad

from .functad_programs import FUNCTIONS, VERSION, arrays

__all__ = ["VERSION", "arrays", "prepare"]


def _hessian(weights: Any, features: Any, labels: Any) -> Any:
    """`X^T D X / n` with `D = s (1 - s)`, where `s` is the logistic function of `X w`."""
    s = 1 / (1 + np.exp(-(features @ weights)))
    return (features.T * (s * (1 - s) / len(labels))) @ features


def prepare(name: str, arguments: tuple[Any, ...], argnums: tuple[int, ...]) -> Callable[[], Any]:
    """Return a function of no arguments that computes what a derivative is compared with."""
    if name == "per_example":
        gradient = functad.grad(FUNCTIONS["network"])
        return lambda: gradient(*arguments)
    if name == "hessian":
        return lambda: _hessian(*arguments)
    x, _, iterations = arguments
    chain = FUNCTIONS["chain_scalar"]
    return lambda: chain(x, iterations)
