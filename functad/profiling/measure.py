"""What is measured: a call by itself, with its gradient, operation by operation, and what memory that takes.

Times are medians over several rounds, after one that warms up. The sums of the parts are not the whole: recording and the clock
stand between them. So the whole is measured by itself too, and what the parts do not explain is told apart.
"""

from __future__ import annotations

import functools
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from functad.places import user_frame
from functad.profiling.call import Call, quiet
from functad.profiling.recording import Laps, Operation, TimedRecorder
from functad.tracing.traces.concrete import ReverseRecorder
from functad.transforms.calling.arguments import traced
from functad.transforms.walks.reverse import pull_back

clock: Callable[[], float] = time.perf_counter

ROUNDS = 3, 40
"""At least, and at most, so many rounds."""
SECONDS = 1.0
"""So long all rounds take together, if the least number of them needs no more."""


class Timed(NamedTuple):
    """An operation with its times, all in seconds.

    Attributes:
        operation: which.
        before: between the operation before and this one.
        forward, backward: in it, and in its derivative.
        back_bytes: bytes of the arrays that the derivative made.
    """

    operation: Operation
    before: float
    forward: float
    backward: float
    back_bytes: int


class Measured(NamedTuple):
    """What was measured of a call, in seconds and bytes.

    Attributes:
        operations: one by one.
        plain: the function, without functad.
        forward, backward: the function while it is recorded, and the walk back.
        after: in the function, after its last operation.
        plain_peak, peak: the most memory that the function, and its gradient, took at one time.
        walk: what the walk takes for a record beside the rule.
        rounds: how often.
        constant: each run did the same operations; otherwise the times are of one run.
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
        recorder, laps, _ = _observed(call, outermost, notes=True)  # it warms up too
        alone, together = functools.partial(_plain, call), functools.partial(gradient_times, call)
        taken, rounds = repeated(lambda: (*warm(alone), *warm(together), _observed(call, outermost, notes=False)))
        plain_peak, peak = _peak(alone), _peak(together)
    plain, forward, backward, parts = zip(*taken, strict=True)  # in turn, so that what else the machine does meets all alike
    same = [part for part in parts if part[0].names == recorder.names]
    constant = len(same) == len(parts)
    same = same or [(recorder, laps, 0.0)]
    operations = []
    for i, operation in enumerate(recorder.operations or ()):
        slot = -1 if operation.slot is None else operation.slot
        before, during = (statistics.median(column) for column in zip(*[r.laps[i] for r, _, _ in same], strict=True))
        rule = statistics.median([back.times.get(slot, 0.0) for _, back, _ in same])
        operations.append(Timed(operation, before, during, rule, laps.bytes.get(slot, 0)))
    ends = [end for _, _, end in same]
    plainly, ahead, back, after = (statistics.median(column) for column in (plain, forward, backward, ends))
    return Measured(operations, plainly, ahead, back, after, plain_peak, peak, walk_time(), rounds, constant)


def repeated(run: Callable[[], Any], seconds: float | None = None) -> tuple[list[Any], int]:
    """Run something once to warm up, then as often as there is time; return what these gave, and how many there were."""
    start = clock()
    run()
    taken = max(clock() - start, 1e-9)
    least, most = ROUNDS if taken < _SLOW else (1, 1)
    rounds = int(min(max((SECONDS if seconds is None else seconds) / taken, least), most))
    return [run() for _ in range(rounds)], rounds


def warm(run: Callable[[], tuple[float, ...]]) -> tuple[float, ...]:
    """Return the times of the quickest of a few runs in a row, or of the only one if that takes long.

    Caches are cold before the first, and what else the machine does only adds.
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
    """Return how long the function takes while it is recorded, and the walk back, both as `grad` does them."""
    recorder = ReverseRecorder("profile", call.function)
    run = call.entered(recorder)
    start = clock()
    out = traced(recorder, run, (), {})
    forward = clock() - start
    values, slots = call.finished(recorder, out)
    seeds = call.seeds(recorder, values, slots)
    start = clock()
    pull_back(recorder.equations, seeds, recorder.inputs, consume=True)
    return forward, clock() - start


def _observed(call: Call, outermost: FrameType | None, *, notes: bool) -> tuple[TimedRecorder, Laps, float]:
    """Return the trace of a run that was measured operation by operation, the walk back, and the time after the last one."""
    recorder = TimedRecorder(call.function, clock, outermost, notes=notes)
    run = call.entered(recorder)
    recorder.begin()
    out = traced(recorder, run, (), {})
    end = clock() - recorder.last
    values, slots = call.finished(recorder, out)
    laps = Laps(clock, notes=notes)
    seeds = call.seeds(recorder, values, slots)
    pull_back(recorder.equations, seeds, recorder.inputs, consume=False, observer=laps)
    recorder.equations.clear()  # with the values that they hold
    return recorder, laps, end


def _peak(run: Callable[[], Any]) -> int:
    """Return how much more memory there is in use at one time while something runs, NumPy's arrays and Python's objects."""
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
    """Measure what an observed backward walk takes for a record, beside its rule, by a chain of negations of one number."""
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
        pull_back(recorder.equations, seeds, recorder.inputs, consume=False, observer=laps)
        start = clock()
        chained(one)
        return statistics.median(laps.times.values()) - (clock() - start) / length

    times, _ = repeated(round_, 0.02)
    return max(float(statistics.median(times)), 0.0)
