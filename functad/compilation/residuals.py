"""What a forward list keeps for the backward list: as few bytes as they can be without computing anything costly again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from functad.expressions.expressions import Equation, Expressions
from functad.expressions.records import inputs_of
from functad.primitives.entry import Primitive

_SMALL = 4096
"""Bytes up to which a value is kept: to compute it again takes longer than to have it."""

_LONGEST = 8
"""So many equations are computed again for one value at most."""

_CHEAP = 4.0
"""Additions for each element up to which computing a value again takes hardly longer than reading it."""


def _is_view(primitive: Primitive) -> bool:
    return bool(primitive.views)


def _is_cheap(primitive: Primitive) -> bool:
    return bool(primitive.views) or primitive.cost <= _CHEAP


def worth_keeping(whole: Expressions, wanted: Iterable[int], given: int) -> list[int]:
    """Return the slots to keep, so that wanted ones can be had from them by cheap equations.

    Args:
        whole: the list.
        wanted: slots that are read later.
        given: so many inputs are there later all the same.

    Returns:
        Slots in order; the inputs that are needed are among them.
    """
    makers = {slot: e for e in whole.equations for slot in e.outputs}
    kept = set(wanted)
    for cheap, spare in ((_is_view, 0), (_is_cheap, 1)):  # a view takes no time, so it need not save anything
        for slot in sorted(kept, reverse=True):
            size = _bytes(whole, slot)
            if slot < given or size <= _SMALL:
                continue
            kept.remove(slot)
            leaves = _leaves(slot, makers, cheap, kept, given)
            new = [] if leaves is None else [s for s in leaves if s >= given and s not in kept]
            if leaves is None or sum(_bytes(whole, s) for s in new) + spare > size:
                kept.add(slot)
            else:
                kept |= leaves
    return sorted(kept)


def _leaves(
    slot: int, makers: Mapping[int, Equation], cheap: Callable[[Primitive], bool], kept: set[int], given: int
) -> set[int] | None:
    """Return the slots that one can be had from by cheap equations; `None` if these are none or too many."""
    found: set[int] = set()
    waiting, count, done = [slot], 0, set()
    while waiting:
        own = waiting.pop()
        if own in done:
            continue
        done.add(own)
        maker = makers.get(own)
        if own < given or own in kept or maker is None or not cheap(maker.primitive):
            found.add(own)
            continue
        count += 1
        if count > _LONGEST:
            return None
        waiting += inputs_of(maker)
    return found if slot not in found else None


def _bytes(whole: Expressions, slot: int) -> int:
    spec = whole.specs[slot]
    return spec.size * spec.dtype.itemsize
