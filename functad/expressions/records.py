"""Records of a trace: data flow in a list of records, and observers of traces, passes and evaluations.

A record is an `Equation`, a tuple `(plan, slots, residuals, fits)` of a concrete trace (see `functad.tracing.concrete`), or
any object with `inputs` and `outputs`. A trace has `None` at the slots of inputs, and at all but the last slot of an operation
with several results.

`debug_nans`, `profile`, `explain`, and the user's lines of displayed lists are observers. `OBSERVERS` holds the active ones. A
new trace on values, a pass and an evaluation of a list read it once, and do nothing more if it is empty. An operation in a
trace without values asks the observers for its place. `debug_nans` sets the monitors of batches itself. A pass takes its
records from an iterator. An observed pass takes them from a generator that notifies the observers, see
`functad.transforms.reverse`.

A `Place` is the location of an equation in the user's code, as plain text and numbers that do not keep frames alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from functad.immutable import Immutable, assign
from functad.places import place_text
from functad.process import context_variable, setting

# Data flow


def inputs_of(record: Any) -> Sequence[int]:
    """Return the slots that a record reads. A record of a concrete trace has only its differentiated inputs."""
    if type(record) is tuple:
        slots: Any = record[1]
        return (slots,) if type(slots) is int else slots
    return [source for source in record.inputs if type(source) is int]


def results_of(record: Any, index: int) -> Sequence[int]:
    """Return the slots of the results of the record at an index."""
    if type(record) is not tuple:
        return record.outputs  # type: ignore[no-any-return]
    if not record[0].primitive.multiple:
        return (index,)
    return range(index + 1 - len(record[3][1]), index + 1)  # the second part of `fits` has one entry per result


def last_readers(records: Sequence[Any], outputs: Iterable[Any] = ()) -> dict[int, int]:
    """Return for each slot the index of the last record that reads it; `len(records)` for outputs."""
    last = {slot: index for index, record in enumerate(records) if record is not None for slot in inputs_of(record)}
    last.update(dict.fromkeys([source for source in outputs if type(source) is int], len(records)))
    return last


def marks_at(slots: Iterable[Any], count: int) -> bytearray:
    """Return marks for `count` slots, set at the given slots. Constants among the slots are ignored."""
    marks = bytearray(count)
    for slot in slots:
        if type(slot) is int:
            marks[slot] = 1
    return marks


def mark_needed(
    marks: bytearray, records: Sequence[Any], reads: Callable[[Any, int], Iterable[int]] | None = None
) -> bytearray:
    """Mark the slots that marked slots depend on, and return the marks.

    Args:
        marks: the marks by slot, modified in place.
        records: the list.
        reads: returns the slots that the record at an index needs if one of its results is needed. Default: all its inputs.
    """
    for index in range(len(records) - 1, -1, -1):
        record = records[index]
        if record is not None and any(marks[slot] for slot in results_of(record, index)):
            for slot in inputs_of(record) if reads is None else reads(record, index):
                marks[slot] = 1
    return marks


def mark_reached(marks: bytearray, records: Sequence[Any], start: int = 0, stop: int | None = None) -> bytearray:
    """Mark the results of the records `start` to `stop` that depend on marked slots, and return the marks."""
    for index in range(start, len(records) if stop is None else stop):
        record = records[index]
        if record is not None and any(marks[slot] for slot in inputs_of(record)):
            for slot in results_of(record, index):
                marks[slot] = 1
    return marks


# Observers

FORWARD, BACKWARD, TANGENT = "forward", "backward", "tangent"


class Place(Immutable):
    """The location of an equation.

    Attributes:
        function: the name of the user's function that contains the line; empty if no user code contains the equation.
        file: the file of its code.
        line: the number of the line.
        call: a number that differs between successive calls of user functions, also of the same function.
        phase: `forward`, `backward` (pullback) or `tangent` (pushforward). In the latter two, the line contains the
            differentiated operation.
    """

    __slots__ = ("call", "file", "function", "line", "phase")

    function: str
    file: str
    line: int
    call: int
    phase: str

    def __init__(self, function: str, file: str, line: int, call: int, phase: str = FORWARD) -> None:
        assign(self, "function", function)
        assign(self, "file", file)
        assign(self, "line", line)
        assign(self, "call", call)
        assign(self, "phase", phase)

    def of_phase(self, phase: str) -> Place:
        """Return the place with another phase."""
        return self if phase == self.phase else Place(self.function, self.file, self.line, self.call, phase)

    @property
    def where(self) -> str:
        """The `file:line`, or the name of a notebook cell; empty if there is none."""
        return place_text(self.file, self.line) if self.file else ""

    @property
    def text(self) -> str:
        """The text of the line; empty if the source is not available."""
        import linecache  # noqa: PLC0415 - only displays need it

        return linecache.getline(self.file, self.line).strip() if self.file else ""


OBSERVERS: ContextVar[tuple[Observer, ...]] = context_variable("observers", default=())
"""The active observers, the newest last."""


class Observer:
    """The base class of observers, which sees the records of derivative passes.

    By default it does not see passes that run within a pass that it sees. Subclasses may override `begun`.

    Attributes:
        checks: the observer checks values: it makes monitors, and needs the operations inside compiled functions.
        uncompiled: compiled functions run without compilation while the observer is active.
    """

    checks = False
    uncompiled = False
    _sees = False

    def opened(self, recorder: Any) -> Any:
        """Handle a new trace on values; return the monitor of its operations, or `None`."""

    def called(self, expressions: Any, leaves: Sequence[Any]) -> list[Any]:
        """Return the output leaves of a list that the user calls. Only the newest observer that `checks` is asked."""
        raise NotImplementedError

    def place(self) -> Place | None:
        """Return the place of an operation that a trace without values records now; `None` if the observer does not know it."""
        return None

    def begun(self, phase: str, records: Any) -> bool:
        """Handle the begin of a pass or evaluation, and return `True` to be notified of its records until it has `ended`.

        Args:
            phase: `BACKWARD` or `TANGENT` for a derivative pass, `FORWARD` for the evaluation of a list.
            records: the records, or the list of equations.
        """
        if self._sees or phase == FORWARD:
            return False
        self._sees = True
        return True

    def ended(self) -> None:
        """Handle the end of a pass or evaluation; also called after an error."""
        self._sees = False

    def before(self, index: int, record: Any, given: Callable[[], Sequence[Any]]) -> None:
        """Handle a record before it is processed. A pass skips records with only zero tangents or cotangents.

        Args:
            index: the index of the record.
            record: the record, or the equation.
            given: returns the cotangents of the results in a backward pass, the tangents of the inputs in a forward pass.
                `None` means zero. A write may modify these arrays in place, unless the observer keeps a reference.
        """

    def after(self, index: int, record: Any, found: Sequence[Any]) -> None:
        """Handle a record after it was processed; `found` holds the current cotangents or tangents by slot."""

    def copied(self, records: list[Any], copy: list[Any]) -> None:
        """Handle a copy of the records of a trace, with the same indices, for a pass."""


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Return a context with one more active observer."""
    with setting(OBSERVERS, (*OBSERVERS.get(), observer)):
        yield


def checker() -> Any:
    """Return the newest observer that checks values, or `None`."""
    return next((observer for observer in reversed(OBSERVERS.get()) if observer.checks), None)


def monitor_of(recorder: Any) -> Any:
    """Notify the observers of a new trace on values; return the monitor of the newest observer that makes one, or `None`."""
    found = [monitor for observer in OBSERVERS.get() if (monitor := observer.opened(recorder)) is not None]
    return found[-1] if found else None


def place_now(observers: Sequence[Observer]) -> Place | None:
    """Return the place of the running operation from the newest observer that knows it."""
    for observer in reversed(observers):
        place = observer.place()
        if place is not None:
            return place
    return None


def begun(phase: str, records: Any) -> list[Observer]:
    """Return the observers that see a pass or evaluation. Its end calls `ended`."""
    return [observer for observer in OBSERVERS.get() if observer.begun(phase, records)]


def ended(observers: Sequence[Observer]) -> None:
    """Notify observers of the end of a pass or evaluation that they have seen."""
    for observer in reversed(observers):
        observer.ended()


def copied(records: list[Any], copy: list[Any]) -> None:
    """Notify the observers of a copy of the records of a trace."""
    for observer in OBSERVERS.get():
        observer.copied(records, copy)


def observed_run(steps: Sequence[Any], equations: Sequence[Any], observers: Sequence[Observer]) -> Iterator[Any]:
    """Yield the steps of an evaluation, one per equation, and notify the observers."""
    for index, (step, equation) in enumerate(zip(steps, equations, strict=True)):
        for observer in observers:
            observer.before(index, equation, tuple)
        yield step
        for observer in observers:
            observer.after(index, equation, ())
