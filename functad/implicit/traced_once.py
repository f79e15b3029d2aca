"""A function that a solver calls at each of its steps, traced at the first of them.

The right-hand side of an adjoint equation is a pull-back. To run the function of the user, record it and walk back costs ten
times what the arithmetic does, and SciPy asks for it thousands of times. So it is made a list, which is evaluated; a function
that branches on values, or draws random numbers, is called as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functad.expressions.spec import ArraySpec, is_float_array, strong_spec
from functad.tracing.traces.base import Recorded
from functad.transforms.closed_lists import closed_anywhere
from functad.transforms.leaves import replaced
from functad.transforms.random_states import RandomStates


class TracedOnce:
    """A function of leaves that evaluates a list, where that can be made, and is the function itself for Tensors.

    Args:
        name: of the function of the user, for messages.
        f: returns a list of leaves; it depends on its arguments alone.
    """

    def __init__(self, name: str, f: Callable[..., list[Any]]) -> None:
        self.name = name
        self.f = f
        self._last: tuple[list[Any], Callable[..., list[Any]]] | None = None

    def __call__(self, *leaves: Any) -> list[Any]:
        """Evaluate the list, or call the function."""
        for leaf in leaves:
            if isinstance(leaf, (Recorded, ArraySpec)):
                return self.f(*leaves)
        key = [(leaf.shape, leaf.dtype) if is_float_array(leaf) else leaf for leaf in leaves]
        last = self._last  # read and written whole: several threads may be here
        if last is None or not _same(key, last[0]):
            last = self._last = key, self._traced(leaves)
        return last[1](*leaves)

    def _traced(self, leaves: tuple[Any, ...]) -> Callable[..., list[Any]]:
        """Return the list as a function of all leaves: those that are no inexact arrays are constants of it."""
        places = [i for i, leaf in enumerate(leaves) if is_float_array(leaf)]

        def of_arrays(*own: Any) -> list[Any]:
            return self.f(*replaced(leaves, places, own))

        of_arrays.__qualname__ = self.name
        states = RandomStates([self.f])
        try:
            closed = closed_anywhere("odeint", of_arrays, of_arrays, [strong_spec(leaves[i]) for i in places])
        except Exception:  # noqa: BLE001 - of any library that was to compute with a time, say; what is wrong raises below
            return self.f
        if closed.captured or states.drawn():
            return self.f
        return lambda *given: closed(*[given[i] for i in places])


_COMPARED = (tuple, int, float, str)


def _same(key: list[Any], other: list[Any]) -> bool:
    """Say whether two calls are of arrays of the same kinds, and otherwise of the same objects or small constants."""
    return all(a is b or (type(a) is type(b) and isinstance(a, _COMPARED) and a == b) for a, b in zip(key, other, strict=True))
