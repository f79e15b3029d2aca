"""`jit`: a function that is traced once for each structure and kind of its arguments, and compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar, cast

import numpy as np

from functad.backends.backend import Backend, find
from functad.backends.refusals import OtherArgumentsError
from functad.chunks.program import chunks_of, in_chunks
from functad.compilation.collector import collector_paused
from functad.compilation.error_modes import CHECKED, are_heard, modes
from functad.compilation.kinds import (
    SCALAR,
    STATIC,
    TENSOR,
    Same,
    Static,
    is_foreign,
    likeness_of,
    quick_key,
    shown,
    static_places,
)
from functad.compilation.lists import CompiledList
from functad.compilation.lowered import CacheInfo, CompiledFunction, Compiles, Lowered
from functad.compilation.simplify import simplified
from functad.compilation.trace import Cell, Trace
from functad.errors import InputError, RecompileWarning
from functad.exact_keys import Exact, exact_key
from functad.expressions.expressions import Constant
from functad.expressions.spec import PLAIN, PYTHON_SCALARS, is_array, spec_of, type_of
from functad.namespaces.array import NamespaceArray, wrapped
from functad.places import call_of, here, name_of, warn
from functad.primitives.operands import foreign_rules
from functad.primitives.safe import STRICT
from functad.tracing.layouts import in_c_order
from functad.tracing.tensor import Tensor
from functad.tracing.traces.base import LIVE, WATCHER, Recorded, resolve
from functad.tracing.traces.idle import idle, is_plain
from functad.transforms.abstract import input_names
from functad.transforms.calling.arguments import value_of
from functad.transforms.calling.decorators import Transformed, decorator
from functad.transforms.leaves import replaced
from functad.transforms.outside import Outside
from functad.transforms.random_states import refuse_generator
from functad.trees.structure import LEAF, Structure, flatten, structure_of_call

if TYPE_CHECKING:
    from functad.transforms.calling.signatures import Maker

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")

MANY = 16
"""So many compilations of one function give a warning: its arguments change their shapes from call to call."""


class Entry:
    """The compiled function for one kind of arguments.

    Attributes:
        trace: what was traced.
        program: the compiled list.
        simple: nothing but arguments goes in, and nothing but the result comes out.
        direct: a function of arrays and numbers that does all of it, where known: a third of a tiny call's time.
        strict: the same for arguments that are just as the code reads them, which it finds out itself.
        outside: the state that the function can read, as it was when a call under a trace looked for Tensors.
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

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Run on leaves of arguments, and assign what the function assigned."""
        trace = self.trace
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


class Compiler:
    """What a jitted function knows: its options, and what was compiled of it.

    Attributes:
        f: the function.
        argnums: positions of the arguments that are static.
        argnames: their names.
        backend: what compiles.
        exact: no bit of a result is to be another than that of the operations that were traced.
        entries: what was compiled, by what it was compiled for.
        quick: the same for calls with arrays and numbers alone, by what takes less time to find.
        foreign: types of arrays that are not NumPy's, which calls had among their arguments.
    """

    def __init__(
        self, f: Callable[..., Any], argnums: frozenset[int], argnames: frozenset[str], backend: Backend, exact: bool = False
    ) -> None:
        self.f = f
        self.argnums = argnums
        self.argnames = argnames
        self.backend = backend
        self.exact = exact
        self.entries: dict[Any, Entry] = {}
        self.quick: dict[Any, Entry] = {}
        # The last entry, if it looks at its arguments itself, and their number.
        self.usual: tuple[int, Callable[..., Any]] | None = None
        self.foreign: set[type] = set()
        self.hits = self.misses = 0
        self.last_miss: tuple[Any, Any] | None = None

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the compiled function, which is compiled first if this kind of arguments is new; or the function itself."""
        if WATCHER.get() is not None or (modes() is not CHECKED[0] and self.backend.plain is None and are_heard()):
            return self.f(*args, **kwargs)
        quick = usual = None
        if not kwargs and not LIVE and not STRICT.get():
            if (usual := self.usual) is not None and usual[0] == len(args):
                self.hits += 1
                try:
                    return usual[1](*args)
                except OtherArgumentsError:
                    self.hits, self.usual = self.hits - 1, None
            quick = quick_key(args, self.foreign)
            if quick is not None and (entry := self.quick.get(quick)) is not None:
                self.hits += 1
                if usual is not None and entry.strict is usual[1]:  # arguments that it is compiled for, and does not know
                    entry.strict = None
                elif entry.strict is not None:
                    self.usual = len(args), entry.strict
                return entry.direct(*args) if entry.direct is not None else entry(args)
        leaves, structure, key = self.key(args, kwargs)
        entry = self.entries.get(key)
        if entry is None or (LIVE and self._may_read_tensors(entry, leaves, key)):
            entry = self.compiled(leaves, structure, key, len(args), entry)
        else:
            self.hits += 1
        if quick is not None and min(self.argnums, default=len(args)) >= len(args) == len(leaves):
            self.quick[quick] = entry
        elif self.backend.plain is not None:  # arrays of the backend's own are arguments of the next calls too
            self.foreign |= {type(a) for a, kind in zip(leaves, key[1], strict=True) if is_foreign(a, kind)}
        return entry([leaf for leaf, kind in zip(leaves, key[1], strict=True) if kind is not STATIC])

    def _may_read_tensors(self, entry: Entry, leaves: Sequence[Any], key: Any) -> bool:
        """Return `True` if the function can reach a Tensor that a trace follows, where the list may hold a plain value."""
        outside = entry.outside
        if outside is None or outside.changed():
            static = [leaf for leaf, kind in zip(leaves, key[1], strict=True) if kind is STATIC]
            outside = entry.outside = Outside([self.f, static, key[0].value])
        return outside.holds_tensor or not outside.is_known

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Structure, Any]:
        """Return the leaves of arguments, how they are put together, and what is equal for calls that one list serves."""
        static: list[Any] = []
        if self.argnums or self.argnames:
            static = [(i, args[i]) for i in sorted(self.argnums) if i < len(args)]
            static += [(name, kwargs[name]) for name in sorted(self.argnames & kwargs.keys())]
            args = tuple([Static(a) if i in self.argnums else a for i, a in enumerate(args)])
            kwargs = {name: Static(a) if name in self.argnames else a for name, a in kwargs.items()}
        usual = None if kwargs else structure_of_call(args)
        leaves, structure = flatten((args, kwargs)) if usual is None else (list(args), usual)
        kinds: list[Any] = []
        for i, leaf in enumerate(leaves):
            kind = type(leaf)
            if kind is np.ndarray:
                kinds.append((leaf.dtype, leaf.shape, leaf.flags.c_contiguous))
            elif kind in PYTHON_SCALARS:
                kinds.append(kind)
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
        """Return a leaf that is no array of NumPy's as it is to be handed on, and its kind."""
        if isinstance(leaf, Static):
            return leaf.value, STATIC
        if hasattr(type(leaf), "__functad_read__"):  # it is read, and perhaps assigned, by the function
            static.append(Same(leaf))
            return leaf, STATIC
        own = value_of(leaf) if isinstance(leaf, Recorded) else leaf
        if isinstance(own, Recorded) or (is_array(own) and not isinstance(own, type)):  # np.float32 has attributes of arrays
            self._refuse_foreign(own)
            spec = spec_of(own)
            if spec.weak:
                return own, type_of(spec)
            if spec.dtype.kind in "biufc":
                scalar = not (spec.shape or spec.zero_d)  # a function may write to an array of shape (), not to a scalar
                kind = spec.dtype, spec.shape, chunks_of(own) or (SCALAR if scalar else in_c_order(own))
                return own, kind if own is leaf else (*kind, TENSOR)
        elif type(own) in PYTHON_SCALARS:
            return own, (type(own), TENSOR)
        refuse_generator(self.f, own)
        static.append(leaf)
        return leaf, STATIC

    def _refuse_foreign(self, value: Any) -> None:
        """Refuse an array that compiled code would do something else with than NumPy's functions, or could not read.

        Raises:
            InputError: it is a masked array, a matrix, one with units or labels, or one of a library with the array API alone.
        """
        own = wrapped(value)
        if type(own) in PLAIN or isinstance(own, Recorded):
            return
        if type(own) is not NamespaceArray:
            if (reason := foreign_rules(own)) is not None:
                raise InputError(f"{call_of('jit', self.f)}: an argument is a {type(own).__name__}. {reason}")
            return
        name = own.library.name
        if not name.startswith("jax") or self.backend.plain is None:
            cure = 'Take jit(f, backend="xla"), for arrays of JAX' if name.startswith("jax") else "Leave jit out"
            raise InputError(
                f"{call_of('jit', self.f)}: compiled code reads arrays of NumPy, and was given one of {name}. {cure}; or "
                f"convert it: np.asarray(x)."
            )

    def _refuse_unhashable(self, static: Sequence[Any], structure: Structure) -> NoReturn:
        for value in static:
            try:
                hash(exact_key(value))
            except TypeError:
                own = value[1] if type(value) is tuple and len(value) == 2 else value  # with its place, or by itself
                raise InputError(
                    f"{call_of('jit', self.f)}: a static argument is a {type(own).__name__}, which cannot be hashed. "
                    f"Pass a tuple instead of a list, or an array instead of what is no number."
                ) from None
        raise InputError(
            f"{call_of('jit', self.f)}: a container among the arguments has data that cannot be hashed: {structure!r}. "
            f"Let its class keep tuples and strings there."
        ) from None

    def compiled(self, leaves: Sequence[Any], structure: Structure, key: Any, count: int, known: Entry | None = None) -> Entry:
        """Trace and compile the function for a kind of arguments.

        If it reads no Tensor of another trace, an entry that is known already is good for this call too.
        """
        kinds = key[1]
        places = [i for i, kind in enumerate(kinds) if kind is not STATIC]
        f, names = self.f, input_names(self.f, structure, count)

        def of_leaves(*own: Any) -> Any:
            args, kwargs = structure.unflatten(replaced(leaves, places, own))
            return f(*args, **kwargs)

        with collector_paused():
            tensors = [i for i, place in enumerate(places) if type(kinds[place]) is tuple and kinds[place][-1] is TENSOR]
            static = [*[leaf for leaf, kind in zip(leaves, kinds, strict=True) if kind is STATIC], structure]
            trace = Trace(
                of_leaves, f, [leaves[i] for i in places], [names[i] for i in places], tensors, static, not self.backend.plain
            )
            if known is not None and not trace.captured:
                self.hits += 1
                return known
            for equation in trace.expressions.equations:
                for source in equation.inputs:
                    if isinstance(source, Constant):
                        self._refuse_foreign(source.value)
            own = simplified(trace.expressions, self.exact, fused=self.backend.fuses)
        backend = in_chunks(self.backend, [leaves[i] for i in places], own) or self.backend
        program = CompiledList(own, backend, f, self.exact, trace.expressions)
        entry = Entry(trace, program)
        self.misses += 1
        if not trace.captured:  # a list with Tensors of other traces is good for this call alone
            self.last_miss = key, self._nearest(key)
            self.entries[key] = entry
            if len(self.entries) == MANY:
                warn(
                    RecompileWarning(
                        f"jit of {name_of(f)} has been compiled {MANY} times, at {here()}. {self.explain()} Pad arrays to one "
                        f"shape, or leave out jit where shapes change from call to call."
                    )
                )
        return entry

    def _nearest(self, key: Any) -> Any:
        """Return the key of the compiled list whose arguments are most like those of another key."""

        def likeness(other: Any) -> tuple[bool, int]:
            return other[0] == key[0], sum(likeness_of(a, b) for a, b in zip(other[1], key[1], strict=False))

        return max(reversed(self.entries), key=likeness, default=None)

    def explain(self) -> str:
        """Say which argument made the last compilation necessary."""
        if self.last_miss is None:
            return f"{name_of(self.f)} has not been compiled."
        (structure, kinds, static, strict), before = self.last_miss
        if before is None:
            return f"{name_of(self.f)} was compiled at its first call."
        if structure != before[0]:
            return "The structure of the arguments was another: other containers, keys or names."
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
        return f"The last compilation of {name_of(self.f)}: {'; '.join(changes)}."


@functools.cache
def _usual_key(structure: Structure) -> Exact:
    """Return the key of one of the few structures that `structure_of_call` returns."""
    return Exact(structure, structure.exact_key())


class Jitted(Transformed):
    """A compiled function; called, it runs."""

    compiler: Compiler

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Show the list that the function becomes for arguments like these, and the source of what will run."""
        compiler = self.compiler
        leaves, structure, key = compiler.key(args, kwargs)
        entry = compiler.entries.get(key) or compiler.compiled(leaves, structure, key, len(args))
        return Lowered(entry.trace.expressions, entry.program)

    def cache_info(self) -> CacheInfo:
        """Return how often the function was called and compiled."""
        compiler = self.compiler
        return CacheInfo(compiler.hits, compiler.misses, len(compiler.entries))

    def explain_recompile(self) -> str:
        """Say which argument, and what about it, made the last compilation necessary."""
        return self.compiler.explain()


def _compiles(make: Maker[Q, Any]) -> Compiles[Q]:
    return cast("Compiles[Q]", decorator(make))


@_compiles
def jit(
    f: Callable[P, R],
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    backend: str | None = None,
    exact: bool = False,
) -> CompiledFunction[P, R]:
    """Return a function that computes what `f` does by a compiled expression list.

    `f` is traced without values once for each structure, dtypes and shapes of its arguments, so it cannot branch on values:
    `np.where`, `functad.cond` and loops such as `functad.scan` can. Variables that it reads are inputs, and those that it
    assigns are assigned by each call. What no Tensor takes part in, such as random numbers, is computed while tracing, and is
    the same in all calls; random numbers give a `FrozenRandomWarning`.

    Of Dask arrays, as arguments or captured, it gives lazy results: for each chunk one task runs a compiled list, forward and
    backward pass together, and a tree of tasks adds up what the chunks give. What combines the rows otherwise, such as a
    sort, is computed by one task if it is small, and by functions of Dask if not; `lower(...).source()` says what runs where.

    With the backend `"xla"` the list is replayed through `jax.numpy` under `jax.jit`. Arguments may be arrays of NumPy or of
    JAX, on any device and with any sharding; results are arrays of JAX, which stay where they are (with `jax_enable_x64` off,
    arithmetic on those of float64 is JAX's, in float32). What XLA has no operation for, NumPy computes on the host in the
    program; `functad.coverage()` says what. Results for Tensors, and new values of Variables, are handed on as arrays of
    NumPy: `jit(grad(f))` stays on a device, `grad(jit(f))` does not. XLA cannot raise: a read out of bounds gives NaN (of
    integers the least, of booleans true), a write there is dropped, singular matrices give infinities or NaN, products may
    overflow in another order than NumPy's, and there are no warnings.

    Args:
        f: a function of NumPy code; without it a decorator is returned.
        static_argnums: positions of arguments that are not traced: for each value the function is compiled anew. They must be
            hashable. What is no array or number is static without being named.
        static_argnames: names of such arguments. Either option holds however the argument is passed.
        backend: what compiles: `"llvm"` (machine code; it needs the extra `jit`), `"numpy"`, or the best of these that is
            installed; or `"xla"` (it needs the extra `xla`: JAX), for what other devices than the processor compute.
        exact: leave out rewrites that may change the last digit of a result or the sign of a zero, such as multiplying by
            `1 / c` in place of dividing by `c`. The backend is `"numpy"` then, unless another is named, and gives the results
            of `f` bit for bit.

    Returns:
        A function with the signature of `f`, and with the methods `lower(*args)`, `cache_info()` and `explain_recompile()`.

    Raises:
        AbstractValueError: `f` asked for a value.
        InputError: a static argument cannot be hashed, an argument is a random generator, or there is no such backend.
        MissingPackageError: the backend needs a package that is not installed.
        OutputError: `f` returned something that is no tree of arrays.

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
    """
    static = static_places(f, static_argnums, static_argnames)
    compiler = Compiler(f, *static, find("numpy" if exact and backend is None else backend, exact), exact)

    call = compiler.__call__  # bound once, which saves half of the time of a call

    @functools.wraps(f)
    def jitted(*args: P.args, **kwargs: P.kwargs) -> Any:
        return call(args, kwargs)

    made = Jitted.of(jitted)
    vars(made).update(compiler=compiler, transform=jit, given=(f, (static_argnums, static_argnames, backend, exact), {}))
    return cast("CompiledFunction[P, R]", made)
