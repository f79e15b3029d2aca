"""`TapeSlice`: the part of a list of records that belongs to one tape.

A tape owns the records that were added while it recorded and that depend on its sources.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.eager.active import ACTIVE
from functad.eager.models.variable import Variable
from functad.eager.tape.recorder import EagerRecorder
from functad.eager.tape.walk import cotangents_at, raised
from functad.expressions.expressions import Constant
from functad.expressions.observers import checker, copied
from functad.expressions.records import mark_reached, marks_at, results_of
from functad.primitives.operands import all_examples, read
from functad.tracing.traces.base import Recorded

_NEVER_ENTERED = "this tape was never entered, so nothing is recorded: compute inside `with tape:`"
_SPENT = "this tape has given its gradient already, and what it recorded is gone: GradientTape(persistent=True) keeps it"


def watch_if_debugging(recorder: EagerRecorder) -> None:
    """Set the watch of a recorder that was made under `debug_nans`."""
    observer = checker()
    if recorder.debugs and recorder.watch is None and observer is not None:
        from functad.eager.tape.watched import TapeWatch  # noqa: PLC0415 - only `debug_nans` needs it

        recorder.watch = TapeWatch(recorder, offence=observer.offence)


class TapeSlice:
    """One tape's part of a shared list of records, and the sources that the tape watches.

    Attributes:
        lists: the tape keeps whole calls, for `expressions`.
    """

    lists = False
    _recorder: EagerRecorder | None = None
    _recording = False
    _spent = False
    _persistent = False
    _consumed = False
    _watch_accessed = True

    def _clear(self) -> None:
        self._variables: dict[int, Variable] = {}
        self._explicit: set[int] = set()
        self._watched: list[Any] = []
        self._stretches: list[list[int]] = []
        self._slots: set[int] = set()
        self._marks = bytearray()
        self._seen = 0

    @property
    def recorder(self) -> EagerRecorder | None:
        """The recorder that holds the list; `None` before the first `with` block and after the tape is spent."""
        return self._recorder

    def _start(self) -> None:
        """Start to record, in a new stretch of the list."""
        recorder = self._recorder
        assert recorder is not None
        self._stretches.append([len(recorder.equations), -1])
        self._recording = True
        try:
            watch_if_debugging(recorder)
            recorder.start(self)
        except BaseException:  # an interrupt
            self._stop()
            raise

    def _absent(self) -> str:
        """Return the reason for a missing recorder."""
        return _SPENT if self._spent else _NEVER_ENTERED

    def _stop(self) -> None:
        """Stop recording, and end the open stretch."""
        if self._recording and self._recorder is not None:
            self._recorder.stop(self)
            self._stretches[-1][1] = len(self._recorder.equations)
            self._recording = False  # last, so that `_stop` can run again after an interrupt

    def _release(self) -> None:
        """Drop the records that no other tape needs."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        recorder.members.discard(self)
        others = list(recorder.members)
        if not others:
            recorder.clear()
            return
        for other in others:
            other._mark()
        for start, stop in self._stretches:
            for index in range(start, stop):
                if recorder.equations[index] is not None and not any(other._owns(index) for other in others):
                    recorder.equations[index] = None

    def _mark(self) -> None:
        """Update the marks of the slots that depend on watched slots."""
        recorder = self._recorder
        assert recorder is not None
        count = len(recorder.equations)
        self._marks.extend(bytes(count - len(self._marks)))
        for slot in self._slots:
            self._marks[slot] = 1
        for start, stop in self._stretches:
            end = count if stop < 0 else stop
            mark_reached(self._marks, recorder.equations, max(start, self._seen), end)
        self._seen = count

    def _owns(self, slot: int) -> bool:
        inside = any(start <= slot and (stop < 0 or slot < stop) for start, stop in self._stretches)
        return inside and bool(self._marks[slot])

    def slots_of(self, source: Any) -> list[int]:
        """Return the slots of a source; a Variable that was assigned to has several."""
        recorder = self._recorder
        assert recorder is not None
        if issubclass(type(source), Variable):  # `isinstance` asks a Tensor for the type of its value
            # Another tape may own slots of values that `functional_call` gave the Variable.
            return [slot for slot in recorder.variables.get(id(source), (source, ()))[1] if slot in self._slots]
        slot = recorder.slot_of(read(source))
        return [] if slot is None else [slot]

    def wants(self, variable: Variable) -> bool:
        """Return `True` if the tape follows a Variable, and note the read."""
        if id(variable) in self._explicit or (self._watch_accessed and variable.trainable):
            self._variables[id(variable)] = variable
            return True
        return False

    def sources(self) -> list[Any]:
        """Return the values of the watched Tensors that still exist."""
        alive = [weak() for weak in self._watched]
        return [np.asarray(all_examples(tensor)) for tensor in alive if tensor is not None]

    def watched_variables(self) -> tuple[Variable, ...]:
        """Return the Variables that the tape has followed, in order of creation."""
        return tuple(sorted(self._variables.values(), key=lambda variable: variable.number))

    def follow(self, slot: int) -> None:
        """Add a watched slot."""
        self._slots.add(slot)

    def pull(self, seeds: dict[int, Any], wanted: set[int], cuts: set[int], *, last: bool, sparse: bool) -> dict[int, Any]:
        """Return the cotangents of the wanted slots; the arguments are as for `cotangents_at`."""
        recorder = self._recorder
        assert recorder is not None
        records = bool(recorder.recording) and recorder in ACTIVE.get()
        consume = last and not (records or recorder.shared or recorder.fallible or self._persistent)
        self._consumed = self._consumed or consume
        equations = recorder.equations
        if recorder.shared:
            self._mark()
            equations = [None if e is None or not self._owns(i) else e for i, e in enumerate(equations)]
        if records:
            equations = [None if e is None else raised(recorder, i, e) for i, e in enumerate(equations)]
        if equations is not recorder.equations:
            copied(recorder.equations, equations)
        arrivals: Any = None
        found: dict[int, Any]
        if recorder.debugs:
            found, arrivals = recorder.watch.cotangents_at(self, equations, seeds, wanted, cuts)
        else:
            found = cotangents_at(recorder, equations, seeds, wanted, cuts, consume=consume, sparse=sparse)
        if recorder.shared:
            found = {slot: g for slot, g in found.items() if self._marks[slot] or slot in seeds}
        if arrivals is not None:
            recorder.watch.check_gradients(arrivals, found)
        return found

    def indexed_records(self) -> list[tuple[int, Any]]:
        """Return the records that the tape owns, each with its index in the list."""
        recorder = self._recorder
        if recorder is None:
            return []
        if recorder.shared:
            self._mark()
        return [(i, e) for i, e in enumerate(recorder.equations) if e is not None and (not recorder.shared or self._owns(i))]

    def records(self) -> list[Any]:
        """Return the records that the tape owns."""
        return [record for _, record in self.indexed_records()]

    def operands_at(self, slot: int) -> list[Any]:
        """Return the constant operands, kept for `expressions`, of the call that made a slot."""
        entry = self._recorder.listed.get(slot) if self._recorder is not None else None
        return [a.value for a in entry[0].inputs if isinstance(a, Constant)] if type(entry) is tuple else []

    def operands(self) -> list[Any]:
        """Return the constant operands, kept for `expressions`, of all calls that the tape owns."""
        recorder = self._recorder
        if recorder is None:
            return []
        own = [entry for slot, entry in recorder.listed.items() if not recorder.shared or self._owns(slot)]
        return [a.value for entry in own if type(entry) is tuple for a in entry[0].inputs if isinstance(a, Constant)]

    def stats(self) -> dict[str, int]:
        """Return the number of records of the tape, and the bytes of the arrays that the records keep alive."""
        records = self.records()
        arrays = {}
        for value in arrays_in([*[equation[2] for equation in records], *self.operands()]):
            while type(value.base) is np.ndarray:
                value = value.base
            arrays[id(value)] = value.nbytes
        return {"records": len(records), "bytes": sum(arrays.values())}

    def depend_on(self, slots: set[int], *, past: Callable[[Any], bool] = lambda primitive: False) -> set[int]:
        """Return `slots` and all slots that depend on them, ignoring records whose primitive satisfies `past`."""
        if self._recorder is None:
            return set(slots)
        equations = [None if e is None or past(e[0].primitive) else e for e in self._recorder.equations]
        marks = mark_reached(marks_at(slots, len(equations)), equations)
        return {slot for slot, mark in enumerate(marks) if mark}

    def makers(self) -> dict[int, int]:
        """Return, for each result recorded while this tape recorded, the index of its record."""
        found: dict[int, int] = {}
        equations = self._recorder.equations if self._recorder is not None else []
        for start, stop in self._stretches:
            for index in range(start, len(equations) if stop < 0 else stop):
                record = equations[index]
                if record is not None:
                    found |= dict.fromkeys(results_of(record, index), index)
        return found


def arrays_in(saved: Any) -> list[Any]:
    """Return the arrays in the residuals of a record."""
    if isinstance(saved, Recorded):
        return arrays_in(all_examples(saved))
    if type(saved) is np.ndarray:
        return [saved]
    return [a for part in saved for a in arrays_in(part)] if isinstance(saved, (tuple, list)) else []
