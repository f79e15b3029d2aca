"""Transforms as decorators: `@hessian`, `@hessian(argnums=1)` and `hessian(f, argnums=1)` are all the same transform.

A transform is written as a function of `f` and its options. One of the decorators here makes it callable without `f` too,
and says how the types of its result follow from those of `f`: type checkers see the parameters of the decorated function.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, cast

from functad.errors import InputError
from functad.places import here, name_of

if TYPE_CHECKING:  # only type checkers look at these, and to make them is a fiftieth of what `import functad` takes
    from typing import ParamSpec, TypeVar

    from functad.transforms.calling.signatures import (
        ByArguments,
        Derivative,
        Maker,
        Remake,
        Seeded,
        ValueByArguments,
        WithValue,
    )

    Q = ParamSpec("Q")
    T_co = TypeVar("T_co", covariant=True)


class Transformed(functools.partial[Any]):
    """What a transform returned: called, it is the new function; it is pickled as the transform and what that was given.

    A function of Python could not be pickled under the name of the function that it was made from. This costs 40 ns a call.
    """

    transform: Callable[..., Any]
    given: tuple[Any, tuple[Any, ...], dict[str, Any]]

    @classmethod
    def of(cls, function: Any) -> Transformed:
        """Return it for the new function, with the names of the old one."""
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
        from functad.importable import by_name  # noqa: PLC0415 - few programs pickle functions

        named = by_name(self, self.__module__)  # as a decorated function has the name of what it was
        return named or (_again, (self.transform, *self.given))

    def was_unpickled(self) -> None:
        """Do what a transform does only for functions that were unpickled; by default nothing."""

    def __copy__(self) -> Any:
        return self


def _again(transform: Callable[..., Any], f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    made = transform(f, *args, **kwargs)
    if isinstance(made, Transformed):
        made.was_unpickled()
    return made


def derivative(make: Maker[Q, T_co]) -> Derivative[Q, T_co]:
    """Let a transform be a decorator, with options and without; what its functions return has a type of its own."""
    return cast("Derivative[Q, T_co]", decorator(make))


def by_arguments(make: Maker[Q, Any]) -> ByArguments[Q, tuple[Any, ...], dict[str, Any]]:
    """Let a transform be a decorator; its functions return a derivative for each argument that is chosen."""
    return cast("ByArguments[Q, tuple[Any, ...], dict[str, Any]]", decorator(make))


def by_results(make: Maker[Q, Any]) -> ByArguments[Q, Any, Any]:
    """Let a transform be a decorator; what its functions return has the structure of the result of `f`, or is one number."""
    return cast("ByArguments[Q, Any, Any]", decorator(make))


def value_by_arguments(make: Maker[Q, Any]) -> ValueByArguments[Q, tuple[Any, ...], dict[str, Any]]:
    """Let a transform be a decorator; its functions return the value of `f` and a derivative for each argument chosen."""
    return cast("ValueByArguments[Q, tuple[Any, ...], dict[str, Any]]", decorator(make))


def with_value(make: Maker[Q, Any]) -> WithValue[Q, Any]:
    """Let a transform be a decorator, with options and without; its functions return the value of `f` and something else."""
    return cast("WithValue[Q, Any]", decorator(make))


def with_value_and_two(make: Maker[Q, Any]) -> WithValue[Q, Any, Any]:
    """Let a transform be a decorator, with options and without; its functions return the value of `f` and two things more."""
    return cast("WithValue[Q, Any, Any]", decorator(make))


def seeded(make: Maker[Q, T_co]) -> Seeded[Q, T_co]:
    """Let a transform be a decorator, with options and without; its functions take a seed too, by the name of `dy`."""
    return cast("Seeded[Q, T_co]", decorator(make))


def remake(make: Maker[Q, Any]) -> Remake[Q]:
    """Let a transform be a decorator, with options and without; its functions return what `f` does."""
    return cast("Remake[Q]", decorator(make))


def decorator(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a transform that without a function returns a decorator.

    Args:
        make: called with a function and options; it returns the new function.

    Returns:
        A function with name, documentation and parameters of `make`, of which the first may be left out.
    """
    signature = inspect.signature(make)
    first, *options = signature.parameters.values()
    name = make.__name__

    def made(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not callable(f):
            raise InputError(
                f"{name} needs a function, not a {type(f).__name__}, at {here()}. The function comes first: {name}(f, ...); to "
                f"decorate one, give options by name: @{name}({options[0].name if options else ''}=...)."
            )
        result = make(f, *args, **kwargs)
        if type(result) is FunctionType:
            result = Transformed.of(result)
        if type(result) is Transformed and result is not f:
            vars(result).update(transform=transform, given=(f, args, kwargs))
        return result

    @functools.wraps(make)
    def transform(f: Any = None, *args: Any, **kwargs: Any) -> Any:
        if f is not None:
            return made(f, args, kwargs)
        try:  # so that an error in the options shows where they are given, not where the decorator is used
            signature.bind(None, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        return lambda f: made(f, args, kwargs)

    transform.__signature__ = signature.replace(parameters=[first.replace(default=None), *options])  # type: ignore[attr-defined]
    return transform
