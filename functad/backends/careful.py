"""Fallback programs for results with a NaN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.expressions.expressions import Expressions
from functad.expressions.spec import ArraySpec
from functad.primitives.safe import has_nan

Program = Callable[[Sequence[Any]], Sequence[Any]]
"""A function from input leaves to output leaves."""

_THREADED = 10_000
"""Elements from which BLAS starts threads for a dot product; a maximum is as fast from there on."""


class Careful:
    """The careful list: the fallback if a result of the fast list has a NaN. The first call compiles the careful list.

    Args:
        expressions: the careful list.
        compile: compiles a list.
        again: recomputes the results of the careful list if they have a NaN; `None` keeps them.

    Attributes:
        is_usual: `True` after `_TIMES` calls. The caller then skips the fast list.
    """

    def __init__(self, expressions: Expressions, compile: Callable[[Expressions], Any], again: Again | None = None) -> None:
        self.is_usual = False
        self._again = again
        self._expressions = expressions
        self._compile = compile
        self._program: Any = None
        self._times = 0

    def __call__(self, *leaves: Any) -> tuple[Any, ...]:
        """Return the output leaves for the input leaves `leaves`."""
        if self._program is None:
            self._program = self._compile(self._expressions)
        self._times += 1
        self.is_usual = self._times >= _TIMES
        out = tuple(self._program(leaves))
        return self._again(out, leaves) if self._again is not None and any(map(is_nan, out)) else out


_TIMES = 3
"""Calls after which a NaN counts as regular use, such as zeros in `where(x > 0, x * log(x), 0)`, and not as an accident."""


def nan_test(name: str, spec: ArraySpec, finite: bool) -> str:
    """Return the text of a test for a NaN (with `finite` also an infinity) in an array; `""` for an array without elements."""
    if not spec.shape:
        return f"not abs({name}) < np.inf" if finite else f"{name} != {name}"
    if spec.size >= _THREADED:
        return f"not np.isfinite({name}).all()" if finite else f"np.isnan(np.maximum.reduce({name}, None))"
    if not spec.size:
        return ""
    if len(spec.shape) == 1 and spec.dtype.kind == "f":
        return f"not {name}.dot({name}) {'< np.inf' if finite else '>= 0'}"
    return f"not np.vdot({name}, {name}).real {'< np.inf' if finite else '>= 0'}"


class Again:
    """The program of a careful trace: recomputes results of a fast program that have a NaN.

    Args:
        make: makes the program at the first NaN, or returns `None` if that is impossible.
    """

    def __init__(self, make: Callable[[], Program | None]) -> None:
        self._make: Callable[[], Program | None] | None = make
        self._program: Program | None = None

    def __call__(self, out: Sequence[Any], leaves: Sequence[Any]) -> tuple[Any, ...]:
        """Return the output leaves for the input leaves `leaves`, or `out` if there is no careful program.

        The careful program omits the last leaves of `out` that exist only because their computation may raise an error.
        """
        if (make := self._make) is not None:  # read once: another thread may set it to `None` after the test
            self._program, self._make = make(), None
        if self._program is None:
            return tuple(out)
        with np.errstate(all="ignore"):  # the fast program has already warned
            found = tuple(self._program(leaves))
        return *found, *out[len(found) :]


def is_nan(value: Any) -> bool:
    """Return `True` if an array, a NumPy scalar or a Python number has a NaN; `False` for other types."""
    kind = type(value)
    if kind is np.ndarray:
        return value.dtype.kind in "fc" and bool(has_nan(value))
    return bool(value != value) if issubclass(kind, (np.inexact, float, complex)) else False
