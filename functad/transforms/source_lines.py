"""The lines of user code of the equations in a list, read from the stack frames during an abstract trace.

Only lists for display need these lines; an eager gradient does not pay for them. The equations of a derivative have the line of
the differentiated operation. `SourceLines` notes the place of each operation by its index in the records of each open trace.
In a backward or forward pass, it looks up the index of the current record.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from functad.expressions.expressions import Expressions, evaluator
from functad.expressions.place import BACKWARD, FORWARD, TANGENT, Place
from functad.expressions.records import results_of
from functad.places import Named, name_of, user_frame
from functad.settings import setting
from functad.tracing.traces.abstract import LINES
from functad.tracing.traces.base import TAPING
from functad.transforms.calling.arguments import traced
from functad.transforms.walks import forward, reverse

_BACK, _AFTER, _PUSH, _RUN, _TRACE, _LIST = range(6)


def _codes(function: Any) -> Iterator[CodeType]:
    """Yield the code of a function without its decorator, and of a nested function `run`."""
    function = getattr(function, "__wrapped__", function)
    yield function.__code__
    yield from [part for part in function.__code__.co_consts if isinstance(part, CodeType) and part.co_name == "run"]


# Keys are ids of code objects, which live as long as their modules. Python does not cache the hash of a code object.
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
    """Return the records of all active tapes."""
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
    """The places of the operations of one trace.

    Attributes:
        top: the frame where the search for user code ends.
    """

    def __init__(self, top: FrameType) -> None:
        self.top: FrameType | None = top
        self._user: FrameType | None = None  # of the last operation; kept alive, so that frame identity is unambiguous
        self._calls = 0
        self._noted: dict[int, tuple[Any, dict[int, Place]]] = {}
        self._lists: dict[int, tuple[Expressions, dict[tuple[int, ...], Place | None]]] = {}

    def close(self) -> None:
        """Drop all references to frames, traces and lists."""
        self.top = self._user = None
        self._noted.clear()
        self._lists.clear()

    def note(self) -> Place:
        """Return the place of the current operation, and note it for each open trace and tape."""
        user: FrameType | None = None  # the innermost, inside the operation with a known place
        records: list[Any] = _of_tapes()
        known: Place | None = None
        phase = FORWARD
        run: int | None = None  # the current index of a forward pass inside `_push_run`
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame is not self.top:
            kind = _KINDS.get(id(frame.f_code))
            if kind is None:
                if user is None and known is None and user_frame(frame) is frame:
                    user = frame
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
            frame = frame.f_back
        phase = known.phase if known is not None and phase == FORWARD else phase
        if user is not None:
            if user is not self._user:
                self._user, self._calls = user, self._calls + 1
            code = user.f_code
            place = Place(_name_of(code.co_qualname), code.co_filename, user.f_lineno or 0, self._calls, phase)
        else:
            place = Place("", "", 0, 0, phase) if known is None else known.of_phase(phase)
        for equations in records:
            self._noted.setdefault(id(equations), (equations, {}))[1][len(equations)] = place
        return place

    def copied(self, equations: list[Any], copy: list[Any]) -> None:
        """Use the places of the records of a trace for a copy of these records."""
        if id(equations) in self._noted:
            self._noted[id(copy)] = copy, self._noted[id(equations)][1]

    def _of_walk(self, variables: dict[str, Any], index: int | None) -> Place | None:
        """Return the place of the current record of a pass; `index` is `None` if the variables of the pass hold it."""
        _, noted = self._noted.get(id(variables["equations" if "equations" in variables else "records"]), (None, {}))
        if index is None:
            index = variables.get("index", -1)
        if index in noted:
            return noted[index]
        equation = variables.get(
            "equation", variables.get("record")
        )  # for several results, the place is noted at the first slot, and the record has the last slot
        return None if equation is None else noted.get(results_of(equation, index)[0])

    def _of_list(self, variables: dict[str, Any]) -> Place | None:
        """Return the place of the current equation in the evaluation of a list."""
        expressions = variables["source"]
        if id(expressions) not in self._lists:
            self._lists[id(expressions)] = expressions, {e.outputs: e.place for e in expressions.equations}
        return self._lists[id(expressions)][1].get(variables["outputs"])


@contextmanager
def noted_lines() -> Iterator[None]:
    """Return a context in which abstract traces record the place in user code of each equation.

    Only frames called from the function that opens the context count.
    """
    top = sys._getframe(2)
    lines = SourceLines(top)
    try:
        with setting(LINES, lines):
            yield
    finally:
        lines.close()
