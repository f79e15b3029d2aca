"""NumPy's floating-point warnings: at the user's line inside traced functions, and none inside derivative passes.

NumPy's C code gives a `RuntimeWarning` at the innermost Python frame. Where functad computes the value of a Tensor, that is a
frame of functad. While a traced function runs, the error mode "warn" is therefore replaced by "log", with an object that gives
the same warning at the user's line. Modes that the user has set ("ignore", "raise", "call", "log") stay. Operations cost no
more time: NumPy reads the mode only after the processor has set a flag.

NumPy keeps the modes in a context variable that is not public. Where it is missing, warnings stay as they are.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from functad.places import is_of_numpy, is_own_frame, user_frame, warn_at

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
    """The object that NumPy reports floating-point errors to.

    Attributes:
        modes: the user's modes by kind of error.
        call: the object that the user has set for the modes "call" and "log".
    """

    __slots__ = ("call", "modes")

    def __init__(self, modes: dict[str, Any], call: Any) -> None:
        self.modes = modes
        self.call = call

    def __call__(self, error: str, flag: int) -> None:
        """Pass an error on to the user's function."""
        self.call(error, flag)

    def write(self, text: str) -> None:
        """Give the warning that NumPy would give, or pass the text on if the user's mode is "log"."""
        message = text.removeprefix("Warning: ").rstrip("\n")
        if self.modes.get(next((kind for start, kind in _KINDS.items() if message.startswith(start)), "")) == "log":
            self.call.write(text)
        else:
            _warn(RuntimeWarning(message), sys._getframe(1))


_KINDS = {"divide by zero": "divide", "overflow": "over", "underflow": "under", "invalid value": "invalid"}


def _warn(warning: Warning, frame: FrameType) -> None:
    """Give a warning at the user's line if functad computes, and otherwise at the innermost line, as NumPy does."""
    caller: FrameType | None = frame
    while caller is not None and is_of_numpy(caller):
        caller = caller.f_back
    place = frame
    if caller is not None and is_own_frame(caller):
        place = user_frame(caller) or frame
    warn_at(warning, place)


LAST: list[tuple[Any, Any]] = [(None, None)]
"""One pair: the state of NumPy that was replaced last, and the state that replaces it. `traced` reads it without a call."""


def float_errors(before: Any) -> Any:
    """Return the pair of a state of NumPy and the state in which warnings name the user's line; `None` if nothing changes.

    The caller sets the second state and calls `leave_float_errors` in the end. An interrupt between is then harmless.
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
    """Return the modes of `np.geterr`, with the user's mode "warn" where a trace has replaced it."""
    modes, call = dict[str, Any](np.geterr()), np.geterrcall()
    if type(call) is not _AtUserLine:
        return modes
    return {kind: call.modes[kind] if mode == "log" else mode for kind, mode in modes.items()}


def enter_float_errors(pair: Any) -> None:
    """Set the second state of a pair, in which floating-point warnings name the user's line."""
    if pair is not None:
        set_state(pair[1])


def leave_float_errors(pair: Any) -> None:
    """Restore the first state of a pair. Modes that the function has set by `np.seterr` stay."""
    if pair is None:
        return
    now = get_state()
    if now is pair[1]:
        set_state(pair[0])
    elif now is not pair[0] and _make is not None and type(call := np.geterrcall()) is _AtUserLine:
        # `np.seterr` has made a new state of the one that was replaced.
        replaced = [kind for kind, mode in np.geterr().items() if mode == "log" and call.modes[kind] == "warn"]
        set_state(_make(**dict.fromkeys(replaced, "warn"), call=call.call))


def in_silence(f: Callable[P, R]) -> Callable[P, R]:
    """Return a function that computes `f` without floating-point warnings, in half the time that `np.errstate` takes.

    The state is restored a second time if anything was raised. An interrupt may arrive just before the first restoration.
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
