"""NumPy's modes for floating-point errors, which native code does not know: `np.errstate(divide="raise")` and the like.

Native code computes infinities and NaN, as NumPy does in the mode `ignore`. In the modes `raise`, `call`, `print` and `log` a
compiled function therefore runs the function itself. In the mode `warn`, NumPy's default, native code gives no warnings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functad.tracing.float_errors import LAST, get_state, user_modes

modes: Callable[[], Any] = get_state
"""Return the object of NumPy that holds the modes, and is never changed: `np.errstate` and `np.seterr` make another one."""

CHECKED: list[Any] = [None]
"""The last result of `modes` that stood for silent modes: to compare it takes 30 ns, and `np.geterr` takes 400."""


def are_heard() -> bool:
    """Return `True` if NumPy is to do anything but ignore an error or warn of it."""
    now = modes()
    if now is LAST[0][1] and LAST[0][0] is CHECKED[0]:  # a trace is open, and the modes before it were silent
        return False
    if any(mode not in ("ignore", "warn") for mode in user_modes().values()):
        return True
    if LAST[0][1] is not now:
        CHECKED[0] = now
    return False
