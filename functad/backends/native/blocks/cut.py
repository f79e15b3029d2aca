"""The division of a list into blocks: behind each repeated write, with a number for each kind of block."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from functad.expressions.expressions import Equation, Expressions, source_spec
from functad.expressions.spec import PYTHON_SCALARS, is_array
from functad.primitives.arranging.reshape import BROADCAST_TO, RESHAPE
from functad.primitives.indexing.index_map import is_basic
from functad.primitives.indexing.read import GETITEM
from functad.primitives.indexing.write import ADD_TO, WRITE

FEWEST = 256
"""Minimum number of equations that a block loop replaces."""

LEAST = 4
"""Minimum number of blocks of a kind in a list."""

MOST_KINDS = 16
"""Maximum number of kinds in a loop."""

MOST_JOINS = 64
"""Maximum number of pairs of kinds that are joined; each pair takes time linear in the number of blocks."""

LONGEST_BLOCK = 200
"""Maximum number of equations in a block."""


def parts_of(index: Any, shape: tuple[int, ...]) -> tuple[tuple[Any, ...], tuple[int, ...]] | None:
    """Return a basic index without its integers, and the integers: starts of slices and positions; `None` for other indices."""
    if not is_basic(index):
        return None
    parts = index if type(index) is tuple else (index,)
    used = sum(part is not None and part is not Ellipsis for part in parts)
    whole: list[Any] = []
    for part in parts:
        whole += [slice(None)] * (len(shape) - used) if part is Ellipsis else [part]
    whole += [slice(None)] * (len(shape) - sum(part is not None for part in whole))
    form, numbers, axis = list[Any](), list[int](), 0
    for part in whole:
        if part is None:
            form.append(None)
            continue
        if type(part) is int:
            form.append("at")
            numbers.append(part % shape[axis])
        else:
            start, _, step = part.indices(shape[axis])
            form.append(step)
            numbers.append(start)
        axis += 1
    return tuple(form), tuple(numbers)


def key_of(value: Any) -> Any:
    """Return a hashable key that is equal for equal values."""
    kind = type(value)
    if kind in PYTHON_SCALARS or issubclass(kind, np.generic):
        return kind, repr(value)
    if kind is np.ndarray:
        return "array", value.dtype, value.shape, value.tobytes() if value.nbytes <= 4_096 else id(value)
    if kind in (tuple, list):
        return kind, tuple(map(key_of, value))
    if kind is slice:
        return kind, value.start, value.stop, value.step
    return ("object", id(value)) if is_array(value) else value


class Blocks:
    """A list, cut into blocks.

    Attributes:
        list: the expression list.
        maker: the number of the equation that computes each slot.
        readers: the numbers of the equations that read each slot.
        after: the slots that the list returns.
        forms: by equation number, the form of the index of a read or write.
        numbers: by equation number, its integers.
        words: by block, the number of its kind.
        starts: the first equation of each block, and the number of equations.
    """

    def __init__(self, own: Expressions) -> None:
        self.list = own
        self.maker: dict[int, int] = {}
        self.readers: dict[int, list[int]] = defaultdict(list)
        for number, e in enumerate(own.equations):
            self.maker.update(dict.fromkeys(e.outputs, number))
            for s in e.inputs:
                if type(s) is int:
                    self.readers[s].append(number)
        self.after = {s for s in own.outputs if type(s) is int}
        self.forms: dict[int, tuple[Any, ...]] = {}
        self.numbers: dict[int, tuple[int, ...]] = {}
        self._roots: dict[int, Any] = {}
        self._known: dict[Any, int] = {}
        self.labels = [self._label(number, e) for number, e in enumerate(own.equations)]
        self._cut()
        self._within = np.zeros(len(own.equations) + 1, bool)

    def choose(self, chosen: Sequence[range]) -> None:
        """Set the blocks that become loops."""
        self._within[:] = False
        for region in chosen:
            self._within[self.starts[region.start] : self.starts[region.stop]] = True

    def is_read_again(self, source: Any) -> bool:
        """Return `True` for a part of an array that no loop changes: blocks read it again in place of storing it."""
        number = self.maker.get(source, -1) if type(source) is int else -1
        if number < 0 or number not in self.forms or self.list.equations[number].primitive is not GETITEM:
            return False
        base = self.list.equations[number].inputs[0]
        return type(base) is int and not self._within[self.maker.get(base, -1)]

    def _label(self, number: int, e: Equation) -> int:
        """Return a number that is equal for equations that differ in integers only."""
        specs = self.list.specs
        sources: Sequence[Any] = e.inputs
        given: list[Any] = [
            (specs[s].ndim, specs[s].dtype, specs[s].weak) if type(s) is int else ("constant", key_of(s.value)) for s in sources
        ]
        made = [(specs[s].ndim, specs[s].dtype, specs[s].weak) for s in e.outputs]
        left = ("shape",) if e.primitive in (RESHAPE, BROADCAST_TO) else ()
        params: Any = tuple([(name, key_of(value)) for name, value in e.params.items() if name not in left])
        if e.primitive in (GETITEM, WRITE, ADD_TO):
            index = e.params["index"]
            path: Any = e.params.get("path", ())
            if len(path) == 1 and path[0].primitive is GETITEM and path[0].number is None and index is Ellipsis:
                path, index = (), path[0].params["index"]
            found = parts_of(index, source_spec(e.inputs[0], specs).shape) if not path else None
            if found is None:
                return self._new(object())
            self.forms[number], self.numbers[number] = found
            params = found[0]
            root = self._root(sources[0])
            given[:1] = [(*given[0], root)] if type(sources[0]) is int else [("constant", root)]
        label = self._new((e.primitive, tuple(given), tuple(made), params))
        if e.primitive is WRITE or e.primitive is ADD_TO:
            self._roots[e.outputs[0]] = self._root(e.inputs[0])
        else:
            self._roots.update(dict.fromkeys(e.outputs, ("made", label)))
        return label

    def _root(self, source: Any) -> Any:
        """Return a key for the array that a slot is a later state of."""
        if type(source) is int:
            return self._roots.get(source, ("input", source))
        return key_of(source.value)

    def _new(self, key: Any) -> int:
        try:
            return self._known.setdefault(key, len(self._known))
        except TypeError:
            return self._known.setdefault(object(), len(self._known))

    def _cut(self) -> None:
        """Cut the list behind each repeated write; join blocks that always follow each other."""
        counts = Counter(self.labels)
        starts = [0]
        for number, e in enumerate(self.list.equations):
            if e.primitive in (WRITE, ADD_TO) and counts[self.labels[number]] >= LEAST:
                starts.append(number + 1)
        if starts[-1] != len(self.labels):
            starts.append(len(self.labels))
        known: dict[Any, int] = {}
        words = [known.setdefault(tuple(self.labels[a:b]), len(known)) for a, b in itertools.pairwise(starts)]
        often = Counter(words)
        good = [often[word] >= LEAST for word in words]
        pieces = [[i] for i in range(len(words))]
        for _ in range(MOST_JOINS):
            joined = self._join(words, good, pieces, starts)
            if joined is None:
                break
            words, good, pieces = joined
        self.words = words
        self.good = good
        self.starts = [*[starts[piece[0]] for piece in pieces], starts[-1]]

    def _join(self, words: list[int], good: list[bool], pieces: list[list[int]], starts: list[int]) -> Any:
        """Join each block of one kind with the block that follows it; return `None` if there is no such kind.

        The kind is one that nearly always comes before the kinds that follow it.
        """
        before: dict[int, Counter[int]] = defaultdict(Counter)
        follows: dict[int, Counter[int]] = defaultdict(Counter)
        length: dict[int, int] = {}
        for i, word in enumerate(words):
            length[word] = starts[pieces[i][-1] + 1] - starts[pieces[i][0]]
            if i and good[i] and good[i - 1]:
                before[word][words[i - 1]] += 1
                follows[words[i - 1]][word] += 1
        counts = Counter(words)
        for a, following in follows.items():
            often = [b for b, n in following.items() if n > 1]
            if not often or len(often) > 3 or a in often or sum(following[b] for b in often) < counts[a] - 2:
                continue
            if all(
                before[b][a] >= counts[b] - max(1, counts[b] // 8) and length[a] + length[b] <= LONGEST_BLOCK for b in often
            ):
                chosen = set(often)
                break
        else:
            return None
        fresh = {b: max(words) + 1 + i for i, b in enumerate(often)}
        new_words, new_good, new_pieces, i = list[int](), list[bool](), list[list[int]](), 0
        while i < len(words):
            pair = words[i] == a and i + 1 < len(words) and words[i + 1] in chosen and good[i] and good[i + 1]
            new_words.append(fresh[words[i + 1]] if pair else words[i])
            new_good.append(good[i])
            new_pieces.append(pieces[i] + pieces[i + 1] if pair else pieces[i])
            i += 2 if pair else 1
        return new_words, new_good, new_pieces

    def regions(self) -> Iterator[range]:
        """Yield ranges of blocks that may become loops."""
        start = 0
        while start < len(self.words):
            if not self.good[start]:
                start += 1
                continue
            stop = start
            while stop < len(self.words) and self.good[stop]:
                stop += 1
            region = self._trimmed(start, stop)
            size = self.starts[region.stop] - self.starts[region.start] if region else 0
            kinds = set(self.words[region.start : region.stop])
            code = sum(len(self.labels_of(kind, region)) for kind in kinds) if region else 0
            if size >= FEWEST and len(kinds) <= MOST_KINDS and size >= 4 * code:
                yield region
            start = stop

    def labels_of(self, kind: int, region: range) -> list[int]:
        """Return the labels of the equations of a kind."""
        i = self.words.index(kind, region.start)
        return self.labels[self.starts[i] : self.starts[i + 1]]

    def _trimmed(self, start: int, stop: int) -> range:
        """Return a region without blocks of rare kinds at its ends."""
        counts = Counter(self.words[start:stop])
        while start < stop and counts[self.words[start]] < LEAST:
            start += 1
        while start < stop and counts[self.words[stop - 1]] < LEAST:
            stop -= 1
        return range(start, stop)
