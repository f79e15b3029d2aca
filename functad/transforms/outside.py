"""State outside of a function: Tensors that it may read, and random generators that it may draw from.

The state may be in closures, globals, attributes, items of containers, and static arguments.

Tensors. A compiled function keeps the plain values that it read while it was traced. A later call under a transform or a tape
may find a Tensor in the same place, and its derivative must not be lost. `Outside` therefore follows all references that the
function's code can reach, like a garbage collector, and searches for Tensors of active traces. The search follows the names
that code reads, also in modules of Python and NumPy to which a user added a name. It assumes that code of Python, NumPy, SciPy
and functad reads user state only through its arguments. Local variables of callers are not searched: a function that reads
`f_locals` counts as one that may read a Tensor. `Outside` also stores every reference that it followed. Its answer is valid
while all references are the same. The comparison takes about 40 ns per reference.

Random numbers. A traced function runs once, so a random number becomes a constant of the expression list. Each evaluation of
the list, and each step of a traced loop, uses the same number, whereas eager execution draws a new number each time. NumPy's
random functions take no Tensors, so the trace does not record the draw. But each draw changes the state of a generator.
`RandomStates` compares these states before and after a trace:

- the global generators: NumPy's, the generator of Python's module `random`, and those registered in `GLOBAL`;
- every generator that the function can reach.

Generators that the function creates itself are not included. With a fixed seed they return the same numbers in eager execution.
Draws without a visible state are not detected, such as `os.urandom`, `secrets`, or `np.random.default_rng()` in the function.
"""

from __future__ import annotations

import builtins
import dis
import gc
import importlib
import random
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from operator import is_
from types import BuiltinFunctionType, CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any, NamedTuple
from weakref import ReferenceType

import numpy as np

from functad.errors import FrozenRandomWarning, InputError
from functad.places import call_of, is_internal, warn
from functad.primitives.entry import Primitive
from functad.process import context_variable, setting
from functad.tracing.trace import Recorded, resolve
from functad.transforms.transform import Transformed

MOST = 20_000
"""Maximal number of visited objects. A function that reaches more objects is treated as one that may read a Tensor."""

_MISSING = object()

_ATOMS = (
    *(int, float, complex, str, bytes, bytearray, bool, type(None), range, CodeType, np.dtype, np.generic, np.ufunc),
    *(GetSetDescriptorType, MemberDescriptorType, Primitive, type(vars(Iterable)["_abc_impl"])),
)
"""Types of objects that never refer to a Tensor."""

_BUILTINS = vars(builtins)

_RUNNING = ("gi_frame", "cr_frame", "ag_frame")
"""Prefixes of the attributes of generators, coroutines and asynchronous generators."""

_ANY_GLOBAL = frozenset({"globals", "eval", "exec", "locals", "vars", "currentframe", "_getframe"})
_ANY_ATTRIBUTE = frozenset({"getattr", "vars", "__dict__", "__getattribute__", "attrgetter", "eval"})
_ANY_MODULE = frozenset({"modules", "import_module", "__import__"})


class Outside:
    """The objects that are reachable from a function at one time.

    Args:
        roots: the function, and the static arguments of its trace.

    Attributes:
        holds_tensor: a Tensor of an active trace is reachable.
        is_known: the search was complete, or found a Tensor.
    """

    def __init__(self, roots: Iterable[Any]) -> None:
        self.holds_tensor, self.is_known = False, True
        self._containers: dict[int, Any] = {}
        self._globals: dict[tuple[int, str], tuple[dict[str, Any], str]] = {}
        self._asked: list[Callable[[], Any]] = []
        self._idle: list[Any] = []
        self._content: list[Any] = []
        _Search(self).run(roots)
        if self.holds_tensor or not self.is_known:  # drop all references, which could keep a trace alive
            self._containers, self._globals, self._asked, self._idle = {}, {}, [], []
        else:
            self._content = self._now()

    def changed(self) -> bool:
        """Return `True` if a followed reference has changed, or an inactive Tensor has become active."""
        if not self.is_known:
            return False
        if self.holds_tensor:
            return True
        now = self._now()
        if len(now) != len(self._content) or not all(map(is_, now, self._content)):
            return True
        return any(isinstance(resolve(tensor), Recorded) for tensor in self._idle)

    def _now(self) -> list[Any]:
        """Return the current references, in a fixed order."""
        found = gc.get_referents(*self._containers.values())
        found += [space.get(name, _MISSING) for space, name in self._globals.values()]
        for ask in self._asked:
            found += ask()
        return found


class _Search:
    """The search for Tensors through an object graph."""

    def __init__(self, outside: Outside) -> None:
        self.outside = outside
        self.seen: dict[int, Any] = {}
        self.stack: list[Any] = []
        self.modules: dict[int, ModuleType] = {}
        self.internal_modules: dict[int, ModuleType] = {}
        self.names: set[str] = set()
        self.codes: set[tuple[int, int]] = set()

    def run(self, roots: Iterable[Any], most: int | None = None) -> None:
        """Follow references until a Tensor is found, no object is left, or more than `most` objects were visited."""
        most = MOST if most is None else most
        self.stack += roots
        while self.stack or self._from_modules():
            value = self.stack.pop()
            if id(value) in self.seen or isinstance_of(value, _ATOMS):
                continue
            if type(value) is np.ndarray and not value.dtype.hasobject:
                continue
            self.seen[id(value)] = value
            if self._is_followed(value):
                self.outside.holds_tensor = True
                return
            if len(self.seen) > most:
                self.outside.is_known = False
                return
        if "f_locals" in self.names:
            self.outside.is_known = False

    def _is_followed(self, value: Any) -> bool:
        """Return `True` if a value is a Tensor of an active trace; otherwise push the referents of the value."""
        kind = type(value)
        if issubclass(kind, Recorded):
            if isinstance_of(resolve(value), Recorded):
                return True
            self.outside._idle.append(value)
        elif hasattr(kind, "__functad_read__"):  # a Variable is an input of every list that reads it
            pass
        elif issubclass(kind, ModuleType):
            self._add_module(value)
        elif value is sys.modules or value is importlib.import_module:
            self._add_modules(())
        elif kind is FunctionType:
            self._add_function(value)
        elif issubclass(kind, type):
            self._add_class(value)
        elif issubclass(kind, Transformed):
            self.stack += [value.given, *[part for name, part in vars(value).items() if name != "compiler"]]
        elif issubclass(kind, (ContextVar, ReferenceType, threading.local)):
            self._add_asked(kind, value)
        elif issubclass(kind, np.ndarray):
            self._add_array(value)
        elif kind is BuiltinFunctionType:
            self.stack.append(value.__self__)
        else:
            self._add_running(value)
            self._add_container(value)
        return False

    def _add_container(self, value: Any) -> None:
        self.outside._containers[id(value)] = value
        self.stack += gc.get_referents(value)

    def _add_running(self, value: Any) -> None:
        """Add the globals that the code of a generator or coroutine reads."""
        for name in _RUNNING:
            frame = getattr(value, name, None) if hasattr(type(value), name) else None
            if frame is not None and not is_internal(frame.f_code.co_filename):
                self._add_code(frame.f_code, frame.f_globals)

    def _add_array(self, value: Any) -> None:
        """Add the elements of an object array, and the attributes of an array of a subclass."""
        if value.dtype.hasobject:
            self._ask(lambda: value.ravel().tolist())
        if type(value) is not np.ndarray:
            self._add_container(value)

    def _add_asked(self, kind: type, value: Any) -> None:
        """Add the value of a context variable, of a weak reference, or of this thread in a thread-local object."""
        if issubclass(kind, ContextVar):
            self._ask(lambda: [value.get(None)])
        elif issubclass(kind, ReferenceType):
            self._ask(lambda: [value()])
        else:
            self._ask(lambda: [*vars(value).values()])
            self.stack.append(kind)

    def _ask(self, ask: Callable[[], list[Any]]) -> None:
        self.outside._asked.append(ask)
        self.stack += ask()

    def _add_function(self, f: FunctionType) -> None:
        """Add the closure, defaults, annotations and attributes of a function, and the names that its code reads."""
        own: Any = f  # type checkers do not know `__builtins__`
        spaces = own.__globals__, own.__builtins__
        self.stack += [part for part in gc.get_referents(f) if part is not spaces[0] and part is not spaces[1]]
        self.outside._containers[id(f)] = f
        if not is_internal(f.__code__.co_filename):
            self._add_code(f.__code__, f.__globals__)

    def _add_code(self, code: CodeType, space: dict[str, Any]) -> None:
        if (id(code), id(space)) in self.codes:
            return
        self.codes.add((id(code), id(space)))
        reads = _reads_of(code)
        self.names |= reads.names
        self.seen[id(code)] = code
        for name in list(space) if reads.any_global else reads.globals:
            self._add_global(space, name)
            if name not in space and type(_BUILTINS.get(name)) not in (BuiltinFunctionType, type):
                self._add_global(_BUILTINS, name)
        package = space.get("__package__")
        for name in reads.imports:
            self._add_modules((name, f"{package}.{name}"), named=True)
        if reads.any_module:
            own = (space.get("__name__"),) if "__name__" in reads.globals else ()
            self._add_modules((*own, *reads.strings, *[f"{package}{text}" for text in reads.strings if text[:1] == "."]))
        for inner in reads.inner:
            self._add_code(inner, space)

    def _add_global(self, space: dict[str, Any], name: str) -> None:
        if (id(space), name) not in self.outside._globals:
            self.outside._globals[id(space), name] = space, name
            self.stack.append(space.get(name))

    def _add_modules(self, names: Iterable[Any], *, named: bool = False) -> None:
        """Add the modules with some names; all modules if there is none, unless the names are surely names of modules."""
        found = [sys.modules[name] for name in names if name in sys.modules]
        for module in found if found or named else list(sys.modules.values()):
            if issubclass(type(module), ModuleType):
                self._add_module(module)

    def _add_module(self, module: ModuleType) -> None:
        own = self.internal_modules if _is_internal_module(module) else self.modules
        if id(module) not in own:
            own[id(module)] = module
            if own is self.modules:
                space = vars(module)
                self._ask(lambda: [_token(len(space))])  # a name that code looks for may be added later

    def _from_modules(self) -> bool:
        """Add the attributes of modules that code reads by name; return `True` if the stack is not empty."""
        anything = not self.names.isdisjoint(_ANY_ATTRIBUTE)
        for module in list(self.modules.values()):
            space = vars(module)
            for name in list(space) if anything else self.names & space.keys():
                self._add_global(space, name)
        for module in list(self.internal_modules.values()):
            space = vars(module)
            for name in self.names & space.keys():
                if _is_of_user(space[name]):
                    self._add_global(space, name)
        return bool(self.stack)

    def _add_class(self, kind: type) -> None:
        """Add the attributes and bases of a class of the user."""
        module = sys.modules.get(name) if isinstance(name := getattr(kind, "__module__", None), str) else None
        if module is not None and _is_internal_module(module):
            return
        spaces = [part for part in gc.get_referents(kind) if type(part) is dict]
        for space in spaces[:1]:
            self.outside._containers[id(space)] = space
            self.stack += space.values()
        self.stack += [type(kind), *kind.__bases__]


class _SearchOfTypes(_Search):
    """The search for objects of some types, which does not end at Tensors."""

    def __init__(self, kinds: tuple[type, ...]) -> None:
        super().__init__(Outside(()))
        self.kinds = kinds
        self.found: list[Any] = []

    def _is_followed(self, value: Any) -> bool:
        if isinstance_of(value, self.kinds):
            self.found.append(value)
        else:
            super()._is_followed(value)
        return False


def reachable(roots: Iterable[Any], kinds: tuple[type, ...], most: int | None = None) -> list[Any]:
    """Return the objects of some types that code and data can reach from `roots`, among the first `most` or `MOST` objects."""
    search = _SearchOfTypes(kinds)
    search.run(roots, most)
    return search.found


class _Reads(NamedTuple):
    """The names that a code object reads.

    Attributes:
        globals: names of globals.
        names: all names, and strings that may be names.
        imports: names that may be modules.
        strings: strings that may be names of modules.
        any_global: the code may read any global, for example with `eval`.
        any_module: the code may read any module, for example with `sys.modules`.
        inner: the code objects of nested functions.
    """

    globals: frozenset[str]
    names: frozenset[str]
    imports: frozenset[str]
    strings: tuple[str, ...]
    any_global: bool
    any_module: bool
    inner: tuple[CodeType, ...]


@lru_cache(maxsize=4096)
def _reads_of(code: CodeType) -> _Reads:
    """Return the names that a code object reads.

    Names that start with `@`, such as `@py_builtins`, are skipped. Assertions rewritten by pytest read them, and a search
    through them would visit the test session and all tests.
    """
    steps = list(dis.get_instructions(code))
    globals_read = [i.argval if i.opname in ("LOAD_GLOBAL", "LOAD_NAME") else "" for i in steps]
    found = frozenset([name for name in globals_read if name and not name.startswith("@")])
    imports = frozenset([i.argval for i in steps if i.opname in ("IMPORT_NAME", "IMPORT_FROM")])
    strings = tuple([c for c in code.co_consts if type(c) is str])
    by_name = [
        i.argval for i, before in zip(steps, ["", *globals_read], strict=False) if i.opcode in dis.hasname and before[:1] != "@"
    ]
    names = frozenset([*by_name, *[c for c in strings if c.isidentifier()]])
    inner = tuple([c for c in code.co_consts if type(c) is CodeType])
    any_global, any_module = [not names.isdisjoint(each) for each in (_ANY_GLOBAL, _ANY_MODULE)]
    return _Reads(found, names, imports, strings, any_global, any_module, inner)


def isinstance_of(value: Any, kinds: Any) -> bool:
    """Return `isinstance(value, kinds)` by `type(value)`: `isinstance` treats a Tensor as its value."""
    return issubclass(type(value), kinds)


@lru_cache(maxsize=4096)
def _token(number: int) -> object:
    """Return the same object for the same number: references are compared by identity."""
    return object()


def _is_of_user(value: Any) -> bool:
    """Return `True` if an attribute of a module of Python, NumPy, SciPy or functad may be one that a user added."""
    if type(value) is FunctionType:
        return not is_internal(value.__code__.co_filename)
    return issubclass(type(value), Recorded) or not callable(value)


def _is_internal_module(module: ModuleType) -> bool:
    """Return `True` for modules of Python, NumPy, SciPy and functad."""
    file = getattr(module, "__file__", None)
    if isinstance(file, str):
        return is_internal(file)
    name = str(getattr(module, "__name__", "")).partition(".")[0]
    return name in sys.stdlib_module_names or name in sys.builtin_module_names


# Random generators

GLOBAL: list[Callable[[], Any]] = [lambda: np.random.mtrand._rand, lambda: random.getstate.__self__]  # type: ignore[attr-defined]
"""Functions that return the global generators: NumPy's, Python's, and generators that modules register here."""

_MOST_IN_BODY = 2000
"""Maximal number of objects visited from the body of a loop or a branch inside another trace."""

_WATCHED: ContextVar[dict[int, Any] | None] = context_variable("watched_generators", default=None)
"""The generators that enclosing traces compare, by `id`; `None` if no enclosing trace compares states."""


def refuse_generator(function: object, argument: Any) -> None:
    """Check that an argument of a compiled function is no random generator.

    Raises:
        InputError: the argument is a random generator. The function is traced once, so all calls would use the same numbers.
    """
    if issubclass(type(argument), _generator_types()):
        raise InputError(
            f"{call_of('jit', function)}: an argument is a random generator, {type(argument).__name__}. The function would "
            f"draw once, while it is traced, and all calls would use the same numbers. Draw outside and pass the numbers: "
            f"f(x, rng.normal(size=3)). Or name the argument in static_argnames if the same numbers are meant."
        )


def _generator_types() -> tuple[type, ...]:
    return np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random


class RandomStates:
    """The states of random generators, at one time.

    Args:
        roots: objects where the search for generators starts. The global generators are included unless `known` is given.
        known: generators to exclude, by `id`.

    Attributes:
        generators: the generators found, by `id`.
    """

    def __init__(self, roots: Iterable[Any], known: dict[int, Any] | None = None) -> None:
        found = [] if known is not None else [get() for get in GLOBAL]
        kinds = (*_generator_types(), np.random.SeedSequence)
        found += reachable(roots, kinds) if known is None else reachable(roots, kinds, _MOST_IN_BODY)
        self.generators = {id(g): g for g in found if known is None or id(g) not in known}
        self._before = [(g, _state_of(g)) for g in self.generators.values()]

    def drawn(self) -> list[str]:
        """Return the names of the generators with a changed state."""
        return list(dict.fromkeys([_name_of(g) for g, before in self._before if _state_of(g) != before]))


@contextmanager
def frozen_in(transform: str, function: object, roots: Iterable[Any]) -> Iterator[None]:
    """Warn if a function draws random numbers while the `with` block traces it for later evaluations.

    Generators that an enclosing trace compares are excluded; that trace warns about them.
    """
    with _compared(roots, _WATCHED.get()) as states:
        yield
    if drawn := states.drawn():
        message = (
            f"{call_of(transform, function)}: the function drew random numbers from {' and '.join(drawn)} while it was traced, "
            f"and every evaluation uses these same numbers. Draw them outside of the function and pass them as an argument, or "
            f"leave {transform} out."
        )
        warn(FrozenRandomWarning(message))


@contextmanager
def frozen_in_bodies(transform: str, bodies: Sequence[Callable[..., Any]]) -> Iterator[None]:
    """Warn if the body of a loop or a branch draws from a generator that the enclosing function created.

    The enclosing trace warns about other generators. Without an enclosing trace that compares states there is no warning,
    because the body is not evaluated again later.
    """
    around = _WATCHED.get()
    if around is None:
        yield
        return
    with _compared(bodies, around) as states:
        yield
    if drawn := states.drawn():
        message = (
            f"{call_of(transform, bodies[-1])}: the function drew random numbers from {' and '.join(drawn)} while it was "
            f"traced, {_CHOICE if transform in ('cond', 'switch') else _STEPS}"
        )
        warn(FrozenRandomWarning(message))


_CHOICE = "as every branch is, taken or not. Draw them before the choice and pass them as operands."
_STEPS = (
    "once for all steps, and all steps use these same numbers. Draw them before the loop and pass them to functad.scan as "
    "rows: scan(f, init, rng.normal(size=n))."
)


@contextmanager
def _compared(roots: Iterable[Any], around: dict[int, Any] | None) -> Iterator[RandomStates]:
    """Return the states before the `with` block; traces inside the block exclude these generators."""
    states = RandomStates(roots, around)
    with setting(_WATCHED, {**(around or {}), **states.generators}):
        yield states


@contextmanager
def trial() -> Iterator[None]:
    """Restore the states of the compared generators after the `with` block.

    The block calls a function for another reason than its result, such as a user's function on arrays of ones, to find the
    shape of the result. Its random numbers do not become constants, because each evaluation calls the function again.
    """
    before = [(g, _raw_state_of(g)) for g in (_WATCHED.get() or {}).values()]
    try:
        yield
    finally:
        for generator, state in before:
            if state is not None and _comparable(_raw_state_of(generator)) != _comparable(state):
                _restore(generator, state)


def _state_of(generator: Any) -> Any:
    """Return the state of a generator as a value for `==`, with the number of spawned children."""
    seeds = getattr(getattr(generator, "bit_generator", generator), "seed_seq", generator)
    return _comparable(_raw_state_of(generator)), getattr(seeds, "n_children_spawned", 0)


def _raw_state_of(generator: Any) -> Any:
    """Return the state of a generator in its own format; `None` if the state is not accessible."""
    kind = type(generator)
    try:
        if issubclass(kind, random.Random):
            return generator.getstate()
        if issubclass(kind, np.random.RandomState):
            return generator.get_state(legacy=False)
        return (generator if issubclass(kind, np.random.BitGenerator) else generator.bit_generator).state
    except (AttributeError, NotImplementedError):  # a SeedSequence, or a generator that reads from the operating system
        return None


def _restore(generator: Any, state: Any) -> None:
    """Set the state of a generator."""
    kind = type(generator)
    if issubclass(kind, random.Random):
        generator.setstate(state)
    elif issubclass(kind, np.random.RandomState):
        generator.set_state(state)
    else:
        (generator if issubclass(kind, np.random.BitGenerator) else generator.bit_generator).state = state


def _comparable(state: Any) -> Any:
    """Return a state with arrays in nested dictionaries replaced by bytes, for comparison by `==`."""
    if isinstance(state, dict):
        return {name: _comparable(value) for name, value in state.items()}
    return state.tobytes() if type(state) is np.ndarray else state


def _name_of(generator: Any) -> str:
    if generator is np.random.mtrand._rand:
        return "np.random"
    if generator is random.getstate.__self__:  # type: ignore[attr-defined]
        return "Python's module random"
    kind = type(generator)
    return f"a generator of the type {kind.__module__.removesuffix('._generator').removesuffix('.mtrand')}.{kind.__qualname__}"
