"""Measurements of a call: each operation in both passes, the function alone, its gradient, peak memory, and compilation.

Times are medians over several rounds, after one warm-up round. The parts do not add up to the whole, because recording and the
clock run between them. So the whole is measured separately, and the remainder is reported by itself.
"""

from __future__ import annotations

import functools
import inspect
import re
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from functad.compilation.jit import jit
from functad.eager.models.variable import standing_in
from functad.errors import FunctadError
from functad.expressions.observers import Observer, Place, observing
from functad.expressions.records import inputs_of
from functad.expressions.spec import dtype_of
from functad.places import name_of, user_frame
from functad.primitives.entry import INTERNAL, Primitive
from functad.primitives.operands import innermost
from functad.primitives.vocabulary import shown_name
from functad.profiling.call import Call, quiet
from functad.tracing.concrete import ReverseRecorder
from functad.tracing.foreign import computed
from functad.tracing.trace import dispatch
from functad.tracing.views import note_if_view
from functad.transforms.boundary import traced
from functad.transforms.grad import gradient_function
from functad.transforms.reverse import Scattered, pull_back
from functad.transforms.transform import Selection
from functad.trees.structure import flatten


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


class TimedRecorder(ReverseRecorder):
    """A reverse trace that measures its operations.

    Attributes:
        laps: for each operation the time since the end of the previous one (the user's Python code and recording), and the
            time in NumPy.
        operations: the operations, or `None` unless `notes` is set. Collecting them takes as long as the operations
            themselves, so a separate run does it.
    """

    def __init__(self, function: object, clock: Callable[[], float], outermost: FrameType | None, *, notes: bool) -> None:
        super().__init__("profile", function)
        self.fast = False  # fast paths would bypass `process`
        self.clock = clock
        self.outermost = outermost
        self.laps: list[tuple[float, float]] = []
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
        out = dispatch(primitive, tuple(values), params) if nested else computed(primitive, values, params)
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
        self.note(primitive, values, out, len(self.records) - 1 if active else None)
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
        self.laps.append((before, during))
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


def place_of_frame(frame: FrameType) -> Place:
    """Return the executing line of user code in a frame."""
    code = frame.f_code
    return Place(code.co_qualname.rpartition("<locals>.")[2], code.co_filename, frame.f_lineno or 0, 0)


clock: Callable[[], float] = time.perf_counter

ROUNDS = 3, 40
"""The smallest and the largest number of rounds."""
SECONDS = 1.0
"""Time for all rounds together, unless the smallest number of rounds takes longer."""


class Timed(NamedTuple):
    """An operation, or the code before it, with its times in seconds.

    Attributes:
        name, path: as in `Operation`.
        before: time since the end of the previous operation.
        forward, backward: time in the operation and in its derivative.
        bytes: bytes of the arrays that both create.
    """

    name: str
    path: tuple[Place, ...]
    before: float
    forward: float
    backward: float
    bytes: int


class Measured(NamedTuple):
    """The measurements of a call, in seconds and bytes.

    Attributes:
        operations: the operations in order.
        plain: time of the function without functad.
        forward, backward: time of the forward pass with recording, and of the backward pass.
        after: time in the function after its last operation.
        plain_peak, peak: peak memory of the function alone and of its gradient.
        walk: overhead of the backward pass per record, without the rule.
        rounds: the number of rounds.
        constant: each run did the same operations; otherwise the times are from the runs that match the first.
    """

    operations: list[Timed]
    plain: float
    forward: float
    backward: float
    after: float
    plain_peak: int
    peak: int
    walk: float
    rounds: int
    constant: bool


def measured(call: Call) -> Measured:
    """Measure a call."""
    outermost = user_frame(sys._getframe(1))
    with quiet(), call.undisturbed():
        recorder, laps, _ = _observed(call, outermost, notes=True)  # also the warm-up
        alone, together = functools.partial(_plain, call), functools.partial(gradient_times, call)
        taken, rounds = repeated(lambda: (*warm(alone), *warm(together), _observed(call, outermost, notes=False)))
        plain_peak, peak = _peak(alone), _peak(together)
    plain, forward, backward, parts = zip(*taken, strict=True)  # measured in turn, so that machine load affects all equally
    same = [part for part in parts if part[0].names == recorder.names]
    constant = len(same) == len(parts)
    same = same or [(recorder, laps, 0.0)]
    operations = []
    for i, operation in enumerate(recorder.operations or ()):
        slot = -1 if operation.slot is None else operation.slot
        before, during = (statistics.median(column) for column in zip(*[r.laps[i] for r, _, _ in same], strict=True))
        rule = statistics.median([back.times.get(slot, 0.0) for _, back, _ in same])
        made = operation.bytes + laps.bytes.get(slot, 0)
        operations.append(Timed(operation.name, operation.path, before, during, rule, made))
    ends = [end for _, _, end in same]
    plainly, ahead, back, after = (statistics.median(column) for column in (plain, forward, backward, ends))
    return Measured(operations, plainly, ahead, back, after, plain_peak, peak, walk_time(), rounds, constant)


def repeated(run: Callable[[], Any], seconds: float | None = None) -> tuple[list[Any], int]:
    """Run a function once to warm up, then as often as time allows; return the results and the number of rounds."""
    start = clock()
    run()
    taken = max(clock() - start, 1e-9)
    least, most = ROUNDS if taken < _SLOW else (1, 1)
    rounds = int(min(max((SECONDS if seconds is None else seconds) / taken, least), most))
    return [run() for _ in range(rounds)], rounds


def warm(run: Callable[[], tuple[float, ...]]) -> tuple[float, ...]:
    """Return the times of the fastest of up to three consecutive runs; of a single run if it is slow.

    The first run has cold caches, and other load on the machine only adds time.
    """
    start = clock()
    times = [run()]
    taken = clock() - start
    times += [run() for _ in range(2 if taken < _SHORT else 1 if taken < _LONG else 0)]
    return min(times, key=sum)


_SHORT, _LONG, _SLOW = 3e-3, 0.1, 1.0


def _plain(call: Call) -> tuple[float]:
    run = call.bound()
    start = clock()
    run()
    return (clock() - start,)


def gradient_times(call: Call) -> tuple[float, float]:
    """Return the times of the forward pass with recording and of the backward pass, both as in `grad`."""
    recorder = ReverseRecorder("profile", call.function)
    run = call.entered(recorder)
    start = clock()
    out = traced(recorder, run, (), {})
    forward = clock() - start
    _, seeds = call.finished(recorder, out)
    start = clock()
    pull_back(recorder.records, seeds, recorder.inputs, consume=True)
    return forward, clock() - start


def _observed(call: Call, outermost: FrameType | None, *, notes: bool) -> tuple[TimedRecorder, Laps, float]:
    """Run with per-operation measurement; return the trace, the backward times and the time after the last operation."""
    recorder = TimedRecorder(call.function, clock, outermost, notes=notes)
    run = call.entered(recorder)
    recorder.begin()
    out = traced(recorder, run, (), {})
    end = clock() - recorder.last
    _, seeds = call.finished(recorder, out)
    laps = Laps(clock, notes=notes)
    with observing(laps):
        pull_back(recorder.records, seeds, recorder.inputs, consume=False)
    recorder.records.clear()  # release the residuals
    return recorder, laps, end


def _peak(run: Callable[[], Any]) -> int:
    """Return the peak memory of a run above its start, for NumPy arrays and Python objects."""
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        run()
        return max(tracemalloc.get_traced_memory()[1] - before, 0)
    finally:
        if not tracing:
            tracemalloc.stop()


@functools.cache
def walk_time() -> float:
    """Return the overhead per record of an observed backward pass, measured on a chain of negations of one number."""
    one, length = np.float64(1.0), 200

    def chained(x: Any) -> Any:
        for _ in range(length):
            x = -x
        return x

    def round_() -> float:
        recorder = ReverseRecorder("profile", chained)
        out = traced(recorder, chained, (recorder.enter(one),), {})
        laps = Laps(clock, notes=False)
        seeds = [None] * out.slot + [one]
        with observing(laps):
            pull_back(recorder.records, seeds, recorder.inputs, consume=False)
        start = clock()
        chained(one)
        return statistics.median(laps.times.values()) - (clock() - start) / length

    times, _ = repeated(round_, 0.02)
    return max(float(statistics.median(times)), 0.0)


LARGEST = 5_000
"""Longer lists of operations are not compiled for the measurement, because it could take minutes."""


class Compiled(NamedTuple):
    """Measurements of the compiled value and gradient.

    Attributes:
        seconds: time of a compiled call; `None` if compilation failed or was not tried.
        without: time of an uncompiled call, measured in turn with the compiled calls.
        compiling: time of the first call.
        backend: the name of the backend.
        reason: the reason why nothing was measured.
        static: positions of arguments that had to be static.
    """

    seconds: float | None
    without: float
    compiling: float
    backend: str
    reason: str
    static: tuple[int, ...] = ()


def gradient_of(call: Call) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Return value and gradient of a call as one function for `jit`, with its arguments.

    Results that are no single number are summed, so that their cotangents are ones.
    """
    variables, count = call.variables, len(call.args)

    def total(*args: Any, **kwargs: Any) -> Any:
        with standing_in(zip(variables, args[count:], strict=True)):
            out = call.function(*args[:count], **kwargs)
        out = out[0] if call.has_aux else out
        leaves = [leaf for leaf in flatten(out)[0] if dtype_of(leaf).kind in "fc"]
        if len(leaves) == 1 and np.shape(leaves[0]) == () and dtype_of(leaves[0]).kind == "f":
            return leaves[0]
        return sum([np.sum(leaf.real if dtype_of(leaf).kind == "c" else leaf) for leaf in leaves])

    total.__name__ = total.__qualname__ = call.name
    positions = (*[k for k in call.keys if isinstance(k, int)], *range(count, count + len(variables)))
    names = tuple([k for k in call.keys if isinstance(k, str)])
    selection = Selection("jit", total, positions, names or None)
    made = gradient_function(selection, allow_int=True, with_value=True)
    args, kwargs = call.copies()
    return made, (*args, *[v.copied() for v in variables]), kwargs


def compiled(call: Call, operations: int) -> Compiled:
    """Compile value and gradient of a call, and measure them.

    Args:
        call: the call.
        operations: the number of its operations.
    """
    if operations > LARGEST:
        return Compiled(None, 0.0, 0.0, "", f"with {operations} operations, compiling it to measure that could take minutes")
    f, args, kwargs = gradient_of(call)
    options: dict[str, Any] = {}
    if call.jitted is not None:
        inner = getattr(call.jitted, "__func__", call.jitted)
        own, given, named = inner.given
        options = inspect.signature(jit).bind(own, *given, **named).arguments
        del options["f"]
        if inner is not call.jitted:  # the positions of a method include the object
            options["static_argnums"] = ()
    reason = ""
    for static in dict.fromkeys([(), () if options else call.integers()]):
        try:
            return _measured(f, args, kwargs, call, options or {"static_argnums": static}, static)
        except Exception as error:  # noqa: BLE001 - any exception during the trace becomes the reason
            reason = reason or sentences_of(error)[0]
    return Compiled(None, 0.0, 0.0, "", reason)


def _measured(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    call: Call,
    options: dict[str, Any],
    static: tuple[int, ...],
) -> Compiled:
    """Compile a function and measure it.

    Raises:
        Exception: any error of tracing, compiling or running the function.
    """
    program: Any = jit(f, **options)

    def run() -> tuple[float]:
        start = clock()
        program(*args, **kwargs)
        return (clock() - start,)

    with quiet(), call.undisturbed():
        (first,) = run()
        eager = functools.partial(gradient_times, call)
        times, _ = repeated(lambda: (sum(warm(run)), sum(warm(eager))))  # in turn, for comparison
    seconds, without = (statistics.median(column) for column in zip(*times, strict=True))
    return Compiled(seconds, without, first, program.compiler.backend.name, "", static)


def sentences_of(error: BaseException | None) -> tuple[str, str]:
    """Return the first sentence of an error message and the others, without the error code.

    The type of an error from outside functad precedes the first sentence.
    """
    text = re.sub(r" \[[a-z-]+\]$", "", " ".join(str(error).split()))
    parts = re.match(r"(.*?[.?!])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.) (.*)", text)
    first, rest = parts.groups() if parts else (text, "")
    first = first if first.endswith(("?", "!")) else first.rstrip(".") + "."
    return first if isinstance(error, FunctadError) else f"{type(error).__name__}: {first}", rest
