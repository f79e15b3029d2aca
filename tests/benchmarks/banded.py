"""The sparse Jacobian of a banded function, for how its time grows with the number of rows."""

from __future__ import annotations

import statistics
from time import perf_counter
from typing import Any

import numpy as np

import functad

SIZES = (1_000, 3_000, 10_000, 30_000)


def banded(x: Any) -> Any:
    """Each element of the result reads five neighbours."""
    return np.sin(x[4:]) * x[3:-1] + x[2:-2] * x[1:-3] + np.exp(-x[:-4])


def measure(sizes: tuple[int, ...] = SIZES, rounds: int = 9) -> list[dict[str, Any]]:
    """Return the median seconds for each size, in turn: with pattern and colouring found anew, and with both given."""
    steps: dict[int, Any] = {}
    for n in sizes:
        x = np.linspace(0.0, 1.0, n)
        given = functad.sparse_jacobian(banded, sparsity=functad.jacobian_sparsity(banded, x))
        given(x)  # colours
        steps[n] = x, given
    times: dict[int, list[list[float]]] = {n: [[], []] for n in sizes}
    for _ in range(rounds):
        for n, (x, given) in steps.items():
            start = perf_counter()
            functad.sparse_jacobian(banded)(x)
            between = perf_counter()
            given(x)
            times[n][0].append(between - start)
            times[n][1].append(perf_counter() - between)
    return [
        {"n": n, "seconds": statistics.median(free), "seconds_with_pattern": statistics.median(given)}
        for n, (free, given) in times.items()
    ]
