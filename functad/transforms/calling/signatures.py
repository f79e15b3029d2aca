"""What type checkers see of transforms: protocols that are never run, and that are imported by type checkers only.

A transform takes a function and options, or options alone and returns a decorator; so each comes in two forms. What it returns
keeps the parameters of the function. How the result follows from `argnums`, `argnames` and `has_aux` is told by overloads, from
the most particular on; the last takes the options `Q` as they are written at the transform, and anything they may be. The first
is for functions of NumPy itself, whose own types have overloads, of which a checker would keep the one for numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import (
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    TypeVarTuple,
    Unpack,
    overload,
)

import numpy as np

from functad.transforms.calling.selection import ArgNames, ArgNums

P = ParamSpec("P")
Q = ParamSpec("Q")
S = ParamSpec("S")
A = TypeVar("A")
R = TypeVar("R")
T_co = TypeVar("T_co", covariant=True)
Many_co = TypeVar("Many_co", covariant=True)
Named_co = TypeVar("Named_co", covariant=True)
Rest = TypeVarTuple("Rest")

Maker = Callable[Concatenate[Callable[..., Any], Q], Callable[..., T_co]]
"""A transform as it is written: it takes a function and options."""

Names = list[str] | tuple[str, ...]
"""Several names: a string is a sequence of strings too, and is one name."""


class Options(TypedDict, total=False):
    """What transforms take beside the choice of arguments; which of it a transform has, its own signature says."""

    holomorphic: bool
    allow_int: bool
    mode: Literal["auto", "reverse", "forward"]
    chunk_size: int | None


class Derivative(Protocol[Q, T_co]):
    """A transform whose functions take what `f` takes, and return something else."""

    @overload
    def __call__(self, f: np.ufunc, /, *args: Q.args, **kwargs: Q.kwargs) -> Callable[..., T_co]: ...
    @overload
    def __call__(self, f: Callable[P, Any], /, *args: Q.args, **kwargs: Q.kwargs) -> Callable[P, T_co]: ...
    @overload
    def __call__(
        self, f: None = None, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> Callable[[Callable[P, Any]], Callable[P, T_co]]: ...


class ByArguments(Protocol[Q, Many_co, Named_co]):
    """A transform whose functions return a derivative by arguments: `Many_co` by a tuple of them, `Named_co` by names."""

    @overload
    def __call__(self, f: np.ufunc, /, *args: Q.args, **kwargs: Q.kwargs) -> Callable[..., Any]: ...
    @overload
    def __call__(
        self, f: Callable[P, Any], /, argnums: Sequence[int], *, has_aux: Literal[False] = False, **options: Unpack[Options]
    ) -> Callable[P, Many_co]: ...
    @overload
    def __call__(
        self, f: Callable[P, Any], /, *, argnames: Names, has_aux: Literal[False] = False, **options: Unpack[Options]
    ) -> Callable[P, Named_co]: ...
    @overload
    def __call__(
        self,
        f: Callable[P, tuple[Any, A]],
        /,
        argnums: ArgNums = 0,
        argnames: ArgNames | None = None,
        *,
        has_aux: Literal[True],
        **options: Unpack[Options],
    ) -> Callable[P, tuple[Any, A]]: ...
    @overload
    def __call__(self, f: Callable[P, Any], /, *args: Q.args, **kwargs: Q.kwargs) -> Callable[P, Any]: ...
    @overload
    def __call__(
        self, f: None = None, /, *, argnums: Sequence[int], has_aux: Literal[False] = False, **options: Unpack[Options]
    ) -> Callable[[Callable[P, Any]], Callable[P, Many_co]]: ...
    @overload
    def __call__(
        self, f: None = None, /, *, argnames: Names, has_aux: Literal[False] = False, **options: Unpack[Options]
    ) -> Callable[[Callable[P, Any]], Callable[P, Named_co]]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        argnums: ArgNums = 0,
        argnames: ArgNames | None = None,
        *,
        has_aux: Literal[True],
        **options: Unpack[Options],
    ) -> Callable[[Callable[P, tuple[Any, A]]], Callable[P, tuple[Any, A]]]: ...
    @overload
    def __call__(
        self, f: None = None, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> Callable[[Callable[P, Any]], Callable[P, Any]]: ...


class ValueByArguments(Protocol[Q, Many_co, Named_co]):
    """A transform whose functions return the result of `f`, which is a pair with `has_aux`, and a derivative by arguments."""

    @overload
    def __call__(self, f: np.ufunc, /, *args: Q.args, **kwargs: Q.kwargs) -> Callable[..., tuple[Any, Any]]: ...
    @overload
    def __call__(
        self, f: Callable[P, R], /, argnums: Sequence[int], *, has_aux: bool = False, **options: Unpack[Options]
    ) -> Callable[P, tuple[R, Many_co]]: ...
    @overload
    def __call__(
        self, f: Callable[P, R], /, *, argnames: Names, has_aux: bool = False, **options: Unpack[Options]
    ) -> Callable[P, tuple[R, Named_co]]: ...
    @overload
    def __call__(self, f: Callable[P, R], /, *args: Q.args, **kwargs: Q.kwargs) -> Callable[P, tuple[R, Any]]: ...
    @overload
    def __call__(
        self, f: None = None, /, *, argnums: Sequence[int], has_aux: bool = False, **options: Unpack[Options]
    ) -> Callable[[Callable[P, R]], Callable[P, tuple[R, Many_co]]]: ...
    @overload
    def __call__(
        self, f: None = None, /, *, argnames: Names, has_aux: bool = False, **options: Unpack[Options]
    ) -> Callable[[Callable[P, R]], Callable[P, tuple[R, Named_co]]]: ...
    @overload
    def __call__(
        self, f: None = None, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> Callable[[Callable[P, R]], Callable[P, tuple[R, Any]]]: ...


class WithValue(Protocol[Q, *Rest]):
    """A transform whose functions return the result of `f` and something else."""

    @overload
    def __call__(self, f: np.ufunc, /, *args: Q.args, **kwargs: Q.kwargs) -> Callable[..., tuple[Any, *Rest]]: ...
    @overload
    def __call__(self, f: Callable[P, R], /, *args: Q.args, **kwargs: Q.kwargs) -> Callable[P, tuple[R, *Rest]]: ...
    @overload
    def __call__(
        self, f: None = None, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> Callable[[Callable[P, R]], Callable[P, tuple[R, *Rest]]]: ...


class Remake(Protocol[Q]):
    """A transform whose functions take what `f` takes, and return what it returns."""

    @overload
    def __call__(self, f: np.ufunc, /, *args: Q.args, **kwargs: Q.kwargs) -> Callable[..., Any]: ...
    @overload
    def __call__(self, f: Callable[P, R], /, *args: Q.args, **kwargs: Q.kwargs) -> Callable[P, R]: ...
    @overload
    def __call__(self, f: None = None, /, *args: Q.args, **kwargs: Q.kwargs) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


class SeededFunction(Protocol[P, T_co]):
    """A function that takes what `f` takes, and may be given a seed by the name of `dy`."""

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co: ...
    @overload
    def __call__(self, *args: Any, dy: Any, **kwargs: Any) -> T_co: ...
    @overload
    def __get__(self, instance: None, owner: Any = None) -> SeededFunction[P, T_co]: ...
    @overload
    def __get__(
        self: SeededFunction[Concatenate[Any, S], T_co], instance: object, owner: Any = None
    ) -> SeededFunction[S, T_co]: ...


class Seeded(Protocol[Q, T_co]):
    """A transform whose functions take what `f` takes, and a seed by the name of `dy`."""

    @overload
    def __call__(self, f: Callable[P, Any], /, *args: Q.args, **kwargs: Q.kwargs) -> SeededFunction[P, T_co]: ...
    @overload
    def __call__(
        self, f: None = None, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> Callable[[Callable[P, Any]], SeededFunction[P, T_co]]: ...
