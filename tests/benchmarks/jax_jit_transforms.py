"""The other transforms of JAX, compiled as a whole by `jax.jit`; compilation is not timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from .jax_transforms import VERSION, arrays, transform

__all__ = ["VERSION", "arrays", "prepare"]


def prepare(name: str, arguments: tuple[Any, ...], argnums: tuple[int, ...]) -> Callable[[], Any]:
    """Return a function of no arguments that computes the derivative, and waits for it."""
    derivative, given = transform(name, arguments)
    compiled = jax.jit(derivative)
    return lambda: jax.block_until_ready(compiled(*given))
