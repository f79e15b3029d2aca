"""The other end of the workers of `compile`: a process for each library, started again when it dies or takes too long."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from typing import Any

from tests.benchmarks.frameworks import Framework, WorkerError

MODULES = {
    "llvm": "with_functad:llvm",
    "numpy": "with_functad:numpy",
    "xla": "with_functad:xla",
    "eager": "with_functad",
    "handwritten": "by_hand",
    "jax": "with_jax",
    "torch": "with_torch",
}
"""What makes the steps of each framework, and the backend of those of functad."""

TITLES = {
    "llvm": "functad, llvm",
    "numpy": "functad, numpy",
    "xla": "functad, xla",
    "eager": "functad, eager",
    "handwritten": "by hand",
    "jax": "jax.jit",
    "torch": "PyTorch",
}
OURS = ("llvm", "numpy", "xla", "eager", "handwritten")
COMPILING = ("llvm", "numpy", "xla", "jax")

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NPROC": "1",  # read by XLA for the number of its threads
}


class Peer(Framework):
    """A library in a process of its own.

    Args:
        name: its key in `MODULES`.
        python: the interpreter.
        limit: seconds after which an answer is waited for no longer.
        one_thread: whether it is to use one thread alone.
        keep_memory: whether it is to keep freed memory.
    """

    worker = "tests.benchmarks.compiled.worker"

    def __init__(self, name: str, python: str, *, limit: float, one_thread: bool, keep_memory: bool = False) -> None:
        self.limit = limit
        self.one_thread = one_thread
        self._keep_memory = keep_memory
        self._python = python
        if one_thread:
            self.environment: Mapping[str, str] = ONE_THREAD
        super().__init__(name, python, keep_memory=keep_memory, modules=MODULES)

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Send a command and return the answer.

        Raises:
            WorkerError: the command failed there, the process has ended, or it took too long and was ended.
        """
        if do == "start":
            arguments["one_thread"] = self.one_thread
        late = threading.Event()

        def end() -> None:
            late.set()
            self._process.kill()

        timer = threading.Timer(self.limit, end)
        timer.start()
        try:
            return super().ask(do, **arguments)
        except WorkerError as error:
            if late.is_set():
                raise WorkerError(f"{self.name}: more than {self.limit:g} s") from None
            raise WorkerError(str(error)) from None
        finally:
            timer.cancel()

    def alive(self) -> Peer:
        """Return this peer, or another process like it if this one has ended."""
        try:
            self.ask("pace")
        except WorkerError:
            self.close()
            same = {"limit": self.limit, "one_thread": self.one_thread, "keep_memory": self._keep_memory}
            return Peer(self.name, self._python, **same)
        return self


def start(names: list[str], peers_python: str, **settings: Any) -> list[Peer]:
    """Start the frameworks that there are, and say which cannot be; settings are those of `Peer`."""
    started = []
    for name in names:
        python = sys.executable if name in OURS else peers_python
        try:
            started.append(Peer(name, python, **settings))
        except WorkerError as error:
            print(f"left out: {error}", file=sys.stderr)
    return started
