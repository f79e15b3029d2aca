"""Functions of `functad.numpy` that call NumPy first: they look into lists only when a Tensor in one is asked for its values.

To look through a list for Tensors takes longer than many calls of NumPy. So these functions call NumPy with whatever they were
given, and a Tensor that NumPy then asks for an array raises what only they catch.
"""

from __future__ import annotations

import os.path
from types import CodeType, FrameType

import numpy as np

_NUMPY = os.path.dirname(np.__file__) + os.sep  # noqa: PTH120 - as in `functad.places`

_asking: dict[int, CodeType] = {}  # by identity, as the hash of a code object is computed anew each time


_passing: dict[int, CodeType] = {}


class AskedError(BaseException):
    """A Tensor was asked for an array by a function that calls NumPy first; `except Exception` in NumPy lets it pass."""


def asks_first(code: CodeType) -> None:
    """Take note that a function calls NumPy first, and catches `AskedError`."""
    _asking[id(code)] = code


def passes_on(code: CodeType) -> None:
    """Take note that a method asks a Tensor only because it is asked itself, as that of a Variable."""
    _passing[id(code)] = code


def is_asked_first(frame: FrameType | None) -> bool:
    """Say whether an array is asked for, in a frame, by a function that calls NumPy first, or by NumPy on its behalf."""
    while frame is not None and (frame.f_code.co_filename.startswith(_NUMPY) or id(frame.f_code) in _passing):
        frame = frame.f_back
    return frame is not None and id(frame.f_code) in _asking
