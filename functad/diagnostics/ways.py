"""The way from an input towards the result, operation by operation, and where on it the derivative ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple


class Way(NamedTuple):
    """What becomes of an input.

    Attributes:
        steps: the operations, each with its line, in the order in which they were done.
        cut: the number of the one at which the derivative ends, or is zero at these values; `None` if it ends at none.
        arrives: the last one gives a result of the function.
    """

    steps: tuple[str, ...]
    cut: int | None
    arrives: bool


def way_of(slot: int, steps: Sequence[Any], results: Collection[int], stops: Iterable[tuple[int, int]] = ()) -> Way:
    """Return the way of an input: to a result with its derivative, else past where that is cut, else as far as it goes.

    Args:
        slot: that of the input.
        steps: by slot, the operations of the trace: what they read (`parents`), and by what they have a derivative (`active`).
        results: the slots of the results.
        stops: where the derivative is exactly zero at these values: the slot of an operation, and that of its argument.
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
    """Return, for each slot that depends on some, the slot before it on the shortest way; these are before themselves."""
    before = {slot: slot for slot in starts}
    length = dict.fromkeys(starts, 0)
    for slot in range(min(starts) + 1, len(steps)):
        known = [p for p in reads(steps[slot]) if p in before and p < slot]
        if known and slot not in before:
            before[slot] = min(known, key=length.__getitem__)
            length[slot] = length[before[slot]] + 1
    return before


def _back(slot: int, before: dict[int, int]) -> list[int]:
    """Return the slots on a way up to one, the first one left out only if it is the only one."""
    found = [slot]
    while before[slot] != slot:
        slot = before[slot]
        found.append(slot)
    return found[::-1]


def _onward(slot: int, steps: Sequence[Any], results: Collection[int]) -> list[int] | None:
    """Return the slots behind one on a way to a result; `None` if none depends on it."""
    before = _reached([slot], steps, lambda step: step.parents)
    end = next((result for result in sorted(results) if result in before), None)
    return None if end is None else _back(end, before)[1:]


def _texts(slots: Sequence[int], steps: Sequence[Any]) -> tuple[str, ...]:
    """Return the texts of the operations of some slots but that of the first, which is the input."""
    return tuple([steps[slot].text for slot in slots[1:]])
