"""A function that a solver calls at every step, traced at the first step.

The right-hand side of an adjoint equation is a pullback. Running, tracing and pulling back the user's function costs ten times
as much as its arithmetic, and SciPy calls it thousands of times. `TracedOnce` traces it once and evaluates the expression list.
Functions that branch on values or draw random numbers are called directly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functad.expressions.spec import ArraySpec, is_float_array, strong_spec
from functad.tracing.trace import Recorded
from functad.transforms.leaves import replaced
from functad.transforms.lists import Closed, close, trace
from functad.transforms.outside import RandomStates


class TracedOnce:
    """A function of leaves that evaluates an expression list where possible. For Tensors it calls the function itself.

    Args:
        name: the name of the user's function, for messages.
        f: returns a list of leaves; the result depends on the arguments only.
    """

    def __init__(self, name: str, f: Callable[..., list[Any]]) -> None:
        self.name = name
        self.f = f
        self._last: tuple[list[Any], Callable[..., list[Any]]] | None = None

    def __call__(self, *leaves: Any) -> list[Any]:
        """Evaluate the expression list, or call the function."""
        for leaf in leaves:
            if isinstance(leaf, (Recorded, ArraySpec)):
                return self.f(*leaves)
        key = [(leaf.shape, leaf.dtype) if is_float_array(leaf) else leaf for leaf in leaves]
        last = self._last  # read and written as one object, because several threads may call
        if last is None or not _same(key, last[0]):
            last = self._last = key, self._traced(leaves)
        return last[1](*leaves)

    def _traced(self, leaves: tuple[Any, ...]) -> Callable[..., list[Any]]:
        """Return the expression list as a function of all leaves; leaves that are not float arrays are its constants."""
        places = [i for i, leaf in enumerate(leaves) if is_float_array(leaf)]

        def of_arrays(*own: Any) -> list[Any]:
            return self.f(*replaced(leaves, places, own))

        of_arrays.__qualname__ = self.name
        states = RandomStates([self.f])
        try:
            closed = Closed(*close(trace("odeint", of_arrays, [strong_spec(leaves[i]) for i in places])))
        except Exception:  # noqa: BLE001 - any library may fail on abstract values; the call below raises the user's errors
            return self.f
        if closed.captured or states.drawn():
            return self.f
        return lambda *given: closed(*[given[i] for i in places])


_COMPARED = (tuple, int, float, str)


def _same(key: list[Any], other: list[Any]) -> bool:
    """Return `True` if two calls agree in shapes and dtypes of arrays, and in all other arguments."""
    return all(a is b or (type(a) is type(b) and isinstance(a, _COMPARED) and a == b) for a, b in zip(key, other, strict=True))
