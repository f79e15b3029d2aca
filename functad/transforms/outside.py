"""State outside of a function: Tensors that it may read, and random generators that it may draw from.

The state may be in closures, globals, attributes, items of containers, and static arguments. `Reach` follows all references
from the function, like a garbage collector, and the names that the code reads, also in modules of Python and NumPy to which a
user added a name. It assumes that code of Python, NumPy, SciPy and functad reads user state only through its arguments.

Tensors. A compiled function keeps the plain values that it read while it was traced. A later call under a transform or a tape
may find a Tensor in the same place, and its derivative must not be lost. `Outside` searches for Tensors of active traces, and
keeps every reference that it followed. Its answer is valid while all references are the same. The comparison takes about 40 ns
per reference. A function that finds modules by computed names, or reads local variables of callers, counts as one that may
read a Tensor.

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
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache, partial
from operator import is_
from types import BuiltinFunctionType, CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any
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

_HELD: tuple[tuple[Any, Callable[[Any], list[Any]]], ...] = (
    (ContextVar, lambda variable: [variable.get(None)]),
    (ReferenceType, lambda reference: [reference()]),
    (threading.local, lambda local: [*vars(local).values(), type(local)]),
)
"""Types of objects that hold others without a reference, and functions that return the held objects."""

_BUILTINS = vars(builtins)
_ANY_GLOBAL = frozenset({"globals", "eval", "exec", "locals", "vars", "currentframe", "_getframe"})
_ANY_ATTRIBUTE = frozenset({"getattr", "vars", "__dict__", "__getattribute__", "attrgetter", "eval"})
_ANYTHING = frozenset({"f_locals", "__import__"})


class Reach:
    """The objects that code and data can reach from some roots.

    Args:
        roots: where the search starts.
        wanted: returns `True` for objects to be found. The search does not follow their references.
        most: maximal number of visited objects.
        once: end the search at the first object that is found.

    Attributes:
        found: the objects that were found.
        is_complete: the search has seen everything that the code can read.
        containers: visited objects, by `id`; the garbage collector knows their references.
        globals: visited names in namespaces.
        asked: functions that return further references.
        modules: visited modules, by `id`, and whether they belong to Python, NumPy, SciPy or functad.
    """

    def __init__(self, roots: Iterable[Any], wanted: Callable[[Any], bool], most: int, *, once: bool = False) -> None:
        self.found: list[Any] = []
        self.is_complete = True
        self.containers: dict[int, Any] = {}
        self.globals: dict[tuple[int, str], tuple[dict[str, Any], str]] = {}
        self.asked: list[Callable[[], list[Any]]] = []
        self.modules: dict[int, tuple[ModuleType, bool]] = {}
        self._seen: dict[int, Any] = {}
        self._stack = list(roots)
        self._names: set[str] = set()
        self._codes: set[tuple[int, int]] = set()
        self._search(wanted, most, once)
        self._seen.clear()  # Tensors among them could keep a trace alive

    def _search(self, wanted: Callable[[Any], bool], most: int, once: bool) -> None:
        while self._stack or self._add_from_modules():
            value = self._stack.pop()
            if id(value) in self._seen or _is(value, _ATOMS):
                continue
            self._seen[id(value)] = value
            if wanted(value):
                self.found.append(value)
                if once:
                    return
            elif len(self._seen) > most or value is sys.modules or value is importlib.import_module:
                self.is_complete = False
                return
            else:
                self._follow(value)
        self.is_complete = self._names.isdisjoint(_ANYTHING)

    def _follow(self, value: Any) -> None:
        """Add the objects that a value refers to."""
        kind = type(value)
        if issubclass(kind, Recorded):
            self._ask(lambda: [_is_active(value)])  # a tape may watch it later
        elif hasattr(kind, "__functad_mask__"):  # a selection
            self._ask(lambda: [value.__functad_mask__()])
        elif hasattr(kind, "__functad_read__"):  # a Variable is an input of every list that reads it
            pass
        elif issubclass(kind, ModuleType):
            self.modules[id(value)] = value, _is_internal_module(value)
        elif issubclass(kind, type):
            if not _is_internal_module(sys.modules.get(getattr(value, "__module__", None))):  # type: ignore[arg-type]
                self._ask(lambda: [*vars(value).values()])
                self._stack += [kind, *value.__bases__]
        elif issubclass(kind, Transformed):
            self._stack += [value.given, *[part for name, part in vars(value).items() if name != "compiler"]]
        elif issubclass(kind, np.ndarray):
            if value.dtype.hasobject:
                self._ask(lambda: value.ravel().tolist())
            if kind is not np.ndarray:  # attributes of a subclass
                self._add_container(value)
        elif held := [read for each, read in _HELD if issubclass(kind, each)]:
            self._ask(partial(held[0], value))
        else:
            self._add_container(value)

    def _ask(self, ask: Callable[[], list[Any]]) -> None:
        self.asked.append(ask)
        self._stack += ask()

    def _add_container(self, value: Any) -> None:
        """Add the references of an object, and the globals that the code of a function reads."""
        self.containers[id(value)] = value
        if type(value) is not FunctionType:
            self._stack += gc.get_referents(value)
            return
        own: Any = value  # type checkers do not know `__builtins__`
        spaces = own.__globals__, own.__builtins__
        self._stack += [part for part in gc.get_referents(value) if part is not spaces[0] and part is not spaces[1]]
        if not is_internal(value.__code__.co_filename):
            self._add_code(value.__code__, spaces[0])

    def _add_code(self, code: CodeType, space: dict[str, Any]) -> None:
        """Add the globals and modules that a code object and the functions defined in it read."""
        if (id(code), id(space)) in self._codes:
            return
        self._codes.add((id(code), id(space)))
        self._seen[id(code)] = code
        global_names, names = _names_of(code)
        self._names |= names
        for name in global_names if names.isdisjoint(_ANY_GLOBAL) else list(space):
            self._add_global(space, name)
            if name not in space and type(_BUILTINS.get(name)) not in (BuiltinFunctionType, type):
                self._add_global(_BUILTINS, name)
        for name in names:  # modules that the code may import
            for full in (name, f"{space.get('__package__')}.{name}"):
                self._stack.append(sys.modules.get(full))
        for inner in code.co_consts:
            if type(inner) is CodeType:
                self._add_code(inner, space)

    def _add_global(self, space: dict[str, Any], name: str) -> None:
        if (id(space), name) not in self.globals:
            self.globals[id(space), name] = space, name
            self._stack.append(space.get(name))

    def _add_from_modules(self) -> bool:
        """Add the attributes of modules that code reads by name; return `True` if there are any."""
        anything = not self._names.isdisjoint(_ANY_ATTRIBUTE)
        for module, internal in self.modules.values():
            space = vars(module)
            for name in list(space) if anything and not internal else self._names & space.keys():
                if not internal or _is_of_user(space[name]):
                    self._add_global(space, name)
        return bool(self._stack)


@lru_cache(maxsize=4096)
def _names_of(code: CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """Return the globals that a code object reads, and all names and strings in it that may be names.

    Names that start with `@`, such as `@py_builtins`, are skipped. Assertions rewritten by pytest read them, and a search
    through them would visit the test session and all tests.
    """
    steps = list(dis.get_instructions(code))
    read = [step.argval if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") else "" for step in steps]
    named = [
        step.argval
        for step, before in zip(steps, ["", *read], strict=False)
        if step.opcode in dis.hasname and before[:1] != "@"
    ]
    strings = [text for text in code.co_consts if type(text) is str and text.isidentifier()]
    return frozenset([name for name in read if name and not name.startswith("@")]), frozenset([*named, *strings])


def _is(value: Any, kinds: Any) -> bool:
    """Return `isinstance(value, kinds)` by `type(value)`: `isinstance` treats a Tensor as its value."""
    return issubclass(type(value), kinds)


def _is_active(value: Any) -> bool:
    """Return `True` for a Tensor of an active trace."""
    return _is(value, Recorded) and _is(resolve(value), Recorded)


def _is_of_user(value: Any) -> bool:
    """Return `True` if an attribute of a module of Python, NumPy, SciPy or functad may be one that a user added."""
    if type(value) is FunctionType:
        return not is_internal(value.__code__.co_filename) or value is importlib.import_module
    return _is(value, Recorded) or not callable(value)


def _is_internal_module(module: Any) -> bool:
    """Return `True` for modules of Python, NumPy, SciPy and functad."""
    file = getattr(module, "__file__", None)
    if isinstance(file, str):
        return is_internal(file)
    name = str(getattr(module, "__name__", "")).partition(".")[0]
    return name in sys.stdlib_module_names or name in sys.builtin_module_names


class Outside:
    """The objects that are reachable from a function at one time.

    Args:
        roots: the function, and the static arguments of its trace.

    Attributes:
        holds_tensor: a Tensor of an active trace is reachable.
        is_known: the search was complete, or found a Tensor.
    """

    def __init__(self, roots: Iterable[Any]) -> None:
        reach = Reach(roots, _is_active, MOST, once=True)
        self.holds_tensor, self.is_known = bool(reach.found), reach.is_complete
        # Other references could keep a trace alive.
        self.reach = reach if self.is_known and not self.holds_tensor else None
        self._content = self._now()

    def changed(self) -> bool:
        """Return `True` if a followed reference has changed, or an inactive Tensor has become active."""
        if self.reach is None:
            return self.holds_tensor
        (sizes, found), (old_sizes, old) = self._now(), self._content
        return sizes != old_sizes or len(found) != len(old) or not all(map(is_, found, old))

    def _now(self) -> tuple[list[int], list[Any]]:
        """Return the sizes of modules, to which a name may be added later, and the current references, in a fixed order."""
        if self.reach is None:
            return [], []
        found = gc.get_referents(*self.reach.containers.values())
        found += [space.get(name, _MISSING) for space, name in self.reach.globals.values()]
        for ask in self.reach.asked:
            found += ask()
        return [len(vars(module)) for module, internal in self.reach.modules.values() if not internal], found


# Random generators

GLOBAL: list[Callable[[], Any]] = [lambda: np.random.mtrand._rand, lambda: random.getstate.__self__]  # type: ignore[attr-defined]
"""Functions that return the global generators: NumPy's, Python's, and generators that modules register here."""

_MOST_IN_BODY = 2000
"""Maximal number of objects visited from the body of a loop or a branch inside another trace."""

_WATCHED: ContextVar[dict[int, Any] | None] = context_variable("watched_generators", default=None)
"""The generators that enclosing traces compare, by `id`; `None` if no enclosing trace compares states."""

_GENERATORS = np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random


def refuse_generator(function: object, argument: Any) -> None:
    """Check that an argument of a compiled function is no random generator.

    Raises:
        InputError: the argument is a random generator. The function is traced once, so all calls would use the same numbers.
    """
    if _is(argument, _GENERATORS):
        raise InputError(
            f"{call_of('jit', function)}: an argument is a random generator, {type(argument).__name__}. The function would "
            f"draw once, while it is traced, and all calls would use the same numbers. Draw outside and pass the numbers: "
            f"f(x, rng.normal(size=3)). Or name the argument in static_argnames if the same numbers are meant."
        )


class RandomStates:
    """The states of random generators, at one time.

    Args:
        roots: objects where the search for generators starts. The global generators are included unless `known` is given.
        known: generators to exclude, by `id`.

    Attributes:
        generators: the generators found, by `id`.
    """

    def __init__(self, roots: Iterable[Any], known: dict[int, Any] | None = None) -> None:
        most = MOST if known is None else _MOST_IN_BODY
        found = [get() for get in GLOBAL] if known is None else []
        found += Reach(roots, lambda value: _is(value, (*_GENERATORS, np.random.SeedSequence)), most).found
        self.generators = {id(g): g for g in found if known is None or id(g) not in known}
        self._before = [(g, _state_of(g)) for g in self.generators.values()]

    def drawn(self) -> list[str]:
        """Return the names of the generators with a changed state."""
        return list(dict.fromkeys([_name_of(g) for g, before in self._before if _state_of(g) != before]))


@contextmanager
def frozen_in(transform: str, function: object, roots: Iterable[Any], advice: str = "") -> Iterator[None]:
    """Warn if a function draws random numbers while the `with` block traces it for later evaluations.

    Generators that an enclosing trace compares are excluded; that trace warns about them.
    """
    around = _WATCHED.get()
    states = RandomStates(roots, around)
    with setting(_WATCHED, {**(around or {}), **states.generators}):
        yield
    if drawn := states.drawn():
        advice = advice or (
            f"and every evaluation uses these same numbers. Draw them outside of the function and pass them as an argument, or "
            f"leave {transform} out."
        )
        source = f"the function drew random numbers from {' and '.join(drawn)} while it was traced"
        warn(FrozenRandomWarning(f"{call_of(transform, function)}: {source}, {advice}"))


def frozen_in_bodies(transform: str, bodies: Sequence[Callable[..., Any]]) -> AbstractContextManager[None]:
    """Warn if the body of a loop or a branch draws from a generator that the enclosing function created.

    The enclosing trace warns about other generators. Without an enclosing trace that compares states there is no warning,
    because the body is not evaluated again later.
    """
    if _WATCHED.get() is None:
        return nullcontext()
    return frozen_in(transform, bodies[-1], bodies, _CHOICE if transform in ("cond", "switch") else _STEPS)


_CHOICE = "as every branch is, taken or not. Draw them before the choice and pass them as operands."
_STEPS = (
    "once for all steps, and all steps use these same numbers. Draw them before the loop and pass them to functad.scan as "
    "rows: scan(f, init, rng.normal(size=n))."
)


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
                _, write = _access(generator)
                write(state)


def _state_of(generator: Any) -> Any:
    """Return the state of a generator as a value for `==`, with the number of spawned children."""
    seeds = getattr(getattr(generator, "bit_generator", generator), "seed_seq", generator)
    return _comparable(_raw_state_of(generator)), getattr(seeds, "n_children_spawned", 0)


def _raw_state_of(generator: Any) -> Any:
    """Return the state of a generator in its own format; `None` if the state is not accessible."""
    try:
        read, _ = _access(generator)
        return read()
    except (AttributeError, NotImplementedError):  # a SeedSequence, or a generator that reads from the operating system
        return None


def _access(generator: Any) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Return the functions that read and set the state of a generator."""
    if _is(generator, random.Random):
        return generator.getstate, generator.setstate
    if _is(generator, np.random.RandomState):
        return partial(generator.get_state, legacy=False), generator.set_state
    bits = generator if _is(generator, np.random.BitGenerator) else generator.bit_generator
    return lambda: bits.state, partial(setattr, bits, "state")


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
