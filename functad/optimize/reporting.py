"""Reports of solver steps: the state for a callback, and the display of progress."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

from functad.display.progress import Progress
from functad.optimize.extras import scipy_optimize


class Reporter(AbstractContextManager["Reporter"]):
    """Reports each step of a method to a callback, and shows the progress.

    Args:
        callback: the user's callback.
        progress: show the progress.
        name: the name of the method.
        total: the largest number of steps.
        restore: converts flat unknowns to a pytree.
        value: the function of the flat unknowns.

    Attributes:
        wanted: there is a callback, or progress is shown.
        last: the last reported state, with flat unknowns; `None` before the first step.
    """

    def __init__(
        self,
        callback: Callable[[Any], Any] | None,
        progress: bool,
        name: str,
        total: int | None,
        restore: Callable[[Any], Any],
        value: Callable[[Any], Any],
    ) -> None:
        self._callback, self._restore, self._value = callback, restore, value
        self._progress = Progress(total, name, "progress=True") if progress else None
        self._steps = 0
        self.wanted = callback is not None or progress
        self.last: Any = None

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.__exit__(kind, error, trace)

    def report(self, found: Any) -> None:
        """Report a step, given SciPy's state, or the flat unknowns from methods without a state.

        Raises:
            StopIteration: the callback raised it, or returned `True`.
        """
        self._steps += 1
        fields = dict(found) if isinstance(found, dict) else {"x": found}
        x = fields["x"]
        if "fun" not in fields:
            fields["fun"] = self._value(x)
        self.last = scipy_optimize().OptimizeResult(fields | {"nit": self._steps})
        if self._progress is not None:
            self._progress.report(fields["cost"] if "cost" in fields else fields["fun"])  # cost: half the sum of squares
        if self._callback is not None:
            state = scipy_optimize().OptimizeResult(self.last | {"x": self._restore(x)})
            if self._callback(state) is True:
                raise StopIteration

    def with_state(self) -> Callable[..., None]:
        """Return the callback for methods that pass their state. SciPy recognises it by the name of the parameter."""

        def callback(intermediate_result: Any) -> None:
            self.report(intermediate_result)

        return callback

    def stopped(self) -> Any:
        """Return the result of a method that the callback has stopped, for methods that do not return one."""
        message = "`callback` raised `StopIteration`."
        return scipy_optimize().OptimizeResult(self.last | {"success": False, "status": 99, "message": message})
