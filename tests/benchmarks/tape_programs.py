"""The programs in plain NumPy, differentiated by functad's `GradientTape`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import functad

from .functad_programs import FUNCTIONS, VERSION
from .programs import leaves

__all__ = ["VERSION", "arrays", "prepare"]


def prepare(name: str, arguments: tuple[Any, ...], argnums: tuple[int, ...]) -> Callable[[], Any]:
    """Return a function of no arguments that computes value and gradient."""
    f = FUNCTIONS[name]
    given = [functad.tree_map(functad.constant, a) if i in argnums else a for i, a in enumerate(arguments)]
    sources = tuple([given[i] for i in argnums])

    def step() -> Any:
        with functad.GradientTape() as tape:
            tape.watch(sources)
            value = f(*given)
        return value, tape.gradient(value, sources)

    return step


def arrays(result: Any) -> list[np.ndarray[Any, Any]]:
    """Return value and gradients as arrays."""
    return [np.asarray(leaf) for leaf in leaves(result)]
