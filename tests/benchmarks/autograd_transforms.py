"""The other transforms of HIPS/autograd, which cannot batch functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autograd import hessian, make_jvp

from .autograd_programs import FUNCTIONS, VERSION, arrays

__all__ = ["VERSION", "arrays", "prepare"]


def prepare(name: str, arguments: tuple[Any, ...], argnums: tuple[int, ...]) -> Callable[[], Any]:
    """Return a function of no arguments that computes the derivative."""
    if name == "per_example":
        raise NotImplementedError("autograd has no vmap")
    if name == "hessian":
        second = hessian(FUNCTIONS["logistic"])
        return lambda: second(*arguments)
    x, t, iterations = arguments
    chain = FUNCTIONS["chain_scalar"]
    return lambda: make_jvp(lambda x: chain(x, iterations))(x)(t)
