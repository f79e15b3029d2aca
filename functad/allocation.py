"""Control of the memory allocator: keep freed memory in the process for the next call.

A derivative holds the arrays of its forward pass and frees all of them at its end. The allocator of the GNU C library returns
large freed blocks to the system, which maps and clears their pages again in the next call. It stops returning them after the
program has freed one larger block (malloc(3), M_MMAP_THRESHOLD: "dynamic adjustment").
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

_BLOCK_BYTES = 31 << 20
"""Slightly below 32 MiB, the largest block that moves the threshold."""


def keep_freed_memory() -> None:
    """Let the process keep freed memory for the next call, instead of returning it to the system.

    Call it once at the start of a program that repeatedly computes gradients with arrays of 128 KiB to 30 MiB. The gradient of
    a Gaussian mixture with arrays of 2 MB then takes about half of the time, because it needs no new pages.

    The function allocates a block of 31 MiB and frees it, untouched, in 10 us. From then on, the GNU C library (Linux) keeps up
    to 64 MiB of freed memory per thread in the whole process. The same happens when a program frees an array of this size. With
    other allocators the function has no effect. functad never calls it itself.

    Example:
        >>> import functad
        >>> functad.keep_freed_memory()
    """
    with suppress(MemoryError):  # a limit of the process may leave less memory
        np.empty(_BLOCK_BYTES, np.uint8)
