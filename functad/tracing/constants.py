"""Arrays of the user that records keep: what happens to them after they were used must not change a derivative.

Small ones are copied. A larger one, of which a copy would cost as much as the operation, is made read-only until the function
has returned, so that overwriting it raises; after that nothing of the user runs until the derivative is done. Where something
does, as between the calls of a pullback, large ones are copied too. (A view of a large array that was made before the trace
stays writeable: NumPy gives no means to find it.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

_ndarray = np.ndarray
SMALL = 1 << 13
"""Up to this number of bytes arrays are copied: that takes 0.5 us, and to make one read-only and writeable again 3."""


_FROZEN: dict[int, int] = {}
"""By the identity of an array, how many open traces keep it read-only; one thaws only when the last of them has ended."""


def held(a: Any, recorder: Any) -> Any:
    """Return what a record keeps of an array that belongs to the user."""
    if a.nbytes <= SMALL or recorder.lasting:
        return a if a.base is None and not a.flags.writeable else a.copy()
    frozen, owner = recorder.frozen, a
    while type(owner) is _ndarray and id(owner) not in frozen:
        known = _FROZEN.get(id(owner), 0)
        if known or owner.flags.writeable:
            owner.setflags(write=False)
            _FROZEN[id(owner)] = known + 1
            frozen[id(owner)] = owner
        owner = owner.base
    return a


def thaw(recorder: Any) -> None:
    """Make arrays writeable again that no other trace keeps; those that own memory before those that view it."""
    for key, a in reversed(recorder.frozen.items()):
        _FROZEN[key] -= 1
        if not _FROZEN[key]:
            del _FROZEN[key]
            a.setflags(write=True)
    recorder.frozen.clear()
