"""The cache of compiled programs of a function.

The keys are the kinds of the arguments. If there are more than `max_entries` programs, the least recently used program is
dropped. The time of use is the number of hits. The fastest path of a call only counts hits, so the program of that path counts
as the most recently used.

The programs of all functions have a common limit. Calls record no time, so some compilations compare the numbers of hits with
earlier numbers, and note the programs that were used in between.

Static arguments that are compared by identity are held weakly. Their programs are dropped when they are freed.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from functad.backends.backend import Backend
from functad.compilation.kinds import Weak
from functad.compilation.lists import CompiledList
from functad.compilation.shared import drop_shared_programs
from functad.compilation.trace import Cell, Trace
from functad.errors import InputError
from functad.places import here
from functad.process import renewed
from functad.tracing.concrete import counts_as_plain, idle
from functad.tracing.tensor import Tensor
from functad.tracing.trace import resolve
from functad.transforms.outside import Outside
from functad.transforms.reverse import has_nan_below
from functad.trees import LEAF

MAX_ENTRIES = 256
"""The default of `max_entries`."""

MOST_PROGRAMS = 4096
"""The default of the limit of all functions. 4,096 programs of the backend `llvm` take about 600 MB."""


def weak_in(static: Sequence[Any]) -> list[Weak]:
    """Return the `Weak` static arguments of a key. Some are in pairs of a position or name and the value."""
    found = [value.value[1] if type(value.value) is tuple and len(value.value) == 2 else value.value for value in static]
    return [value for value in found if type(value) is Weak]


class WeakGroup:
    """A set of objects compared by identity, held weakly."""

    def __init__(self) -> None:
        self._refs: set[weakref.ref[Any]] = set()

    def add(self, value: Any) -> None:
        """Add an object."""
        self._refs.add(weakref.ref(value, self._refs.discard))

    def alive(self) -> list[Any]:
        """Return the objects that are alive now."""
        found = [ref() for ref in list(self._refs)]  # an atomic copy, since other threads add to the set
        return [value for value in found if value is not None]

    def clear(self) -> None:
        """Remove all objects."""
        self._refs.clear()


_ALL = WeakGroup()
"""The `Programs` of all compiled functions of this process, for `clear_cache`."""

_SEARCHED = WeakGroup()
"""Entries with an `outside` that refers to weakly held static arguments."""


def _forget(programs: weakref.ref[Programs], key: Any) -> None:
    """Drop the entry of a key after one of its static arguments was freed."""
    own = programs()
    if own is not None:
        own.drop(key)


def let_go_later(entry: Kept) -> None:
    """Drop `entry.outside` at the next full garbage collection.

    `outside` refers to weakly held static arguments and would keep them alive. A later call repeats the search.
    """
    _SEARCHED.add(entry)
    if _let_go not in gc.callbacks:
        gc.callbacks.append(_let_go)


def _let_go(phase: str, info: dict[str, int]) -> None:
    if phase == "start" and info["generation"] == 2:
        for entry in _SEARCHED.alive():
            entry.outside = None
        _SEARCHED.clear()


class Kept:
    """The compiled code of a function for one kind of arguments.

    Attributes:
        direct: a function from arrays and numbers to the result, or `None`. It saves a third of the time of a tiny call.
        strict: the same, but it checks the kinds of its arguments and raises `OtherArgumentsError` for others.
        outside: the state that the function can read, as of the last search for Tensors by a call under a trace.
        used: the number of hits of the function at the last lookup of this entry.
        seen: this number at the last look of `LIMIT`.
        last_used: `LIMIT.now` at the first look after the last use.
        weight: `nbytes` at that time, if there is a limit for bytes.
        watched: weak references to static arguments. The entry is dropped when one of them is freed.
    """

    def __init__(self) -> None:
        self.direct: Callable[..., Any] | None = None
        self.strict: Callable[..., Any] | None = None
        self.outside: Outside | None = None
        self.used = 0
        self.seen = self.last_used = self.weight = 0
        self.watched: list[weakref.ref[Any]] = []

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Return the result of the function for leaves of arguments."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """The number of lists."""
        return 1

    @property
    def nbytes(self) -> int:
        """The bytes of constants, machine code and texts."""
        return 0


class Entry(Kept):
    """The compiled list of a function that needs no values while it is traced.

    Attributes:
        trace: the trace of the function.
        program: the compiled list.
        simple: `True` if the only inputs are arguments and the only outputs are results.
        careful: returns the entry of the careful pass, for calls with a NaN in a result that depends on derivatives. `None` if
            the list contains no derivatives, or no Tensors of other traces; then the program has a careful list itself.
    """

    def __init__(self, trace: Trace, program: CompiledList) -> None:
        super().__init__()
        self.trace = trace
        self.program = program
        others = trace.cells or trace.captured or trace.checks or True in trace.wraps
        self.simple = not others
        self.careful: Callable[[], Entry] | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of constants, machine code and texts."""
        return self.program.nbytes

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Run the program for leaves of arguments, and write assigned values to Variables and other state."""
        trace = self.trace
        if self.simple:
            outs = self.program(leaves)
            if self.direct is None:  # calls with arguments other than arrays and numbers repeat this path
                self.direct = self.program.direct(trace.structure)
                self.strict = self.program.direct(trace.structure, "strict")
            return outs[0] if trace.structure is LEAF else trace.structure.unflatten(list(outs))
        held = [resolve(cell.read()) for cell in trace.cells]
        outs = self.program([*leaves, *held, *trace.captured] if held or trace.captured else leaves)
        if self.careful is not None and has_nan_below([outs[i] for i in trace.checked]):
            return self.careful()(leaves)
        return committed(trace, outs, held, self.program.backend)


def committed(trace: Trace, outs: Sequence[Any], held: Sequence[Any], backend: Backend) -> Any:
    """Assign new values to Variables and other state, and return the result as a pytree.

    Args:
        trace: the trace of the function.
        outs: the leaves of the result, the new values of the changed cells, and anything else.
        held: the values of all cells before the call.
        backend: the backend that computed `outs`.
    """
    count, changed = len(trace.wraps), trace.changed
    if changed:
        values = backend.handed_on(outs[count : count + len(changed)])
        before = {id(cell): value for cell, value in zip(trace.cells, held, strict=True)}
        _assign(changed, values, [before[id(cell)] for cell in changed])
    outs = outs[:count]
    if True in trace.wraps:
        outs = [
            variable if variable is not None else _constant(out, backend) if wrap else out
            for out, wrap, variable in zip(outs, trace.wraps, trace.variables, strict=True)
        ]
    return trace.structure.unflatten(list(outs))


def _constant(out: Any, backend: Backend) -> Any:
    """Return a result as a Tensor outside all traces. A traced Tensor stays unchanged."""
    return idle(Tensor, backend.handed_on([out])[0]) if counts_as_plain(out) else out


def _assign(cells: Sequence[Cell], values: Sequence[Any], before: Sequence[Any]) -> None:
    """Assign all new values. Restore the old values if an exception interrupts."""
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
        entries: the entries, by the key of the arguments.
        quick: the same entries by cheaper keys, for calls with arrays and numbers only.
        usual: the number of arguments, `strict` and the entry of the last call, or `None`.
        hits: the number of calls that found an entry.
        misses: the number of calls that compiled an entry.
        kept: the number of entries ever stored, dropped entries included.
        last_miss: the key of the last compilation, and the most similar key before it.
    """

    def __init__(self, max_entries: int | None = MAX_ENTRIES) -> None:
        self.max_entries = max_entries
        self.entries: dict[Any, Kept] = {}
        self.quick: dict[Any, Kept] = {}
        self.usual: tuple[int, Callable[..., Any], Kept] | None = None
        self.hits = self.misses = self.kept = 0
        self.last_miss: tuple[Any, Any] | None = None
        _ALL.add(self)

    def keep(self, key: Any, entry: Kept) -> None:
        """Store an entry. Drop the least recently used entry if there are too many."""
        entry.used = entry.seen = self.hits
        self.kept += 1
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
        LIMIT.keep(entry)

    def note_use(self, now: int, *, weigh: bool) -> None:
        """Set `last_used` of the entries that were used since the last call, and `weight` of these and of new entries."""
        usual = self.usual
        for entry in list(self.entries.values()):
            used = self.hits if usual is not None and usual[2] is entry else entry.used
            if used != entry.seen:
                entry.seen, entry.last_used, entry.weight = used, now, 0
            if weigh and not entry.weight:
                entry.weight = entry.nbytes

    def drop(self, key: Any) -> None:
        """Drop the entry of a key, if there is one."""
        entry = self.entries.pop(key, None)
        for quick, other in list(self.quick.items()):
            if other is entry:
                self.quick.pop(quick, None)
        if (usual := self.usual) is not None and usual[2] is entry:
            self.usual = None

    def clear(self) -> None:
        """Drop all entries, and reset the counts."""
        self.entries, self.quick, self.usual, self.last_miss = {}, {}, None, None
        self.hits = self.misses = self.kept = 0


class Limit:
    """The limit of the programs of all functions.

    Attributes:
        count: the largest number of programs; `None` for no limit.
        nbytes: the largest number of bytes of constants, machine code and texts; `None` for no limit.
        now: twice the number of compilations.
        least: `now` at the last look.
        most: at least the number of programs.
    """

    def __init__(self) -> None:
        self.count: int | None = MOST_PROGRAMS
        self.nbytes: int | None = None
        self.now = self.least = self.most = 0
        self._lock = renewed(threading.RLock())

    def keep(self, new: Kept | None) -> None:
        """Drop the least recently used programs of all functions if there are too many. The program `new` is not dropped.

        A look at all programs takes 3 us for each of them. Looks are rare below three quarters of the limit, and a sixteenth of
        the programs is dropped at a time.
        """
        with self._lock:
            self.now += 2
            self.most += 1
            if new is not None:
                new.last_used = self.now + 1  # later than the calls before it
            rare = self.count is None or self.now - self.least < self.count // 32 or self.most <= 0.75 * self.count
            full = self.count is not None and self.most > self.count
            if new is None or full or not rare or self.nbytes is not None:
                self._look(new, full=full)

    def _look(self, new: Kept | None, *, full: bool) -> None:
        weigh, every = self.nbytes is not None, []
        for programs in _ALL.alive():
            programs.note_use(self.now, weigh=weigh)
            every += [(entry.last_used, programs, key, entry) for key, entry in list(programs.entries.items())]
        self.least, self.most = self.now, sum([entry.size for *_, entry in every])
        count = inf if self.count is None else self.count - (self.count // 16 if full and self.most > self.count else 0)
        nbytes, total = inf if self.nbytes is None else self.nbytes, sum([entry.weight for *_, entry in every]) if weigh else 0
        for _, programs, key, entry in sorted(every, key=lambda each: each[0]):
            if self.most <= count and total <= nbytes:
                return
            if entry is not new:
                self.most -= entry.size
                total -= entry.weight
                programs.drop(key)


LIMIT = Limit()


def set_program_limit(count: int | None = MOST_PROGRAMS, nbytes: int | None = None) -> None:
    """Limit the compiled programs of all functions in this process.

    Beyond a limit, the least recently used programs are dropped. A later call compiles them again. The option `max_entries` of
    `jit` limits the programs of one function.

    Args:
        count: the largest number of programs. `None` for no limit.
        nbytes: the largest number of bytes of their constants, machine code and texts. Expression lists and the memory of JAX
            are not counted. `None` for no limit. A single program may be larger.

    Raises:
        InputError: a limit is not a positive integer.

    Example:
        >>> import functad
        >>> square, cube = functad.jit(lambda x: x**2), functad.jit(lambda x: x**3)
        >>> functad.set_program_limit(1)
        >>> square(2.0), cube(2.0), square.cache_info().size, cube.cache_info().size
        (4.0, 8.0, 0, 1)
        >>> functad.set_program_limit()
    """
    for name, value in (("count", count), ("nbytes", nbytes)):
        if value is not None and (type(value) is not int or value < 1):
            raise InputError(f"set_program_limit takes a positive integer or None as {name}, not {value!r}, at {here()}.")
    LIMIT.count, LIMIT.nbytes = count, nbytes
    LIMIT.keep(None)


def clear_cache() -> None:
    """Drop all programs that `jit` has compiled in this process, and reset the counts of `cache_info` to zero.

    Functions stay usable: their next call compiles again. Files of `compilation_cache` are not deleted. To drop the
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
    if (disk := sys.modules.get("functad.backends.native.disk")) is not None:
        disk.forget_libraries()
