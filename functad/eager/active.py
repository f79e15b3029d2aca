"""The active recorders of tapes: tapes set them at start and stop, and Variables look them up at each read."""

from __future__ import annotations

import itertools
from contextvars import ContextVar
from typing import Any

from functad.process import context_variable

ACTIVE: ContextVar[tuple[Any, ...]] = context_variable("active", default=())
"""The recorders that record now in this thread or coroutine, in the order of their serial numbers."""

_stamps = itertools.count(1)


class Stamp:
    """A number that changes when a tape starts, stops or watches a value; it invalidates the cached reads of Variables."""

    current = 0

    @classmethod
    def renew(cls) -> None:
        """Change the number."""
        cls.current = next(_stamps)
