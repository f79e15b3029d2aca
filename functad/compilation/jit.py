"""`jit`: trace a function once for each structure and kind of its arguments, and compile the list."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar, cast

import numpy as np

from functad.backends.backend import Backend, find
from functad.backends.refusals import OtherArgumentsError
from functad.chunks.program import chunks_of, holds_chunks, in_chunks
from functad.compilation.collector import collector_paused
from functad.compilation.error_modes import CHECKED, are_heard, modes
from functad.compilation.guards import LeaveError
from functad.compilation.kinds import (
    LARGE,
    SCALAR,
    STATIC,
    TENSOR,
    Same,
    Static,
    is_foreign,
    is_large,
    likeness_of,
    quick_key,
    shown,
    static_places,
    without_owner,
)
from functad.compilation.lists import CompiledList
from functad.compilation.log import listening, now
from functad.compilation.lowered import CacheInfo, CompiledFunction, Compiles, Lowered
from functad.compilation.paths import MAX_PATHS, Paths, owned
from functad.compilation.programs import MAX_ENTRIES, Entry, Kept, Programs, let_go_later
from functad.compilation.trace import Again, Trace
from functad.errors import InputError, RecompileWarning
from functad.expressions.expressions import Expressions
from functad.expressions.records import OBSERVERS, Observer, checker
from functad.expressions.spec import PLAIN, PYTHON_SCALARS, is_array, spec_of, type_of
from functad.immutable import Exact, exact_key
from functad.places import call_of, here, name_of, warn
from functad.primitives.operands import foreign_rules, is_of_jax, read
from functad.primitives.safe import CAREFUL, ELEMENTWISE, PASS, QUICK, STRICT
from functad.process import setting
from functad.tracing.trace import LIVE, Recorded, value_of
from functad.tracing.views import in_c_order
from functad.transforms.lists import input_names
from functad.transforms.outside import Outside, refuse_generator
from functad.transforms.transform import Transformed, transform
from functad.trees import Structure, flatten, structure_of_call

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")

MANY = 16
"""The number of compilations of one function after which `jit` warns that argument shapes change between calls."""


class _Uncompiled(Observer):
    """The observer of `disable_jit`."""

    uncompiled = True

    def begun(self, phase: str, records: Any) -> bool:
        """Return `False`: the observer sees no records."""
        return False


def is_disabled() -> bool:
    """Return `True` inside `disable_jit`."""
    return any(observer.uncompiled for observer in OBSERVERS.get())


@contextmanager
def disable_jit(disable: bool = True) -> Iterator[None]:
    """Run functions of `jit` without compilation inside a `with` block, to debug them.

    A compiled function then calls the function itself: `print`, debuggers, branches on values and the warnings of NumPy work as
    in eager code. The setting applies to calls in this thread and its coroutines. `lower` and `make_expressions` still trace.

    Args:
        disable: `False` compiles again, inside a block of `disable_jit`.

    Returns:
        A context manager, which also works as a decorator.

    Example:
        >>> import functad
        >>> @functad.jit
        ... def half(x):
        ...     print("x is", x)
        ...     return x / 2
        >>> with functad.disable_jit():
        ...     half(3.0)
        x is 3.0
        1.5
    """
    others = tuple([observer for observer in OBSERVERS.get() if not observer.uncompiled])
    with setting(OBSERVERS, (*others, _Uncompiled()) if disable else others):
        yield


class Compiler(Programs):
    """The options and the compiled programs of a jitted function.

    Attributes:
        f: the function.
        argnums: positions of the static arguments. Negative positions count from the last argument of a call.
        argnames: names of the static arguments.
        backend: the backend that compiles the lists.
        exact: `True` if results must equal the traced operations bit for bit.
        foreign: array types of other libraries that earlier calls passed as arguments.
        shares: `True` if functions with the same list share programs. Unpickled functions do.
        guards: `True` if the function may need values while it is traced.
        donated: positions and names of the donated arguments.
        max_paths: the number of paths that are kept for one kind of arguments.
        last_paths: the paths that were traced last, or `None`.
        warned: `True` after the warning about too many paths.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        argnums: frozenset[int],
        argnames: frozenset[str],
        backend: Backend,
        exact: bool = False,
        max_entries: int | None = MAX_ENTRIES,
        guards: bool = True,
        max_paths: int = MAX_PATHS,
        donated: tuple[frozenset[int], frozenset[str]] = (frozenset(), frozenset()),
    ) -> None:
        super().__init__(max_entries)
        self.f = f
        self.argnums = argnums
        self.argnames = argnames
        self.backend = backend
        self.exact = exact
        self.foreign: set[type] = set()
        self.shares = False
        self.guards = guards
        self.max_paths = max_paths
        self.donated = donated
        self.last_paths: Paths | None = None
        self.warned = False

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the compiled function, or the function itself. Compile first if this kind of arguments is new.

        The function itself also runs if a Python integer exceeds the dtypes of NumPy.
        """
        try:
            if OBSERVERS.get() and checker() is not None:  # observers see operations only if the function itself runs
                args, kwargs = self._of_numpy(args, kwargs)
                return self.f(*args, **kwargs)
            if OBSERVERS.get() and is_disabled():
                return self._itself(args, kwargs)
            if modes() is not CHECKED[0] and self.backend.plain is None and are_heard():
                return self._itself(args, kwargs)
            quick = usual = None
            if not kwargs and not LIVE and not STRICT.get():
                if (usual := self.usual) is not None and usual[0] == len(args):
                    self.hits += 1
                    try:
                        return usual[1](*args)
                    except OtherArgumentsError:
                        self.hits, self.usual = self.hits - 1, None
                        usual[2].used = self.hits
                quick = quick_key(args, self.foreign)
                if quick is not None and (entry := self.quick.get(quick)) is not None:
                    self.hits += 1
                    entry.used = self.hits
                    if usual is not None and entry.strict is usual[1]:  # `strict` refused arguments of its own kind
                        entry.strict = None
                    elif entry.strict is not None:
                        self.usual = len(args), entry.strict, entry
                    return entry.direct(*args) if entry.direct is not None else entry(args)
            return self._by_key(args, kwargs, quick)
        except OverflowError:
            if int not in map(type, flatten((args, kwargs))[0]):
                raise
            return self._itself(args, kwargs)

    def _by_key(self, args: tuple[Any, ...], kwargs: dict[str, Any], quick: Any) -> Any:
        """Run the entry for the arguments, and store it under the key `quick` for the next call. `quick` may be `None`."""
        leaves, structure, key = self.key(args, kwargs)
        if LARGE in key[1]:
            return self._itself(args, kwargs)
        known = self.entries.get(key)
        entry: Callable[[Sequence[Any]], Any]
        if known is None or (LIVE and self._may_read_tensors(known, leaves, key)):
            entry = self.compiled(leaves, structure, key, len(args), known)
        else:
            self.hits += 1
            known.used, entry = self.hits, known
        if quick is not None and min(self.argnums, default=len(args)) >= len(args) == len(leaves):
            if (kept := self.entries.get(key)) is entry:
                self.quick[quick] = kept
        elif self.backend.plain is not None:  # later calls also pass arrays of the backend
            self.foreign |= {type(a) for a, kind in zip(leaves, key[1], strict=True) if is_foreign(a, kind)}
        return entry([leaf for leaf, kind in zip(leaves, key[1], strict=True) if kind is not STATIC])

    def _itself(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the function without compiling it. Result arrays are writable, and no two elements share memory."""
        args, kwargs = self._of_numpy(args, kwargs)
        leaves, structure = flatten(self.f(*args, **kwargs))
        return structure.unflatten(owned(leaves, flatten((args, kwargs))[0]))

    def _of_numpy(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments with NumPy arrays in place of arrays of the backend."""
        if self.backend.plain is None:
            return args, kwargs
        leaves, structure = flatten((args, kwargs))
        return structure.unflatten(self.backend.plain(leaves))  # type: ignore[no-any-return]

    def _may_read_tensors(self, entry: Kept, leaves: Sequence[Any], key: Any) -> bool:
        """Return `True` if the function can reach a traced Tensor where the list may hold a plain value."""
        outside = entry.outside
        if outside is None or outside.changed():
            static = [leaf for leaf, kind in zip(leaves, key[1], strict=True) if kind is STATIC]
            outside = entry.outside = Outside([self.f, static, key[0].value])
            if entry.watched:
                let_go_later(entry)
        return outside.holds_tensor or not outside.is_known

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Structure, Any]:
        """Return the leaves of the arguments, their structure, and the cache key. Calls with equal keys use one list."""
        static: list[Any] = []
        if self.argnums or self.argnames:
            argnums = sorted({i + len(args) if i < 0 else i for i in self.argnums} & set(range(len(args))))
            static = [(i, without_owner(args[i])) for i in argnums]
            static += [(name, without_owner(kwargs[name])) for name in sorted(self.argnames & kwargs.keys())]
            args = tuple([Static(a) if i in argnums else a for i, a in enumerate(args)])
            kwargs = {name: Static(a) if name in self.argnames else a for name, a in kwargs.items()}
        usual = None if kwargs else structure_of_call(args)
        leaves, structure = flatten((args, kwargs)) if usual is None else (list(args), usual)
        kinds: list[Any] = []
        for i, leaf in enumerate(leaves):
            kind = type(leaf)
            if kind is np.ndarray:
                kinds.append((leaf.dtype, leaf.shape, leaf.flags.c_contiguous))
            elif kind in PYTHON_SCALARS:
                kinds.append(LARGE if kind is int and is_large(leaf) else kind)
            else:
                leaves[i], kind = self._other(leaf, static)
                kinds.append(kind)
        try:
            exact = Exact(structure, structure.exact_key()) if usual is None else _usual_key(usual)
            key = exact, tuple(kinds), tuple(map(Exact, static)) if static else (), STRICT.get()
            hash(key)
        except TypeError:
            self._refuse_unhashable(static, structure)
        return leaves, structure, key

    def _other(self, leaf: Any, static: list[Any]) -> tuple[Any, Any]:
        """Return the value to pass on for a leaf that is not a NumPy array, and the kind of the leaf."""
        if isinstance(leaf, Static):
            return leaf.value, STATIC
        if hasattr(type(leaf), "__functad_mask__"):  # a selection, or the number of its elements
            leaf = read(leaf)
        if hasattr(type(leaf), "__functad_read__"):  # the function reads the Variable and may assign it
            static.append(Same(leaf))
            return leaf, STATIC
        own = value_of(leaf) if isinstance(leaf, Recorded) else leaf
        if isinstance(own, Recorded) or (is_array(own) and not isinstance(own, type)):  # np.float32 has attributes of arrays
            self._refuse_foreign(own)
            spec = spec_of(own)
            if spec.weak:
                return own, type_of(spec)
            if spec.dtype.kind in "biufc":
                scalar = not (spec.shape or spec.zero_d)  # arrays of shape () are writable, scalars are not
                kind = spec.dtype, spec.shape, chunks_of(own) or (SCALAR if scalar else in_c_order(own))
                return own, kind if own is leaf else (*kind, TENSOR)
        elif type(own) in PYTHON_SCALARS:
            return own, (type(own), TENSOR)
        refuse_generator(self.f, own)
        static.append(without_owner(leaf))
        return leaf, STATIC

    def _refuse_foreign(self, value: Any) -> None:
        """Refuse an array that compiled code cannot read, or would treat differently than NumPy functions.

        Raises:
            InputError: `value` is a masked array, a matrix, an array with units or labels, or a JAX array for another
                backend than `"xla"`.
        """
        if type(value) in PLAIN or isinstance(value, Recorded) or (self.backend.plain is not None and is_of_jax(type(value))):
            return
        if (reason := foreign_rules(value)) is not None:
            raise InputError(f"{call_of('jit', self.f)}: an argument is a {type(value).__name__}. {reason}")

    def _refuse_unhashable(self, static: Sequence[Any], structure: Structure) -> NoReturn:
        for value in static:
            try:
                hash(exact_key(value))
            except TypeError:
                own = value[1] if type(value) is tuple and len(value) == 2 else value  # (position or name, value), or the value
                raise InputError(
                    f"{call_of('jit', self.f)}: a static argument is a {type(own).__name__}, which cannot be hashed. "
                    f"Pass a tuple instead of a list, or an array instead of what is no number."
                ) from None
        raise InputError(
            f"{call_of('jit', self.f)}: a container among the arguments has data that cannot be hashed: {structure!r}. "
            f"Let its class keep tuples and strings there."
        ) from None

    def again(self, leaves: Sequence[Any], structure: Structure, key: Any, count: int) -> Again:
        """Return an object that traces the function for a kind of arguments."""
        kinds = key[1]
        places = [i for i, kind in enumerate(kinds) if kind is not STATIC]
        tensors = [i for i, place in enumerate(places) if type(kinds[place]) is tuple and kinds[place][-1] is TENSOR]
        return Again(self.f, structure, leaves, places, input_names(self.f, structure, count), tensors, self.exact)

    def run(self, entry: Kept, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the entry of a key.

        Raises:
            InputError: the arguments have another key.
        """
        if is_disabled():
            return self._itself(args, kwargs)
        leaves, structure, found = self.key(args, kwargs)
        if found != key:
            raise InputError(
                f"{call_of('compile', self.f)}: the function was compiled for other arguments: "
                f"{self._change(found, key)}. Call the function itself, which compiles again, or lower it for these arguments."
            )
        if LIVE and self._may_read_tensors(entry, leaves, key):
            own: Callable[[Sequence[Any]], Any] = self.compiled(leaves, structure, key, len(args), entry)
        else:
            own = entry
        return own([leaf for leaf, kind in zip(leaves, key[1], strict=True) if kind is not STATIC])

    def compiled(
        self, leaves: Sequence[Any], structure: Structure, key: Any, count: int, known: Kept | None = None
    ) -> Callable[[Sequence[Any]], Any]:
        """Trace and compile the function for a kind of arguments.

        Returns:
            An entry; `known`, if it is given and the function reads no Tensor of another trace and has the same list; or a
            function that returns the result of this call only, if the function needed values, which the trace has then
            computed.
        """
        again, start = self.again(leaves, structure, key, count), now()
        own_leaves = [leaf for leaf, kind in zip(leaves, key[1], strict=True) if kind is not STATIC]

        def traced(now: int, effects: bool = True) -> Trace:
            with setting(PASS, now):
                return again.trace(own_leaves, checks=not self.backend.plain, effects=effects)

        paths = known if isinstance(known, Paths) else Paths(self, again)
        trace = paths.traced(own_leaves, QUICK)
        if isinstance(trace, LeaveError) or trace.guards or paths is known:
            return self._guarded(paths, key, own_leaves, trace)
        with collector_paused():
            if isinstance(known, Entry) and not trace.captured and trace.equals(known.trace):
                self.hits += 1
                return known
            if trace.hides and not STRICT.get():  # a NaN may not reach the results
                trace = traced(CAREFUL)
            elif trace.derives and holds_chunks(own_leaves, trace.expressions):  # tasks do not check for NaN
                trace = traced(ELEMENTWISE)
            elif trace.derives and trace.captured and PASS.get():
                trace = traced(PASS.get())
        backend = in_chunks(self.backend, own_leaves, trace.expressions) or self.backend
        guarded = trace.derives and backend is self.backend and not STRICT.get()
        given = () if trace.captured else self._donated(structure, key[1])
        entry = self._entry(trace, backend, again.expressions if guarded and not trace.captured else None, given)
        self.misses += 1
        if trace.captured and guarded and not PASS.get():
            entry.careful = lambda: self._entry(traced(CAREFUL, effects=False), self.backend)
        if known is None and not trace.captured:  # a list that depends on Tensors of other traces is valid for this call only
            self._keep(key, entry)
        self.log_compilation(trace, entry.program, now() - start)
        return entry

    def _donated(self, structure: Structure, kinds: Sequence[Any]) -> list[int]:
        """Return the positions of the donated leaves among the leaves that are not static."""
        argnums, argnames = self.donated
        if not (argnums or argnames):
            return []
        args, kwargs = structure.unflatten(list(range(len(kinds))))
        chosen = [args[i] for i in argnums if -len(args) <= i < len(args)] + [kwargs[name] for name in argnames & kwargs.keys()]
        found = set(flatten(chosen)[0])
        return [i for i, place in enumerate([n for n, kind in enumerate(kinds) if kind is not STATIC]) if place in found]

    def log_compilation(self, trace: Trace, program: CompiledList, seconds: float) -> None:
        """Log a compilation with its reason."""
        if (logger := listening()) is not None:
            reason = "It reads Tensors of a running transform, for this call only." if trace.captured else self.explain()
            counts = len(trace.expressions.equations), seconds, len(program.expressions.equations)
            parts = call_of("jit", self.f), *counts, reason
            logger.info("%s: traced %d operations in %.3f s, %d after simplification. %s", *parts)

    def _guarded(
        self, paths: Paths, key: Any, leaves: Sequence[Any], trace: Trace | LeaveError
    ) -> Callable[[Sequence[Any]], Any]:
        """Keep the paths of a function that needs values, and return a function that returns the result of this call."""
        if isinstance(other := self.entries.get(key), Paths):  # another thread may have been first
            paths = other
        else:
            self._keep(key, paths)
        result = paths.fresh(leaves, trace)
        return lambda _: result

    def _keep(self, key: Any, entry: Kept) -> None:
        """Store an entry. Warn if there have been many."""
        self.last_miss = key, self._nearest(key)
        self.keep(key, entry)
        if self.kept == MANY:
            warn(
                RecompileWarning(
                    f"jit of {name_of(self.f)} has been compiled {MANY} times, at {here()}. {self.explain()} Pad arrays to one "
                    f"shape, or leave out jit where shapes change from call to call."
                )
            )

    def program(
        self,
        trace: Trace,
        backend: Backend,
        careful: Callable[[], Expressions] | None = None,
        traced: Expressions | None = None,
        donated: Sequence[int] = (),
    ) -> CompiledList:
        """Return the program of a trace; `traced` is the list of the trace without guards."""
        traced = trace.expressions if traced is None else traced
        options = careful, trace.checked, trace.checks
        return CompiledList(None, backend, self.f, self.exact, traced, self.shares, *options, donated=donated)

    def _entry(
        self,
        trace: Trace,
        backend: Backend,
        careful: Callable[[], Expressions] | None = None,
        donated: Sequence[int] = (),
    ) -> Entry:
        """Return an entry with the program of a trace."""
        return Entry(trace, self.program(trace, backend, careful, donated=donated))

    def _nearest(self, key: Any) -> Any:
        """Return the key of the compiled list with the most similar arguments."""

        def likeness(other: Any) -> tuple[bool, int]:
            return other[0] == key[0], sum(likeness_of(a, b) for a, b in zip(other[1], key[1], strict=False))

        return max(reversed(list(self.entries)), key=likeness, default=None)  # other threads may add entries

    def explain(self) -> str:
        """Return a message that names the argument, or the guard, that caused the last compilation."""
        paths = self.last_paths.explain() if self.last_paths is not None else ""
        return f"{self._explained()} {paths}".rstrip()

    def _explained(self) -> str:
        """Return a message that names the argument that caused the last compilation."""
        if self.last_miss is None:
            return f"{name_of(self.f)} has not been compiled."
        key, before = self.last_miss
        if before is None:
            return f"{name_of(self.f)} was compiled at its first call."
        if key[0] != before[0]:
            return "The structure of the arguments was another: other containers, keys or names."
        return f"The last compilation of {name_of(self.f)}: {self._change(key, before)}."

    def _change(self, key: Any, before: Any) -> str:
        """Return a message that names the differences between two keys."""
        structure, kinds, static, strict = key
        if structure != before[0]:
            return "the structure of the arguments was another, with other containers, keys or names"
        names = input_names(self.f, structure.value, len(structure.value.children[0].children))
        changes = [
            f"{name} was {shown(old)} and is {shown(new)}"
            for name, old, new in zip(names, before[1], kinds, strict=True)
            if old != new
        ]
        changes += [
            f"a static argument was {old!r} and is {new!r}" for old, new in zip(before[2], static, strict=False) if old != new
        ]
        if strict != before[3]:
            changes.append("strict_derivatives was switched")
        return "; ".join(changes)


@functools.cache
def _usual_key(structure: Structure) -> Exact:
    """Return the key of a structure that `structure_of_call` returned. There are only a few."""
    return Exact(structure, structure.exact_key())


class Jitted(Transformed):
    """A compiled function."""

    compiler: Compiler

    @staticmethod
    def rebuild(transform: Callable[..., Any], f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the unpickled function. It shares programs with other functions unpickled from the same data."""
        made = transform(f, *args, **kwargs)
        made.compiler.shares = True
        return made

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Return the expression list for such arguments, with the source and the cost of the compiled program.

        If the function needs values, this is the list of its path. It has equations that check the guards: evaluated with
        values of another path, it raises `GuardError`. The compiled list has the guarded values as its last result.
        """
        compiler = self.compiler
        leaves, structure, key = compiler.key(args, kwargs)
        again = compiler.again(leaves, structure, key, len(args)).whole
        entry: Any = compiler.entries.get(key)
        if entry is None:
            entry = compiler.compiled(leaves, structure, key, len(args))
            entry = compiler.entries.get(key, entry)
        if isinstance(entry, Paths):
            path = entry.path_of([leaf for leaf, kind in zip(leaves, key[1], strict=True) if kind is not STATIC])
            return Lowered(compiler, key, entry, path.expressions(), path.program, None)
        return Lowered(compiler, key, entry, entry.trace.expressions, entry.program, again)

    def cache_info(self) -> CacheInfo:
        """Return the numbers of calls with and without a compiled program, and the paths."""
        compiler, entries = self.compiler, list(self.compiler.entries.values())
        info = CacheInfo(compiler.hits, compiler.misses, sum([kept.size for kept in entries]))
        info._guards = [guards for kept in entries if isinstance(kept, Paths) for guards in kept.guards]
        return info

    def clear_cache(self) -> None:
        """Drop all compiled programs of this function, and reset the counts of `cache_info` to zero."""
        self.compiler.clear()

    def explain_recompile(self) -> str:
        """Return a message that names the argument that caused the last compilation, and its change.

        If the function has paths, the message shows the guards of the newest one, with their lines.
        """
        return self.compiler.explain()


def _compiles(make: Callable[Concatenate[Callable[..., Any], Q], Any]) -> Compiles[Q]:
    return cast("Compiles[Q]", transform(make))


@_compiles
def jit(
    f: Callable[P, R],
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    backend: str | None = None,
    exact: bool = False,
    max_entries: int | None = MAX_ENTRIES,
    guards: bool = True,
    max_paths: int = MAX_PATHS,
    donate_argnums: int | Sequence[int] = (),
    donate_argnames: str | Sequence[str] = (),
) -> CompiledFunction[P, R]:
    """Return a compiled version of `f`, with the same results.

    `jit` traces `f` once per structure, dtypes and shapes of the arguments. If Python code of `f` needs a value, as `if` and
    `while` do, `jit` uses the value of this call and compiles a path with a guard. A call with other values at the guards takes
    another path, which is traced if it is new. A loop that ends by a value becomes a native loop for any number of iterations,
    if only Tensors change in it. `float(t)` of a traced float has no guard and raises.

    Variables that `f` reads are inputs of the program. Each call assigns the Variables that `f` assigns. Values that depend on
    no Tensor are computed while tracing and are the same in all calls. Random numbers are such values: they give a
    `FrozenRandomWarning`.

    Dask arrays, as arguments or captured, give lazy results. One task per chunk runs a compiled list with the forward and
    the backward pass, and a tree of tasks adds the results of the chunks. Other operations across chunks, such as a sort, run
    in one task if they are small, and in functions of Dask otherwise. `lower(...).source()` shows the tasks.

    The backend `"xla"` replays the list through `jax.numpy` under `jax.jit`:

    - Arguments may be NumPy or JAX arrays, on any device and with any sharding.
    - Results are JAX arrays and stay on their device. If `jax_enable_x64` is off, JAX arithmetic on float64 results uses
      float32.
    - NumPy computes the operations that XLA does not have, on the host; `functad.coverage()` lists them.
    - Results for Tensors and new values of Variables are NumPy arrays: `jit(grad(f))` stays on a device, `grad(jit(f))`
      does not.
    - XLA cannot raise errors and gives no warnings. A read out of bounds gives NaN (for integers the least signed or the
      largest unsigned number, for booleans `True`). A write out of bounds is dropped. Singular matrices give infinities or
      NaN. Products may overflow in another order than in NumPy.

    Args:
        f: a function of NumPy code. Without `f`, `jit` returns a decorator.
        static_argnums: positions of arguments that are not traced. `f` is compiled for each value of them. The values must be
            hashable. Arguments that are not arrays or numbers are always static. Negative positions count from the last
            parameter, or from the last argument of a call if `f` has a parameter such as `*args`.
        static_argnames: names of such arguments. Both options apply to positional and to keyword arguments.
        backend: `"llvm"` (machine code, needs the extra `jit`), `"numpy"`, or `"xla"` (for GPUs and other devices, needs the
            extra `xla` with JAX). Default: `"llvm"` if it is installed, else `"numpy"`.
        exact: skip rewrites that may change the last digit of a result or the sign of a zero, such as `x * (1 / c)` in place
            of `x / c`. The default backend is then `"numpy"`, and its results equal the results of `f` bit for bit.
        max_entries: the maximal number of compiled programs that the function keeps. Beyond it, the least recently used
            program is dropped, and compiled again when it is needed. `None` keeps all programs.
        guards: `False` to raise `AbstractValueError` where `f` needs a value.
        max_paths: the maximal number of paths for one kind of arguments. Calls that take other paths run `f` itself, with one
            `RecompileWarning`.
        donate_argnums: positions of arguments that the caller does not read after the call. A result of the same shape and
            dtype may be written into the memory of such an array, which saves the time to allocate memory. The backend
            `"llvm"` overwrites large contiguous arrays that own their memory and share it with no other argument. The backend
            `"xla"` passes the option to `jax.jit`. The backend `"numpy"` ignores it.
        donate_argnames: names of such arguments. Both options apply to positional and to keyword arguments.

    Returns:
        A function with the signature of `f` and with the methods `lower(*args)`, `cache_info()`, `clear_cache()` and
        `explain_recompile()`.

    Raises:
        AbstractValueError: `f` needs the value of a float, of a Tensor in a batch, or in the body of a loop or branch; or it
            needs a value and `guards` is `False`.
        InputError: an argument is static and donated, a static argument cannot be hashed, an argument is a random generator,
            the backend does not exist, or `max_entries` or `max_paths` is not a positive integer.
        MissingPackageError: the backend needs a package that is not installed.
        OutputError: `f` returned a value that is not a pytree of arrays.

    Example:
        >>> import numpy as np, functad
        >>> @functad.jit
        ... def loss(w, x):
        ...     return np.sum(np.tanh(x @ w) ** 2)
        >>> loss(np.ones(2), np.eye(2)).round(4)
        np.float64(1.1601)
        >>> functad.grad(loss)(np.ones(2), np.eye(2)).round(4)
        array([0.6397, 0.6397])
        >>> loss.cache_info().size
        1
        >>> @functad.jit
        ... def root(a):
        ...     x = a
        ...     while abs(x * x - a) > 1e-6 * a:
        ...         x = 0.5 * (x + a / x)
        ...     return x
        >>> [round(root(a), 3) for a in (2.0, 3.0, 50.0)], root.cache_info().size
        ([1.414, 1.732, 7.071], 1)
    """
    if max_entries is not None and (type(max_entries) is not int or max_entries < 1):
        raise InputError(
            f"jit of {name_of(f)}, at {here()}: max_entries is {max_entries!r}. Pass a positive integer, or None for no limit."
        )
    if type(max_paths) is not int or max_paths < 1:
        raise InputError(f"jit of {name_of(f)}, at {here()}: max_paths is {max_paths!r}. Pass a positive integer.")
    static = static_places(f, static_argnums, static_argnames)
    donated = static_places(f, donate_argnums, donate_argnames, "donate")
    if both := [*sorted(static[1] & donated[1]), *sorted(static[0] & donated[0])]:
        raise InputError(
            f"jit of {name_of(f)}, at {here()}: the argument {both[0]} is static and donated. Leave out one of both."
        )
    found = find("numpy" if exact and backend is None else backend, exact)
    compiler = Compiler(f, *static, found, exact, max_entries, guards, max_paths, donated)

    call = compiler.__call__  # binding once saves half of the time of a call

    @functools.wraps(f)
    def jitted(*args: P.args, **kwargs: P.kwargs) -> Any:
        return call(args, kwargs)

    made = Jitted.of(jitted)
    made.compiler = compiler
    return cast("CompiledFunction[P, R]", made)
