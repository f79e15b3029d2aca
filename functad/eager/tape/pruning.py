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
from collections.abc import Iterable
from time import perf_counter, thread_time
from typing import Any, Protocol

import numpy as np

from functad.tracing.traces.base import Recorded

STEP = 32
"""After so many records the clock is looked at: 0.01 us an operation."""

SHARE = 20.0
"""So many times as long as looking for living Tensors takes passes until it is done again."""

MANY = 1 << 17
"""When so many records more than twice those that were kept are there, it is done in any case: more would take longer."""


class PrunedRecorder(Protocol):
    """A recorder of tapes, as far as it knows of slots: see `functad.eager.tape.recorder`."""

    equations: list[Any]
    aliases: dict[int, Any]
    moved: dict[int, Any]
    left: dict[int, Any]
    listed: Any
    members: Any
    debugs: bool
    limit: float

    def inherit(self, slot: int, where: Any) -> None:
        """Remember for a slot where what was made of it left the trace."""

    def renumber(self, places: dict[int, int]) -> None:
        """Take note of the new numbers of slots."""


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

    def prune(self, recorder: PrunedRecorder) -> None:
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


def _prune(recorder: PrunedRecorder) -> None:
    """Drop the records that no living Tensor needs, and move the others up."""
    for known in (recorder.aliases, recorder.moved):
        for key in [key for key, (weak, _) in known.items() if weak() is None]:
            del known[key]
    tensors = [t for t in gc.get_referrers(recorder) if issubclass(type(t), Recorded) and t.recorder is recorder]
    equations = recorder.equations
    needed = bytearray(len(equations))
    for tensor in tensors:
        needed[tensor.slot] = 1
    for _, slot in recorder.moved.values():
        needed[slot] = 1
    _mark_needed(needed, recorder)
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


def _mark_needed(needed: bytearray, recorder: PrunedRecorder) -> None:
    """Mark, beside marked slots, those that they depend on, and all results of one operation if one is marked.

    Where a value of a record that is dropped left the tape is remembered for what it was made of.
    """
    equations, left, listed = recorder.equations, recorder.left, recorder.listed
    for index in range(len(equations) - 1, -1, -1):
        record = equations[index]
        if record is None:
            continue
        plan, slots, _, specs = record
        if plan.primitive.multiple:
            first = index + 1 - len(specs[1])
            if any(needed[first : index + 1]):
                needed[first : index + 1] = b"\x01" * (index + 1 - first)
        if needed[index]:
            if type(slots) is int:
                needed[slots] = 1
            else:
                for slot in slots:
                    needed[slot] = 1
            entry = listed.get(index)
            for source in entry[0].inputs if type(entry) is tuple else ():  # of its inputs some may have no derivative
                if type(source) is int:
                    needed[source] = 1
        elif index in left:
            for slot in (slots,) if type(slots) is int else slots:
                recorder.inherit(slot, left[index])


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
