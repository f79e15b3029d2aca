"""Transforms as decorators: `@hessian`, `@hessian(argnums=1)` and `hessian(f, argnums=1)` are all the same transform.

A transform is written as a function of `f` and its options. One of the three decorators here makes it callable without `f` too,
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
    from typing import Concatenate, ParamSpec, Protocol, TypeVar, overload

    P = ParamSpec("P")
    Q = ParamSpec("Q")
    R = TypeVar("R")
    T_co = TypeVar("T_co", covariant=True)

    Maker = Callable[Concatenate[Callable[..., Any], Q], Callable[..., T_co]]
    """A transform as it is written: it takes a function and options."""

    class Derivative(Protocol[Q, T_co]):
        """A transform whose functions take what `f` takes, and return something else."""

        @overload
        def __call__(self, f: Callable[P, Any], /, *args: Q.args, **kwargs: Q.kwargs) -> Callable[P, T_co]: ...
        @overload
        def __call__(
            self, f: None = None, /, *args: Q.args, **kwargs: Q.kwargs
        ) -> Callable[[Callable[P, Any]], Callable[P, T_co]]: ...

    class ValueAndDerivative(Protocol[Q]):
        """A transform whose functions take what `f` takes, and return its result and something else."""

        @overload
        def __call__(self, f: Callable[P, R], /, *args: Q.args, **kwargs: Q.kwargs) -> Callable[P, tuple[R, Any]]: ...
        @overload
        def __call__(
            self, f: None = None, /, *args: Q.args, **kwargs: Q.kwargs
        ) -> Callable[[Callable[P, R]], Callable[P, tuple[R, Any]]]: ...

    class Remake(Protocol[Q]):
        """A transform whose functions take what `f` takes, and return what it returns."""

        @overload
        def __call__(self, f: Callable[P, R], /, *args: Q.args, **kwargs: Q.kwargs) -> Callable[P, R]: ...
        @overload
        def __call__(
            self, f: None = None, /, *args: Q.args, **kwargs: Q.kwargs
        ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


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

    def __copy__(self) -> Any:
        return self


def _again(transform: Callable[..., Any], f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return transform(f, *args, **kwargs)


def derivative(make: Maker[Q, T_co]) -> Derivative[Q, T_co]:
    """Let a transform be a decorator, with options and without; what its functions return has a type of its own."""
    return cast("Derivative[Q, T_co]", decorator(make))


def with_value(make: Maker[Q, Any]) -> ValueAndDerivative[Q]:
    """Let a transform be a decorator, with options and without; its functions return the value of `f` and something else."""
    return cast("ValueAndDerivative[Q]", decorator(make))


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
