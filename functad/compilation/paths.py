"""Paths: the programs of a function that branches on values.

A path is a trace with guards and its program, which computes the results and the guarded values at once. A call tries the path
of the last call first. If guarded values differ from the values of the path, the results are dropped, and the path that has the
values up to the first difference, and the new value there, is tried. Results are returned, and new values of Variables
assigned, only by a path with equal guards.

If there is no such path, the function is traced with the values of the call. The evaluation of that trace gives the result of
the call. The list is compiled when a later call takes the path: until then, guards are checked by an evaluation with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

import numpy as np

from functad.backends.backend import Backend
from functad.backends.refusals import OtherArgumentsError
from functad.compilation.collector import collector_paused
from functad.compilation.guarded_loops import HiddenStateError, Loops, Way
from functad.compilation.guards import Guard, LeaveError, guarded_only, has_values, without_guards
from functad.compilation.inner_loops import Inner, InnerLoops
from functad.compilation.lists import CompiledList
from functad.compilation.log import now
from functad.compilation.programs import LIMIT, Kept, committed
from functad.compilation.trace import Again, Trace
from functad.errors import AbstractValueError, FunctadError, RecompileWarning, UnsupportedError
from functad.expressions.expressions import Constant, Expressions
from functad.expressions.spec import ArraySpec, spec_of
from functad.places import call_of, warn
from functad.primitives.operands import all_examples, innermost
from functad.primitives.safe import CAREFUL, PASS, QUICK, STRICT
from functad.process import cached_property, setting
from functad.tracing.float_errors import in_silence
from functad.tracing.ownership import own_results
from functad.tracing.trace import Recorded, resolve
from functad.transforms.lists import extract

MAX_PATHS = 32
"""The default of `max_paths`."""

MOST_GUARDS = 1000
"""A path with more guards is not kept. A loop over elements has such paths, and rarely takes one of them twice."""

_Miss = tuple[int, bytes]
"""The position of the first guard whose value differs, and its value."""


class Path:
    """A trace that is valid for some values, and its program.

    Args:
        trace: the trace.
        program: compiles the trace.

        size: the number of guarded values inside loops; 0 if the path has no loops.

    Attributes:
        keys: the guarded values.
        is_compiled: `True` once the program has run.
    """

    def __init__(self, trace: Trace, program: Callable[[], CompiledList], size: int = 0) -> None:
        self.trace = trace
        self.size = size
        self.keys = tuple([guard.key for guard in trace.guards])
        self.is_compiled = False
        self._missed: tuple[Sequence[Any], Any] | None = None
        self._make = program
        self._all = b"".join(self.keys)
        self._place = len(trace.wraps) + len(trace.changed)

    @cached_property
    def program(self) -> CompiledList:
        """The compiled list."""
        return self._make()

    def __call__(self, leaves: Sequence[Any]) -> tuple[Any, _Miss | None]:
        """Return the result of the function, or `None` and the first difference of the guarded values.

        Raises:
            LeaveError: an operation raises on this path; or the function asks for other values when a careful pass traces it.
        """
        trace = self.trace
        if self._missed is None and (quick := self.strict()) is not None:
            try:
                return quick(*leaves), None
            except OtherArgumentsError:  # the general way follows
                pass
        before, self._missed = self._missed, None
        if before is not None and len(before[0]) == len(leaves) and all(map(is_, before[0], leaves)):
            return None, self._first_difference(before[1])
        held = [resolve(cell.read()) for cell in trace.cells]
        given = [*leaves, *held]
        if not self.is_compiled:
            missed = self._probe(given)
            if missed is not None:
                return None, missed
        try:
            outs, found = self._run(given)
        except Exception:  # noqa: BLE001 - see below
            missed = self._probe(given)  # values of another path may make an operation raise
            if missed is None:
                raise LeaveError(careful=False) from None  # the function may catch the error
            return None, missed
        self.is_compiled = True
        if found.tobytes() != self._all:
            return None, self._first_difference(found)
        if trace.counts:
            outs = list(outs)
            for i in trace.counts:
                [count] = self.program.backend.handed_on([outs[i]])
                outs[i] = count if isinstance(count, Recorded) else int(count)
        return committed(trace, outs, held, self.program.backend), None

    def for_examples(self, leaves: Sequence[Any]) -> tuple[Any, int | None]:
        """Return the result for a batch, and the number of the first example with a guard that fails.

        Returns:
            The result and `None` if the guards hold for all examples; otherwise `None` and the number.
        """
        trace = self.trace
        held = [resolve(cell.read()) for cell in trace.cells]
        outs = self._outs_of([*leaves, *held])
        found = np.asarray(all_examples(outs[self._place]), np.int64)
        rows = found.reshape(-1, found.shape[-1])
        wrong = np.flatnonzero((rows != np.frombuffer(self._all, np.int64)).any(axis=1))
        if wrong.size:
            return None, int(wrong[0])
        return committed(trace, outs, held, self.program.backend), None

    @in_silence
    def _outs_of(self, given: Sequence[Any]) -> Sequence[Any]:
        return self.program(given)

    def strict(self) -> Callable[..., Any] | None:
        """Return a quick function of plain arguments that raises `OtherArgumentsError` if it cannot give the result."""
        return self._strict if self.is_compiled else None

    @cached_property
    def _strict(self) -> Callable[..., Any] | None:
        trace = self.trace
        if trace.cells or trace.changed or trace.counts or True in trace.wraps:
            return None
        return self.program.guarded(trace.structure, self._place, self._all, self._miss)

    def _miss(self, leaves: Sequence[Any], found: Any) -> None:
        """Keep the guarded values of a call that the quick function could not serve."""
        self._missed = leaves, found

    def expressions(self) -> Expressions:
        """Return the list, with the results and new values of Variables, and with equations that check the guards."""
        return guarded_only(self.trace.expressions, self._place)

    def holds(self, leaves: Sequence[Any]) -> bool:
        """Return `True` if the guards hold for the leaves of arguments."""
        return self._probe([*leaves, *[resolve(cell.read()) for cell in self.trace.cells]]) is None

    @in_silence
    def _run(self, given: Sequence[Any]) -> tuple[Sequence[Any], Any]:
        """Return the results and the guarded values. Operations on values of another path must not warn."""
        outs = self.program(given)
        return outs, np.asarray(innermost(self.program.backend.handed_on([outs[self._place]])[0]), np.int64)

    def _first_difference(self, found: Any) -> _Miss | None:
        start = 0
        for i, key in enumerate(self.keys):
            stop = start + len(key) // 8
            if (own := found[start:stop].tobytes()) != key:
                return i, own
            start = stop
        return None

    @cached_property
    def _questions(self) -> tuple[Expressions, dict[int, tuple[int, ...]]]:
        """The list that computes the guarded values, and the positions of the guards by slot."""
        own = without_guards(self.trace.expressions)
        vector = own.outputs[self._place]
        sources: Sequence[int | Constant] = [vector]
        if len(self.keys) > 1:
            sources = next(e.inputs for e in own.equations if vector in e.outputs)
        found = extract(own, outputs=sources)
        slots: dict[int, tuple[int, ...]] = {}
        for i, source in enumerate(found.outputs):
            if type(source) is int:
                slots[source] = (*slots.get(source, ()), i)
        return found, slots

    @in_silence
    def _probe(self, given: Sequence[Any]) -> _Miss | None:
        """Evaluate the guarded values in order, up to the first difference, and return it.

        Raises:
            LeaveError: an operation raises before a difference.
        """
        own, slots = self._questions
        values: list[Any] = [*map(innermost, given), *[None] * (len(own.specs) - len(given))]
        for e in own.equations:
            try:
                out = e.primitive(*[s.value if isinstance(s, Constant) else values[s] for s in e.inputs], **e.params)
            except Exception:  # noqa: BLE001 - the function itself raises it at its line, and may catch it
                raise LeaveError(careful=False) from None
            for slot, value in zip(e.outputs, out if e.primitive.multiple else (out,), strict=True):
                values[slot] = value
                for i in slots.get(slot, ()):
                    if (key := np.asarray(value).tobytes()) != self.keys[i]:
                        return i, key
        return None


class Paths(Kept):
    """The paths of a function for one kind of arguments.

    Args:
        compiler: the options of the compiled function.
        again: traces the function for this kind of arguments.

    Attributes:
        paths: the paths, by their guarded values.
        last: the path of the last call.
        newest: the path of the last trace, and the path before it.
    """

    def __init__(self, compiler: Any, again: Again) -> None:
        super().__init__()
        self._compiler = compiler
        self._again = again
        self.paths: dict[tuple[bytes, ...], Path] = {}
        self.last: Path | None = None
        self._line: str | None = None
        self.newest: tuple[Path, Path | None] | None = None
        self._loops: Loops | None = Loops()
        self._inner: dict[Any, Loops] | None = None

    @property
    def size(self) -> int:
        """The number of paths."""
        return len(self.paths)

    @property
    def guards(self) -> list[list[Guard]]:
        """The guards of each path."""
        return [path.trace.guards for path in list(self.paths.values())]

    @property
    def nbytes(self) -> int:
        """The bytes of constants, machine code and texts of the compiled paths."""
        return sum([path.program.nbytes for path in list(self.paths.values()) if path.is_compiled])

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Return the result of the function for leaves of arguments that a call with a known key passes."""
        path = self.last
        if not all(map(has_values, leaves)):
            return self._for_examples(leaves)
        tried: set[Path] = set()
        try:
            while path is not None and path not in tried:
                tried.add(path)
                result, missed = path(leaves)
                if missed is None:
                    self.last, self.strict = path, path.strict()
                    return result
                path = self._next(path, missed, tried)
        except LeaveError:
            return self.itself(leaves)
        self._compiler.hits -= 1
        return self.fresh(leaves)

    def _for_examples(self, leaves: Sequence[Any]) -> Any:
        """Return the results for leaves that are partly batched, by one path that holds for all examples.

        Without such a path, the function is traced for some of the examples, which may give one. Otherwise the function itself
        runs.
        """
        every = [leaf if has_values(leaf) else all_examples(leaf) for leaf in leaves]
        batched = [not has_values(leaf) for leaf in leaves]
        known = not any(isinstance(value, ArraySpec) for value in every)
        extra = {np.ndim(a) - spec_of(leaf).ndim for a, leaf, own in zip(every, leaves, batched, strict=True) if known and own}
        if not known or extra != {1}:
            return self.itself(leaves)
        size = next(len(a) for a, own in zip(every, batched, strict=True) if own)
        for example in range(min(size, _EXAMPLES)):
            missing: int | None = example
            for path in [path for path in reversed(list(self.paths.values())) if path.size]:
                result, missing = path.for_examples(leaves)
                if missing is None:
                    return result
            if PASS.get() != QUICK and not STRICT.get():
                break
            trace = self.traced([a[missing] if own else a for a, own in zip(every, batched, strict=True)], QUICK)
            if not isinstance(trace, LeaveError) and not trace.changed and not trace.captured and self._keep_loops(trace):
                self._compiler.misses += 1
        return self.itself(leaves)

    def _next(self, path: Path, missed: _Miss, tried: set[Path]) -> Path | None:
        """Return the newest path with the guarded values of a path up to the first difference, and the new value there.

        Paths with loops and other paths have different guards, so the newest path of the other kind follows.
        """
        count, value = missed
        start = (*path.keys[:count], value)
        others = [(keys, other) for keys, other in list(self.paths.items()) if other not in tried]
        found = [other for keys, other in others if keys[: count + 1] == start]
        found = found or [other for _, other in others if bool(other.size) is not bool(path.size)]
        return found[-1] if found else None

    def path_of(self, leaves: Sequence[Any]) -> Path:
        """Return the path of the arguments.

        Raises:
            AbstractValueError: the function is not compiled for these arguments: it takes too many paths, or runs uncompiled
                since a value belongs to a batch, a trace without values or a Dask array.
        """
        for _ in range(2):
            for path in reversed(list(self.paths.values())):
                if path.holds(leaves):
                    return path
            self.fresh(leaves)
        raise AbstractValueError(
            f"{call_of('jit', self._compiler.f)}: there is no list for these arguments. The function runs uncompiled for them."
        )

    def itself(self, leaves: Sequence[Any]) -> Any:
        """Run the function without compiling it."""
        return self._compiler._itself(*self._again.arguments(leaves))

    def fresh(self, leaves: Sequence[Any], trace: Trace | LeaveError | None = None) -> Any:
        """Trace the function with the values of the leaves, keep the path, and return the result of the call.

        Args:
            leaves: the leaves.
            trace: the trace, or the signal that ended it, if there was one already.
        """
        if self._line is not None or len(self.paths) >= self._compiler.max_paths:
            return self._beyond(leaves)
        if not all(map(has_values, leaves)):
            return self._for_examples(leaves)
        if PASS.get() != QUICK and not STRICT.get():
            return self.itself(leaves)
        trace = trace or self.traced(leaves, QUICK)
        if isinstance(trace, LeaveError) and trace.careful:
            trace = self.traced(leaves, CAREFUL)
        if isinstance(trace, LeaveError) or trace.outcome is None:
            return self.itself(leaves)
        outs, trace.outcome = trace.outcome, None
        held = [resolve(cell.read()) for cell in trace.cells]
        constants = [s.value for e in trace.expressions.equations for s in e.inputs if isinstance(s, Constant)]
        constants += [s.value for s in trace.expressions.outputs if isinstance(s, Constant)]
        result = committed(trace, owned(outs, [*leaves, *held, *constants]), held, _VALUES)
        self._compiler.misses += 1
        self._compiler.last_paths = self
        lazy = any(hasattr(type(value), "__dask_graph__") for value in [*leaves, *constants])
        if trace.has_inner_loops and self._inner is None:
            self._inner = {}
        if trace.captured or lazy:
            return result
        if not self._keep_loops(trace):
            if len(trace.guards) > MOST_GUARDS:
                self._line = trace.guards[-1].line
            else:
                size = sum([inner.size for inner in trace.inner if inner is not None])
                self._keep(Path(trace, lambda: self._program(trace), size))
        return result

    def _keep_loops(self, trace: Trace) -> bool:
        """Keep a path with loops for a trace that has loops. Return `False` if it has none."""
        loops, unrolled = self._loops, trace.unrolled
        if loops is None or unrolled is None:
            return False
        try:
            new = loops.add(trace, unrolled)
        except HiddenStateError:  # the iterations differ in a way that no guard shows
            self._loops, trace.unrolled = None, None
            self.paths = {keys: path for keys, path in self.paths.items() if not path.size}
            self.last = None
            return False
        if len(new.steps) > MOST_GUARDS:
            return False
        before = self.last
        for keys, way in list(loops.ways.items()):  # the trace may have another edge of a loop of earlier paths
            if keys not in self.paths or self.paths[keys].size != way.size:
                self.paths[keys] = self._with_loops(way)
        self.last = self.paths[new.keys]
        self.newest = self.last, before
        return True

    def _with_loops(self, way: Way) -> Path:
        """Return the path of a trace with loops."""
        with collector_paused():
            trace = way.folded()
        return Path(trace, lambda: self._program(trace), way.size)

    def traced(self, leaves: Sequence[Any], passed: int) -> Trace | LeaveError:
        """Return a trace with the values of the leaves in a pass, or the signal that ended it."""
        try:
            with collector_paused(), setting(PASS, passed):
                compiler = self._compiler
                inner = None if self._inner is None else InnerLoops(Trace, self._inner)
                checks = not compiler.backend.plain
                return self._again.trace(leaves, checks=checks, effects=True, valued=compiler.guards, inner=inner)
        except LeaveError as leave:
            return LeaveError(leave.careful)  # without the frames of the function
        except FunctadError:
            raise
        except Exception as error:
            if self._compiler.guards and any(map(_shows_tensor, error.args)):
                return LeaveError(careful=False)  # the function itself raises it with values
            raise

    def _keep(self, path: Path) -> None:
        """Keep a path, unless there is one for the same values: compiled code may round in another way than NumPy."""
        before, known = self.last, self.paths.get(path.keys)
        if known is None or known.size < path.size:  # the loops of the new path take more branches
            self.paths[path.keys] = path
        path = self.paths[path.keys]
        LIMIT.keep(self)
        self.newest, self.last = (path, before), path

    def _program(self, trace: Trace) -> CompiledList:
        """Compile the list of a path. A list in which a derivative may hide a NaN is traced again in a careful pass.

        Raises:
            LeaveError: the function asks for other values when it is traced again.
        """
        compiler, guards, inner, start = self._compiler, trace.guards, trace.inner, now()
        with collector_paused():
            if trace.hides and not STRICT.get():
                with setting(PASS, CAREFUL):
                    checks = not compiler.backend.plain
                    trace = self._again.trace(
                        checks=checks, known=guards, inner=InnerLoops(Trace, {}, inner) if inner else None
                    )
            traced = without_guards(trace.expressions)
        careful = (lambda: self._careful(guards, inner)) if trace.derives and not STRICT.get() else None
        program: CompiledList = compiler.program(trace, compiler.backend, careful, traced)
        compiler.log_compilation(trace, program, now() - start)
        return program

    def _careful(self, guards: Sequence[Guard], inner: Sequence[Inner | None]) -> Expressions:
        """Return the list of a path for the current pass.

        Raises:
            UnsupportedError: the function asks for other values when it is traced again.
        """
        try:
            return without_guards(self._again.expressions(guards, InnerLoops(Trace, {}, inner) if inner else None))
        except LeaveError:
            raise UnsupportedError(
                f"{call_of('jit', self._compiler.f)}: a derivative has a NaN, and the function takes another path when it is "
                f"traced again. Do not let state that changes between calls decide its branches."
            ) from None

    def _beyond(self, leaves: Sequence[Any]) -> Any:
        """Run the function itself, since it takes too many paths. The first time, warn."""
        if not self._compiler.warned:
            self._compiler.warned = True
            said = f"it has taken {len(self.paths)} paths through its branches on values"
            line = self._line or list(self.paths.values())[-1].trace.guards[-1].line
            if self._line is not None:
                said = f"a path through its branches on values has more than {MOST_GUARDS:,} of them"
            warn(
                RecompileWarning(
                    f"{call_of('jit', self._compiler.f)}: {said}, the last one at {line}. Calls that take another path run "
                    f"uncompiled from now on. Choose between values with np.where(condition, a, b), between computations with "
                    f"functad.cond, and repeat with functad.while_loop; or keep more paths: functad.jit(f, max_paths=...)."
                )
            )
        return self.itself(leaves)

    def explain(self) -> str:
        """Return a text with the guards of the newest path."""
        newest, before = self.newest or (None, None)
        if newest is None:
            return ""
        guards = newest.trace.guards
        if before is None:
            shown = "; ".join(map(str, guards[:_SHOWN])) + (
                f"; and {len(guards) - _SHOWN} more" if len(guards) > _SHOWN else ""
            )
            return f"Its first path of {len(self.paths)} has {len(guards)} guard{'s' * (len(guards) > 1)}: {shown}."
        same = [a == b for a, b in zip(newest.keys, before.keys, strict=False)]
        place = same.index(False) if False in same else min(len(same), len(guards) - 1)
        other = before.trace.guards[place] if place < len(before.keys) else None
        old = "" if other is None else f", and on the path before {other}"
        return (
            f"Path {len(self.paths)} differs from the path before in guard {place + 1} of {len(guards)}: {guards[place]}{old}."
        )


_EXAMPLES = 8
"""The number of examples of a batch for which a function is traced, to find a path for all of them."""

_SHOWN = 8
"""The number of guards in a message."""

_VALUES = Backend("values", list)
"""The backend of values that NumPy has computed."""


def _shows_tensor(part: Any) -> bool:
    """Return `True` for an argument of an exception that is a Tensor, or a text with one."""
    return isinstance(part, Recorded) or (isinstance(part, str) and "Tensor(" in part)


def owned(leaves: Sequence[Any], foreign: Sequence[Any]) -> list[Any]:
    """Return results of uncompiled code as writable arrays that share no memory with one another or with `foreign`."""
    leaves = [
        leaf.copy() if type(leaf) is np.ndarray and (0 in leaf.strides or not leaf.flags.writeable) else leaf for leaf in leaves
    ]
    return own_results(leaves, foreign)
