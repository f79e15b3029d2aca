"""Floating-point warnings switched off around a walk.

NumPy's error state is set in half the time that `np.errstate` takes, and put back a second time if anything was raised: an
interrupt may arrive just before the first. The context variable behind it is NumPy's own affair; where it is not to be found
`np.seterr` sets the state.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")

_get: Callable[[], Any]
_set: Callable[[Any], Any]
_IGNORED: Any

try:
    from numpy._core.umath import _extobj_contextvar, _make_extobj
except ImportError:
    _get, _IGNORED = np.geterr, dict.fromkeys(("divide", "over", "under", "invalid"), "ignore")

    def _set(state: dict[str, Any]) -> None:
        np.seterr(**state)

else:
    _get, _set, _IGNORED = _extobj_contextvar.get, _extobj_contextvar.set, _make_extobj(all="ignore")


def in_silence(f: Callable[P, R]) -> Callable[P, R]:
    """Return a function that computes `f` without floating-point warnings."""

    @wraps(f)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        before = _get()
        try:
            try:
                _set(_IGNORED)
                return f(*args, **kwargs)
            finally:
                _set(before)
        except BaseException:
            _set(before)
            raise

    return call
