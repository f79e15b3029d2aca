"""Functions that the tasks of a graph run: an expression list on the blocks of one chunk, and the combination of totals.

Each process compiles a list once for each number of rows; later tasks with the same list reuse the compiled code.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.backends.backend import find
from functad.chunks.rows import Template
from functad.compilation.lists import CompiledList
from functad.compilation.passes import simplified
from functad.process import renewed

_PROGRAMS: OrderedDict[tuple[str, int], CompiledList] = OrderedDict()
_MOST_KNOWN = 256
_COMPILING = renewed(threading.RLock())


class ListTask:
    """An expression list that a task runs.

    Args:
        key: identifies the list; the same list has the same key in all processes.
        template: the list.
        backend: the name of the backend that compiles the list.
        exact: `True` if the results must be bit-identical to eager execution.
        totals: the number of leading results that are parts of totals; the task returns these as one tuple.
        places: for each input, the position of a task argument and the path to the input in that argument.
    """

    def __init__(
        self,
        key: str,
        template: Template,
        backend: str,
        exact: bool,
        totals: int,
        places: Sequence[tuple[int, tuple[int, ...]]] = (),
    ) -> None:
        self.key, self.template, self.backend, self.exact = key, template, backend, exact
        self.places, self.totals = tuple(places), totals
        self.__name__ = f"functad-{key[:8]}"

    def with_places(self, places: Sequence[tuple[int, tuple[int, ...]]]) -> ListTask:
        """Return the same task with other `places`."""
        return ListTask(self.key, self.template, self.backend, self.exact, self.totals, places)

    def __dask_tokenize__(self) -> Any:
        return type(self).__name__, self.key, self.backend, self.exact, self.places, self.totals

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """Return the tuple of the parts of totals, then the other results."""
        leaves = []
        for argument, path in self.places:
            leaf = arguments[argument]
            for place in path:
                leaf = leaf[place]
            leaves.append(leaf)
        rows = self._rows(leaves)
        outs = self.program(rows)(leaves)
        return (tuple(outs[: self.totals]), *outs[self.totals :])

    def _rows(self, leaves: Sequence[Any]) -> int:
        for leaf, along in zip(leaves, self.template.alongs, strict=True):
            if along is not None:
                return int(np.shape(leaf)[along.axis] // along.factor)
        return 0

    def program(self, rows: int) -> CompiledList:
        """Return the compiled list for a chunk of `rows` rows."""
        key = f"{self.key} {self.backend} {self.exact}", rows
        with _COMPILING:  # several threads start with the same list
            found = _PROGRAMS.get(key)
            if found is None:
                traced = self.template.of_rows(rows)
                backend = find(self.backend, self.exact)
                own = simplified(traced, self.exact, fused=backend.fuses)
                found = _PROGRAMS[key] = CompiledList(own, backend, self, self.exact, traced)
                found.compiled()
                if len(_PROGRAMS) > _MOST_KNOWN:
                    _PROGRAMS.popitem(last=False)
            _PROGRAMS.move_to_end(key)
        return found


class Combination:
    """Combine several tuples of totals into one.

    Args:
        ufuncs: for each total, the function that combines two parts.
        inside: `True` if each tuple is the first result of a task.
    """

    def __init__(self, ufuncs: Sequence[Any], *, inside: bool) -> None:
        self.ufuncs, self.inside = tuple(ufuncs), inside

    def __call__(self, parts: Sequence[Any]) -> tuple[Any, ...]:
        """Combine the parts from first to last, so that the result is deterministic."""
        given = [part[0] for part in parts] if self.inside else parts
        totals = list(given[0])
        for n, part in enumerate(given[1:]):
            for i, (ufunc, own) in enumerate(zip(self.ufuncs, part, strict=True)):
                total = totals[i]
                if n and type(total) is np.ndarray and isinstance(ufunc, np.ufunc):  # this loop allocated `total`
                    ufunc(total, own, out=total)
                else:
                    totals[i] = ufunc(total, own)
        return tuple(totals)


def item(values: Any, *path: int) -> Any:
    """Return one result of a task."""
    for place in path:
        values = values[place]
    return values


def joined(blocks: Any, axis: int = 0) -> Any:
    """Return nested lists of blocks as one array."""
    if type(blocks) is not list:
        return blocks
    parts = [joined(block, axis + 1) for block in blocks]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis)
