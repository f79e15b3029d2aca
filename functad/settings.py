"""Context variables of a thread, that have another value for a while, and have the old one again whatever ends that while.

An interrupt arrives between any two instructions: after a variable was set and before the `try` that follows, or in the middle
of the `finally` that puts it back. So the old value is read first, and is put back a second time if anything was raised.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_HERE = threading.local()


class ThreadVariable(Generic[T]):
    """A context variable whose values hold in the thread that set them, though other threads begin with a copy of its context.

    Args:
        name: of the variable.
        default: its value where it has not been set.
    """

    def __init__(self, name: str, *, default: T) -> None:
        self._default = default
        self._held: ContextVar[tuple[object, T]] = ContextVar(name, default=(None, default))

    def get(self) -> T:
        """Return the value that this thread has set."""
        thread, value = self._held.get()
        return value if thread is _thread() else self._default

    def set(self, value: T) -> Token[tuple[object, T]]:
        """Set the value for this thread, and for what copies its context within it."""
        return self._held.set((_thread(), value))

    def reset(self, token: Token[tuple[object, T]]) -> None:
        """Set the value that was there before."""
        self._held.reset(token)


def _thread() -> object:
    """Return an object that stands for this thread. Numbers of threads would not do: another thread may get the same later."""
    try:
        return _HERE.thread
    except AttributeError:
        _HERE.thread = object()
        return _HERE.thread


def context_variable(name: str, *, default: T) -> ContextVar[T]:
    """Make a context variable for what belongs to one thread: open tapes and traces, settings.

    Threads of free-threaded Python, and of others if told so, begin with the context of the thread that started them.
    """
    inherited = getattr(sys.flags, "thread_inherit_context", False)  # since Python 3.14
    kind: Any = ThreadVariable if inherited else ContextVar
    return kind(name, default=default)  # type: ignore[no-any-return]


@contextmanager
def setting(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Return a context in which a context variable has a value."""
    before = variable.get()
    try:
        try:
            variable.set(value)
            yield
        finally:
            variable.set(before)
    except BaseException:
        variable.set(before)
        raise
