"""The other end of the workers: starts one process per library and asks it things."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

MODULES = {
    "functad": "functad_programs",
    "tape": "tape_programs",
    "handwritten": "handwritten_programs",
    "autograd": "autograd_programs",
    "torch": "torch_programs",
    "jax": "jax_programs",
    "jax jit": "jax_jit_programs",
    "tensorflow": "tensorflow_programs",
}
"""The module with the programs of each framework; those in `OURS` run under the interpreter of the comparison itself."""

TRANSFORM_MODULES = {
    "functad": "functad_transforms",
    "reference": "reference_transforms",
    "autograd": "autograd_transforms",
    "torch": "torch_transforms",
    "jax": "jax_transforms",
    "jax jit": "jax_jit_transforms",
}
"""Likewise for the transforms other than gradients."""

TITLES = {
    "functad": "functad",
    "tape": "functad's tape",
    "reference": "for reference",
    "handwritten": "hand-written NumPy",
    "autograd": "HIPS/autograd",
    "torch": "PyTorch eager",
    "jax": "JAX without jit",
    "jax jit": "JAX with jit",
    "tensorflow": "TensorFlow's eager tape",
}
OURS = ("functad", "tape", "handwritten", "reference")

KEEP_MEMORY = {
    "MALLOC_TOP_PAD_": str(2**28),
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
}
"""Settings with which the C library does not hand freed memory back. Otherwise arrays of some megabytes are paid for again,
page by page, at every step; in a virtual machine that can take longer than computing them."""


class WorkerError(Exception):
    """A worker could not do what it was asked."""


class Framework:
    """A library in a process of its own.

    Attributes:
        name: its key in `modules`.
        versions: of the library, of NumPy and of Python there.
        worker: the module that runs there.
        environment: variables that are set there.
    """

    worker = "tests.benchmarks.worker"
    environment: Mapping[str, str] = {}

    def __init__(self, name: str, python: str, *, keep_memory: bool = False, modules: Mapping[str, str] = MODULES) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [python, "-m", self.worker],
            cwd=ROOT,
            env={**os.environ, **(KEEP_MEMORY if keep_memory else {}), **self.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            self.versions: dict[str, str] = self.ask("start", module=modules[name])
        except WorkerError:
            self.close()
            raise

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Send a command and return the answer.

        Raises:
            WorkerError: the command failed there, or the process has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise WorkerError(f"{self.name}: the process has ended")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WorkerError(f"{self.name}: {answer['error']}")
        return answer

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it may have ended before it read the last command
            self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()


def start(
    names: list[str], peers_python: str, *, keep_memory: bool = False, modules: Mapping[str, str] = MODULES
) -> list[Framework]:
    """Start the frameworks that can be imported, and say which cannot."""
    started = []
    for name in names:
        try:
            python = sys.executable if name in OURS else peers_python
            started.append(Framework(name, python, keep_memory=keep_memory, modules=modules))
        except WorkerError as error:
            print(f"left out: {error}", file=sys.stderr)
    return started
