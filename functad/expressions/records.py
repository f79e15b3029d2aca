"""Data flow in a list of records: the slots that a record reads and assigns, last uses, and dependencies.

A record is an `Equation`, a tuple `(plan, slots, saved, specs)` of a concrete trace, or any object with `inputs` and
`outputs`. A trace has `None` at the slots of inputs, and at all but the last slot of an operation with several results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any


def inputs_of(record: Any) -> Sequence[int]:
    """Return the slots that a record reads. A record of a concrete trace has only its differentiated inputs."""
    if type(record) is tuple:
        slots: Any = record[1]
        return (slots,) if type(slots) is int else slots
    return [source for source in record.inputs if type(source) is int]


def results_of(record: Any, index: int) -> Sequence[int]:
    """Return the slots of the results of the record at an index."""
    if type(record) is not tuple:
        return record.outputs  # type: ignore[no-any-return]
    if not record[0].primitive.multiple:
        return (index,)
    return range(index + 1 - len(record[3][1]), index + 1)  # after the specs of the inputs


def last_readers(records: Sequence[Any], outputs: Iterable[Any] = ()) -> dict[int, int]:
    """Return for each slot the index of the last record that reads it; `len(records)` for outputs."""
    last = {slot: index for index, record in enumerate(records) if record is not None for slot in inputs_of(record)}
    last.update(dict.fromkeys([source for source in outputs if type(source) is int], len(records)))
    return last


def marks_at(slots: Iterable[Any], count: int) -> bytearray:
    """Return marks for `count` slots, set at the given slots. Constants among the slots are ignored."""
    marks = bytearray(count)
    for slot in slots:
        if type(slot) is int:
            marks[slot] = 1
    return marks


def mark_needed(
    marks: bytearray, records: Sequence[Any], reads: Callable[[Any, int], Iterable[int]] | None = None
) -> bytearray:
    """Mark the slots that marked slots depend on, and return the marks.

    Args:
        marks: the marks by slot, modified in place.
        records: the list.
        reads: returns the slots that the record at an index needs if one of its results is needed. Default: all its inputs.
    """
    for index in range(len(records) - 1, -1, -1):
        record = records[index]
        if record is not None and any(marks[slot] for slot in results_of(record, index)):
            for slot in inputs_of(record) if reads is None else reads(record, index):
                marks[slot] = 1
    return marks


def mark_reached(marks: bytearray, records: Sequence[Any], start: int = 0, stop: int | None = None) -> bytearray:
    """Mark the results of the records `start` to `stop` that depend on marked slots, and return the marks."""
    for index in range(start, len(records) if stop is None else stop):
        record = records[index]
        if record is not None and any(marks[slot] for slot in inputs_of(record)):
            for slot in results_of(record, index):
                marks[slot] = 1
    return marks
