"""Which recorders of tapes record now: Variables ask when they are read, and tapes say so when they start and stop."""

from __future__ import annotations

import itertools
from contextvars import ContextVar
from typing import Any

from functad.settings import context_variable

ACTIVE: ContextVar[tuple[Any, ...]] = context_variable("active", default=())
"""The recorders that record now, in this thread or coroutine, by their serial numbers."""

_stamps = itertools.count(1)


class Stamp:
    """A number that changes whenever a tape starts, stops, or watches something: what variables remember is then read anew."""

    current = 0

    @classmethod
    def renew(cls) -> None:
        """Change the number."""
        cls.current = next(_stamps)
