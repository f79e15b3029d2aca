"""What a gradient costs besides time: linear records, little memory, no cycles."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import functad

from . import costs, functad_programs, tape_programs
from .programs import PROGRAMS

pytestmark = pytest.mark.usefixtures("small_heap")


def test_a_long_chain_needs_at_most_400_bytes_an_operation() -> None:
    assert costs.bytes_per_operation(40_000) <= 400


def test_bytes_per_operation_do_not_grow_with_the_length() -> None:
    assert costs.bytes_per_operation(40_000) <= 1.1 * costs.bytes_per_operation(4_000)


def test_a_record_gives_the_cycle_collector_little_to_look_at() -> None:
    assert costs.tracked_per_operation(4_000) <= 2.5


def test_sixty_operations_on_a_large_array_need_at_most_18_arrays() -> None:
    assert costs.peak_arrays(100_000) <= 18


def test_sixty_operations_under_a_tape_need_at_most_18_arrays() -> None:
    assert costs.tape_peak_arrays(lambda x: functad_programs.chain(x, 15), 100_000) <= 18


def test_a_tape_keeps_masks_of_rectified_values_and_nothing_of_sums() -> None:
    def rectified(x: Any) -> Any:
        for _ in range(30):
            x = np.maximum(x, 0.0) + 1.0
        return np.sum(x)

    assert costs.tape_peak_arrays(rectified, 100_000) <= 8  # 30 masks of an eighth of the size


@pytest.mark.parametrize("name", ["chain_scalar", "chain_vector", "logistic", "mixture", "lorenz"])
def test_a_tape_leaves_nothing_to_the_cycle_collector(name: str) -> None:
    program = PROGRAMS[name]
    assert costs.unreachable_after(tape_programs.prepare(name, program.arguments(), program.argnums)) == 0


def test_thousands_of_short_tapes_leave_nothing() -> None:
    x = functad.constant(2.0)

    def step() -> None:
        for _ in range(2_000):
            with functad.GradientTape() as tape:
                tape.watch(x)
                y = x * x
            tape.gradient(y, x)

    step()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        step()
        assert tracemalloc.get_traced_memory()[0] - before < 10_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["chain_scalar", "chain_vector", "logistic", "mixture", "lorenz"])
def test_a_gradient_leaves_nothing_to_the_cycle_collector(name: str) -> None:
    program = PROGRAMS[name]
    assert costs.unreachable_after(functad_programs.prepare(name, program.arguments(), program.argnums)) == 0


def test_memory_of_reading_elements_is_linear() -> None:
    gradient = functad.grad(functad_programs.neighbours)

    def peak(n: int) -> float:
        x = np.linspace(0.0, 1.0, n)
        return costs.peak_bytes(lambda: gradient(x)) / n

    peak(10)
    assert peak(4_000) <= 1.1 * peak(1_000)


def test_a_hundred_thousand_operations_do_not_recurse() -> None:
    def f(x: Any) -> Any:
        for _ in range(100_000):
            x = x * 0.9999
        return x

    assert np.isclose(functad.grad(f)(1.0), 0.9999**100_000)
