"""Ways: the operations on the path from an input towards the result, and the operation at which the derivative ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple


class Way(NamedTuple):
    """The operations on the path from an input towards the result.

    Attributes:
        steps: the operations, each with its line, in order.
        cut: the index of the operation at which the derivative ends, or is zero at these values; `None` without such a cut.
        arrives: `True` if the last operation makes a result of the function.
    """

    steps: tuple[str, ...]
    cut: int | None
    arrives: bool


def way_of(slot: int, steps: Sequence[Any], results: Collection[int], stops: Iterable[tuple[int, int]] = ()) -> Way:
    """Return the way of an input to a result, through a zero in `stops`, a full path or a cut; else to its last use.

    Args:
        slot: the slot of the input.
        steps: by slot, the operations of the trace, with `parents` and `active` as in `Step`.
        results: the slots of the results.
        stops: the operations with a derivative that is exactly zero: pairs of the slot of an operation and of its argument.
    """
    alive = _reached([slot], steps, lambda step: step.active)
    read = _reached([slot], steps, lambda step: step.parents)
    for end, parent in stops:
        if parent in alive and (beyond := _onward(end, steps, results)) is not None:
            before = _back(parent, alive)
            return Way(_texts([*before, end, *beyond], steps), len(before) - 1, True)
    for end in sorted(results):
        if end in alive:
            return Way(_texts(_back(end, alive), steps), None, True)
    for end in range(slot + 1, len(steps)):
        parents = [p for p in steps[end].parents if p in alive and p not in steps[end].active]
        if parents and end in read and (beyond := _onward(end, steps, results)) is not None:
            before = _back(parents[0], alive)
            return Way(_texts([*before, end, *beyond], steps), len(before) - 1, True)
    return Way(_texts(_back(max(read), read), steps), None, False)


def _reached(starts: Sequence[int], steps: Sequence[Any], reads: Callable[[Any], Sequence[int]]) -> dict[int, int]:
    """Return, for each slot that depends on `starts`, the previous slot on a shortest path; a start maps to itself."""
    before = {slot: slot for slot in starts}
    length = dict.fromkeys(starts, 0)
    for slot in range(min(starts) + 1, len(steps)):
        known = [p for p in reads(steps[slot]) if p in before and p < slot]
        if known and slot not in before:
            before[slot] = min(known, key=length.__getitem__)
            length[slot] = length[before[slot]] + 1
    return before


def _back(slot: int, before: dict[int, int]) -> list[int]:
    """Return the slots on a path from its start to `slot`, both included."""
    found = [slot]
    while before[slot] != slot:
        slot = before[slot]
        found.append(slot)
    return found[::-1]


def _onward(slot: int, steps: Sequence[Any], results: Collection[int]) -> list[int] | None:
    """Return the slots after `slot` on a path to a result, or `None` if no result depends on it."""
    before = _reached([slot], steps, lambda step: step.parents)
    end = next((result for result in sorted(results) if result in before), None)
    return None if end is None else _back(end, before)[1:]


def _texts(slots: Sequence[int], steps: Sequence[Any]) -> tuple[str, ...]:
    """Return the texts of the operations of all slots but the first, which is the input."""
    return tuple([steps[slot].text for slot in slots[1:]])
