"""Debugging of traced and compiled functions."""

from __future__ import annotations

import builtins
from typing import Any

from functad.primitives.effects import PRINT
from functad.primitives.operands import read
from functad.tracing.equations import LISTING, AbstractRecorder
from functad.tracing.trace import OPEN, Recorded, resolve
from functad.trees import flatten

__all__ = ["print"]


def print(text: str, /, *args: Any, **kwargs: Any) -> None:  # noqa: A001 - its name is `debug.print`
    """Print a line with values, also inside compiled functions, loops and branches.

    Python's `print` runs once, while a function is traced, and shows Tensors without values. `debug.print` prints in each call
    of the compiled function, in the order of the program, and in each step of a loop. A batch (`vmap`) prints a line for each
    example. Derivatives print in the forward pass only.

    Python prints the line: the backend `llvm` leaves a loop that prints to Python. Object files refuse it, and `to_source`
    leaves it out.

    Args:
        text: the text, with fields for `str.format` such as `{}` or `{x:.3f}`.
        args: the values of fields by position: arrays, numbers, Variables, or trees of them. Other objects are printed as they
            are while the function is traced.
        kwargs: the values of fields by name.

    Notes:
        A compiled call that falls back to NumPy in the middle, for example at a singular matrix, prints its lines again.

    Example:
        >>> import numpy as np, functad
        >>> @functad.jit
        ... def norm(x):
        ...     total = np.sum(x * x)
        ...     functad.debug.print("total = {:.1f}", total)
        ...     return np.sqrt(total)
        >>> norm(np.array([3.0, 4.0])), norm(np.array([6.0, 8.0]))
        total = 25.0
        total = 100.0
        (np.float64(5.0), np.float64(10.0))
    """
    leaves, structure = flatten((args, kwargs))
    values = [resolve(value) if isinstance(value := read(leaf), Recorded) else value for leaf in leaves]
    traced = [isinstance(value, Recorded) for value in values]
    recorder = OPEN.get() if any(traced) else LISTING.get()
    if not any(traced) and recorder is None:
        own_args, own_kwargs = structure.unflatten(values)
        builtins.print(text.format(*own_args, **own_kwargs))  # noqa: T201 - its purpose
        return
    static = tuple([(is_traced, None if is_traced else value) for is_traced, value in zip(traced, values, strict=True)])
    arrays = tuple([value for value in values if isinstance(value, Recorded)])
    params = {"text": text, "structure": structure, "static": static, "axes": ((),) * len(arrays), "shape": ()}
    if isinstance(recorder, AbstractRecorder):  # the running list, also if all values are constants for it
        recorder.process(PRINT, arrays, params)
    else:
        PRINT(*arrays, **params)
