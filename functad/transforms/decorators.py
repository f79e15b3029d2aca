"""Transforms as decorators: `@hessian`, `@hessian(argnums=1)` and `hessian(f, argnums=1)` are all the same transform.

A transform is written as a function of `f` and its options. One of the three decorators here makes it callable without `f` too,
and says how the types of its result follow from those of `f`: type checkers see the parameters of the decorated function.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from functad.errors import InputError
from functad.places import here

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
        return make(f, *args, **kwargs)

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
