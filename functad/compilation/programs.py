"""The programs that `jit` has compiled: how many of them a function keeps, and for how long.

A function keeps its programs by the kinds of arguments that they were compiled for. If there are more than `max_entries`, the
program that was used longest ago is dropped. The time of use is the number of hits, and the quickest path of a call counts hits
alone: the program of that path counts as the one that was used last.

Static arguments that are compared by identity are held weakly. Their programs are dropped when they are freed.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from functad.compilation.kinds import Weak
from functad.compilation.lists import CompiledList
from functad.compilation.shared import drop_shared_programs
from functad.compilation.trace import Cell, Trace
from functad.tracing.tensor import Tensor
from functad.tracing.traces.base import resolve
from functad.tracing.traces.idle import idle, is_plain
from functad.transforms.outside import Outside
from functad.transforms.walks.zero_wins import has_nan_below
from functad.trees.structure import LEAF

MAX_ENTRIES = 256
"""Programs that are kept for one function, if `max_entries` says nothing else."""


def weak_in(static: Sequence[Any]) -> list[Weak]:
    """Return the weak ones of the static arguments of a key, of which some stand beside their places."""
    found = [value.value[1] if type(value.value) is tuple and len(value.value) == 2 else value.value for value in static]
    return [value for value in found if type(value) is Weak]


class WeakGroup:
    """Objects of this process that are told apart by identity; the group keeps none of them alive."""

    def __init__(self) -> None:
        self._refs: set[weakref.ref[Any]] = set()

    def add(self, value: Any) -> None:
        """Add an object."""
        self._refs.add(weakref.ref(value, self._refs.discard))

    def alive(self) -> list[Any]:
        """Return the objects that are alive now."""
        found = [ref() for ref in list(self._refs)]  # a copy made in one step: other threads add to the set
        return [value for value in found if value is not None]

    def clear(self) -> None:
        """Remove all objects."""
        self._refs.clear()


_ALL = WeakGroup()
"""The programs of all compiled functions of this process, for `clear_cache`."""

_SEARCHED = WeakGroup()
"""Entries whose `outside` refers to static arguments that they must not keep alive."""


def _forget(programs: weakref.ref[Programs], key: Any) -> None:
    """Drop the entry of a key, of whose static arguments one was freed."""
    own = programs()
    if own is not None:
        own.drop(key)


def let_go_later(entry: Entry) -> None:
    """Let the next full garbage collection drop the references that a search in an object for Tensors left behind.

    They go through the object itself, so they would keep it alive. The search is done again if the object is still in use.
    """
    _SEARCHED.add(entry)
    if _let_go not in gc.callbacks:
        gc.callbacks.append(_let_go)


def _let_go(phase: str, info: dict[str, int]) -> None:
    if phase == "start" and info["generation"] == 2:
        for entry in _SEARCHED.alive():
            entry.outside = None
        _SEARCHED.clear()


class Entry:
    """The compiled function for one kind of arguments.

    Attributes:
        trace: what was traced.
        program: the compiled list.
        simple: nothing but arguments goes in, and nothing but the result comes out.
        direct: a function of arrays and numbers that does all of it, where known: a third of a tiny call's time.
        strict: the same for arguments that are just as the code reads them, which it finds out itself.
        outside: the state that the function can read, as it was when a call under a trace looked for Tensors.
        used: the number of hits of the function at the last call that looked the entry up.
        careful: makes the entry that computes a call after all, if a NaN is in a result that depends on derivatives. `None` if
            the list has no derivatives, or no Tensors of other traces: then the program has a careful list.
        watched: references to the static arguments that are held weakly; the entry is dropped when one of them is freed.
    """

    def __init__(self, trace: Trace, program: CompiledList) -> None:
        self.trace = trace
        self.program = program
        self.count = len(program.expressions.outputs) - len(trace.changed) - trace.checks
        self.wraps = True in trace.wraps
        self.simple = not trace.cells and not trace.captured and not self.wraps and not trace.checks
        self.direct: Callable[..., Any] | None = None
        self.strict: Callable[..., Any] | None = None
        self.outside: Outside | None = None
        self.used = 0
        self.careful: Callable[[], Entry] | None = None
        self.watched: list[weakref.ref[Any]] = []

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Run on leaves of arguments, and assign what the function assigned."""
        trace, given = self.trace, leaves
        if self.simple:
            outs = self.program(leaves)
            if self.direct is None:  # calls with other arguments than arrays come here again and again
                self.direct = self.program.direct(trace.structure)
                self.strict = self.program.direct(trace.structure, "strict")
            return outs[0] if trace.structure is LEAF else trace.structure.unflatten(list(outs))
        if trace.cells or trace.captured:
            held = {id(cell): resolve(cell.read()) for cell in trace.cells}
            leaves = [*leaves, *held.values(), *trace.captured]
        outs = self.program(leaves)
        if self.careful is not None and has_nan_below([outs[i] for i in trace.checked]):
            return self.careful()(given)
        if trace.changed:
            values = self.program.backend.handed_on(outs[self.count : self.count + len(trace.changed)])
            _assign(trace.changed, values, [held[id(cell)] for cell in trace.changed])
        outs = outs[: self.count]
        if self.wraps:
            outs = [
                variable if variable is not None else self._constant(out) if wrap else out
                for out, wrap, variable in zip(outs, trace.wraps, trace.variables, strict=True)
            ]
        return trace.structure.unflatten(list(outs))

    def _constant(self, out: Any) -> Any:
        """Return a result as the Tensor that the function gave; one that a trace follows stays what it is."""
        return idle(Tensor, self.program.backend.handed_on([out])[0]) if is_plain(out) else out


def _assign(cells: Sequence[Cell], values: Sequence[Any], before: Sequence[Any]) -> None:
    """Assign all new values, or none if that is interrupted."""
    try:
        for cell, value in zip(cells, values, strict=True):
            cell.write(value)
    except BaseException:
        for cell, value in zip(cells, before, strict=True):
            cell.write(value)
        raise


class Programs:
    """The compiled programs of one function.

    Attributes:
        max_entries: the number of entries that are kept; `None` for no limit.
        entries: the programs, by a key of the arguments that they were compiled for.
        quick: the same for calls with arrays and numbers alone, by keys that take less time to make.
        usual: the number of arguments of the last entry, its function if that checks its arguments itself, and the entry.
        hits: calls for which there was a program.
        misses: calls for which a program was compiled.
        kept: programs that were entered, dropped ones included.
        last_miss: the key of the last compilation, and the key of the entry that was most like it.
    """

    def __init__(self, max_entries: int | None = MAX_ENTRIES) -> None:
        self.max_entries = max_entries
        self.entries: dict[Any, Entry] = {}
        self.quick: dict[Any, Entry] = {}
        self.usual: tuple[int, Callable[..., Any], Entry] | None = None
        self.hits = self.misses = self.kept = 0
        self.last_miss: tuple[Any, Any] | None = None
        _ALL.add(self)

    def keep(self, key: Any, entry: Entry) -> None:
        """Keep an entry, and drop the one that was used longest ago if there are too many."""
        entry.used, self.kept = self.hits, self.kept + 1
        own = weakref.ref(self)
        owners = [weak.ref() for weak in weak_in(key[2])]
        entry.watched = [weakref.ref(value, lambda _: _forget(own, key)) for value in owners if value is not None]
        self.entries[key] = entry
        while self.max_entries is not None and len(self.entries) > self.max_entries:
            usual = self.usual
            others = [(k, e) for k, e in list(self.entries.items()) if e is not entry and (usual is None or e is not usual[2])]
            others = others or [(k, e) for k, e in list(self.entries.items()) if e is not entry]
            if not others:
                return
            self.drop(min(others, key=lambda each: each[1].used)[0])

    def drop(self, key: Any) -> None:
        """Drop the entry of a key, if there is one."""
        entry = self.entries.pop(key, None)
        for quick, other in list(self.quick.items()):
            if other is entry:
                self.quick.pop(quick, None)
        if (usual := self.usual) is not None and usual[2] is entry:
            self.usual = None

    def clear(self) -> None:
        """Drop all entries, and start counting again."""
        self.entries, self.quick, self.usual, self.last_miss = {}, {}, None, None
        self.hits = self.misses = self.kept = 0


def clear_cache() -> None:
    """Drop all programs that `jit` has compiled in this process, and set the counts of `cache_info` to zero.

    Functions stay usable: the next call of each compiles again. Files of `compilation_cache` are not deleted. To drop the
    programs of one function, call its method `clear_cache()`.

    Example:
        >>> import numpy as np, functad
        >>> square = functad.jit(lambda x: x * x)
        >>> square(3.0), square.cache_info().size
        (9.0, 1)
        >>> functad.clear_cache()
        >>> square.cache_info().size
        0
    """
    for programs in _ALL.alive():
        programs.clear()
    drop_shared_programs()
