"""Rules of primitives that are no NumPy code, such as functions of SciPy: called with plain arrays alone, one after the other.

Such a rule cannot be computed for a batch at once, nor traced. Where it is given Tensors it becomes an operation of its own:
for a batch it is called for each example, in a list it is an equation, and its own derivatives are differences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from functad.errors import AbstractValueError, ConversionError, LoopWarning, UnsupportedError
from functad.expressions.spec import ArraySpec, dtype_of, shape_of
from functad.places import here, warn
from functad.rules.call import Rules
from functad.rules.numerical import Differences
from functad.tracing.traces.base import Recorded
from functad.transforms.leaves import replaced


@dataclass(frozen=True)
class _Approximate(Differences):
    """The differences by which a rule is differentiated; that it is so is said."""

    def push(self, arrays: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        """Return the tangents of the results."""
        self._warn()
        return super().push(arrays, ts)

    def backward(self, arrays: Sequence[Any], gs: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the arguments."""
        self._warn()
        return super().backward(arrays, gs)

    def _warn(self) -> None:
        warn(
            LoopWarning(
                f"{self.base.name} is no NumPy code, so its own derivative, for forward mode or second derivatives, is made of "
                f"differences, one for each element, at {here()}. Write it in NumPy, or enter what it calls by primitive."
            )
        )


def or_foreign(rule: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a VJP rule that is called with plain arrays where it does not take Tensors.

    Args:
        rule: `rule(g, shape, *read)` returns a cotangent of a shape, which is that of `g` where it is `None`.
        name: of the rule, in lists and messages.
    """

    def call(g: Any, shape: tuple[int, ...] | None, *read: Any) -> Any:
        given = g, *read
        places = [i for i, value in enumerate(given) if isinstance(value, Recorded)]
        try:
            return rule(*given)
        except (ConversionError, AbstractValueError, UnsupportedError):
            if not places or any(isinstance(part, Recorded) for value in read if type(value) is tuple for part in value):
                raise
        spec = ArraySpec(shape_of(g) if shape is None else shape, dtype_of(g))

        def value(*arrays: Any) -> tuple[Any, ...]:
            return (np.asarray(rule(*replaced(given, places, arrays))).astype(spec.dtype, casting="same_kind")[()],)

        base = Rules(function=rule, value=value, spec=lambda *specs: (spec,), name=name, loops=True)
        return _Approximate(base, "central", None)([given[i] for i in places])[0]

    return call
