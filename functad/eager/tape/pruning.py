"""Letting go of what an open tape recorded and nobody can ask for any more.

A derivative can only be asked of, or by, Tensors that are alive. So records of which no living Tensor is a result, and on which
none depends, are dropped while the tape is open, and the slots of the others move up: a loop inside an open tape takes memory
for what it keeps, not for what it did.

Tensors do not tell when they die, which would be dear. The collector's `gc.get_referrers` finds the living ones in 1 to 10 ms,
so that is done when many times as long has passed: memory is not filled faster than it can be written. A tape that is open
for less than 30 ms is never looked at.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from functad.expressions.records import inputs_of, mark_needed, marks_at, results_of
from functad.tracing.traces.base import Recorded

STEP = 32
"""After so many records the clock is looked at: 0.01 us an operation."""

SHARE = 20.0
"""So many times as long as looking for living Tensors takes passes until it is done again."""

MANY = 1 << 17
"""When so many records more than twice those that were kept are there, it is done in any case: more would take longer."""


class Schedule:
    """When a recorder is looked through again.

    Attributes:
        time: at this time.
        length: at this number of records.
    """

    __slots__ = ("length", "time")

    def __init__(self) -> None:
        self.time = perf_counter() + SHARE * 0.0015
        self.length = MANY

    def prune(self, recorder: Any) -> None:
        """Drop what nobody can ask for, if it is time; let the recorder come again after some records."""
        now, before = perf_counter(), len(recorder.equations)
        # Frozen objects are hidden from the collector's functions. With a watch everything is to be kept.
        if (now >= self.time or before >= self.length) and not recorder.debugs and not gc.get_freeze_count():
            start = thread_time()  # the work that it is, however busy the machine
            _prune(recorder)
            taken, after = thread_time() - start, len(recorder.equations)
            self.time = perf_counter() + (SHARE if 2 * after < before else 4 * SHARE) * taken
            self.length = 2 * after + MANY
        recorder.limit = len(recorder.equations) + STEP


def _prune(recorder: Any) -> None:
    """Drop the records that no living Tensor needs, and move the others up."""
    for known in (recorder.aliases, recorder.moved):
        for key in [key for key, (weak, _) in known.items() if weak() is None]:
            del known[key]
    tensors = [t for t in gc.get_referrers(recorder) if issubclass(type(t), Recorded) and t.recorder is recorder]
    equations = recorder.equations
    held = [*[tensor.slot for tensor in tensors], *[slot for _, slot in recorder.moved.values()]]
    needed = _needed(marks_at(held, len(equations)), recorder)
    if all(needed):
        return
    kept = np.flatnonzero(np.frombuffer(needed, np.uint8)).tolist()
    places = {slot: place for place, slot in enumerate(kept)}
    dropped = equations[:]
    equations[:] = [_moved(equations[slot], places) for slot in kept]
    for tensor in tensors:
        tensor.slot = places[tensor.slot]
    recorder.renumber(places)
    starts = [0, *np.cumsum(np.frombuffer(needed, np.uint8), dtype=np.intp).tolist()]
    for tape in recorder.members:
        tape.renumber(places, starts)
    del dropped  # what their rules hold may run the user's code when it dies: only now that all is in order


def _needed(marks: bytearray, recorder: Any) -> bytearray:
    """Mark, beside marked slots, those that they depend on, and all results of one operation if one is marked.

    Where a value of a record that is dropped left the tape is remembered for what it was made of.
    """
    equations, left, listed = recorder.equations, recorder.left, recorder.listed

    def reads(record: Any, index: int) -> Sequence[int]:
        entry = listed.get(index)
        if type(entry) is not tuple:
            return inputs_of(record)
        return [*inputs_of(record), *inputs_of(entry[0])]  # of which some may have no derivative

    mark_needed(marks, equations, reads)
    for index in range(len(equations) - 1, -1, -1):
        record = equations[index]
        if record is not None:
            results = results_of(record, index)
            if len(results) > 1 and any(marks[slot] for slot in results):
                marks[results[0] : index + 1] = b"\x01" * len(results)
            elif index in left and not marks[index]:
                for slot in inputs_of(record):
                    recorder.inherit(slot, left[index])
    return marks


def _moved(record: Any, places: dict[int, int]) -> Any:
    """Return a record with the new slots of its inputs."""
    if record is None:
        return None
    plan, slots, saved, specs = record
    if type(slots) is int:
        place = places[slots]
        return record if place == slots else (plan, place, saved, specs)
    return plan, tuple([places[slot] for slot in slots]), saved, specs


def still_there(slots: Iterable[int], places: dict[int, int]) -> list[int]:
    """Return the new numbers of those slots that are kept."""
    return [places[slot] for slot in slots if slot in places]
