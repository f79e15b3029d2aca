"""The decorator `transform`, and `Transformed`, the type of the functions that transforms return.

A transform is written as a function of `f` and options. `@transform` makes `f` optional: `grad(f, argnums=1)`, `@grad` and
`@grad(argnums=1)` are the same transform. Type checkers see the parameters of `f` in the new function.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, cast

from functad.errors import InputError
from functad.places import here, name_of

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
        from functad.importable import by_name  # noqa: PLC0415 - few programs pickle functions

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
