"""NumPy's floating-point warnings: at the user's line inside traced functions, and none inside derivative passes.

NumPy's C code emits a `RuntimeWarning` at the innermost Python frame. This frame belongs to functad when functad computes the
value of a Tensor. While a traced function runs, functad therefore replaces the error mode "warn" by "log", with an object that
emits the same warning at the user's line. Modes that the user has set ("ignore", "raise", "call", "log") stay. Operations take
no extra time: NumPy reads the mode only after the processor has set a flag.

NumPy keeps the modes in a private context variable. If the variable is missing, the warnings are unchanged.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from functad.places import is_of_numpy, is_own_frame, user_frame, warn

P = ParamSpec("P")
R = TypeVar("R")

get_state: Callable[[], Any]
set_state: Callable[[Any], Any]
_make: Callable[..., Any] | None
try:
    from numpy._core.umath import _extobj_contextvar, _make_extobj
except ImportError:
    get_state, set_state, _make = object, id, None
else:
    get_state, set_state, _make = _extobj_contextvar.get, _extobj_contextvar.set, _make_extobj


class _AtUserLine:
    """The object that receives floating-point errors from NumPy.

    Attributes:
        modes: the user's modes by kind of error.
        call: the user's object for the modes "call" and "log".
    """

    __slots__ = ("call", "modes")

    def __init__(self, modes: dict[str, Any], call: Any) -> None:
        self.modes = modes
        self.call = call

    def __call__(self, error: str, flag: int) -> None:
        """Forward an error to the user's function."""
        self.call(error, flag)

    def write(self, text: str) -> None:
        """Emit the warning that NumPy would emit, or forward the text if the user's mode is "log"."""
        message = text.removeprefix("Warning: ").rstrip("\n")
        if self.modes.get(next((kind for start, kind in _KINDS.items() if message.startswith(start)), "")) == "log":
            self.call.write(text)
        else:
            _warn(RuntimeWarning(message), sys._getframe(1))


_KINDS = {"divide by zero": "divide", "overflow": "over", "underflow": "under", "invalid value": "invalid"}


def _warn(warning: Warning, frame: FrameType) -> None:
    """Emit a warning at the user's line if functad computes, otherwise at the innermost line, as NumPy does."""
    caller: FrameType | None = frame
    while caller is not None and is_of_numpy(caller):
        caller = caller.f_back
    place = frame
    if caller is not None and is_own_frame(caller):
        place = user_frame(caller) or frame
    warn(warning, place)


LAST: list[tuple[Any, Any]] = [(None, None)]
"""The last replaced state of NumPy and its replacement, as one pair; `traced` reads it without a call."""


def float_errors(before: Any) -> Any:
    """Return a state of NumPy and the state in which warnings name the user's line; `None` if nothing changes.

    The caller sets the second state and finally calls `leave_float_errors`. An interrupt in between is then harmless.
    """
    pair = LAST[0]
    if before is pair[1]:  # within another trace
        return None
    if before is not pair[0]:
        modes, call = dict[str, Any](np.geterr()), np.geterrcall()
        if _make is None or "warn" not in modes.values() or type(call) is _AtUserLine:
            return None
        changed = {kind: "log" for kind, mode in modes.items() if mode == "warn"}
        LAST[0] = pair = before, _make(**changed, call=_AtUserLine(modes, call))
    return pair


def user_modes() -> dict[str, Any]:
    """Return the modes of `np.geterr`, with "warn" for every mode that a trace has replaced by "log"."""
    modes, call = dict[str, Any](np.geterr()), np.geterrcall()
    if type(call) is not _AtUserLine:
        return modes
    return {kind: call.modes[kind] if mode == "log" else mode for kind, mode in modes.items()}


def enter_float_errors(pair: Any) -> None:
    """Set the second state of a pair from `float_errors`; do nothing for `None`."""
    if pair is not None:
        set_state(pair[1])


def leave_float_errors(pair: Any) -> None:
    """Restore the first state of a pair. Modes that the function has set with `np.seterr` stay."""
    if pair is None:
        return
    now = get_state()
    if now is pair[1]:
        set_state(pair[0])
    elif now is not pair[0] and _make is not None and type(call := np.geterrcall()) is _AtUserLine:
        # `np.seterr` has derived a new state from the replacement.
        replaced = [kind for kind, mode in np.geterr().items() if mode == "log" and call.modes[kind] == "warn"]
        set_state(_make(**dict.fromkeys(replaced, "warn"), call=call.call))


def in_silence(f: Callable[P, R]) -> Callable[P, R]:
    """Return `f` without floating-point warnings, in half the time of `np.errstate`.

    The state is restored a second time after an exception, since an interrupt may arrive just before the first restoration.
    """
    if _make is None:
        return np.errstate(all="ignore")(f)
    ignored = _make(all="ignore")

    @functools.wraps(f)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        before = get_state()
        try:
            try:
                set_state(ignored)
                return f(*args, **kwargs)
            finally:
                set_state(before)
        except BaseException:
            set_state(before)
            raise

    return call
