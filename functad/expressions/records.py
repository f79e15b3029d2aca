"""Questions about a list of records: what a record reads and makes, which is the last to read a value, what depends on what.

A record is an `Equation`, or in a concrete trace a tuple `(plan, slots, saved, specs)`; anything else that has `inputs` and
`outputs` may be one. `None` stands at the other slots of a trace: those of inputs, and all but the last of several results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any


def inputs_of(record: Any) -> Sequence[int]:
    """Return the slots that a record reads; of a concrete trace those of the inputs that it is differentiated by."""
    if type(record) is tuple:
        slots: Any = record[1]
        return (slots,) if type(slots) is int else slots
    return [source for source in record.inputs if type(source) is int]


def results_of(record: Any, index: int) -> Sequence[int]:
    """Return the slots of the results of a record that stands at an index."""
    if type(record) is not tuple:
        return record.outputs  # type: ignore[no-any-return]
    if not record[0].primitive.multiple:
        return (index,)
    return range(index + 1 - len(record[3][1]), index + 1)  # after the specs of the inputs


def last_readers(records: Sequence[Any], outputs: Iterable[Any] = ()) -> dict[int, int]:
    """Return for each slot the index of the last record that reads it; that of outputs is past the end."""
    last = {slot: index for index, record in enumerate(records) if record is not None for slot in inputs_of(record)}
    last.update(dict.fromkeys([source for source in outputs if type(source) is int], len(records)))
    return last


def marks_at(slots: Iterable[Any], count: int) -> bytearray:
    """Return marks for a number of slots, set at some of them; constants among these have none."""
    marks = bytearray(count)
    for slot in slots:
        if type(slot) is int:
            marks[slot] = 1
    return marks


def mark_needed(
    marks: bytearray, records: Sequence[Any], reads: Callable[[Any, int], Iterable[int]] | None = None
) -> bytearray:
    """Mark the slots that marked ones depend on, and return the marks.

    Args:
        marks: by slot.
        records: the list.
        reads: the slots that a record at an index needs, if one of its results is needed; if not given, all its inputs.
    """
    for index in range(len(records) - 1, -1, -1):
        record = records[index]
        if record is not None and any(marks[slot] for slot in results_of(record, index)):
            for slot in inputs_of(record) if reads is None else reads(record, index):
                marks[slot] = 1
    return marks


def mark_reached(marks: bytearray, records: Sequence[Any], start: int = 0, stop: int | None = None) -> bytearray:
    """Mark the slots that depend on marked ones, made by the records from `start` to `stop`, and return the marks."""
    for index in range(start, len(records) if stop is None else stop):
        record = records[index]
        if record is not None and any(marks[slot] for slot in inputs_of(record)):
            for slot in results_of(record, index):
                marks[slot] = 1
    return marks
