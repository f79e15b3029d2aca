"""Freed memory stays with the process, for the next call to use.

A derivative needs the arrays of its forward pass all at once, and frees them all at its end. The allocator of the GNU C library
hands so much freed memory back to the system, and in the next call its pages are mapped and cleared anew: 1,400 page faults,
half of the time, in the gradient of a Gaussian mixture with arrays of 2 MB. It stops doing so for a program that has once freed
a large block (malloc(3), M_MMAP_THRESHOLD: "dynamic adjustment"), as programs with larger arrays do anyhow.
"""

from __future__ import annotations

import numpy as np

# A little below 32 MiB, the largest block that moves the threshold. Twice as much freed memory is kept at most.
_BLOCK = 31 << 20


def keep_freed_memory() -> None:
    """Allocate a large block and free it, untouched: 10 us once, and no memory.

    Other allocators than that of the GNU C library are left as they were.
    """
    np.empty(_BLOCK, np.uint8)
