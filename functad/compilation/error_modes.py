"""NumPy's floating-point error modes, such as `np.errstate(divide="raise")`, which native code does not support.

Native code returns infinities and NaN, as NumPy does in the mode `ignore`. In the modes `raise`, `call`, `print` and `log`
`jit` therefore runs the function itself. In the mode `warn`, NumPy's default, native code gives no warnings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functad.tracing.float_errors import LAST, get_state, user_modes

modes: Callable[[], Any] = get_state
"""Return NumPy's immutable object of the modes. `np.errstate` and `np.seterr` replace it."""

CHECKED: list[Any] = [None]
"""The last result of `modes` with only the modes `ignore` and `warn`. A comparison takes 30 ns, `np.geterr` 400 ns."""


def are_heard() -> bool:
    """Return `True` if any error has a mode other than `ignore` and `warn`."""
    now = modes()
    if now is LAST[0][1] and LAST[0][0] is CHECKED[0]:  # a trace is open, and the modes outside are `ignore` and `warn`
        return False
    if any(mode not in ("ignore", "warn") for mode in user_modes().values()):
        return True
    if LAST[0][1] is not now:
        CHECKED[0] = now
    return False
