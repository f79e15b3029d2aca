"""The programs in plain NumPy, one file for each family, differentiated by functad: `PROGRAMS` has them by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import functad
from functad.errors import InputError
from tests.benchmarks.compiled.inputs import Arguments, without_lengths
from tests.benchmarks.programs import tree_map

VERSION = functad.__version__

functad.keep_freed_memory()  # as the pages on benchmarks and memory recommend


def backends() -> list[str]:
    """Return the backends of `functad.jit` that can be used here."""
    found = []
    for name in ("numpy", "llvm"):
        try:
            functad.jit(abs, backend=name)
        except InputError:
            continue
        found.append(name)
    return found


def one_thread() -> None:
    """Let compiled code use one thread."""
    if hasattr(functad, "set_num_threads"):
        functad.set_num_threads(1)


def fresh(program: Callable[..., Any], arguments: Arguments, backend: str) -> Callable[[], Any]:
    """Return a step that has not been compiled yet; without a backend one that never is."""
    if not backend:
        return lambda: program(*arguments)
    function, arrays = without_lengths(program, arguments)
    compiled = functad.jit(function, backend=backend)
    if backend == "xla":
        return _waiting(compiled, arrays)
    return lambda: compiled(*arrays)


def _waiting(compiled: Callable[..., Any], arrays: Arguments) -> Callable[[], Any]:
    """Return a step on arrays that JAX has already, which waits for all results."""
    jax = import_module("jax")
    with jax.enable_x64(True):
        given = tree_map(jax.numpy.asarray, arrays)
    return lambda: jax.block_until_ready(compiled(*given))
