"""Sets of integers, many at once: of each element of an array, which inputs it depends on.

A value is represented by an array of its shape that holds a number for each element, and each number stands for a set. Moving
elements about moves their numbers, whatever the sets; equal sets have one number, so that what is dense costs one set and not
one for each element. The sets themselves lie one behind the other in one array. Everything here is a constant number of NumPy
calls, of a sort at most, for arrays of any size.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_CHUNK = 1 << 24
"""So many members are put together at a time, which bounds the memory that a union of many sets takes."""


def runs(starts: Array, lengths: Array) -> Array:
    """Return `starts[0], starts[0] + 1, ...`, `lengths[0]` of them, then those of the next run, and so on.

    Example:
        >>> runs(np.array([5, 0]), np.array([2, 3]))
        array([5, 6, 0, 1, 2])
    """
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))


def distinct(keys: Array) -> Array:
    """Return the distinct elements of an array in order, by a sort: `np.unique` may hash, which takes ten times as long."""
    keys = np.sort(keys, axis=None)
    new = np.ones(len(keys), bool)
    new[1:] = keys[1:] != keys[:-1]
    return keys[new]


class Sets:
    """A table of sets of the integers below a number that may grow; set 0 is empty.

    Attributes:
        universe: the number that all members are below.
        start, length: where the members of each set lie in `pool`, and how many there are.
        pool: the members of all sets, in each set in order.
    """

    def __init__(self) -> None:
        self.universe = 0
        self._count = 1
        self._used = 0
        self.start = np.zeros(64, np.int64)
        self.length = np.zeros(64, np.int64)
        self.pool = np.empty(256, np.int32)
        self._known: dict[int, int] = {}

    def __len__(self) -> int:
        return self._count

    def singletons(self, count: int) -> Array:
        """Add as many members to the universe, and return the numbers of the sets that hold one of them each."""
        members = np.arange(self.universe, self.universe + count, dtype=np.int32)
        self.universe += count
        return self._append(members, np.ones(count, np.int64))

    def members(self, sets: Array) -> Array:
        """Return the members of sets, those of one behind those of another."""
        return self.pool[runs(self.start[sets], self.length[sets])]

    def union(self, a: Array, b: Array) -> Array:
        """Return the unions of two arrays of sets, element by element; the shapes broadcast."""
        a, b = np.broadcast_arrays(a, b)
        ready = np.where(b == 0, a, np.where((a == 0) | (a == b), b, -1))
        open_ = ready < 0
        if not open_.any():
            return ready
        first, second = a[open_], b[open_]
        whole = np.where(self.length[first] == self.universe, first, 0)
        whole = np.where(self.length[second] == self.universe, second, whole)
        left = whole == 0  # nothing can be added to what has everything
        if left.any():
            first, second = first[left], second[left]
            keys = np.minimum(first, second) * self._count + np.maximum(first, second)
            pairs, places = np.unique(keys, return_inverse=True)
            both = np.stack([pairs // self._count, pairs % self._count], 1)
            whole[left] = self._united(both.ravel(), np.full(len(pairs), 2))[places.ravel()]
        ready[open_] = whole
        return ready

    def union_groups(self, groups: Array, sets: Array, count: int) -> Array:
        """Return the union of the sets of each group.

        Args:
            groups: the group of each of `sets`, below `count`.
            sets: numbers of sets, as many.
            count: the number of groups; one without sets gets the empty set.
        """
        keys = distinct((groups * self._count + sets)[sets != 0])
        owner, which = keys // self._count, keys % self._count
        full = self.length[which] == self.universe
        whole = np.zeros(count, bool)
        whole[owner[full]] = True
        stays = ~whole[owner]
        result = np.zeros(count, np.int64)
        result[owner[full]] = which[full]
        owner, which = owner[stays], which[stays]
        sizes = np.bincount(owner, minlength=count)
        several = sizes > 1
        alone = ~several[owner]
        result[owner[alone]] = which[alone]
        if several.any():
            result[several] = self._united(which[~alone], sizes[several])
        return result

    def union_all(self, sets: Array) -> Array:
        """Return the union of all sets of an array, as an array of shape `()`."""
        flat = distinct(sets)
        return self.union_groups(np.zeros(len(flat), np.int64), flat, 1).reshape(())

    def _united(self, sets: Array, sizes: Array) -> Array:
        """Return the unions of consecutive runs of sets, of the given sizes."""
        ends = np.cumsum(sizes)
        lengths = np.add.reduceat(self.length[sets], ends - sizes)
        total = np.cumsum(lengths)
        if len(sizes) == 0 or total[-1] <= _CHUNK:
            return self._united_at_once(sets, sizes)
        cuts = np.unique(np.searchsorted(total, np.arange(_CHUNK, int(total[-1]), _CHUNK)))
        cuts = np.unique(np.concatenate([[0], cuts, [len(sizes)]]))
        parts = []
        for low, high in itertools.pairwise(cuts.tolist()):
            first = ends[low] - sizes[low]
            parts.append(self._united_at_once(sets[first : ends[high - 1]], sizes[low:high]))
        return np.concatenate(parts)

    def _united_at_once(self, sets: Array, sizes: Array) -> Array:
        lengths = self.length[sets]
        owner = np.repeat(np.repeat(np.arange(len(sizes)), sizes), lengths)
        keys = owner * self.universe + self.members(sets)
        cells = len(sizes) * self.universe
        if cells <= 8 * len(keys):  # marks in a table of bytes, which is linear; otherwise a sort
            marks = np.zeros(cells, bool)
            marks[keys] = True
            keys = np.flatnonzero(marks)
        else:
            keys = distinct(keys)
        counts = np.bincount(keys // self.universe, minlength=len(sizes))
        return self._interned((keys % self.universe).astype(np.int32), counts)

    def _interned(self, members: Array, lengths: Array) -> Array:
        """Return numbers for sets, of which none is empty: those that equal ones have already, and new ones for the rest."""
        starts = np.cumsum(lengths) - lengths
        with np.errstate(over="ignore"):
            digests = np.add.reduceat(_mixed(members), starts)
        each, first, places = np.unique(digests, return_index=True, return_inverse=True)
        known = self._known
        found = np.array([known.get(digest, -1) for digest in each.tolist()])
        new = found < 0
        chosen = first[new]
        made = self._append(members[runs(starts[chosen], lengths[chosen])], lengths[chosen])
        found[new] = made
        known.update(zip(each[new].tolist(), made.tolist(), strict=True))
        result = found[places.ravel()]
        if not (np.array_equal(self.length[result], lengths) and np.array_equal(self.members(result), members)):
            return self._append(members, lengths)  # two sets of one digest, once in 2^64
        return result

    def _append(self, members: Array, lengths: Array) -> Array:
        """Add sets, and return their numbers."""
        used, count = self._used + len(members), self._count + len(lengths)
        self.pool = _room(self.pool, used)
        self.start, self.length = _room(self.start, count), _room(self.length, count)
        self.pool[self._used : used] = members
        self.start[self._count : count] = self._used + np.cumsum(lengths) - lengths
        self.length[self._count : count] = lengths
        numbers = np.arange(self._count, count)
        self._used, self._count = used, count
        return numbers


def _room(array: Array, size: int) -> Array:
    """Return an array with at least a number of places, the old elements in front and zeros behind."""
    if size <= len(array):
        return array
    grown = np.zeros(max(size, 2 * len(array)), array.dtype)
    grown[: len(array)] = array
    return grown


def _mixed(members: Array) -> Array:
    """Return well mixed 64-bit numbers for integers, whose sum over a set tells it from others.

    Source: the finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
    """
    z = (members.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
