"""Arrays of the user that records keep: what happens to them after they were used must not change a derivative.

Small ones are copied. A larger one, of which a copy would cost as much as the operation, is made read-only until the function
has returned, so that overwriting it raises, on the line that does it; after that nothing of the user runs until the derivative
is done. Where something does, as between the calls of a pullback, large ones are copied too.

A view of a large array that was made before stays writeable, and NumPy gives no means to find it. So large arrays are sealed
too: what they hold is summed when they are first used and when the function has returned, and must be the same. An array that
the user made read-only himself, with all that it is a view of, is trusted: that saves the two sums, 0.5 ms for 8 MB.

The function may know its inputs by another name. They are copied or made read-only likewise, but not sealed: of the gradient
of a network that would be 10 %.
"""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from functad.places import user_frame

_ndarray = np.ndarray
_getframe = sys._getframe
SMALL = 1 << 13
"""Up to this number of bytes arrays are copied: that takes 0.5 us, and to make one read-only and writeable again 3."""

_PRIMES = (1021, 1019, 1013, 1009, 997)
_ROWS = 32


_FROZEN: dict[int, int] = {}
"""By the identity of an array, how many open traces keep it read-only; one thaws only when the last of them has ended."""


def held(a: Any, recorder: Any) -> Any:
    """Return what a record keeps of an array that belongs to the user."""
    if a.nbytes <= SMALL or recorder.lasting:
        return a if a.base is None and not a.flags.writeable else a.copy()
    if id(a) in recorder.seals:
        return a
    if _freeze(a, recorder):
        seal(a, recorder)
    return a


def held_input(a: Any, recorder: Any) -> Any:
    """Return what stands for an array that is differentiated, while the function runs."""
    if a.nbytes <= SMALL and a.flags.forc and type(a) is _ndarray:
        return a if a.base is None and not a.flags.writeable else a.copy("K")
    _freeze(a, recorder)
    return a


def _freeze(a: Any, recorder: Any) -> bool:
    """Make an array and what it is a view of read-only while the trace is open; return whether any of them was not before."""
    frozen, found, owner = recorder.frozen, False, a
    while isinstance(owner, _ndarray):
        key = id(owner)
        known = _FROZEN.get(key, 0)
        if known or owner.flags.writeable:
            found = True
            if key not in frozen:
                owner.setflags(write=False)
                _FROZEN[key] = known + 1
                frozen[key] = owner
        owner = owner.base
    return found


def thaw(recorder: Any) -> None:
    """Make arrays writeable again that no other trace keeps; those that own memory before those that view it."""
    for key, a in reversed(recorder.frozen.items()):
        _FROZEN[key] -= 1
        if not _FROZEN[key]:
            del _FROZEN[key]
            a.setflags(write=True)
    recorder.frozen.clear()


def seal(a: Any, recorder: Any) -> None:
    """Remember what an array holds, and the user's line that runs now."""
    if not a.dtype.hasobject:  # the operation will refuse those
        frame = user_frame(_getframe(2))
        place = (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
        if not recorder.seals:
            recorder.seals = {}
        recorder.seals[id(a)] = a, _sums(a), place


def broken_seal(recorder: Any) -> tuple[Any, tuple[CodeType | None, int]] | None:
    """Return an array that was overwritten after it was sealed, if there is one, and the line that used it first."""
    for a, (sums, rest), place in recorder.seals.values():
        new_sums, new_rest = _sums(a)
        if not ((new_sums == sums).all() and (new_rest == rest).all()):
            return a, place
    return None


def _sums(a: Any) -> tuple[Any, Any]:
    """Return 3 % of the bytes of an array, which change with it, and a copy of the last of its bytes.

    The bytes are taken as integers of 64 bits, in blocks of 32 rows, of which the columns are summed modulo 2^64. So a change
    of one integer changes a sum, and so does a permutation, unless it stays within the columns of a block: their number is a
    prime that divides no length of the array, so that no exchange of its rows does. It takes 0.2 ms for 8 MB in the cache.
    """
    memory = _bytes(a)
    columns = next((p for p in _PRIMES if all(n % p for n in a.shape)), _PRIMES[-1])
    block = 8 * _ROWS * columns
    blocks = len(memory) // block
    words = memory[: blocks * block].view(np.uint64).reshape(blocks, _ROWS, columns)
    return np.add.reduce(words, axis=1), memory[blocks * block :].copy()


def _bytes(a: Any) -> Any:
    """Return the bytes of an array: of its memory as it lies there, if that is no more than the elements; otherwise a copy."""
    a = a.view(_ndarray)
    if a.flags.forc:
        return (a if a.flags.c_contiguous else a.T).reshape(-1).view(np.uint8)
    low, high = byte_bounds(a)
    if high - low > a.nbytes:
        return np.ascontiguousarray(a).reshape(-1).view(np.uint8)
    first = a[tuple([slice(-1, None) if stride < 0 else slice(1) for stride in a.strides])].reshape(1).view(np.uint8)
    return np.lib.stride_tricks.as_strided(first, (high - low,), (1,), writeable=False)
