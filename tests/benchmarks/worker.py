"""One library in a process of its own: reads commands as JSON lines, answers each with one.

    {"do": "start", "module": "torch_programs"}             -> {"version", "numpy", "python"}
    {"do": "prepare", "program": "logistic"}                -> {"seconds": of one step, after warming up}
    {"do": "check", "file": "x.npz"}                        -> {} (value and gradients are in the file)
    {"do": "time", "steps": 10, "collector": true}          -> {"seconds": [of each step], "pace": of this processor meanwhile}
    {"do": "pace"}                                          -> {"pace": of this processor now}
    {"do": "peak"}                                          -> {"bytes": most memory allocated during a step, by tracemalloc}

A command that fails is answered with {"error": "..."}. Run by `compare`, `scaling` and `transforms`.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import platform
import sys
import tracemalloc
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from .programs import PROGRAMS
from .transform_programs import TRANSFORMS

_LOOP = range(20_000)


def pace() -> float:
    """Return the seconds that a short loop takes in plain Python: twice as many while a neighbour shares the core."""
    least = float("inf")
    for _ in range(3):
        start = perf_counter()
        for _ in _LOOP:
            pass
        least = min(least, perf_counter() - start)
    return least


class Worker:
    """The library that was asked for, and the program that was prepared last."""

    def __init__(self) -> None:
        self.module: Any = None
        self.step: Callable[[], Any] = lambda: None

    def start(self, module: str) -> dict[str, Any]:
        """Import the programs of a library."""
        self.module = importlib.import_module(f".{module}", __package__)
        return {"version": self.module.VERSION, "numpy": np.__version__, "python": platform.python_version()}

    def prepare(self, program: str) -> dict[str, Any]:
        """Make the step of a program, and run it until it is warm."""
        chosen = PROGRAMS.get(program) or TRANSFORMS[program]
        self.step = self.module.prepare(program, chosen.arguments(), chosen.argnums)
        self.step()
        return {"seconds": min(self.time(3)["seconds"])}

    def check(self, file: str) -> dict[str, Any]:
        """Write value and gradients to a file."""
        np.savez(file, *self.module.arrays(self.step()))
        return {}

    def time(self, steps: int, collector: bool = True) -> dict[str, Any]:
        """Time steps, with the cycle collector on or off."""
        step = self.step
        before = pace()
        step()  # its threads and caches are warm again, whoever was at work before
        seconds = []
        if not collector:
            gc.collect()
            gc.disable()
        try:
            for _ in range(steps):
                start = perf_counter()
                step()
                seconds.append(perf_counter() - start)
        finally:
            gc.enable()
        return {"seconds": seconds, "pace": max(before, pace())}

    def pace(self) -> dict[str, Any]:
        """Tell how fast this processor is now."""
        return {"pace": pace()}

    def peak(self) -> dict[str, Any]:
        """Measure the memory of one step; libraries that do not allocate through Python or NumPy cannot be seen."""
        self.step()
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            self.step()
            return {"bytes": tracemalloc.get_traced_memory()[1] - before}
        finally:
            tracemalloc.stop()


def main(worker: Any) -> None:
    """Answer commands until the input ends; what a library prints goes to the standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(worker, command.pop("do"))(**command)
        except Exception as error:  # noqa: BLE001  # whatever it is, the other end shall hear of it
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(Worker())
