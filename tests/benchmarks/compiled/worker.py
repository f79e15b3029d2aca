"""One library in a process of its own, for `compile`: a worker whose steps are compiled.

    {"do": "start", "module": "with_functad:llvm", "one_thread": true}  -> {"version", "numpy", "python"}
    {"do": "prepare", "program": "bundle"}  -> {"first": seconds of the first call, "seconds": of one step, once warm}
    {"do": "compile"}                       -> {"seconds": that the first call of the same program, made anew, takes longer}

The others are those of `tests.benchmarks.worker`.
"""

from __future__ import annotations

import gc
import importlib
import platform
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from tests.benchmarks import worker
from tests.benchmarks.programs import leaves

from .rows import ROWS


class Worker(worker.Worker):
    """The library that was asked for, and the row that was prepared last."""

    def start(self, module: str, one_thread: bool = False) -> dict[str, Any]:
        """Import what makes steps of programs."""
        folder, _, self.backend = module.partition(":")
        self.module = importlib.import_module(f".{folder}", __package__)
        if self.backend:
            self.module.functad.jit(abs, backend=self.backend)  # raises if there is no such backend
        if one_thread:
            self.module.one_thread()
        return {"version": self.module.VERSION, "numpy": np.__version__, "python": platform.python_version()}

    def prepare(self, program: str) -> dict[str, Any]:
        """Make the step of a row, compile it, and run it until it is warm."""
        self.step = self.fresh = lambda: None  # what was compiled before is freed
        row = ROWS[program]
        family, name = row.program.split(".")
        function = importlib.import_module(f"{self.module.__name__}.{family}").PROGRAMS[name]
        arguments = row.made()

        def fresh() -> Callable[[], Any]:
            made: Callable[[], Any] = self.module.fresh(function, arguments, self.backend)
            return made

        self.fresh = fresh
        self.step = fresh()
        first = _seconds(self.step)
        count = 3 if first < 10 else 1
        return {"first": first, "seconds": min(self.time(count)["seconds"])}

    def compile(self) -> dict[str, Any]:
        """Time by how much the first call of the row, made anew, is longer than the next ones."""
        step = self.fresh()
        gc.collect()
        first = _seconds(step)
        return {"seconds": max(0.0, first - min(_seconds(step), _seconds(step)))}

    def check(self, file: str) -> dict[str, Any]:
        """Write all results to a file."""
        np.savez(file, *[np.asarray(leaf) for leaf in leaves(self.step())])
        return {}


def _seconds(step: Callable[[], Any]) -> float:
    start = perf_counter()
    step()
    return perf_counter() - start


if __name__ == "__main__":
    worker.main(Worker())
