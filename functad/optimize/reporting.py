"""What a callback is told after each step, and the bar of progress."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Self

from functad.importable import optional
from functad.optimize.extras import scipy_optimize


class Reporter(AbstractContextManager["Reporter"]):
    """Tells a callback and a bar of each step of a method.

    Args:
        callback: that of the user.
        progress: show a bar.
        name: of the bar.
        total: the largest number of steps.
        restore: makes a tree of flat unknowns.
        value: the function of them.

    Attributes:
        wanted: there is something to report to.
        last: what was told last, with flat unknowns; `None` before the first step.
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
        self._bar: Any = nullcontext()
        if progress:
            tqdm = optional("tqdm", "progress=True", "tqdm", "tqdm; or pass a function as callback").tqdm
            self._bar = tqdm(desc=name, total=total, unit=" steps")
        self._steps = 0
        self.wanted = callback is not None or progress
        self.last: Any = None

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.__exit__(kind, error, trace)

    def report(self, found: Any) -> None:
        """Tell of a step: of SciPy's state, or of the flat unknowns, which is all that some methods give.

        Raises:
            StopIteration: the callback says that it is enough, by raising it or by returning True.
        """
        self._steps += 1
        fields = dict(found) if isinstance(found, dict) else {"x": found}
        x = fields["x"]
        if "fun" not in fields:
            fields["fun"] = self._value(x)
        self.last = scipy_optimize().OptimizeResult(fields | {"nit": self._steps})
        if not isinstance(self._bar, nullcontext):
            shown = float(fields["cost"] if "cost" in fields else fields["fun"])  # of residuals, half the sum of squares
            self._bar.set_postfix({"value": f"{shown:.6g}"}, refresh=False)
            self._bar.update()
        if self._callback is not None:
            state = scipy_optimize().OptimizeResult(self.last | {"x": self._restore(x)})
            if self._callback(state) is True:
                raise StopIteration

    def with_state(self) -> Callable[..., None]:
        """Return the callback for methods that give their state; SciPy goes by the name of the parameter."""

        def callback(intermediate_result: Any) -> None:
            self.report(intermediate_result)

        return callback

    def stopped(self) -> Any:
        """Return the result of a method that the callback has stopped and that does not see to it itself."""
        message = "`callback` raised `StopIteration`."
        return scipy_optimize().OptimizeResult(self.last | {"success": False, "status": 99, "message": message})
