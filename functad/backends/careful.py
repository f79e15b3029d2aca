"""Programs that look for a NaN in their results, and what they compute if there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functad.expressions.expressions import Expressions
from functad.expressions.spec import ArraySpec

_THREADED = 10_000
"""From so many elements on the product of two vectors starts threads; the maximum is as quick then."""


class Careful:
    """The list that is computed if there is a NaN in a result of a quicker one; compiled when that happens first.

    Attributes:
        is_usual: it was computed so often that the quicker one is not tried any more.
    """

    def __init__(self, expressions: Expressions, compile: Callable[[Expressions], Any]) -> None:
        self.is_usual = False
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
        return tuple(self._program(leaves))


_TIMES = 3
"""So many NaN come from a use of the function, as zero does in `where(x > 0, x * log(x), 0)`, and not from a mishap."""


def nan_test(name: str, spec: ArraySpec, finite: bool) -> str:
    """Return a condition that holds if there is a NaN in an array, or an infinity; none if it has no elements."""
    if not spec.shape:
        return f"not abs({name}) < np.inf" if finite else f"{name} != {name}"
    if spec.size >= _THREADED:
        return f"not np.isfinite({name}).all()" if finite else f"np.isnan(np.maximum.reduce({name}, None))"
    return f"not np.vdot({name}, {name}).real {'< np.inf' if finite else '>= 0'}" if spec.size else ""
