"""Freed memory stays with the process, for the next call to use.

A derivative needs the arrays of its forward pass all at once, and frees them all at its end. The allocator of the GNU C library
hands so much freed memory back to the system, and in the next call its pages are mapped and cleared anew: 1,400 page faults,
half of the time, in the gradient of a Gaussian mixture with arrays of 2 MB. It stops doing so for a program that has once freed
a large block (malloc(3), M_MMAP_THRESHOLD: "dynamic adjustment"), as programs with larger arrays do anyhow.

That is a matter of the whole process, and what is kept is there for each thread, so it is done at the first gradient that
holds arrays as large as the allocator would hand back, or when a list with such arrays is compiled, and never where the
environment variable FUNCTAD_KEEP_MEMORY is 0.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

_ndarray = np.ndarray
_BLOCK = 31 << 20
"""A little below 32 MiB, the largest block that moves the threshold. Twice as much freed memory is kept at most."""

_LARGE = 1 << 17
"""From so many bytes on a block is handed back when it is freed, as long as nothing has moved the threshold."""

_LOOKED_AT = 8
_ALL = 64

_turns = itertools.count()


class Allocation:
    """Whether something is still to be done."""

    undecided = True

    @classmethod
    def look(cls, records: Sequence[Any]) -> None:
        """Keep freed memory from now on if records hold large arrays.

        A few records are looked at, in the next call others, so that a loop comes to all of them. That takes 1 us, a fiftieth
        of a small gradient; after many of these only each sixteenth looks.
        """
        turn = next(_turns)
        if turn > _ALL and turn % 16:
            return
        step = 1 + len(records) // _LOOKED_AT
        for record in records[(turn + turn // 16) % step :: step]:
            if record is not None and _is_large(record[2]):
                cls.decide()
                return

    @classmethod
    def look_at_sizes(cls, sizes: Iterable[int]) -> None:
        """Keep freed memory from now on if a compiled list makes arrays of so many bytes that one is large."""
        if cls.undecided and any(size >= _LARGE for size in sizes):
            cls.decide()

    @classmethod
    def decide(cls) -> None:
        """Keep freed memory from now on, if nothing speaks against it."""
        if _is_measured():  # the block would be counted
            return
        cls.undecided = False
        if os.environ.get("FUNCTAD_KEEP_MEMORY") != "0":
            keep_freed_memory()


def _is_large(saved: Any) -> bool:
    if type(saved) is not tuple:
        return type(saved) is _ndarray and saved.nbytes >= _LARGE
    for part in saved:
        if type(part) is tuple:
            for a in part:
                if type(a) is _ndarray and a.nbytes >= _LARGE:
                    return True
        elif type(part) is _ndarray and part.nbytes >= _LARGE:
            return True
    return False


def _is_measured() -> bool:
    module = sys.modules.get("tracemalloc")
    return module is not None and module.is_tracing()


def keep_freed_memory() -> None:
    """Allocate a large block and free it, untouched: 10 us once, and no memory.

    Other allocators than that of the GNU C library are left as they were.
    """
    with suppress(MemoryError):  # the process may have less left, by a limit
        np.empty(_BLOCK, np.uint8)
