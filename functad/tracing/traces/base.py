"""The recorder, a growing list of what was done to the Tensors of one trace, and `record`, by which an operation gets there.

Which recorder processes an operation is decided by data alone: the newest one among the arguments. A Tensor's value lives
one level lower, and may itself be a Tensor of an older recorder. What an operation means there, its subclass says, in
`process`, `write` and `buffer`.

The slot of a value is its index in the list. A primitive with several results takes as many slots; the record stands at
the last of them, the others hold `None`.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType
from typing import Any, ClassVar
from weakref import ref

from functad.errors import EscapedTensorError
from functad.expressions.spec import PLAIN
from functad.places import here, line_of, name_of, place_of, user_frame
from functad.primitives.entry import Primitive
from functad.primitives.indexing.indexable import as_plain
from functad.primitives.operands import converted
from functad.settings import context_variable, setting

_serials = itertools.count()
_getframe = sys._getframe

WATCHER: ContextVar[Callable[[Recorder], Any] | None] = context_variable("watcher", default=None)
"""Makes what follows the records of a concrete trace while they are made: `debug_nans` sets it."""

ONLOOKER: ContextVar[Callable[[Sequence[Recorded]], bool] | None] = context_variable("onlooker", default=None)
"""Is told which Tensors of inactive recorders an operation takes, and says whether they are recorded now: by a `graph`."""


OPEN: ContextVar[Recorder | None] = context_variable("open", default=None)
"""The recorder whose function is running, in this thread or coroutine."""

LIVE: set[int] = set()
"""Serial numbers of the recorders whose functions are running, and of tapes that record, in all threads and coroutines.

While it is empty, no Tensor that a trace follows exists.
"""

TAPING: ContextVar[Recorder | None] = context_variable("taping", default=None)
"""The recorder of the tape that was opened last and records still."""


def making() -> Recorder | None:
    """Return the recorder of which functions that make arrays are to make Tensors; only `functad.numpy` asks.

    It is that of the function that runs, or of a tape that was opened in it.
    """
    running, tape = OPEN.get(), TAPING.get()
    return running if tape is None or (running is not None and running.serial > tape.serial) else tape


@contextmanager
def making_plain(running: Recorder | None = None) -> Iterator[None]:
    """Return a context in which no function runs, or another one, and no tape records: there arrays are made as they are."""
    with setting(OPEN, running), setting(TAPING, None):
        yield


class Recorder:
    """The list of one trace; each subclass is one meaning of what a function does.

    Attributes:
        serial: increases from recorder to recorder.
        rank: the recorder of the highest rank among the arguments of an operation processes it. It is the serial number, or
            infinite where Tensors must become others before any trace can take them: stale views, and those of a tape which
            does not record.
        eager: open, and operators may take their short way, which appends a record without asking `process`.
        closed: the trace has ended; its Tensors are of no more use.
        lasting: the records stay when the trace has ended, and with them the arrays of the user that they keep.
        seals: arrays of the user that must be the same when the function has returned, see `functad.tracing.constants`.
        written: a Tensor has been written to, so that others may be stale.
        equations: the records, by slot; inputs come first.
        inputs: the number of inputs.
        transform, function: names for messages.
        watch: what `WATCHER` made; `None` if nothing did, which is the usual case.
    """

    # No slots: what few traces need stands here, and making a recorder is a third of what a trace costs beside its operations.
    pulls: ClassVar[bool] = False
    """Cotangents are pulled back through what it records."""

    pushes: ClassVar[bool] = False
    """Tangents are pushed forward through what it records."""

    has_values: ClassVar[bool] = True
    """Its Tensors have values: it is no abstract trace, and not that of a batch."""

    sees_inside: ClassVar[bool] = False
    """It is to see what a function with rules of its own does, and not one operation in its place."""

    inactive = False
    """No trace follows its Tensors now, and they are constants."""

    plain = False
    """Its Tensors stand for plain values of the user: a constant and one of them give what constant and value would give."""

    reassigns: ClassVar[bool] = False
    """`t += v` makes a new Tensor and leaves the old one what it was, as sources of a tape must stay."""

    eager = False
    lasting = False
    watch: Any = None
    written = False

    def __init__(self, transform: str, function: object) -> None:
        self.serial = next(_serials)
        self.rank: float = self.serial
        self.closed = False
        self.seals: dict[int, Any] = {}
        self.equations: list[Any] = []
        self.inputs = 0
        self.transform = transform
        self.function = function

    def enter(self, value: Any) -> Any:
        """Add an input and return its Tensor."""
        self.inputs += 1
        return self.append(None, value)

    def append(self, record: Any, value: Any, code: CodeType | None = None, instruction: int = 0) -> Any:
        """Append a record and return the Tensor of its result. No other function adds a record.

        Args:
            record: the record; `None` for an input, a constant, and every result but the last of several.
            value: the result one level lower.
            code, instruction: the user's line.
        """
        tensor = _tensor_class()
        tensor.below = value
        tensor.recorder = self
        tensor.slot = len(self.equations)
        tensor.code = code
        tensor.instruction = instruction
        self.equations.append(record)
        return tensor

    def append_results(self, record: Any, values: Sequence[Any], code: CodeType | None = None, instruction: int = 0) -> Any:
        """Append the record of a primitive with several results, and return their Tensors."""
        results = [self.append(None, value, code, instruction) for value in values]
        if results:  # a scan of nothing has no results
            self.equations[-1] = record
        return alike(values, results)

    def process(self, primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Compute and record a call of a primitive in this trace; at least one of the arrays is a Tensor of it."""
        raise NotImplementedError

    def assigned(self, tensor: Recorded, what: str) -> None:
        """Take note that the value of a Tensor is assigned to a Variable."""

    def write(self, primitive: Primitive, root: Any, v: Any, params: dict[str, Any]) -> Any:
        """Return a Tensor for the value of `root`, which owns its memory, after a write; `root` will stand for it."""
        return self.process(primitive, (root, v), params)

    def buffer(self, value: Any) -> Any:
        """Return a constant as a Tensor of the trace, so that Tensors can be written into it."""
        raise NotImplementedError

    def close(self) -> None:
        """End the trace: from now on its Tensors raise when they are used."""
        self.closed = True
        self.eager = False
        self.seals = {}

    def operate(self, primitive: Primitive, x: Recorded, other: Any, flipped: bool) -> Any:
        """Compute an operator of a Tensor and something else by a short way of this trace; `None` if it has none."""
        return None

    def invalidated(self, view: ref[Recorded]) -> None:
        """Take note of a view that must be read anew, because its memory is about to be written to."""

    def resolve(self, tensor: Recorded) -> Any:
        """Resolve a Tensor to its value in the traces that record now: to itself, in all traces that are active."""
        return tensor

    def value_outside(self, tensor: Recorded) -> Any:
        """Return the plain value of a Tensor that leaves the trace by `numpy()`, or itself where that loses a derivative."""
        return tensor

    def keeps(self, tensor: Recorded) -> bool:
        """Say whether a Tensor must stay what it is, because a derivative by it may be asked for."""
        return False

    def is_constant(self, tensor: Recorded) -> bool:
        """Say whether a Tensor depends on no input, so that nothing is lost where it becomes a plain value."""
        return False

    def described(self, whose: str) -> str:
        """Return a sentence about the Tensors of the trace, for displays."""
        return f"Followed by {whose}."

    def concrete_value(self, tensor: Recorded, wanted: str) -> Any:
        """Return the value of a Tensor, for what is `wanted` of it.

        Raises:
            AbstractValueError: it has none.
        """
        return tensor.below


class Recorded:
    """The state of a Tensor: a value, and its place in the list of a recorder.

    Attributes:
        below: the value one level lower: an array, a scalar, a Tensor of an older recorder, or a spec if the trace is abstract.
        recorder: the recorder whose list the Tensor stands in.
        slot: its index there.
        code, instruction: the line of the user's code that made it, if it is no input.
        origin: if it is a view, the Tensor that owns the memory, and the path of views from there; otherwise it is not there.
        memory: if it has been viewed or written to, what it knows of its memory; otherwise it is not there.
    """

    __slots__ = ("__weakref__", "below", "code", "instruction", "memory", "origin", "recorder", "slot")

    below: Any
    recorder: Recorder
    slot: int
    code: CodeType | None
    instruction: int


_tensor_class: type[Recorded] = Recorded


def make_tensors_of(cls: type[Recorded]) -> None:
    """Set the class of the Tensors that traces make: `Tensor`, whose module imports this one."""
    global _tensor_class  # noqa: PLW0603 - an attribute of the trace would cost 1 % of a chain of numbers
    _tensor_class = cls


def bare(cls: type[Recorded], recorder: Recorder, value: Any, slot: int) -> Any:
    """Make a Tensor that no line of the user's made: an input, a constant, a buffer."""
    tensor = cls()
    tensor.below, tensor.recorder, tensor.slot = value, recorder, slot
    tensor.code, tensor.instruction = None, 0
    return tensor


def user_place() -> tuple[CodeType | None, int]:
    """Return the code and the instruction of the user's line at which `Recorder.process` records."""
    return place_of(user_frame(_getframe(3)))  # what calls `record` is functad


def alike(out: Any, results: Sequence[Any]) -> Any:
    """Return results in a tuple of the type of the one that a primitive gave."""
    return type(out)(*results) if hasattr(out, "_fields") else tuple(results)


def record(primitive: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Call a primitive with Tensors among its arrays: the newest trace among theirs processes it."""
    newest: Recorded | None = None
    for a in arrays:
        if isinstance(a, Recorded):
            if newest is None or (a.recorder is not newest.recorder and a.recorder.rank > newest.recorder.rank):
                newest = a
        elif type(a) not in PLAIN and type(own := converted(as_plain(a), primitive.name)) is not type(a):
            return record(primitive, tuple([own if other is a else other for other in arrays]), params)
    if newest is None:
        return primitive.compute(*arrays, **params)
    if newest.recorder.closed:
        raise escaped(newest, primitive.name)
    return newest.recorder.process(primitive, arrays, params)


def sees_inside(leaves: Iterable[Any]) -> bool:
    """Return `True` if a trace of some values records the operations inside functions with rules of their own."""
    for leaf in leaves:
        while isinstance(leaf, Recorded):
            if leaf.recorder.sees_inside:
                return True
            leaf = leaf.current()  # type: ignore[attr-defined]
            leaf = getattr(leaf, "array", leaf)  # all examples of a batch
    return False


def resolve(value: Any) -> Any:
    """Resolve a Tensor to its value in the traces that record now: a Tensor of one of them, or a plain value."""
    while isinstance(value, Recorded) and (resolved := value.recorder.resolve(value)) is not value:
        value = resolved
    return value


def escaped(tensor: Recorded, operation: str) -> EscapedTensorError:
    """Return the error for a Tensor that is used after its transform has ended."""
    recorder = tensor.recorder
    origin = "The Tensor stands for an argument."
    if tensor.slot >= recorder.inputs:
        origin = f"The Tensor was made at {line_of(tensor.code, tensor.instruction)}."
    return EscapedTensorError(
        f"{operation} was given a Tensor that escaped from {recorder.transform} of {name_of(recorder.function)}, "
        f"which has ended, at {here()}. "
        f"{origin} "
        f"Return the value from the function (has_aux=True hands extra results through), instead of storing it outside."
    )
