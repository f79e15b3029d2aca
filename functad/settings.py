"""Context variables with a temporary value per thread, restored after any exit, including interrupts.

An interrupt may arrive between any two instructions: between the set and the following `try`, or inside the `finally` that
restores the value. So the old value is read first, and is restored a second time if an exception was raised.
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
    """A context variable whose values hold in the thread that set them, even if other threads copy its context.

    Args:
        name: the name of the variable.
        default: the value before the first `set`.
    """

    def __init__(self, name: str, *, default: T) -> None:
        self._default = default
        self._held: ContextVar[tuple[object, T]] = ContextVar(name, default=(None, default))

    def get(self) -> T:
        """Return the value that this thread has set, or the default."""
        thread, value = self._held.get()
        return value if thread is _thread() else self._default

    def set(self, value: T) -> Token[tuple[object, T]]:
        """Set the value for this thread and for copies of its context within the thread."""
        return self._held.set((_thread(), value))

    def reset(self, token: Token[tuple[object, T]]) -> None:
        """Restore the value before `set`."""
        self._held.reset(token)


def _thread() -> object:
    """Return an object that identifies this thread. Thread numbers can be reused by later threads."""
    try:
        return _HERE.thread
    except AttributeError:
        _HERE.thread = object()
        return _HERE.thread


def context_variable(name: str, *, default: T) -> ContextVar[T]:
    """Return a context variable for data of one thread: open tapes and traces, settings.

    In free-threaded Python, and with `thread_inherit_context`, threads start with a copy of the context of their parent thread.
    """
    inherited = getattr(sys.flags, "thread_inherit_context", False)  # since Python 3.14
    kind: Any = ThreadVariable if inherited else ContextVar
    return kind(name, default=default)  # type: ignore[no-any-return]


@contextmanager
def setting(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Return a context manager that sets a context variable."""
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
