"""How functad's costs grow: `python -m tests.benchmarks.scaling`.

Time and memory per operation of ever longer functions, elements read one at a time, peak memory of a gradient, and what
the cycle collector costs. With `--peers-python` the last two are measured for HIPS/autograd too, each library in a process
of its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import functad

from .compare import machine, plain, readable
from .costs import OPERATIONS_PER_ITERATION, bytes_per_operation, tracked_per_operation
from .frameworks import TITLES, Framework, start
from .functad_programs import chain_scalar, neighbours

ARRAY_BYTES = 8_000_000
COLLECTOR_ROUNDS, COLLECTOR_STEPS = 10, 40


def fastest(step: Callable[[], Any], repeats: int) -> float:
    """Return the shortest time of a few."""
    times = []
    for _ in range(repeats):
        start = perf_counter()
        step()
        times.append(perf_counter() - start)
    return min(times)


def long_chains(lengths: list[int]) -> list[dict[str, Any]]:
    """Measure time and memory per operation of chains on one number."""
    gradient = functad.value_and_grad(chain_scalar)
    rows = []
    for n in lengths:
        iterations = n // OPERATIONS_PER_ITERATION
        seconds = fastest(lambda iterations=iterations: gradient(0.5, iterations), 3 if n < 300_000 else 1)  # type: ignore[misc]
        rows.append({"operations": n, "seconds_per_operation": seconds / n, "bytes_per_operation": bytes_per_operation(n)})
    return rows


def element_reads(lengths: list[int]) -> list[dict[str, Any]]:
    """Measure the time per element of `sum(x[i] * x[i - 1] for i in range(1, n))`, forward and with its gradient."""
    gradient = functad.value_and_grad(neighbours)
    rows = []
    for n in lengths:
        x = np.linspace(0.0, 1.0, n)
        plain_seconds = fastest(lambda x=x: neighbours(x), 3)  # type: ignore[misc]
        seconds = fastest(lambda x=x: gradient(x), 3)  # type: ignore[misc]
        rows.append({"elements": n, "numpy_seconds_per_element": plain_seconds / n, "seconds_per_element": seconds / n})
    return rows


def peaks(frameworks: list[Framework]) -> list[dict[str, Any]]:
    """Measure the peak memory of the gradient of 60 operations on a million numbers."""
    rows = []
    for framework in frameworks:
        framework.ask("prepare", program="chain_memory")
        rows.append({"framework": framework.name, "arrays": framework.ask("peak")["bytes"] / ARRAY_BYTES})
    return rows


def collector(frameworks: list[Framework]) -> list[dict[str, Any]]:
    """Measure median and 95th percentile of the chain with the cycle collector on and off, in turn."""
    rows = []
    for framework in frameworks:
        if framework.name == "handwritten":
            continue
        framework.ask("prepare", program="chain_vector")
        seconds: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(COLLECTOR_ROUNDS):
            for on, times in seconds.items():
                times.extend(framework.ask("time", steps=COLLECTOR_STEPS, collector=on)["seconds"])
        row: dict[str, Any] = {"framework": framework.name}
        for on, times in seconds.items():
            name = "on" if on else "off"
            row[f"median_{name}"] = statistics.median(times)
            row[f"percentile_95_{name}"] = statistics.quantiles(times, n=20)[-1]
        rows.append(row)
    return rows


def report(results: dict[str, Any]) -> str:
    """Return the tables."""
    parts = [
        plain(
            [["chain on one number", "time per operation", "bytes per operation"]]
            + [
                [f"{r['operations']:,} operations", readable(r["seconds_per_operation"]), f"{r['bytes_per_operation']:.0f}"]
                for r in results["chains"]
            ]
        ),
        f"objects for the cycle collector, per operation: {results['tracked_per_operation']:.2f}",
        plain(
            [["sum of x[i] * x[i - 1]", "gradient, per element", "NumPy alone"]]
            + [
                [f"{r['elements']:,} elements", readable(r["seconds_per_element"]), readable(r["numpy_seconds_per_element"])]
                for r in results["reads"]
            ]
        ),
        plain(
            [["gradient of 15 times x = sin(x) * 0.9 + x * 0.1 on 1e6", "peak memory"]]
            + [[TITLES[r["framework"]], f"{r['arrays']:.1f} arrays"] for r in results["peaks"]]
        ),
        plain(
            [["chain of 1,000 operations, (8,)", "median", "95th percentile", "collector off: median", "95th percentile"]]
            + [
                [
                    TITLES[r["framework"]],
                    *[readable(r[key]) for key in ("median_on", "percentile_95_on", "median_off", "percentile_95_off")],
                ]
                for r in results["collector"]
            ]
        ),
    ]
    return "\n\n".join(parts)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.scaling", description=__doc__.splitlines()[0])
    parser.add_argument("--peers-python", help="interpreter that can import HIPS/autograd")
    parser.add_argument("--quick", action="store_true", help="chains up to 100,000 operations only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures and the machine to a file")
    chosen = parser.parse_args(arguments)
    largest = 100_000 if chosen.quick else 1_000_000
    lengths = [n for n in (1_000, 10_000, 100_000, 1_000_000) if n <= largest]
    results: dict[str, Any] = {"machine": machine()}
    results["chains"] = long_chains(lengths)
    results["tracked_per_operation"] = tracked_per_operation(10_000)
    results["reads"] = element_reads([1_000, 4_000, 16_000, 64_000])
    names = ["functad", "handwritten", *(["autograd"] if chosen.peers_python else [])]
    frameworks = start(names, chosen.peers_python or sys.executable)
    try:
        results["peaks"] = peaks(frameworks)
        results["collector"] = collector(frameworks)
    finally:
        for framework in frameworks:
            framework.close()
    print(report(results))
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
