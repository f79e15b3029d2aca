"""The lines of the user's code that the equations of a list come from, read from the frames of a trace without values.

Only lists that are made to be looked at ask for them; an eager gradient pays nothing. An equation that a walk makes has no line
of its own: it belongs to the line of the operation whose derivative it is part of. Which one that is, is known from where the
trace of a transform stood when the operation was recorded, and from where the walk stands now.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from functad.expressions.expressions import Expressions, evaluator
from functad.expressions.place import BACKWARD, FORWARD, TANGENT, Call, Place
from functad.expressions.records import results_of
from functad.places import Named, name_of, user_frame
from functad.settings import setting
from functad.tracing.traces.abstract import LINES
from functad.tracing.traces.base import TAPING
from functad.transforms.calling.arguments import traced
from functad.transforms.walks import forward, reverse

_BACK, _AFTER, _PUSH, _RUN, _TRACE, _LIST = range(6)


def _codes(function: Any) -> Iterator[CodeType]:
    """Yield the code of a function, and of that in it which a decorator wraps or it defines."""
    function = getattr(function, "__wrapped__", function)
    yield function.__code__
    yield from [part for part in function.__code__.co_consts if isinstance(part, CodeType) and part.co_name == "run"]


# By the identity of code objects, which live as long as their modules: their hash would be computed anew each time.
_KINDS = {
    id(code): kind
    for function, kind in (
        (reverse._pass, _BACK),
        (reverse.pull_back, _AFTER),
        (forward.push_all, _PUSH),
        (forward._push_run, _RUN),
        (traced, _TRACE),
        (evaluator, _LIST),
    )
    for code in _codes(function)
}


def _of_tapes() -> list[list[Any]]:
    """Return the records of the tapes that record now."""
    found: list[list[Any]] = []
    recorder: Any = TAPING.get()
    while recorder is not None:
        found.append(recorder.equations)
        recorder = recorder.around
    return found


@functools.lru_cache(1024)
def _name_of(qualname: str) -> str:
    return name_of(Named(qualname))


class SourceLines:
    """What is noted during one trace.

    Attributes:
        top: the frame outside of which nobody's lines count.
    """

    def __init__(self, top: FrameType) -> None:
        self.top: FrameType | None = top
        self._running: list[tuple[FrameType, int]] = []  # held, so that no other call takes the place of one in memory
        self._count = 0
        self._noted: dict[int, tuple[Any, dict[int, Place]]] = {}
        self._lists: dict[int, tuple[Expressions, dict[tuple[int, ...], Place | None]]] = {}

    def close(self) -> None:
        """Let go of all frames, traces and lists."""
        self.top = None
        self._running.clear()
        self._noted.clear()
        self._lists.clear()

    def note(self) -> Place:
        """Return the place of the operation that is being recorded, and note it for the traces that record it too."""
        users: list[FrameType] = []
        inner: int | None = None  # so many of them run within what has a known place
        records: list[Any] = _of_tapes()
        known: Place | None = None
        phase = FORWARD
        run: int | None = None  # where a walk forward stands, if it does not say that itself
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame is not self.top:
            kind = _KINDS.get(id(frame.f_code))
            if kind is None:
                if user_frame(frame) is frame:
                    users.append(frame)
            elif kind == _TRACE:
                records.append(frame.f_locals["recorder"].equations)
            elif kind == _RUN:
                run = len(frame.f_locals["tangents"])
            elif kind == _LIST:
                known = known or self._of_list(frame.f_locals)
            else:
                phase = TANGENT if kind == _PUSH else BACKWARD
                known = known or (None if kind == _AFTER else self._of_walk(frame.f_locals, run))
                run = None
            if known is not None and inner is None:
                inner = len(users)
            frame = frame.f_back
        calls = self._called(users[::-1])
        if known is not None:
            calls = known.calls + calls[len(users) - (inner or 0) :]
            phase = known.phase if phase == FORWARD else phase
        place = Place(calls, phase)
        for equations in records:
            self._noted.setdefault(id(equations), (equations, {}))[1][len(equations)] = place
        return place

    def copied(self, equations: list[Any], copy: list[Any]) -> None:
        """Take note that a walk goes through a copy of the records of a trace."""
        if id(equations) in self._noted:
            self._noted[id(copy)] = copy, self._noted[id(equations)][1]

    def _called(self, frames: list[FrameType]) -> tuple[Call, ...]:
        """Return the calls that some frames run, numbered."""
        running = self._running
        same = 0
        while same < min(len(frames), len(running)) and running[same][0] is frames[same]:
            same += 1
        del running[same:]
        for frame in frames[same:]:
            self._count += 1
            running.append((frame, self._count))
        return tuple(
            [Call(_name_of(f.f_code.co_qualname), f.f_code.co_filename, f.f_lineno or 0, number) for f, number in running]
        )

    def _of_walk(self, variables: dict[str, Any], index: int | None) -> Place | None:
        """Return the place of the operation that a walk stands at; its index, if the walk itself does not know it."""
        _, noted = self._noted.get(id(variables["equations" if "equations" in variables else "records"]), (None, {}))
        if index is None:
            index = variables.get("index", -1)
        if index in noted:
            return noted[index]
        equation = variables.get(
            "equation", variables.get("record")
        )  # of several results, the first was noted and the last has the record
        return None if equation is None else noted.get(results_of(equation, index)[0])

    def _of_list(self, variables: dict[str, Any]) -> Place | None:
        """Return the place of the equation that the evaluation of a list stands at."""
        expressions = variables["source"]
        if id(expressions) not in self._lists:
            self._lists[id(expressions)] = expressions, {e.outputs: e.place for e in expressions.equations}
        return self._lists[id(expressions)][1].get(variables["outputs"])


@contextmanager
def noted_lines() -> Iterator[None]:
    """Return a context in which the equations of traces without values know their places in the user's code.

    What called the function that opens it is outside: its lines made no equation.
    """
    top = sys._getframe(2)
    lines = SourceLines(top)
    try:
        with setting(LINES, lines):
            yield
    finally:
        lines.close()
