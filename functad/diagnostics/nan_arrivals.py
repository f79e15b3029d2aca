"""Arrivals: the cotangents and tangents that are not finite, by slot, with the operations that made them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import numpy as np

from functad.diagnostics.operation_log import (
    DERIVATIVE_OF,
    NOT_FINITE,
    Offence,
    Operation,
    OperationLog,
    adds_to,
    after_writing,
    before_writing,
    places,
)
from functad.expressions.observers import Observer, observing
from functad.expressions.records import inputs_of, results_of
from functad.primitives.operands import innermost
from functad.primitives.plan import GATHER, WRITE
from functad.process import setting
from functad.transforms.walks.cotangents import Scattered
from functad.transforms.walks.forward import push_alone
from functad.transforms.walks.reverse import pull_alone

Sources = Callable[[Any], list[tuple[int, Any]]]
"""A function from a mask of elements to pairs of a source slot and the mask of its elements."""


@dataclass(frozen=True)
class Arrival:
    """A cotangent or tangent that one operation made for a slot.

    Attributes:
        operation: the operation, or `None` if the log does not hold it.
        call: the function from the given cotangents or tangents to `value`, as in the pass.
        given: the cotangents or tangents that the operation was given.
        sources: their slots.
        value: the cotangent or tangent for the slot.
    """

    operation: Operation | None
    call: Callable[[Sequence[Any]], Any]
    given: Sequence[Any]
    sources: Sequence[int]
    value: Any


class Arrivals(Observer):
    """An observer of a forward or backward pass, which notes arrivals that are not finite.

    Args:
        log: the operations of the trace.
        handed_in: by slot, the cotangents or tangents at the start of the pass.
        quiet: note nothing, because an outer trace makes the checks.

    Attributes:
        what: "cotangent" or "tangent".
    """

    what: str
    _sign: int

    def __init__(self, log: OperationLog, handed_in: dict[int, Any], *, quiet: bool) -> None:
        self.log = log
        self.quiet = quiet
        given = {slot: innermost(value) for slot, value in handed_in.items()}
        self._handed_in = {} if quiet else {slot: value for slot, value in given.items() if NOT_FINITE.found(value)}
        self._found: dict[int, list[Arrival | Sources]] = {}
        self._given: Sequence[Any] = ()
        self._around = DERIVATIVE_OF.get()

    def through(self, walk: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Run a pass with this observer."""
        with setting(DERIVATIVE_OF, self._around), observing(self):
            return walk(*args, **options)

    def before(self, index: int, record: Any, given: Callable[[], Sequence[Any]]) -> None:
        """Make the operation of a record the current one, and keep its cotangents or tangents."""
        DERIVATIVE_OF.set(self.log.at(index))
        self._given = () if record[0].primitive.writes else given()

    def after(self, index: int, record: Any, found: Sequence[Any]) -> None:
        """Note the arrivals of a record."""
        DERIVATIVE_OF.set(self._around)
        given, self._given = self._given, ()
        if not self.quiet:
            self._note(index, record, given, found)

    def _note(self, index: int, record: Any, given: Sequence[Any], found: Sequence[Any]) -> None:
        raise NotImplementedError

    def _arrive(self, slot: int, what: Arrival | Sources) -> None:
        self._found.setdefault(slot, []).append(what)

    def _is_bad(self, slot: int) -> bool:
        """Return `True` if elements that are not finite may have arrived at a slot."""
        return slot in self._found or slot in self._handed_in

    def behind(self, slot: int, mask: Any, offence: Offence) -> tuple[Arrival | None, Any] | None:
        """Return the arrival of bad elements, traced back through reads and writes, and the mask of its bad elements.

        The arrival is `None` if the bad elements were handed in. The result is `None` if they are sums of good elements.
        """
        masks = {slot: mask}
        heap = [self._sign * slot]  # visits each slot after the slots that lead to it
        while heap:
            slot = self._sign * heappop(heap)
            mask = masks.pop(slot)
            if slot in self._handed_in and np.any(offence.mask(self._handed_in[slot]) & mask):
                return None, mask
            for arrival in self._found.get(slot, ()):
                if isinstance(arrival, Arrival):
                    if np.any(offence.mask(arrival.value) & mask):
                        return arrival, mask
                    continue
                for source, chosen in arrival(mask):
                    if not np.any(chosen):
                        continue
                    if source not in masks:
                        heappush(heap, self._sign * source)
                    masks[source] = masks[source] | chosen if source in masks else chosen
        return None


class CotangentArrivals(Arrivals):
    """The arrivals of a backward pass."""

    what = "cotangent"
    _sign = 1

    def _note(self, index: int, record: Any, given: Sequence[Any], found: Sequence[Any]) -> None:
        plan, _, saved, _ = record
        slots = inputs_of(record)
        if plan.special == WRITE:
            self._note_write(index, plan, slots, saved)
        elif plan.special == GATHER:
            if self._is_bad(index):
                self._arrive(slots[0], lambda mask: [(index, np.asarray(mask[saved[0]]))])
        elif bad := [i for i, slot in enumerate(slots) if NOT_FINITE.found(_known(found[slot]))]:
            for i in bad:
                arrival = self._arrival(index, record, given, i)
                if arrival is not None:
                    self._arrive(slots[i], arrival)

    def _note_write(self, index: int, plan: Any, slots: Sequence[int], saved: Any) -> None:
        if not self._is_bad(index):
            return
        path, where, shapes = saved
        adds = adds_to(plan.primitive, path)
        for position, slot in zip(plan.active, slots, strict=True):
            if position == 1:
                self._arrive(slot, lambda mask: [(index, after_writing(mask, path, where, shapes[0]))])
            else:
                self._arrive(slot, lambda mask: [(index, mask if adds else mask & ~places(shapes[0], path, where))])

    def _arrival(self, index: int, record: Any, given: Sequence[Any], position: int) -> Arrival | None:
        """Return the arrival of a cotangent from a record, or `None` if it is finite in a careful pass."""

        def call(gs: Sequence[Any]) -> Any:
            return innermost(pull_alone(record, gs)[position])

        value = call(given)
        return Arrival(self.log.at(index), call, given, results_of(record, index), value) if NOT_FINITE.found(value) else None


class TangentArrivals(Arrivals):
    """The arrivals of a forward pass."""

    what = "tangent"
    _sign = -1

    def _note(self, index: int, record: Any, given: Sequence[Any], found: Sequence[Any]) -> None:
        operation, slots = self.log.at(index), inputs_of(record)
        if operation is not None and record[0].primitive.writes:
            self._note_write(index, operation, slots)
            return
        for i, slot in enumerate(results_of(record, index)):
            t = innermost(found[slot])
            if not NOT_FINITE.found(t):
                continue
            if operation is not None and operation.moves:
                shape, where = operation.values[0].shape, operation.params["index"]
                self._arrive(slot, lambda mask: [(slots[0], places(shape, (), where, mask))])  # noqa: B023 - there is one slot
            else:
                call = lambda ts, i=i: innermost(push_alone(record, ts)[i])  # noqa: E731
                self._arrive(slot, Arrival(operation, call, given, slots, t))

    def _note_write(self, index: int, operation: Operation, slots: Sequence[int]) -> None:
        if not any(self._is_bad(slot) for slot in slots):
            return
        path, where, shape = operation.params["path"], operation.params["index"], np.shape(operation.values[1])
        adds = adds_to(operation.primitive, path)
        positions = {slot: i for i, slot in enumerate(operation.slots) if slot is not None}

        def sources(mask: Any) -> list[tuple[int, Any]]:
            before = before_writing(mask, path, where, shape, adds=adds)
            return [(slot, before[positions[slot]]) for slot in slots]

        self._arrive(index, sources)


def _known(g: Any) -> Any:
    """Return the plain value of a cotangent, without pieces that are not yet added."""
    return innermost(g.whole if type(g) is Scattered else g)
