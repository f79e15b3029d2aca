"""Cotangents and tangents on their way through the records of a watched trace, and what came in that is not finite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

import numpy as np

from functad.diagnostics.notes import NOT_FINITE, Note, Notes, Offence
from functad.diagnostics.routes import Sources, adds_to, after_writing, before_writing, places
from functad.primitives.operands import innermost
from functad.transforms.walks.cotangents import Scattered, accumulate, add_piece
from functad.transforms.walks.forward import push_write
from functad.transforms.walks.reverse import pull_write


@dataclass(frozen=True)
class Arrival:
    """What one operation adds to a cotangent, or makes of tangents.

    Attributes:
        note: the operation.
        call: the walk through its record alone.
        position: which of the results of `call` it is.
        given: the cotangents or tangents that `call` was given.
        sources: the slots that these belong to.
        value: what arrived.
    """

    note: Note | None
    call: Callable[..., list[Any]]
    position: int
    given: Sequence[Any]
    sources: Sequence[int]
    value: Any


@dataclass
class Flow:
    """Cotangents or tangents on their way through the records of a watched trace.

    Attributes:
        what: "cotangent" or "tangent".
        notes: by slot, the operation that made it.
        quiet: nobody will ask where something came from.
        marked: `marked(note)` surrounds the computation of the derivative of an operation.
        ways: by slot, its cotangent or tangent so far; `None` again when it is not needed any more.
        arrivals: by slot, what came in that is not finite, and where reading and writing brought that from.
        owned: by slot, whether the cotangent is an array that was made here.
        given: by slot, what the transform was given.
    """

    what: str
    notes: Notes
    quiet: bool
    marked: Callable[[Note | None], AbstractContextManager[None]]
    ways: list[Any]
    arrivals: dict[int, list[Arrival | Sources]] = field(default_factory=dict)
    owned: bytearray = field(init=False)
    given: dict[int, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.owned = bytearray(len(self.ways))
        self.given = {}
        if not self.quiet:
            handed_in = {slot: innermost(value) for slot, value in enumerate(self.ways) if value is not None}
            self.given = {slot: value for slot, value in handed_in.items() if NOT_FINITE.found(value)}

    def take(self, slot: int) -> Any:
        """Return the cotangent of a slot when all of it has arrived."""
        g, self.ways[slot] = self.ways[slot], None
        return g.total() if type(g) is Scattered else g

    def note(self, index: int) -> Note | None:
        """Return the operation whose record stands at an index."""
        return self.notes[index][0] if index in self.notes else None

    def pull(self, index: int, gs: Sequence[Any], call: Callable[..., list[Any]], slots: Sequence[int]) -> None:
        """Pull cotangents back through the record at an index, the last of its results, to the slots of its inputs."""
        outputs = range(index + 1 - len(gs), index + 1)
        with self.marked(self.note(index)):
            found = call(*gs)
        for i, (slot, ct) in enumerate(zip(slots, found, strict=True)):
            if ct is not None:
                if self.ways[slot] is None:
                    self.ways[slot] = ct
                else:
                    accumulate(self.ways, self.owned, slot, ct)
                self._arrive(slot, Arrival(self.note(index), call, i, gs, outputs, ct))

    def pull_read(self, index: int, g: Any, slot: int, saved: Any) -> None:
        """Pull the cotangent of what was read back to the array that it was read from."""
        with self.marked(self.note(index)):
            add_piece(self.ways, self.owned, slot, g, saved)
        if self._is_bad(index):
            self._route(slot, lambda mask: [(index, np.asarray(mask[saved[0]]))])

    def pull_write(self, index: int, g: Any, equation: Any) -> None:
        """Pull the cotangent of an array after a write back to the array before, and to what was written."""
        plan, slots, (path, where, shapes), _ = equation
        with self.marked(self.note(index)):
            pull_write(equation, index, g, self.ways, self.owned)
        if self._is_bad(index):
            adds = adds_to(plan.primitive, path)
            for position, slot in zip(plan.active, (slots,) if len(plan.active) == 1 else slots, strict=True):
                if position == 1:
                    self._route(slot, lambda mask: [(index, after_writing(mask, path, where, shapes[0]))])
                else:
                    self._route(slot, lambda mask: [(index, mask if adds else mask & ~places(shapes[0], path, where))])

    def push(
        self, index: int, ts: Sequence[Any], call: Callable[..., list[Any]], slots: Sequence[int], *, copies: bool
    ) -> None:
        """Push the tangents of the slots of its inputs forward through the record at an index."""
        note = self.note(index)
        with self.marked(note):
            found = call(*ts)
        for i, t in enumerate(found):
            slot = index + 1 - len(found) + i
            self.ways[slot] = t.copy() if copies and type(t) is np.ndarray else t
            if note is None or not note.moves:
                self._arrive(slot, Arrival(note, call, i, ts, slots, t))
            elif note.primitive.writes:
                self._push_written(index, note, slots)
            elif not self.quiet and NOT_FINITE.found(innermost(t)):
                shape, place = note.values[0].shape, note.params["index"]
                self._route(slot, lambda mask: [(slots[0], places(shape, (), place, mask))])  # noqa: B023 # there is one slot

    def push_write(self, index: int, equation: Any, last: dict[int, int]) -> bool:
        """Push a tangent through a write in place, if that can be; say whether it was."""
        note = self.note(index)
        slots = (equation[1],) if isinstance(equation[1], int) else equation[1]
        with self.marked(note):
            pushed = push_write(equation, index, self.ways, last)
        if pushed and note is not None:
            self._push_written(index, note, slots)
        return pushed

    def _push_written(self, index: int, note: Note, slots: Sequence[int]) -> None:
        if not any(self._is_bad(slot) for slot in slots):
            return
        path, place, shape = note.params["path"], note.params["index"], np.shape(note.values[1])
        adds, positions = adds_to(note.primitive, path), {slot: i for i, slot in enumerate(note.slots) if slot is not None}

        def sources(mask: Any) -> list[tuple[int, Any]]:
            before = before_writing(mask, path, place, shape, adds=adds)
            return [(slot, before[positions[slot]]) for slot in slots]

        self._route(index, sources)

    def _is_bad(self, slot: int) -> bool:
        """Say whether something that is not finite may have come to a slot."""
        return slot in self.arrivals or slot in self.given

    def _route(self, slot: int, sources: Sources) -> None:
        self.arrivals.setdefault(slot, []).append(sources)

    def _arrive(self, slot: int, arrival: Arrival) -> None:
        if not self.quiet and NOT_FINITE.found(innermost(arrival.value)):
            self.arrivals.setdefault(slot, []).append(arrival)

    def behind(self, slot: int, mask: Any, offence: Offence) -> tuple[Arrival | None, Any] | None:
        """Return what brought bad elements to a slot, and which of its elements they are, past all reading and writing.

        That is `None` if they were handed in. There is nothing where they are sums of what is not bad.
        """
        sign = 1 if self.what == "cotangent" else -1
        masks = {slot: mask}
        heap = [sign * slot]  # each slot comes after those that lead to it
        while heap:
            slot = sign * heappop(heap)
            mask = masks.pop(slot)
            if slot in self.given and np.any(offence.mask(self.given[slot]) & mask):
                return None, mask
            for arrival in self.arrivals.get(slot, ()):
                if isinstance(arrival, Arrival):
                    if np.any(offence.mask(innermost(arrival.value)) & mask):
                        return arrival, mask
                    continue
                for source, chosen in arrival(mask):
                    if not np.any(chosen):
                        continue
                    if source not in masks:
                        heappush(heap, sign * source)
                    masks[source] = masks[source] | chosen if source in masks else chosen
        return None
