"""Residuals: select values for the backward list with few bytes and only cheap recomputation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from functad.expressions.expressions import Equation, Expressions
from functad.expressions.records import inputs_of
from functad.primitives.entry import Primitive

_SMALL = 4096
"""Maximal bytes of values that are always kept. To recompute them takes longer than to store them."""

_LONGEST = 8
"""Maximal number of equations that are recomputed for one value."""

_CHEAP = 4.0
"""Maximal cost, in additions per element, of a primitive that is recomputed: hardly longer than a read."""


def _is_view(primitive: Primitive) -> bool:
    return bool(primitive.views)


def _is_cheap(primitive: Primitive) -> bool:
    return bool(primitive.views) or primitive.cost <= _CHEAP


def worth_keeping(whole: Expressions, wanted: Iterable[int], given: int) -> list[int]:
    """Return the slots to keep as residuals, from which cheap equations recompute the wanted slots.

    Args:
        whole: the joint list.
        wanted: the slots that the backward list reads.
        given: the number of leading inputs, which the backward list can take without cost.

    Returns:
        The slots in ascending order, with the inputs that are needed.
    """
    makers = {slot: e for e in whole.equations for slot in e.outputs}
    kept = set(wanted)
    for cheap, spare in ((_is_view, 0), (_is_cheap, 1)):  # views cost no time, so equal bytes are accepted
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
    """Return the slots from which cheap equations recompute `slot`, or `None` if there are no or too many equations."""
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
