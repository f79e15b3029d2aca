"""Walks that are observed: somebody sees each record before and after a walk passes it.

A walk takes its records from an iterator. An observed one takes them from a generator that tells the observer between two
records, and the loop is the same; without an observer nothing is slower.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from functad.expressions.records import inputs_of, results_of
from functad.transforms.walks.cotangents import Scattered


class Observer(Protocol):
    """What sees the records that a walk passes, except those that only zeros come to."""

    def before(self, index: int, record: Any, given: Sequence[Any]) -> None:
        """See a record that is about to be passed.

        Args:
            index: where it stands.
            record: it.
            given: in a backward walk the cotangents of its results, in a forward one the tangents of its inputs; `None` for
                zero. What a write is given may be written to in place, if it is not held.
        """

    def after(self, index: int, record: Any, found: Sequence[Any]) -> None:
        """See a record that was passed; `found` holds, by slot, all cotangents or tangents as they are then."""


def observed_back(order: Iterable[int], records: Sequence[Any], cotangents: list[Any], observer: Observer) -> Iterator[int]:
    """Yield the indices of records to a backward walk, and let an observer see them."""
    for index in order:
        record = records[index]
        slots = () if record is None else results_of(record, index)
        for slot in slots:
            if type(cotangents[slot]) is Scattered:
                cotangents[slot] = cotangents[slot].total()
        if all(cotangents[slot] is None for slot in slots):
            yield index
            continue
        observer.before(index, record, [cotangents[slot] for slot in slots])
        yield index
        observer.after(index, record, cotangents)


def observed_forward(records: Iterable[Any], tangents: list[Any], observer: Observer) -> Iterator[Any]:
    """Yield records to a forward walk, which appends a tangent for each, and let an observer see them."""
    for record in records:
        index = len(tangents)
        slots = () if record is None else inputs_of(record)
        if all(tangents[slot] is None for slot in slots):
            yield record
            continue
        observer.before(index, record, [tangents[slot] for slot in slots])
        yield record
        observer.after(index, record, tangents)
