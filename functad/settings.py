"""Context variables that have another value for a while, and have the old one again whatever ends that while.

An interrupt arrives between any two instructions: after a variable was set and before the `try` that follows, or in the middle
of the `finally` that puts it back. So the old value is read first, and is put back a second time if anything was raised.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


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
