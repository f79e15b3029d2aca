"""Arrays of the user that records keep: what happens to them after they were used must not change a derivative.

Small ones are copied. A larger one, of which a copy would cost as much as the operation, is made read-only until the function
has returned, so that overwriting it raises, on the line that does it; after that nothing of the user runs until the derivative
is done. Where something does, as between the calls of a pullback, large ones are copied too.

A view of a large array that was made before stays writeable, and NumPy gives no means to find it. So large arrays are sealed
too: what they hold is summed when they are first used and when the function has returned, and must be the same. An array that
the user made read-only himself, with all that it is a view of, is trusted: that saves the two sums, 0.5 ms for 8 MB.

The function may know its inputs by another name. They are copied or made read-only likewise. Of large ones only a sample is
kept: to sum them would be 10 % of the gradient of a network, and a thousand words of each are 0.3 %, or 3 % out of the cache.
So it raises if an input is overwritten through an older view as a whole, or in large part; a few elements that change so
are not seen. Where the count of references says that nothing but its container holds an array, as is usual for the weights of a
network, there is no view, and nothing to look at.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from math import gcd
from types import CodeType
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from functad.places import user_frame

_ndarray = np.ndarray
_getframe = sys._getframe
_add_reduce = np.add.reduce
_WORD, _BYTE = np.dtype(np.uint64), np.dtype(np.uint8)
SMALL = 1 << 13
"""Up to this number of bytes arrays are copied: that takes 0.5 us, and to make one read-only and writeable again 3."""

_COPIED = 1 << 16
"""So large may be the inputs that are copied, of which otherwise a sample would be read: that takes 20 us, and the copy 3."""

_PRIMES = (1021, 1019, 1013, 1009, 997)
_ROWS = 32
_SAMPLES = 1021

_FROZEN: dict[int, int] = {}
"""By the identity of an array, how many open traces keep it read-only; one thaws only when the last of them has ended."""


def held(a: Any, recorder: Any) -> Any:
    """Return what a record keeps of an array that belongs to the user."""
    if a.nbytes <= SMALL or recorder.lasting:
        return a if a.base is None and not a.flags.writeable else a.copy()
    if (_all_words, id(a)) not in recorder.seals and _freeze(a, recorder):
        _seal(a, recorder, _all_words)
    return a


def held_input(a: Any, recorder: Any, *, alone: bool = False) -> Any:
    """Return what stands for an array that is differentiated, while the function runs; `alone` if nothing else views it."""
    if a.nbytes <= (SMALL if alone else _COPIED) and a.flags.forc and type(a) is _ndarray:
        return a if a.base is None and not a.flags.writeable else a.copy("K")
    if _freeze(a, recorder) and not alone and (_sample, id(a)) not in recorder.seals:
        _seal(a, recorder, _sample)
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
    views = []
    for key, a in reversed(recorder.frozen.items()):
        _FROZEN[key] -= 1
        if not _FROZEN[key]:
            del _FROZEN[key]
            if isinstance(a.base, _ndarray):
                views.append(a)
            else:
                a.setflags(write=True)
    for a in views:  # of several views of one owner, the owner may have been met between them
        a.setflags(write=True)
    recorder.frozen.clear()


def _seal(a: Any, recorder: Any, read: Callable[[Any, Any], list[Any]]) -> None:
    """Remember what an array holds, and the user's line that runs now if it is a constant."""
    if not a.dtype.hasobject:  # the operation will refuse those
        frame = user_frame(_getframe(2)) if read is _all_words else None
        place = None if frame is None else (frame.f_code, frame.f_lasti)
        if not recorder.seals:
            recorder.seals = {}
        memory, shared = _memory(a)
        parts = read(a, memory)
        viewed = parts if shared else None  # otherwise it is to be read anew
        recorder.seals[read, id(a)] = a, viewed, [*map(_digest, parts)], place


def broken_seal(recorder: Any) -> tuple[Any, tuple[CodeType, int] | None] | None:
    """Return an array that was overwritten after it was sealed, if there is one, and the line that used it first."""
    for (read, _), (a, viewed, digests, place) in recorder.seals.items():
        if [*map(_digest, viewed or read(a, _memory(a)[0]))] != digests:
            return a, place
    return None


def _digest(words: Any) -> bytes:
    """Return the bytes of some words; where these stand in blocks of rows, those of the sums of the columns of each block."""
    return (_add_reduce(words, 1) if words.ndim == 3 else words).tobytes()  # type: ignore[no-any-return]


def _sample(a: Any, memory: Any) -> list[Any]:
    """Return a thousand words of an array, at a distance that has no factor in common with the lengths of its axes."""
    words = _ndarray((memory.nbytes // 8,), _WORD, memory)
    distance = len(words) // _SAMPLES | 1
    while gcd(distance, len(words)) > 1:
        distance += 2
    return [words[::distance]]


def _all_words(a: Any, memory: Any) -> list[Any]:
    """Return what an array holds as integers of 64 bits, in blocks of 31 to 63 rows, and the last of its bytes.

    Of the blocks the columns are summed modulo 2^64. So a change of one integer changes a sum, and so does a permutation,
    unless it stays within the columns of a block: their number is a prime that divides no length of the array, so that no
    exchange of its rows does. It takes 0.2 ms for 8 MB in the cache.
    """
    size = memory.nbytes
    if size < 8 * _ROWS * _PRIMES[-1]:
        return [_ndarray((size,), _BYTE, memory)]
    blocks, used = _blocks(a.shape, size)
    return [_ndarray(blocks, _WORD, memory), _ndarray((size - used,), _BYTE, memory, used)]


@lru_cache(maxsize=256)
def _blocks(shape: tuple[int, ...], size: int) -> tuple[tuple[int, int, int], int]:
    """Return the shape of the blocks into which the words of an array are put, and how many bytes these are."""
    columns = next((p for p in _PRIMES if all(n % p for n in shape)), _PRIMES[-1])
    rows = size // (8 * columns)
    blocks = max(1, rows // _ROWS)
    rows //= blocks
    return (blocks, rows, columns), 8 * blocks * rows * columns


def _memory(a: Any) -> tuple[Any, bool]:
    """Return what an array holds as one without gaps, and whether that is its own memory as it lies there, not a copy."""
    a = a if type(a) is _ndarray else a.view(_ndarray)
    flags = a.flags
    if flags.forc:
        return (a if flags.c_contiguous else a.T), True
    low, high = byte_bounds(a)
    if high - low > a.nbytes:
        return np.ascontiguousarray(a), False
    first = a[tuple([slice(-1, None) if stride < 0 else slice(1) for stride in a.strides])].reshape(1).view(np.uint8)
    return np.lib.stride_tricks.as_strided(first, (high - low,), (1,), writeable=False), True
