"""Locks in processes that `os.fork` creates.

The child of a fork has one thread: the copy of the thread that called `os.fork`. A lock that another thread held at that moment
stays locked in the child, and the child waits for it forever. Every lock of the package is therefore registered here.

Python's import system has a lock for each module, and does not free it in the child. functad imports most of its modules on
first use, so `os.fork` waits until no other thread runs an import within functad.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

L = TypeVar("L")
T_co = TypeVar("T_co", covariant=True)

LONGEST_IMPORT = 10.0
"""Seconds that `os.fork` waits for imports. The limit ends a deadlock with an import that waits for the forking thread."""

_HELD: list[Any] = []
_TAKEN: list[Any] = []


def renewed(lock: L, repair: Callable[[], object] = bool) -> L:
    """Return a lock that is free in the child of each fork.

    Use it for a lock that guards data such as a dictionary: they are consistent between any two instructions of Python.

    Args:
        lock: the lock.
        repair: called in the child if another thread held the lock.
    """
    own: Any = lock

    def renew() -> None:
        if own.acquire(blocking=False):  # it is free, or the forking thread holds it and releases it in the child
            own.release()
        else:
            own._at_fork_reinit()
            repair()

    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=renew)
    return lock


def held(lock: Any) -> None:
    """Let `os.fork` wait until no other thread holds a lock, and hold it while the process forks.

    Use it for a lock whose data are inconsistent while it is held, such as the objects of a library in C++.

    Args:
        lock: an instance of `threading.RLock`. If threads take two such locks in nested order, register the outer lock first.
    """
    if lock not in _HELD:
        _HELD.append(lock)


class cached_property(functools.cached_property[T_co]):  # noqa: N801 - the name of its base class
    """`functools.cached_property` whose lock (in Python 3.11) is free in the child of a fork."""

    def __init__(self, func: Callable[[Any], T_co]) -> None:
        super().__init__(func)
        if hasattr(self, "lock"):
            renewed(self.lock)


def _imports(frame: FrameType | None) -> bool:
    """Return `True` if a stack has an import within functad: the body of a module, or an import in a function."""
    importing = False
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        importing = importing or name == "importlib._bootstrap"
        if name.partition(".")[0] == "functad" and (importing or frame.f_code.co_name == "<module>"):
            return True
        frame = frame.f_back
    return False


def _before() -> None:
    """Take the registered locks before a fork, at a moment when no other thread imports functad."""
    own, end = threading.get_ident(), time.monotonic() + LONGEST_IMPORT
    while True:
        for lock in _HELD:
            lock.acquire()
            _TAKEN.append(lock)
        others = [frame for thread, frame in sys._current_frames().items() if thread != own]
        if not any(map(_imports, others)) or time.monotonic() > end:
            return
        _after()  # an import may need the locks
        time.sleep(0.001)


def _after() -> None:
    """Release the locks that were taken."""
    while _TAKEN:
        _TAKEN.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
