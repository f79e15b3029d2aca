"""Progress of a run: a growing curve in a notebook, a bar in a terminal."""

from __future__ import annotations

import math
import sys
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from functad.display import Markup, counted, faint, heading, picture, seconds_text, tag, view
from functad.process import optional

_POINTS = 800
"""The largest number of stored points of the curve; beyond it, every other point is dropped."""

_PAUSE = 0.2
"""Seconds between two updates of the display."""

_WIDTH, _HEIGHT = 460.0, 190.0
_LEFT, _TOP, _RIGHT, _BOTTOM = 70.0, 10.0, 12.0, 22.0


class Progress:
    """A live display of a run of many steps with a value to minimise.

    A notebook shows a curve, a terminal shows a bar of tqdm. IPython and tqdm are imported when the run begins.

    Args:
        total: the number of steps, or `None` if unknown.
        name: the name of the run.
        what: the name of the caller, for the message about a missing package.

    Attributes:
        steps: the number of reported steps.
        last: the last value; `None` before the first.

    Raises:
        ImportError: tqdm is not installed (on entry, in a terminal).

    Example:
        >>> import functad
        >>> w, optimizer = functad.Variable(4.0), functad.optimizers.SGD(0.1)
        >>> with functad.optimize.Progress(50, "fit") as progress:
        ...     for _ in range(50):
        ...         progress.report(optimizer.minimize(lambda: (w - 1.0) ** 2))
        >>> progress.steps, progress.last < 1e-6
        (50, True)
    """

    def __init__(self, total: int | None = None, name: str = "training", what: str = "functad.optimize.Progress") -> None:
        self.total = total
        self.name = name
        self.steps = 0
        self.last: float | None = None
        self._what = what
        self._points: list[tuple[int, float]] = []
        self._stride = 1
        self._lost: int | None = None
        self._bar: Any = None
        self._handle: Any = None
        self._began = self._drawn = self._seconds = 0.0

    def __enter__(self) -> Self:
        self._began = self._drawn = perf_counter()
        if in_notebook():
            self._handle = optional("IPython.display", self._what, "IPython", "ipython").display(self, display_id=True)
        else:
            tqdm = optional("tqdm", self._what, "tqdm", "tqdm").tqdm
            self._bar = tqdm(desc=self.name, total=self.total, unit=" steps")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._seconds = perf_counter() - self._began
        if self._bar is not None:
            self._bar.close()
        if self._handle is not None:
            self._handle.update(self)

    def report(self, value: Any) -> None:
        """Report one step.

        Args:
            value: the value of the step, a number or an untraced scalar Tensor.
        """
        self.steps += 1
        self.last = float(value)
        if self._lost is None and not math.isfinite(self.last):
            self._lost = self.steps
        if self.steps % self._stride == 0 or self.steps == 1:
            self._points.append((self.steps, self.last))
            if len(self._points) > _POINTS:
                self._points, self._stride = self._points[::2], 2 * self._stride
        if self._bar is not None:
            self._bar.set_postfix({"value": f"{self.last:.6g}"}, refresh=False)
            self._bar.update()
        elif self._handle is not None and perf_counter() - self._drawn > _PAUSE:
            self._handle.update(self)
            self._drawn = perf_counter()
            self._seconds = self._drawn - self._began

    def __repr__(self) -> str:
        of_all = f" of {self.total:,}" if self.total is not None else ""
        value = "" if self.last is None else f", value {self.last:.6g}"
        return f"{self.name}: {self.steps:,}{of_all} steps{value}"

    def _repr_html_(self) -> str:
        of_all = f" of {self.total:,}" if self.total is not None else ""
        facts = [f"{self.steps:,}{of_all} steps" if of_all else counted(self.steps, "step")]
        facts += [f"value {self.last:.6g}"] if self.last is not None else []
        facts += [seconds_text(self._seconds)] if self._seconds else []
        points = self._points
        if self.last is not None and points[-1][0] != self.steps:
            points = [*points, (self.steps, self.last)]
        lost = f"The value is not finite at step {self._lost:,}." if self._lost is not None else ""
        warned = tag("div", lost, class_="ftd-red") if lost else None
        return view(heading(self.name, *facts), *_curve(points, max(self.total or 0, self.steps)), warned)


def in_notebook() -> bool:
    """Return `True` if the program runs in a Jupyter kernel, which can update a display."""
    if "IPython" not in sys.modules:
        return False
    shell: Any = sys.modules["IPython"].get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None


def _curve(points: list[tuple[int, float]], end: int) -> list[Markup]:
    """Return the curve of values over steps; an empty list if fewer than two values are finite."""
    finite = [value for _, value in points if math.isfinite(value)]
    if len(finite) < 2:
        return []
    low, high = min(finite), max(finite)
    logarithmic = low > 0 and high > 100 * low
    height = (lambda value: math.log(value)) if logarithmic else (lambda value: value)
    bottom, top = height(low), height(high)

    def place(step: int, value: float) -> tuple[float, float]:
        x = _LEFT + (step - 1) / max(end - 1, 1) * (_WIDTH - _LEFT - _RIGHT)
        y = _HEIGHT - _BOTTOM - (height(value) - bottom) / ((top - bottom) or 1.0) * (_HEIGHT - _TOP - _BOTTOM)
        return round(x, 1), round(y, 1)

    path, pen = [], "M"
    for step, value in points:
        if not math.isfinite(value):
            pen = "M"
            continue
        x, y = place(step, value)
        path.append(f"{pen}{x:g} {y:g}")
        pen = "L"
    right, floor = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    drawn = picture(
        _WIDTH,
        _HEIGHT,
        tag("path", d=f"M{_LEFT} {_TOP}V{floor}H{right}", fill="none", stroke="var(--ftd-line)"),
        tag("text", f"{high:.4g}", x=_LEFT - 6, y=_TOP + 8, text_anchor="end"),
        tag("text", f"{low:.4g}", x=_LEFT - 6, y=floor, text_anchor="end"),
        tag("text", 1, x=_LEFT, y=_HEIGHT - 6),
        tag("text", f"{end:,}", x=right, y=_HEIGHT - 6, text_anchor="end"),
        tag("path", d="".join(path), fill="none", stroke="var(--ftd-blue)", stroke_width=1.6, stroke_linejoin="round"),
        label=f"The values of {counted(len(points), 'step')}, from {points[0][1]:.4g} to {points[-1][1]:.4g}",
    )
    scale = [tag("div", faint("Equal heights are equal factors."))] if logarithmic else []
    return [tag("div", drawn), *scale]
