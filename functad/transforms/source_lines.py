"""The lines of user code of the equations in a list, found during a trace without values.

Only lists for display need these lines; an eager gradient does not pay for them. An equation has the line of the innermost user
function that runs. The equations of a derivative have the line of the differentiated operation, and the equations of an
evaluated list keep their lines, unless a user function is called in between, such as a custom rule.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple
from weakref import ref

from functad.expressions.expressions import Equation
from functad.expressions.observers import FORWARD, Observer, Place, observing
from functad.expressions.records import results_of
from functad.places import Named, name_of, user_frame

_NOWHERE = Place("", "", 0, 0)


@functools.lru_cache(1024)
def _name_of(qualname: str) -> str:
    return name_of(Named(qualname))


class _Now(NamedTuple):
    """The record or equation that is being processed.

    Attributes:
        frame: the innermost frame of user code around it. An operation has the place of the record if this frame is its own
            innermost one.
        place: the place of the record.
        phase: the phase of the outermost derivative pass.
    """

    frame: FrameType | None
    place: Place
    phase: str


class SourceLines(Observer):
    """The observer that finds the place of each equation.

    It notes the places of the operations of each trace on values by their index in the records. A pass over the records looks
    them up.

    Args:
        frame: the frame where the search for user code ends.
    """

    def __init__(self, frame: FrameType) -> None:
        self._now = _Now(user_frame(frame), _NOWHERE, FORWARD)
        self._passes: list[tuple[_Now, _Now, dict[int, Place]]] = []
        self._open: list[ref[Any]] = []
        self._noted: dict[int, tuple[Any, dict[int, Place]]] = {}
        self._user: FrameType | None = None  # of the last call; kept alive, so that frame identity is unambiguous
        self._calls = 0

    def close(self) -> None:
        """Drop all references to frames, traces and lists."""
        self._now = _Now(None, _NOWHERE, FORWARD)
        self._passes.clear()
        self._open.clear()
        self._noted.clear()
        self._user = None

    def opened(self, recorder: Any) -> None:
        """Note the places of the operations of a new trace."""
        self._open.append(ref(recorder))

    def place(self) -> Place:
        """Return the place of the running operation, and note it for each open trace and tape."""
        frame, now = user_frame(sys._getframe(1)), self._now
        phase = now.place.phase if now.phase == FORWARD else now.phase
        if frame is None or frame is now.frame:
            place = now.place.of_phase(phase)
        else:
            if frame is not self._user:
                self._user, self._calls = frame, self._calls + 1
            code = frame.f_code
            place = Place(_name_of(code.co_qualname), code.co_filename, frame.f_lineno or 0, self._calls, phase)
        self._open = [weak for weak in self._open if (recorder := weak()) is not None and not recorder.closed]
        for weak in self._open:
            records = weak().equations  # type: ignore[union-attr]
            self._noted.setdefault(id(records), (records, {}))[1][len(records)] = place
        return place

    def begun(self, phase: str, records: Any) -> bool:
        """Look up the places of the records, and set the phase."""
        around = self._now
        if around.phase == FORWARD:
            self._now = around._replace(phase=phase)
        self._passes.append((around, self._now, self._noted.get(id(records), (None, {}))[1]))
        return True

    def ended(self) -> None:
        """Return to the record around the pass."""
        self._now = self._passes.pop()[0]

    def before(self, index: int, record: Any, given: Callable[[], Sequence[Any]]) -> None:
        """Set the place to the place of a record or equation, if it is known."""
        _, outside, places = self._passes[-1]
        place = record.place if type(record) is Equation else places.get(results_of(record, index)[0])
        self._now = outside if place is None else _Now(user_frame(sys._getframe(1)), place, outside.phase)

    def after(self, index: int, record: Any, found: Sequence[Any]) -> None:
        """Return to the record around the pass."""
        self._now = self._passes[-1][1]

    def copied(self, records: list[Any], copy: list[Any]) -> None:
        """Use the places of the records of a trace for a copy of these records."""
        if id(records) in self._noted:
            self._noted[id(copy)] = copy, self._noted[id(records)][1]


@contextmanager
def noted_lines() -> Iterator[None]:
    """Return a context in which traces without values record the place in user code of each equation.

    Only user code called from the function that opens the context counts.
    """
    lines = SourceLines(sys._getframe(2))
    try:
        with observing(lines):
            yield
    finally:
        lines.close()
