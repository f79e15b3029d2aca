"""The arguments that a transform differentiates, selected by position, by name, or both."""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from functad.errors import InputError
from functad.places import call_of, here, name_of
from functad.process import cached_property

ArgNums = int | Sequence[int]
ArgNames = str | Sequence[str]


def positions_of(transform: str, function: Callable[..., Any], given: Any, option: str = "argnums") -> tuple[int, ...]:
    """Return the value of an option such as `argnums`, an integer or a sequence of integers, as a tuple.

    Raises:
        InputError: the option has another type.
    """
    try:
        return tuple(map(operator.index, given)) if hasattr(given, "__len__") else (operator.index(given),)
    except TypeError:
        raise InputError(
            f"{transform} of {name_of(function)}, at {here()}: {option} is {given!r}; it is the position of an argument, such "
            f"as 0, or a tuple of positions.{' Names go into argnames.' if option == 'argnums' else ''}"
        ) from None


def parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter] | None:
    """Return the parameters of a function; `None` if it has no known signature."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None


class Selection:
    """The arguments that a transform differentiates, by position and by name.

    Attributes:
        transform: the name of the transform.
        function: the function to call.
        positions: positions of the selected arguments.
        names: names of the selected arguments.
        highest: `positions` are valid without a check in calls with more than this many positional arguments.
        single: the result is one derivative. Otherwise it is a tuple, a dict by name, or a pair of both.

    Raises:
        InputError: `argnums` has an entry that is no position, `argnames` has one that is no name, or an argument is selected
            twice.
    """

    def __init__(
        self, transform: str, function: Callable[..., Any], argnums: ArgNums, argnames: ArgNames | None = None
    ) -> None:
        if not callable(function):
            raise InputError(f"{transform} needs a function, not a {type(function).__name__}, at {here()}.")
        self.transform = transform
        self.function = function
        one = isinstance(argnums, int) or not hasattr(argnums, "__len__")  # NumPy integers are no `int`
        self.names = () if argnames is None else (argnames,) if isinstance(argnames, str) else self._names(argnames)
        only_names = argnames is not None and one and argnums == 0
        self.positions = (
            () if only_names else (argnums,) if isinstance(argnums, int) else positions_of(transform, function, argnums)
        )
        if len(self.positions) > 1 or len(self.names) > 1:
            self._refuse_twins((*self.positions, *self.names))
        from_the_front = self.positions and not self.names and min(self.positions) >= 0
        self.highest = max(self.positions) if from_the_front else sys.maxsize
        one_name = only_names and isinstance(argnames, str)
        self.single = one_name or (one and not self.names)

    def _names(self, argnames: Any) -> tuple[str, ...]:
        names = tuple(argnames) if hasattr(argnames, "__iter__") else (argnames,)
        if all(isinstance(name, str) for name in names):
            return names
        raise InputError(
            f"{self.transform} of {name_of(self.function)}, at {here()}: argnames is {argnames!r}; it is the name of an "
            f"argument, or a tuple of names. Positions go into argnums."
        )

    def _refuse_twins(self, keys: Sequence[Hashable]) -> None:
        """Raise `InputError` if an argument is selected twice: only one of the two derivatives would be nonzero."""
        twins = [key for i, key in enumerate(keys) if key in keys[:i]]
        if twins:
            raise InputError(
                f"{self.transform} of {name_of(self.function)}, at {here()}: argument {twins[0]!r} is selected twice. Give "
                f"each argument once in argnums and argnames."
            )

    @property
    def call(self) -> str:
        """The description of the current call, with which messages begin."""
        return call_of(self.transform, self.function)

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of the function; empty if its signature is unknown."""
        return parameters_of(self.function) or {}

    def keys(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[int | str]:
        """Return the position in `args`, or the name in `kwargs`, of each selected argument.

        Raises:
            InputError: the call lacks an argument, or an argument is selected twice.
        """
        if len(args) > self.highest:
            return self.positions
        keys: list[int | str] = []
        for position in self.positions:
            if not -len(args) <= position < len(args):
                raise InputError(
                    f"{self.transform} of {name_of(self.function)} should differentiate argument {position}, but the call at "
                    f"{here()} has {len(args)} positional arguments. Pass it by position, or choose others by argnums "
                    f"or argnames."
                )
            keys.append(position % len(args))
        for name in self.names:
            places = list(self.parameters)
            if name in kwargs:
                keys.append(name)
            elif name in places[: len(args)]:
                keys.append(places.index(name))
            else:
                raise InputError(
                    f"{self.transform} of {name_of(self.function)} should differentiate argument {name!r}, "
                    f"but the call at {here()} has none of that name."
                )
        if len(keys) > 1:
            self._refuse_twins(keys)
        return keys

    def pack(self, derivatives: list[Any]) -> Any:
        """Return the derivatives in the form that the user gets: one, a tuple, a dict by name, or a pair of both."""
        if self.single:
            return derivatives[0]
        count = len(self.positions)
        by_position = tuple(derivatives[:count])
        if not self.names:
            return by_position
        by_name = dict(zip(self.names, derivatives[count:], strict=True))
        return (by_position, by_name) if count else by_name
