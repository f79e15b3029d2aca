"""Compiled functions that branch on values: a Markdown table of times, paths and compilation times.

Each program of `tests.compilation.guarded_programs` and its gradient are compiled, and compared with eager execution at random
inputs, each called twice, so that a new path is traced and then compiled. From a checkout:

    python -m tests.benchmarks.branches --points 200 --paths 32
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import functad
from tests.compilation.guarded_programs import PROGRAMS


def seconds(call: Callable[[], Any], least: float = 0.02) -> float:
    """Return the time of a call: the best of three series of calls."""
    number, best = 1, float("inf")
    while best * number < least / 3:
        start = time.perf_counter()
        for _ in range(number):
            call()
        best, number = (time.perf_counter() - start) / number, 4 * number
    number = max(1, number // 4)
    for _ in range(2):
        start = time.perf_counter()
        for _ in range(number):
            call()
        best = min(best, (time.perf_counter() - start) / number)
    return best


def outcome(f: Callable[[Any], Any], x: Any) -> Any:
    """Return the result of a function, or the text of its error."""
    try:
        return f(x)
    except (ValueError, ArithmeticError) as error:
        return str(error)


def agree(found: Any, expected: Any) -> bool:
    """Return `True` if two results, or two errors, are equal up to rounding."""
    if isinstance(found, str) or isinstance(expected, str):
        return bool(found == expected)
    pairs = zip(functad.tree_leaves(found), functad.tree_leaves(expected), strict=True)
    return all(np.allclose(a, b, rtol=1e-8, atol=1e-10, equal_nan=True) for a, b in pairs)


def row(name: str, points: int, paths: int, backend: str | None) -> tuple[str, int]:
    """Return the line of a program in the table, and the number of differences to eager execution."""
    f, draw = PROGRAMS[name]
    rng = np.random.default_rng(20)
    inputs = [draw(rng) for _ in range(points)]
    compiled = functad.jit(f, backend=backend, max_paths=paths)
    slope = functad.value_and_grad(f)
    both = functad.jit(slope, backend=backend, max_paths=paths)
    first = next(x for x in inputs if not isinstance(outcome(f, x), str))
    start = time.perf_counter()
    both(first)  # traces
    both(first)  # compiles
    compilation = time.perf_counter() - start
    times = [seconds(lambda g=g: g(first)) for g in (f, slope, both)]  # type: ignore[misc]
    compiled(first)
    compiled(first)
    times.insert(1, seconds(lambda: compiled(first)))
    wrong = 0
    for x in inputs:
        for own, given in ((f, compiled), (slope, both)):
            expected = outcome(own, x)
            wrong += not agree(outcome(given, x), expected)
            wrong += not agree(outcome(given, x), expected)
    cells = [name, *[f"{1e6 * t:,.0f}" for t in times], f"{times[0] / times[1]:.0f}", f"{times[2] / times[3]:.0f}"]
    cells += [f"{1e3 * compilation:,.0f}", str(both.cache_info().size), str(wrong)]
    return f"| {' | '.join(cells)} |", wrong


def main() -> int:
    """Print the table and return 1 if a result differs from eager execution."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=20, help="random inputs of each program")
    parser.add_argument("--paths", type=int, default=8, help="max_paths of jit")
    parser.add_argument("--backend", help="the backend of jit")
    parser.add_argument("--programs", help="only programs with this text in their names", default="")
    options = parser.parse_args()
    print("| program | eager us | compiled us | gradient us | compiled us | x | x | compilation ms | paths | differences |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    total = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in PROGRAMS:
            if options.programs in name:
                line, wrong = row(name, options.points, options.paths, options.backend)
                total += wrong
                print(line, flush=True)
    return int(total > 0)


if __name__ == "__main__":
    raise SystemExit(main())
