"""The form of a transform: the decorator `transform`, its result `Transformed`, and the `Selection` of arguments.

A transform is written as a function of `f` and options. `@transform` makes `f` optional: `grad(f, argnums=1)`, `@grad` and
`@grad(argnums=1)` are the same transform. Type checkers see the parameters of `f` in the new function. A `Selection`
selects arguments by position, by name, or both.
"""

from __future__ import annotations

import functools
import inspect
import operator
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, cast

from functad.errors import InputError
from functad.places import call_of, here, name_of
from functad.process import cached_property

if TYPE_CHECKING:  # creating these types takes 2 % of the time of `import functad`
    from typing import Concatenate, ParamSpec, Protocol, Self, TypeVar, overload

    import numpy as np

    P = ParamSpec("P")
    Q = ParamSpec("Q")
    T_co = TypeVar("T_co", covariant=True)

    class Transform(Protocol[Q, T_co]):
        """The type of a transform with options `Q`. Its functions take the arguments of `f` and return a `T_co`."""

        @overload  # `Callable[P, Any]` would keep only one of the overloads of a ufunc
        def __call__(self, f: np.ufunc, /, *args: Q.args, **kwargs: Q.kwargs) -> Callable[..., T_co]: ...
        @overload
        def __call__(self, f: Callable[P, Any], /, *args: Q.args, **kwargs: Q.kwargs) -> Callable[P, T_co]: ...
        @overload
        def __call__(
            self, f: None = None, /, *args: Q.args, **kwargs: Q.kwargs
        ) -> Callable[[Callable[P, Any]], Callable[P, T_co]]: ...


class Transformed(functools.partial[Any]):
    """The result of a transform. It binds as a method, and is pickled as a call of the transform.

    A closure cannot be pickled. A `partial` costs 40 ns per call, less than a class with `__call__`.

    Attributes:
        transform: the transform.
        given: the arguments of the transform: the function, positional options and keyword options.
    """

    transform: Callable[..., Any]
    given: tuple[Any, tuple[Any, ...], dict[str, Any]]

    @classmethod
    def of(cls, function: Any) -> Self:
        """Return `function` as a `Transformed`, with the same name, documentation and attributes."""
        made = cls(function)
        vars(made).update(vars(function), **{name: getattr(function, name) for name in functools.WRAPPER_ASSIGNMENTS})
        return made

    @property
    def __code__(self) -> Any:
        return self.func.__code__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<{self.transform.__name__} of {name_of(self.given[0])}>"

    def __reduce__(self) -> Any:
        from functad.process import by_name  # noqa: PLC0415 - few programs pickle functions

        named = by_name(self, self.__module__)  # a decorated function is importable under the name of the original
        return named or (self.rebuild, (self.transform, *self.given))

    @staticmethod
    def rebuild(transform: Callable[..., Any], f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the unpickled function, by a new call of the transform."""
        return transform(f, *args, **kwargs)

    def __copy__(self) -> Any:
        return self


def transform(make: Callable[Concatenate[Callable[..., Any], Q], Callable[..., T_co]]) -> Transform[Q, T_co]:
    """Return a transform whose first argument `f` is optional; without `f` it returns a decorator.

    Args:
        make: a function of `f` and options that returns the new function.

    Returns:
        A function with the name, documentation and parameters of `make`. It returns the new function as a `Transformed`.
    """
    signature = inspect.signature(make)
    first, *options = signature.parameters.values()
    name = make.__name__

    def apply(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not callable(f):
            raise InputError(
                f"{name} needs a function, not a {type(f).__name__}, at {here()}. The function comes first: {name}(f, ...); to "
                f"decorate one, give options by name: @{name}({options[0].name if options else ''}=...)."
            )
        result: Any = make(f, *args, **kwargs)
        if type(result) is FunctionType:
            result = Transformed.of(result)
        if isinstance(result, Transformed):
            result.transform, result.given = called, (f, args, kwargs)
        return result

    @functools.wraps(make)
    def called(f: Any = None, *args: Any, **kwargs: Any) -> Any:
        if f is not None:
            return apply(f, args, kwargs)
        try:  # report errors in options here, not where the decorator is applied
            signature.bind(None, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        return lambda f: apply(f, args, kwargs)

    called.__signature__ = signature.replace(parameters=[first.replace(default=None), *options])  # type: ignore[attr-defined]
    return cast("Transform[Q, T_co]", called)


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


def check_chunk_size(transform: str, function: object, chunk_size: int | None) -> None:
    """Check the number of seeds or examples per pass.

    Raises:
        InputError: `chunk_size` is not a positive integer or `None`.
    """
    if chunk_size is not None and (not hasattr(chunk_size, "__index__") or chunk_size < 1):
        raise InputError(
            f"{transform} of {name_of(function)}, at {here()}: chunk_size is {chunk_size!r}; it must be an integer, at least 1."
        )


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
