"""Value and gradient by PyTorch's tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.benchmarks.programs import leaves, tree_map


def value_and_grad(f: Callable[..., Any], argnums: tuple[int, ...] = (0,)) -> Callable[..., Any]:
    """Return a function that returns the value of `f` and its gradient by some arguments, leaf by leaf."""

    def both(*arguments: Any) -> Any:
        given = list(arguments)
        for i in argnums:
            given[i] = tree_map(lambda leaf: leaf.detach().requires_grad_(), given[i])
        value = f(*given)
        return value.detach(), torch.autograd.grad(value, leaves([given[i] for i in argnums]))

    return both
