"""The chapter on compilation: the same training with and without `functad.jit`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import functad
from functad.tour.network import BATCH, Tour, accuracy, first_params, momentum_step

STEPS = 500


def train_compiled(tour: Tour) -> None:
    """Train with and without `jit` on the same batches; print the times and the difference of the results."""
    first = first_params(tour.rng)
    at_rest = {name: np.zeros_like(value) for name, value in first.items()}
    compiled = functad.jit(momentum_step)
    start = time.perf_counter()
    before, after = compiled.lower(first, at_rest, *tour.batch()).expressions
    compiled(first, at_rest, *tour.batch())
    compiling = time.perf_counter() - start
    counts = len(before.equations), len(after.equations)
    print(f"One step, gradient and update, is a list of {counts[0]} operations, {counts[1]} when simplified.")
    print(f"Tracing and compiling it took {compiling * 1e3:.0f} ms.\n")
    ways: dict[str, Callable[..., Any]] = {"without jit": momentum_step, "with jit": compiled}
    states = dict.fromkeys(ways, (first, at_rest))
    seconds, losses = dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0.0)
    steps = min(tour.steps, STEPS)
    for _ in range(steps):
        images, labels = tour.batch()
        for name, way in ways.items():
            start = time.perf_counter()
            value, *state = way(*states[name], images, labels)
            seconds[name] += time.perf_counter() - start
            states[name], losses[name] = (state[0], state[1]), float(value)
    print(f"{steps} steps of {BATCH} digits    time  last loss  test accuracy")
    for name, (params, _) in states.items():
        share = accuracy(params, tour.held_out_images, tour.held_out_labels)
        print(f"{name:23}  {seconds[name]:5.2f} s  {losses[name]:9.4f}  {share:13.1%}")
    eager, other = (params for params, _ in states.values())
    apart = max(float(np.max(np.abs(other[name] - eager[name]))) for name in eager)
    print(f"largest difference of the parameters in the end  {apart:.1e}")
