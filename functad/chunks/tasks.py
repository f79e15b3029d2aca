"""Functions that the tasks of a graph run: an expression list on the blocks of one chunk, and the combination of totals.

Each process compiles a list once for each number of rows; later tasks with the same list reuse the compiled code.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from functad.backends.backend import find
from functad.chunks.rows import Template, Window
from functad.compilation.lists import CompiledList
from functad.compilation.passes import simplified
from functad.process import renewed

_PROGRAMS: OrderedDict[Any, CompiledList] = OrderedDict()
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
        rows, windows = self._rows(leaves), {}
        for i, leaf in enumerate(leaves if self.backend == "llvm" else ()):
            if (found := window(leaf)) is not None:
                leaves[i], windows[i] = found
        outs = self.program(rows, windows)(leaves)
        return (tuple(outs[: self.totals]), *outs[self.totals :])

    def _rows(self, leaves: Sequence[Any]) -> int:
        for leaf, along in zip(leaves, self.template.alongs, strict=True):
            if along is not None:
                return int(np.shape(leaf)[along.axis] // along.factor)
        return 0

    def program(self, rows: int, windows: Mapping[int, Window] | None = None) -> CompiledList:
        """Return the compiled list for a chunk of `rows` rows; `windows` are the inputs that are parts of other arrays."""
        key = f"{self.key} {self.backend} {self.exact}", rows, tuple((windows or {}).items())
        with _COMPILING:  # several threads start with the same list
            found = _PROGRAMS.get(key)
            if found is None:
                traced = self.template.of_rows(rows, windows)
                backend = find(self.backend, self.exact)
                own = simplified(traced, self.exact, fused=backend.fuses)
                found = _PROGRAMS[key] = CompiledList(own, backend, self, self.exact, traced)
                found.compiled()
                if len(_PROGRAMS) > _MOST_KNOWN:
                    _PROGRAMS.popitem(last=False)
            _PROGRAMS.move_to_end(key)
        return found


_SMALLEST = 65_536
"""Arrays of fewer bytes are copied if they are not contiguous."""


def window(a: Any) -> tuple[Any, Window] | None:
    """Return the contiguous array whose columns an array shows, and the columns; `None` for other arrays.

    Compiled code reads contiguous arrays. A part such as `data[:, :-1]` of the columns of a chunk would be copied in each task,
    which takes longer than a gradient of a logistic regression.
    """
    if (
        type(a) is not np.ndarray
        or a.nbytes < _SMALLEST
        or a.flags.c_contiguous
        or a.ndim > 2
        or type(a.base) is not np.ndarray
    ):
        return None
    base, size = a.base, a.itemsize
    width, rest = divmod(a.strides[0], size)
    if rest or base.dtype != a.dtype or not base.flags.c_contiguous or not base.flags.aligned or width <= 0:
        return None
    if a.ndim == 2 and (a.strides[1] != size or a.shape[1] > width):
        return None
    place, rest = divmod(a.ctypes.data - base.ctypes.data, size)
    first = place % width
    start, stop = place - first, place - first + len(a) * width
    if rest or stop > base.size or (a.ndim == 2 and first + a.shape[1] > width):
        return None
    columns = first if a.ndim == 1 else (first, first + a.shape[1])
    return base.reshape(-1)[start:stop].reshape(len(a), width), Window(width, columns)


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
