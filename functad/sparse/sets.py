"""A table of sets of integers: for each element of an array, the set of inputs that it depends on.

An array of set ids represents a value; it has the shape of the value. Moving elements moves their ids. Equal sets have one id,
so dense dependence costs one set and not one set per element. All members are stored in one array. Every operation is a
constant number of NumPy calls, at most a sort, for arrays of every size.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_CHUNK = 1 << 24
"""The largest number of members united at once. It bounds the memory of a union of many sets."""


def runs(starts: Array, lengths: Array) -> Array:
    """Return the concatenated ranges `starts[i], starts[i] + 1, ...` with `lengths[i]` elements each.

    Example:
        >>> runs(np.array([5, 0]), np.array([2, 3]))
        array([5, 6, 0, 1, 2])
    """
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))


def distinct(keys: Array) -> Array:
    """Return the sorted distinct elements of an array. A sort: `np.unique` may hash, which takes ten times as long."""
    keys = np.sort(keys, axis=None)
    new = np.ones(len(keys), bool)
    new[1:] = keys[1:] != keys[:-1]
    return keys[new]


class Sets:
    """A table of sets of integers below `universe`, which may grow; set 0 is empty.

    Attributes:
        universe: the exclusive upper bound of all members.
        start, length: the position of the members of each set in `pool`, and their number.
        pool: the members of all sets, sorted within each set.
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
        """Add `count` members to the universe, and return the ids of `count` sets with one of them each."""
        members = np.arange(self.universe, self.universe + count, dtype=np.int32)
        self.universe += count
        return self._append(members, np.ones(count, np.int64))

    def members(self, sets: Array) -> Array:
        """Return the concatenated members of sets."""
        return self.pool[runs(self.start[sets], self.length[sets])]

    def union(self, a: Array, b: Array) -> Array:
        """Return the elementwise unions of two arrays of sets; the shapes broadcast."""
        a, b = np.broadcast_arrays(a, b)
        ready = np.where(b == 0, a, np.where((a == 0) | (a == b), b, -1))
        open_ = ready < 0
        if not open_.any():
            return ready
        first, second = a[open_], b[open_]
        whole = np.where(self.length[first] == self.universe, first, 0)
        whole = np.where(self.length[second] == self.universe, second, whole)
        left = whole == 0  # a set of all members absorbs every other set
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
            sets: set ids, equally many.
            count: the number of groups. A group without sets gets the empty set.
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
        """Return the unions of consecutive runs of sets, with the given run lengths."""
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
        if cells <= 8 * len(keys):  # mark members in a table of bytes (linear); otherwise sort
            marks = np.zeros(cells, bool)
            marks[keys] = True
            keys = np.flatnonzero(marks)
        else:
            keys = distinct(keys)
        counts = np.bincount(keys // self.universe, minlength=len(sizes))
        return self._interned((keys % self.universe).astype(np.int32), counts)

    def _interned(self, members: Array, lengths: Array) -> Array:
        """Return ids of nonempty sets: existing ids for known sets, new ids otherwise."""
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
            return self._append(members, lengths)  # two sets share a digest (probability 2^-64)
        return result

    def _append(self, members: Array, lengths: Array) -> Array:
        """Add sets, and return their ids."""
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
    """Return `array`, or a zero-padded copy with capacity for `size` elements."""
    if size <= len(array):
        return array
    grown = np.zeros(max(size, 2 * len(array)), array.dtype)
    grown[: len(array)] = array
    return grown


def _mixed(members: Array) -> Array:
    """Return well mixed 64-bit hashes of integers; their sum over a set is the digest of the set.

    Source: the finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
    """
    z = (members.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
