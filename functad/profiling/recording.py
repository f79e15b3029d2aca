"""The trace of a profile: a reverse trace that measures each operation in the forward and the backward pass."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from functad.expressions.observers import Observer
from functad.expressions.records import inputs_of
from functad.places import line_of, name_of, user_frame
from functad.primitives.entry import INTERNAL, Primitive
from functad.primitives.operands import innermost
from functad.primitives.vocabulary import shown_name
from functad.tracing.engines import computed
from functad.tracing.traces.base import record
from functad.tracing.traces.concrete import ReverseRecorder
from functad.tracing.views import note_if_view
from functad.transforms.walks.cotangents import Scattered


class Place(NamedTuple):
    """An executed line of user code.

    Attributes:
        function: the name of the function that contains the line.
        line: file and line number.
        text: the code of the line; empty if there is no file.
    """

    function: str
    line: str
    text: str


class Operation(NamedTuple):
    """One operation of a traced run.

    Attributes:
        name: the name of the function that was called.
        path: the user's lines that were executing, outermost first; the last one contains the operation.
        slot: the slot of the record, or `None` if no derivative flows through the operation.
        bytes: bytes of the results that are no views.
    """

    name: str
    path: tuple[Place, ...]
    slot: int | None
    bytes: int


class Lap(NamedTuple):
    """The time of an operation.

    Attributes:
        before: time since the end of the previous operation: the user's Python code and recording.
        during: time in NumPy.
    """

    before: float
    during: float


class TimedRecorder(ReverseRecorder):
    """A reverse trace that measures its operations.

    Attributes:
        laps: one per operation.
        operations: the operations, or `None` unless `notes` is set. Collecting them takes as long as the operations
            themselves, so a separate run does it.
    """

    def __init__(self, function: object, clock: Callable[[], float], outermost: FrameType | None, *, notes: bool) -> None:
        super().__init__("profile", function)
        self.eager = False  # fast paths would bypass `process`
        self.clock = clock
        self.outermost = outermost
        self.laps: list[Lap] = []
        self.operations: list[Operation] | None = [] if notes else None
        self.names: list[str] = []
        self.last = clock()

    def begin(self) -> None:
        """Start the clock, just before the call of the function."""
        self.last = self.clock()

    def process(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Compute a call one level lower, and record it."""
        begun = self.last
        values, active, nested = self.lowered(primitive, arrays)
        start = self.clock()
        out = record(primitive, tuple(values), params) if nested else computed(primitive, values, params)
        end = self.clock()
        if out is NotImplemented:
            return out
        self.lap(primitive, start - begun, end - start)
        if not active:
            made = self.underived(primitive, arrays, params, out)
        else:
            made = self.record(primitive, arrays, values, active, params, out)
            if primitive.views:
                note_if_view(arrays[0], made, values[0], out, primitive, params)
        self.note(primitive, values, out, len(self.equations) - 1 if active else None)
        self.last = self.clock()
        return made

    def write(self, primitive: Primitive, root: Any, v: Any, params: dict[str, Any]) -> Any:
        """Write to a value, in place if it has no other owner, and record the write."""
        begun, start = self.last, self.clock()
        made = super().write(primitive, root, v, params)
        end = self.clock()
        self.lap(primitive, start - begun, end - start)
        self.note(primitive, (made.below,), made.below, made.slot)
        self.last = self.clock()
        return made

    def lap(self, primitive: Primitive, before: float, during: float) -> None:
        """Append the time of an operation."""
        self.laps.append(Lap(before, during))
        self.names.append(primitive.name)

    def note(self, primitive: Primitive, values: Sequence[Any], out: Any, slot: int | None) -> None:
        """Append the operation if `notes` is set."""
        if self.operations is not None:
            results = out if primitive.multiple else (out,)
            path = path_of(user_frame(sys._getframe(2)), self.outermost)
            self.operations.append(Operation(operation_name(primitive), path, slot, made_bytes(results, values)))


class Laps(Observer):
    """An observer of a backward pass that measures the time of each record.

    Attributes:
        times: times by slot.
        bytes: bytes of the created arrays by slot; only if `notes` is set.
    """

    def __init__(self, clock: Callable[[], float], *, notes: bool) -> None:
        self.clock = clock
        self.notes = notes
        self.times: dict[int, float] = {}
        self.bytes: dict[int, int] = {}
        self.given: Sequence[Any] = ()
        self.start = 0.0

    def before(self, index: int, record: Any, given: Callable[[], Sequence[Any]]) -> None:
        """Start the clock."""
        gs = given()
        if self.notes:
            self.given = gs
        self.start = self.clock()

    def after(self, index: int, record: Any, found: Sequence[Any]) -> None:
        """Stop the clock."""
        self.times[index] = self.clock() - self.start
        if self.notes:
            made = [found[slot] for slot in dict.fromkeys(inputs_of(record))]
            self.bytes[index] = made_bytes([g.whole if type(g) is Scattered else g for g in made], self.given)


def made_bytes(results: Sequence[Any], given: Sequence[Any]) -> int:
    """Return the bytes of the results that are neither in `given` nor views nor scalars."""
    known = {id(innermost(value)) for value in given}
    plain = {id(value): value for value in map(innermost, results)}
    return sum(
        [
            int(getattr(value, "nbytes", 0))
            for value in plain.values()
            if id(value) not in known and getattr(value, "base", None) is None and not issubclass(type(value), np.generic)
        ]
    )


def operation_name(primitive: Primitive) -> str:
    """Return the name of an operation as in user code, if users can call it."""
    if primitive.name == "astype_integer":
        return "astype"
    function = primitive.function
    if primitive in INTERNAL or not (isinstance(function, np.ufunc) or hasattr(function, "__module__")):
        return primitive.name
    name = shown_name(primitive.function)
    if name.startswith(("np.", "scipy.")):
        return name
    inner = name_of(primitive.function).rpartition(".")[2]
    return primitive.name if inner == primitive.name or name.startswith("functad.") else f"{primitive.name} of {inner}"


def path_of(frame: FrameType | None, outermost: FrameType | None) -> tuple[Place, ...]:
    """Return the executing lines of user code in a frame and its callers, up to `outermost` (excluded), outermost first."""
    found = []
    while frame is not None and frame is not outermost:
        found.append(place_of_frame(frame))
        frame = user_frame(frame.f_back)
    return tuple(reversed(found))


_known: dict[tuple[Any, int], Place] = {}


def place_of_frame(frame: FrameType) -> Place:
    """Return the executing line of user code in a frame."""
    import linecache  # noqa: PLC0415 - only a profile needs it

    code = frame.f_code
    key = code, frame.f_lasti
    if key not in _known:
        if len(_known) > MANY:
            _known.clear()
        text = linecache.getline(code.co_filename, frame.f_lineno, frame.f_globals).strip()
        name = code.co_qualname.rpartition("<locals>.")[2]
        _known[key] = Place(name, line_of(code, frame.f_lasti), text)
    return _known[key]


MANY = 10_000
"""The largest number of cached lines; one lookup takes as long as twenty operations."""
