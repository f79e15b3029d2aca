"""Programs that look for a NaN in their results, and what they compute if there is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.expressions.expressions import Expressions
from functad.expressions.spec import ArraySpec
from functad.primitives.safe import has_nan

Program = Callable[[Sequence[Any]], Sequence[Any]]
"""From input leaves to output leaves."""

_THREADED = 10_000
"""From so many elements on the product of two vectors starts threads; the maximum is as quick then."""

_FEW = 8
"""Up to so many elements a list takes half the time of a product: 0.13 us for 3 elements, where `np.vdot` takes 0.7."""


class Careful:
    """The list that is computed if there is a NaN in a result of a quicker one; compiled when that happens first.

    Args:
        expressions: the list.
        compile: compiles it.
        again: computes its results again if a NaN is among them; `None` if they stay.

    Attributes:
        is_usual: it was computed so often that the quicker one is not tried any more.
    """

    def __init__(self, expressions: Expressions, compile: Callable[[Expressions], Any], again: Again | None = None) -> None:
        self.is_usual = False
        self._again = again
        self._expressions = expressions
        self._compile = compile
        self._program: Any = None
        self._times = 0

    def __call__(self, *leaves: Any) -> tuple[Any, ...]:
        """Return the output leaves for input leaves."""
        if self._program is None:
            self._program = self._compile(self._expressions)
        self._times += 1
        self.is_usual = self._times >= _TIMES
        out = tuple(self._program(leaves))
        return self._again(out, leaves) if self._again is not None and any(map(is_nan, out)) else out


_TIMES = 3
"""So many NaN come from a use of the function, as zero does in `where(x > 0, x * log(x), 0)`, and not from a mishap."""


def nan_test(name: str, spec: ArraySpec, finite: bool) -> str:
    """Return a condition that holds if there is a NaN in an array, or an infinity; none if it has no elements."""
    if not spec.shape:
        return f"not abs({name}) < np.inf" if finite else f"{name} != {name}"
    if spec.size >= _THREADED:
        return f"not np.isfinite({name}).all()" if finite else f"np.isnan(np.maximum.reduce({name}, None))"
    if not spec.size:
        return ""
    if len(spec.shape) == 1 and spec.size <= _FEW and not finite:
        return f"(_sum := sum({name}.tolist())) != _sum"
    if len(spec.shape) == 1 and spec.dtype.kind == "f":
        return f"not {name}.dot({name}) {'< np.inf' if finite else '>= 0'}"
    return f"not np.vdot({name}, {name}).real {'< np.inf' if finite else '>= 0'}"


class Again:
    """The program of a careful trace, for results of a quick program among which a NaN is.

    Args:
        make: makes the program when the first NaN comes out; `None` if that is not possible.
    """

    def __init__(self, make: Callable[[], Program | None]) -> None:
        self._make: Callable[[], Program | None] | None = make
        self._program: Program | None = None

    def __call__(self, out: Sequence[Any], leaves: Sequence[Any]) -> tuple[Any, ...]:
        """Return the output leaves for input leaves, or `out` if there is no careful program.

        The careful program leaves out the last leaves of `out` that are computed only because that may raise an error.
        """
        if (make := self._make) is not None:  # read once: another thread may set it to `None` after the test
            self._program, self._make = make(), None
        if self._program is None:
            return tuple(out)
        with np.errstate(all="ignore"):  # the quick program has warned
            found = tuple(self._program(leaves))
        return *found, *out[len(found) :]


def is_nan(value: Any) -> bool:
    """Return `True` if a NaN is in an array or a number of NumPy's, or a Python number; `False` for all others."""
    kind = type(value)
    if kind is np.ndarray:
        return value.dtype.kind in "fc" and bool(has_nan(value))
    return bool(value != value) if issubclass(kind, (np.inexact, float, complex)) else False
