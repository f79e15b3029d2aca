"""Measurements of a call: the function alone, its gradient, single operations, and peak memory.

Times are medians over several rounds, after one warm-up round. The parts do not add up to the whole, because recording and the
clock run between them. So the whole is measured separately, and the remainder is reported by itself.
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

from functad.expressions.observers import observing
from functad.places import user_frame
from functad.profiling.call import Call, quiet
from functad.profiling.recording import Laps, Operation, TimedRecorder
from functad.tracing.traces.concrete import ReverseRecorder
from functad.transforms.calling.boundary import traced
from functad.transforms.walks.reverse import pull_back

clock: Callable[[], float] = time.perf_counter

ROUNDS = 3, 40
"""The smallest and the largest number of rounds."""
SECONDS = 1.0
"""Time for all rounds together, unless the smallest number of rounds takes longer."""


class Timed(NamedTuple):
    """An operation with its times, all in seconds.

    Attributes:
        operation: the operation.
        before: time since the end of the previous operation.
        forward, backward: time in the operation and in its derivative.
        back_bytes: bytes of the arrays that the derivative created.
    """

    operation: Operation
    before: float
    forward: float
    backward: float
    back_bytes: int


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
        operations.append(Timed(operation, before, during, rule, laps.bytes.get(slot, 0)))
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
    pull_back(recorder.equations, seeds, recorder.inputs, consume=True)
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
        pull_back(recorder.equations, seeds, recorder.inputs, consume=False)
    recorder.equations.clear()  # release the residuals
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
            pull_back(recorder.equations, seeds, recorder.inputs, consume=False)
        start = clock()
        chained(one)
        return statistics.median(laps.times.values()) - (clock() - start) / length

    times, _ = repeated(round_, 0.02)
    return max(float(statistics.median(times)), 0.0)
