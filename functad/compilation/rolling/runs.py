"""Find periodic runs in a sequence of integers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Run(NamedTuple):
    """A periodic part of a sequence.

    Attributes:
        start: the position of the first element.
        stop: the position after the last element.
        period: elements at this distance are equal.
    """

    start: int
    stop: int
    period: int


def runs(labels: Any, least: int) -> list[Run]:
    """Return the periodic runs of a sequence, the longest first.

    Words of 1, 2, 4, ... elements are ranked by sorting pairs of ranks of their halves. In a periodic run, the distance from a
    word to the next equal word is the period, if the period is at most the length of the word. The time is `O(n log(n)**2)`.

    Args:
        labels: an array of integers.
        least: the minimum number of periods.
    """
    found: dict[Run, None] = {}
    ranks, length = labels, 1
    while length * least <= 2 * len(labels):
        order = np.argsort(ranks, kind="stable")
        same = ranks[order][1:] == ranks[order][:-1]
        if not same.any():
            break
        distance = np.zeros(len(ranks), np.int64)
        distance[order[:-1][same]] = (order[1:] - order[:-1])[same]
        for run in _stretches(distance, length, least):
            found[run] = None
        ranks = _of_pairs(ranks, length)
        length *= 2
    return sorted(found, key=lambda run: run.start - run.stop)


def _stretches(distance: Any, length: int, least: int) -> list[Run]:
    """Return the runs that follow from the distances between equal words of one length."""
    ends = np.flatnonzero(np.diff(distance)) + 1
    bounds = np.concatenate(([0], ends, [len(distance)]))
    starts, stops = bounds[:-1], bounds[1:]
    periods = distance[starts]
    whole = stops - starts + periods + length - 1
    good = (periods > 0) & (whole >= least * periods)
    return [
        Run(start, start + size, period)
        for start, size, period in zip(starts[good].tolist(), whole[good].tolist(), periods[good].tolist(), strict=True)
    ]


def _of_pairs(ranks: Any, length: int) -> Any:
    """Return the ranks of the words of twice the length."""
    pairs = ranks[: len(ranks) - length] * (len(ranks) + 1) + ranks[length:]
    order = np.argsort(pairs, kind="stable")
    new = np.concatenate(([0], np.cumsum(pairs[order][1:] != pairs[order][:-1])))
    found = np.empty_like(new)
    found[order] = new
    return found
