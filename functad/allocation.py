"""Freed memory stays with the process, for the next call to use.

A derivative needs the arrays of its forward pass all at once, and frees all of them at its end. The allocator of the GNU C
library returns large freed blocks to the system, which maps and clears their pages anew in the next call. It stops returning
them after the program has once freed a larger block (malloc(3), M_MMAP_THRESHOLD: "dynamic adjustment").
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

_BLOCK_BYTES = 31 << 20
"""A little below 32 MiB, the largest block that moves the threshold."""


def keep_freed_memory() -> None:
    """Let the process keep freed memory for the next call, instead of returning it to the system.

    Call it once at the start of a program that computes gradients with arrays of 128 KiB to 30 MiB again and again. The
    gradient of a Gaussian mixture with arrays of 2 MB takes about half of the time then, because it meets no fresh pages.

    The function allocates a block of 31 MiB and frees it, untouched, in 10 us. The GNU C library (Linux) keeps up to 64 MiB of
    freed memory a thread from then on, in the whole process, as it does after a program has freed an array of that size itself.
    With other allocators the function has no effect. functad never calls it.

    Example:
        >>> import functad
        >>> functad.keep_freed_memory()
    """
    with suppress(MemoryError):  # a limit of the process may leave less memory
        np.empty(_BLOCK_BYTES, np.uint8)
