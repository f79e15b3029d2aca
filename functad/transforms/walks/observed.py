"""Observed passes: the iterators from which a pass with observers takes its records."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from functad.expressions.observers import Observer
from functad.expressions.records import inputs_of, results_of
from functad.transforms.walks.cotangents import Scattered


def observed_back(
    order: Iterable[int], records: Sequence[Any], cotangents: list[Any], observers: Sequence[Observer]
) -> Iterator[int]:
    """Yield the indices of records to a backward pass, and notify the observers."""
    for index in order:
        record = records[index]
        slots = () if record is None else results_of(record, index)
        if all(cotangents[slot] is None for slot in slots):
            yield index
            continue
        given = functools.partial(_at, cotangents, slots)
        for observer in observers:
            observer.before(index, record, given)
        yield index
        for observer in observers:
            observer.after(index, record, cotangents)
    _at(cotangents, range(len(cotangents)))  # while the observers see the pass


def _at(derivatives: list[Any], slots: Sequence[int]) -> list[Any]:
    """Return the cotangents or tangents in some slots, after pieces that are not yet added have been added."""
    for slot in slots:
        if type(derivatives[slot]) is Scattered:
            derivatives[slot] = derivatives[slot].total()
    return [derivatives[slot] for slot in slots]


def observed_forward(records: Iterable[Any], tangents: list[Any], observers: Sequence[Observer]) -> Iterator[Any]:
    """Yield records to a forward pass, which appends a tangent for each, and notify the observers."""
    for record in records:
        index = len(tangents)
        slots = () if record is None else inputs_of(record)
        if all(tangents[slot] is None for slot in slots):
            yield record
            continue
        given = functools.partial(_at, tangents, slots)
        for observer in observers:
            observer.before(index, record, given)
        yield record
        for observer in observers:
            observer.after(index, record, tangents)
