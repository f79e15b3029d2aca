"""The work of a call, counted: what tests of costs compare instead of times, which depend on the load of the machine."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple


class Work(NamedTuple):
    """The work of a call.

    Attributes:
        calls: calls of functions, in Python and in C.
        allocated: bytes that were allocated, also those that were freed again, as far as they rise above a function's start.
        peak: the most bytes that were allocated at one time.
    """

    calls: int
    allocated: int
    peak: int


def work(call: Callable[[], Any]) -> Work:
    """Run a function, once to fill caches and once to count, and return its work."""
    call()
    gc.collect()
    calls = allocated = peak = last = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls, allocated, peak, last
        calls += event in ("call", "c_call")
        now, most = tracemalloc.get_traced_memory()
        allocated += max(most - last, 0)
        peak = max(peak, most)
        tracemalloc.reset_peak()
        last = now

    enabled = gc.isenabled()
    gc.disable()
    tracemalloc.start(1)
    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
        tracemalloc.stop()
        if enabled:
            gc.enable()
    return Work(calls, allocated, peak)


def peak_memory(call: Callable[[], Any]) -> int:
    """Return the most bytes that are allocated at one time while a function runs."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
