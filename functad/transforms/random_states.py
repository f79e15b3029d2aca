"""Random numbers that a function draws while it is traced.

A traced function runs once, so a number that it draws becomes a constant of the expression list: each evaluation of the list,
and each step of a traced loop, uses the same number. Eager execution draws anew each time. NumPy's functions of random numbers
take no Tensors, so the trace never sees the draw. Generators have a state, however, and each draw changes it. `RandomStates`
compares the states before and after a trace:

- NumPy's global generator, the one of Python's module `random`, and further global ones in `GLOBAL`;
- every generator that the function can reach: closures, globals, attributes, items, static arguments.

A generator that the function creates itself is not among these. With a seed of its own it gives the same numbers in eager
execution too.

Limitation: draws that no state shows, as from `os.urandom`, `secrets` and `np.random.default_rng()` inside of the function, are
not detected.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from functad.errors import FrozenRandomWarning, InputError
from functad.places import call_of, warn
from functad.settings import context_variable, setting
from functad.transforms.outside import reachable

GLOBAL: list[Callable[[], Any]] = [lambda: np.random.mtrand._rand, lambda: random.getstate.__self__]  # type: ignore[attr-defined]
"""Functions that return the global generators: NumPy's, Python's, and those of modules that register theirs here."""

_MOST_IN_BODY = 2000
"""Objects that are visited from the body of a loop or a branch, which is traced inside of another trace."""

_WATCHED: ContextVar[dict[int, Any] | None] = context_variable("watched_generators", default=None)
"""The generators that the traces around this one compare, by identity; `None` if no trace around this one compares any."""


def refuse_generator(function: object, argument: Any) -> None:
    """Refuse a random generator as an argument of a compiled function.

    Raises:
        InputError: it is one. The function is traced once, so all calls would use the same numbers.
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
        roots: objects from which generators are searched; the search includes the global generators unless `known` is given.
        known: generators to leave out, by identity.

    Attributes:
        generators: the generators that were found, by identity.
    """

    def __init__(self, roots: Iterable[Any], known: dict[int, Any] | None = None) -> None:
        found = [] if known is not None else [get() for get in GLOBAL]
        kinds = (*_generator_types(), np.random.SeedSequence)
        found += reachable(roots, kinds) if known is None else reachable(roots, kinds, _MOST_IN_BODY)
        self.generators = {id(g): g for g in found if known is None or id(g) not in known}
        self._before = [(g, _state_of(g)) for g in self.generators.values()]

    def drawn(self) -> list[str]:
        """Return the names of the generators whose state is another one now."""
        return list(dict.fromkeys([_name_of(g) for g, before in self._before if _state_of(g) != before]))


@contextmanager
def frozen_in(transform: str, function: object, roots: Iterable[Any]) -> Iterator[None]:
    """Warn if a function draws random numbers while the `with` block traces it for later evaluations.

    A trace around the block reports the generators that it compares itself.
    """
    with _compared(roots, _WATCHED.get()) as states:
        yield
    if drawn := states.drawn():
        _warn(
            f"{call_of(transform, function)}: the function drew random numbers from {' and '.join(drawn)} while it was traced, "
            f"and every evaluation uses these same numbers. Draw them outside of the function and pass them as an argument, or "
            f"leave {transform} out."
        )


@contextmanager
def frozen_in_bodies(transform: str, bodies: Sequence[Callable[..., Any]]) -> Iterator[None]:
    """Warn if the body of a loop or a branch draws from a generator that the function around it created.

    The trace around the block reports the other generators. If there is none, nothing evaluates its result.
    """
    around = _WATCHED.get()
    if around is None:
        yield
        return
    with _compared(bodies, around) as states:
        yield
    if drawn := states.drawn():
        _warn(
            f"{call_of(transform, bodies[-1])}: the function drew random numbers from {' and '.join(drawn)} while it was "
            f"traced, {_CHOICE if transform in ('cond', 'switch') else _STEPS}"
        )


_CHOICE = "as every branch is, taken or not. Draw them before the choice and pass them as operands."
_STEPS = (
    "once for all steps, and all steps use these same numbers. Draw them before the loop and pass them to functad.scan as "
    "rows: scan(f, init, rng.normal(size=n))."
)


@contextmanager
def _compared(roots: Iterable[Any], around: dict[int, Any] | None) -> Iterator[RandomStates]:
    """Return the states before the `with` block, in which traces inside leave out these generators."""
    states = RandomStates(roots, around)
    with setting(_WATCHED, {**(around or {}), **states.generators}):
        yield states


@contextmanager
def trial() -> Iterator[None]:
    """Run a function of the user on arrays of ones, for the shape of its result, without effect on the generators.

    The compiled function calls the function again in each evaluation, so nothing that it draws is frozen.
    """
    before = [(g, _raw_state_of(g)) for g in (_WATCHED.get() or {}).values()]
    try:
        yield
    finally:
        for generator, state in before:
            if state is not None and _comparable(_raw_state_of(generator)) != _comparable(state):
                _restore(generator, state)


def _warn(message: str) -> None:
    warn(FrozenRandomWarning(message))


def _state_of(generator: Any) -> Any:
    """Return a value that is equal as long as the state of a generator is the same."""
    seeds = getattr(getattr(generator, "bit_generator", generator), "seed_seq", generator)
    return _comparable(_raw_state_of(generator)), getattr(seeds, "n_children_spawned", 0)


def _raw_state_of(generator: Any) -> Any:
    """Return the state of a generator, as the generator gives it; `None` if it does not show its state."""
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
    """Return a state, nested dictionaries of numbers and arrays, as a value that `==` compares."""
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
