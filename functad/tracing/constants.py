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
SMALL = 1 << 10
"""Up to this number of bytes arrays are copied: NumPy has such memory at hand."""


def held(a: Any, recorder: Any) -> Any:
    """Return what a record keeps of an array that belongs to the user."""
    if a.nbytes <= SMALL or recorder.lasting:
        return a.copy()
    owner = a
    while type(owner) is _ndarray and owner.flags.writeable:
        owner.setflags(write=False)
        recorder.frozen.append(owner)
        owner = owner.base
    return a


def thaw(recorder: Any) -> None:
    """Make arrays writeable again; those that own memory before those that view it."""
    for a in reversed(recorder.frozen):
        a.setflags(write=True)
    recorder.frozen.clear()
