"""Observed passes: an observer is notified before and after a pass processes each record.

A pass takes its records from an iterator. An observed pass takes them from a generator that notifies the observer. The loop is
the same, so passes without an observer are not slower.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from functad.expressions.records import inputs_of, results_of
from functad.transforms.walks.cotangents import Scattered


class Observer(Protocol):
    """The interface of an observer. Records with only zero tangents or cotangents are skipped."""

    def before(self, index: int, record: Any, given: Sequence[Any]) -> None:
        """Handle a record before the pass processes it.

        Args:
            index: the index of the record.
            record: the record.
            given: the cotangents of its results in a backward pass, the tangents of its inputs in a forward pass; `None` means
                zero. A write may modify these arrays in place, unless the observer keeps a reference.
        """

    def after(self, index: int, record: Any, found: Sequence[Any]) -> None:
        """Handle a record after the pass has processed it; `found` holds the current cotangents or tangents by slot."""


def observed_back(order: Iterable[int], records: Sequence[Any], cotangents: list[Any], observer: Observer) -> Iterator[int]:
    """Yield the indices of records to a backward pass, and notify the observer."""
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
    """Yield records to a forward pass, which appends a tangent for each, and notify the observer."""
    for record in records:
        index = len(tangents)
        slots = () if record is None else inputs_of(record)
        if all(tangents[slot] is None for slot in slots):
            yield record
            continue
        observer.before(index, record, [tangents[slot] for slot in slots])
        yield record
        observer.after(index, record, tangents)
