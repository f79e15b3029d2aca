"""The thread pool for loops over large arrays."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from functad.errors import InputError
from functad.places import here
from functad.process import renewed

MOST = 1024
"""The maximum number of threads, unless more processors are available."""

_LOCK = renewed(threading.Lock())
_STATE: dict[str, Any] = {"count": None, "pool": None, "process": None}


def available() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def get_num_threads() -> int:
    """Return the number of threads for compiled loops over large arrays.

    Returns:
        The number set by `set_num_threads`. Default: the number of processors that this process may use.

    Example:
        >>> import functad
        >>> functad.get_num_threads() >= 1
        True
    """
    count = _STATE["count"]
    return available() if count is None else count


def set_num_threads(count: int | None) -> None:
    """Set the number of threads for compiled loops over large arrays.

    Results are reproducible for a fixed number of threads. Another number may change the last digits of sums.

    Args:
        count: the number of threads, from 1 to the larger of 1,024 and the number of processors. `None`: the number of
            processors.

    Raises:
        InputError: `count` is not an integer in this range.

    Example:
        >>> import functad
        >>> functad.set_num_threads(1)
        >>> functad.get_num_threads()
        1
        >>> functad.set_num_threads(None)
    """
    most = max(MOST, available())
    if count is not None and (type(count) is not int or not 1 <= count <= most):
        raise InputError(f"set_num_threads takes an integer from 1 to {most} or None, not {count!r}, at {here()}.")
    with _LOCK:
        _STATE["count"] = count


def parts(extent: int) -> list[tuple[int, int, int]]:
    """Return the first index, the end and the number of each thread."""
    count = min(get_num_threads(), extent)
    ends = [extent * i // count for i in range(count + 1)]
    return [(ends[i], ends[i + 1], i) for i in range(count)]


def shared(call: Callable[..., None], ranges: Sequence[tuple[int, int, int]], arguments: tuple[Any, ...]) -> None:
    """Call a native function for each range, each in its own thread."""
    if len(ranges) == 1:
        call(*ranges[0], *arguments)
        return
    futures = [_pool().submit(call, *own, *arguments) for own in ranges[1:]]
    try:
        call(*ranges[0], *arguments)
    finally:
        for future in futures:  # the arrays must stay alive until all threads have written
            future.result()


def _pool() -> Any:
    """Return the thread pool of this process; a forked child does not inherit threads."""
    with _LOCK:
        if _STATE["pool"] is None or _STATE["process"] != os.getpid() or _STATE["size"] < get_num_threads():
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - the import takes 10 ms

            _STATE["size"] = max(get_num_threads(), available())
            _STATE["pool"] = ThreadPoolExecutor(_STATE["size"], "functad")
            _STATE["process"] = os.getpid()
        return _STATE["pool"]
