"""Detection of random numbers that a function draws during a trace.

A traced function runs once, so a random number becomes a constant of the expression list. Each evaluation of the list, and each
step of a traced loop, uses the same number, whereas eager execution draws a new number each time. NumPy's random functions take
no Tensors, so the trace does not record the draw. But each draw changes the state of a generator. `RandomStates` compares these
states before and after a trace:

- the global generators: NumPy's, the generator of Python's module `random`, and those registered in `GLOBAL`;
- every generator that the function can reach: closures, globals, attributes, items, static arguments.

Generators that the function creates itself are not included. With a fixed seed they return the same numbers in eager execution.

Limitation: draws without a visible state are not detected, such as `os.urandom`, `secrets`, or `np.random.default_rng()` in the
function.
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
from functad.process import context_variable, setting
from functad.transforms.outside import reachable

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
