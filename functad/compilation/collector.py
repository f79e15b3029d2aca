"""The cycle collector of Python, which has nothing to find in lists and looks through them all the same."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Let the collector wait until a list has been made: for one of 150,000 equations it takes a third of the time.

    Records refer to one another by numbers, so that nothing in a trace forms a cycle.
    """
    was = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if was:
            gc.enable()
