"""The programs in jax.numpy, one file for each family, which `jax.jit` compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tests.benchmarks.compiled.inputs import Arguments, without_lengths
from tests.benchmarks.programs import tree_map

jax.config.update("jax_enable_x64", True)  # float32 stays float32: all arrays have a dtype of their own

VERSION = jax.__version__


def one_thread() -> None:
    """Nothing is left to do: XLA has read its variables."""


def fresh(program: Callable[..., Any], arguments: Arguments, backend: str) -> Callable[[], Any]:
    """Return a step that has not been compiled yet, and waits for all results."""
    function, arrays = without_lengths(program, arguments)
    given = tree_map(jnp.asarray, arrays)
    compiled = jax.jit(function)
    return lambda: jax.block_until_ready(compiled(*given))
