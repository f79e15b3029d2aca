"""Floating-point warnings switched off around a walk.

A walk runs in a copy of the context of its caller, in which NumPy's error state is set. When it ends, by a result, an error or
an interrupt, the copy is dropped and nothing has to be put back: there is no instruction at which the state could stay behind.
That takes half the time of `np.errstate`. The context variable behind the latter is NumPy's own affair; where it is not to be
found `np.seterr` sets it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")

_ignore_all: Callable[[], Any]

try:
    from numpy._core.umath import _extobj_contextvar, _make_extobj
except ImportError:
    _ignore_all = partial(np.seterr, all="ignore")
else:
    _ignore_all = partial(_extobj_contextvar.set, _make_extobj(all="ignore"))


def in_silence(f: Callable[P, R]) -> Callable[P, R]:
    """Return a function that computes `f` without floating-point warnings."""

    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        _ignore_all()
        return f(*args, **kwargs)

    @wraps(f)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return copy_context().run(inside, *args, **kwargs)

    return call
