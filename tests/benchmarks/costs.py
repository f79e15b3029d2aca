"""What a gradient costs besides time: memory, garbage, records. Exact enough to be asserted in tests."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import functad

from .functad_programs import chain, chain_scalar
from .programs import MEMORY_ITERATIONS

OPERATIONS_PER_ITERATION = 4


def peak_bytes(step: Callable[[], Any]) -> int:
    """Return the most memory that is allocated at once while `step` runs, beyond what was there before."""
    gc.collect()
    running = tracemalloc.is_tracing()
    if not running:
        tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        step()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if not running:
            tracemalloc.stop()


def bytes_per_operation(operations: int) -> float:
    """Return the memory of the gradient of a chain on one number, per operation.

    The numbers that rules need are counted with it: 32 bytes for every sine.
    """
    gradient = functad.grad(chain_scalar)
    gradient(0.5, 1)
    return peak_bytes(lambda: gradient(0.5, operations // OPERATIONS_PER_ITERATION)) / operations


def peak_arrays(size: int = 1_000_000) -> float:
    """Return the memory of the gradient of a chain of 60 operations on a large array, in arrays of its size.

    The chain is 15 times `x = sin(x) * 0.9 + x * 0.1`; the input is not counted, the gradient is.
    """
    gradient = functad.grad(chain)
    x = np.linspace(-1.0, 1.0, size)
    gradient(x[:10], 1)
    return peak_bytes(lambda: gradient(x, MEMORY_ITERATIONS)) / x.nbytes


def tape_peak_arrays(f: Callable[[Any], Any], size: int = 1_000_000) -> float:
    """Return the memory of a gradient by a tape that is asked once, in arrays of its size; the input is not counted."""
    x = functad.constant(np.linspace(-1.0, 1.0, size))

    def step() -> Any:
        with functad.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    step()
    return peak_bytes(step) / (8 * size)


def unreachable_after(step: Callable[[], Any]) -> int:
    """Return how many objects only the cycle collector can free after `step`."""
    step()
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        step()
        return gc.collect()
    finally:
        if enabled:
            gc.enable()


def tracked_per_operation(operations: int) -> float:
    """Return how many objects that the cycle collector has to look at are alive at the end of a trace, per operation."""
    counts: list[int] = []

    def traced(x: Any) -> Any:
        x = chain_scalar(x, operations // OPERATIONS_PER_ITERATION)
        counts.append(len(gc.get_objects()))
        return x

    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        before = len(gc.get_objects())
        functad.grad(traced)(0.5)
    finally:
        if enabled:
            gc.enable()
    return (counts[0] - before) / operations
