"""Gradient functions in the style of TensorFlow's first eager interface, with respect to arguments or to Variables."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, cast, overload

import numpy as np

from functad.eager import containers
from functad.eager.tape.recorder import constant
from functad.eager.tape.request import checked_conj
from functad.eager.tape.tape import GradientTape
from functad.eager.variable import TensorLike, Variable
from functad.expressions.spec import PYTHON_SCALARS, dtype_of
from functad.places import here, name_of
from functad.primitives.elementwise.conversion import COPY
from functad.primitives.operands import read
from functad.tracing.concrete import idle, tensor_of
from functad.tracing.tensor import Tensor
from functad.tracing.trace import Recorded, value_of
from functad.transforms.transform import parameters_of, transform
from functad.trees import flatten

P = ParamSpec("P")
Q = ParamSpec("Q")
T_co = TypeVar("T_co", covariant=True)
Params = Sequence[str] | Sequence[int] | str | int | None


class Seeded(Protocol[Q, T_co]):
    """The type of a transform that adds the keyword `dy` to the arguments of `f`; a `ParamSpec` cannot express this."""

    @overload
    def __call__(self, f: Callable[..., Any], /, *args: Q.args, **kwargs: Q.kwargs) -> Callable[..., T_co]: ...
    @overload
    def __call__(
        self, f: None = None, /, *args: Q.args, **kwargs: Q.kwargs
    ) -> Callable[[Callable[..., Any]], Callable[..., T_co]]: ...


def _seeded(make: Callable[Concatenate[Callable[..., Any], Q], Callable[..., T_co]]) -> Seeded[Q, T_co]:
    return cast("Seeded[Q, T_co]", transform(make))


@_seeded
def gradients_function(f: Callable[P, Any], params: Params = None, *, conj: bool = True) -> Callable[..., list[Any]]:
    """Return a function that computes the gradients of `f` with respect to its arguments, as a list.

    Args:
        f: a function of Tensors; its results are summed. Without it a decorator is returned.
        params, conj: as for `make_vjp`.

    Returns:
        A function with the arguments of `f` and the keyword `dy`: a seed in the structure of the result. `f` gets Tensors for
        the differentiated arguments, and other arguments unchanged. The gradient is `None` without a recorded path.

    Raises:
        TypeError, ValueError, IndexError: as `make_vjp`.

    Example:
        >>> f = lambda x, y: x * x * x * y - x * y * y
        >>> [float(g) for g in gradients_function(f)(2.0, 3.0)]
        [27.0, -4.0]
    """
    return second_of(f, value_and_gradients_function(f, params, conj=conj))


@_seeded
def value_and_gradients_function(
    f: Callable[P, Any], params: Params = None, *, conj: bool = True
) -> Callable[..., tuple[Any, list[Any]]]:
    """Return a function that computes the value of `f` and its gradients: `(f(x), [df/dx0, ...])`.

    Args:
        f: a function of Tensors; its results are summed. Without it a decorator is returned.
        params, conj: as for `make_vjp`.

    Returns:
        A function with the arguments of `f` and the keyword `dy`: a seed in the structure of the result. It returns
        `(value, gradients)`. Each gradient has the structure and shapes of its argument; without a path it is `None`.

    Raises:
        TypeError, ValueError, IndexError: as `make_vjp`.

    Example:
        >>> value, (g,) = value_and_gradients_function(lambda x: x * x)(3.0)
        >>> float(value), float(g)
        (9.0, 6.0)
    """
    return with_seed(f, make_vjp(f, params, persistent=False, conj=conj))


class Style(NamedTuple):
    """The Tensors of gradient functions.

    Attributes:
        tape: the class of the tape.
        argument: returns a differentiated argument with new Tensors as leaves.
        result: returns a result of the user's function with Tensors as leaves.
    """

    tape: type[GradientTape]
    argument: Callable[[Any], Any]
    result: Callable[[Any], Any]


def second_of(f: Callable[..., Any], both: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function like `f` that returns the second result of `both`."""
    return functools.wraps(f)(lambda *args, **kwargs: both(*args, **kwargs)[1])


def with_seed(f: Callable[..., Any], both: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function like `f` that calls the pullback from `both` with the seed `dy`."""

    @functools.wraps(f)
    def value_and_gradients(*args: Any, dy: Any = None, **kwargs: Any) -> tuple[Any, list[Any]]:
        value, vjp = both(*args, **kwargs)
        return value, vjp(dy)

    return value_and_gradients


@transform
def make_vjp(
    f: Callable[P, Any], params: Params = None, persistent: bool = True, *, conj: bool = True
) -> Callable[P, tuple[Any, Callable[..., list[Any]]]]:
    """Return a function that computes the value of `f` and the pullback from its cotangent to the cotangents of the arguments.

    Args:
        f: a function of Tensors; without it a decorator is returned.
        params: names or positions of the parameters to differentiate with respect to. Default: all positional arguments of a
            call except `self` and `cls`.
        persistent: allow more than one call of the pullback.
        conj: for complex arguments, return the conjugates of the derivatives of `functad.grad`, as TensorFlow does. `False`
            returns the derivatives of `functad.grad`.

    Returns:
        A function with the arguments of `f` that returns `(value, vjp)`. `vjp(dy)` returns the list of gradients with respect
        to the arguments. `dy` has the structure and shapes of the value. Default: ones.

    Raises:
        TypeError: an element of `params` is neither a name nor a position.
        ValueError: `params` mixes names and positions, or has an unknown name; `f` returned `None`; a call gives keywords only.
        IndexError: a call lacks an argument to differentiate with respect to.

    Example:
        >>> value, vjp = make_vjp(lambda x: x * x)(3.0)
        >>> float(vjp()[0]), float(vjp(10.0)[0])
        (6.0, 60.0)
    """
    return vjp_function(f, params, persistent, conj, _STYLE)


def vjp_function(f: Callable[..., Any], params: Params, persistent: bool, conj: bool, style: Style) -> Callable[..., Any]:
    """Return the function of `make_vjp`, with Tensors in a style."""
    positions_of = positions_for(f, params)
    checked_conj(conj)

    @functools.wraps(f)
    def value_and_vjp(*args: Any, **kwargs: Any) -> tuple[Any, Callable[..., list[Any]]]:
        positions = positions_of(len(args), list(kwargs))
        given = list(args)
        tape = style.tape(persistent=persistent, watch_accessed_variables=False)
        with tape:
            for position in dict.fromkeys(positions):
                given[position] = style.argument(args[position])
                tape.watch([leaf for leaf in flatten(given[position])[0] if dtype_of(leaf).kind in "fc"])
            value = style.result(checked(tape.run(f, given, kwargs), f))

        def vjp(dy: Any = None) -> list[Any]:
            sources = [given[position] for position in positions]
            return tape.gradient(value, sources, output_gradients=dy, conj=conj) if sources else []

        return value, vjp

    return value_and_vjp


@transform
def implicit_gradients(f: Callable[P, Any], *, conj: bool = True) -> Callable[P, list[tuple[Any, Variable]]]:
    """Return a function that computes the gradients of `f` with respect to the trainable Variables that `f` reads.

    Args:
        f: a function that returns Tensors or numbers in any structure; its results are summed. Without it a decorator is
            returned.
        conj: as for `implicit_value_and_gradients`.

    Returns:
        A function with the arguments of `f` that returns the list of pairs `(gradient, variable)` alone.

    Raises:
        ValueError: as `implicit_value_and_gradients`.

    Example:
        >>> import functad
        >>> w = functad.Variable(2.0, name="w")
        >>> ((g, variable),) = implicit_gradients(lambda x: w * w * x)(3.0)
        >>> float(g), variable.name
        (12.0, 'w')
    """
    return second_of(f, implicit_value_and_gradients(f, conj=conj))


@transform
def implicit_value_and_gradients(
    f: Callable[P, Any], *, conj: bool = True
) -> Callable[P, tuple[Any, list[tuple[Any, Variable]]]]:
    """Return a function that computes the value of `f` and its gradients with respect to the trainable Variables that it reads.

    Args:
        f: a function that returns Tensors or numbers in any structure; its results are summed. Without it a decorator is
            returned.
        conj: for complex Variables, return the conjugates of the derivatives of `functad.grad`, as TensorFlow does. `False`
            returns the derivatives of `functad.grad`.

    Returns:
        A function with the arguments of `f` that returns `(value, pairs)`. The pairs `(gradient, variable)` are in the order of
        creation of the Variables. The gradient is `None` for a Variable that was read but not used.

    Raises:
        ValueError: `f` reads no trainable Variable, or returned `None`.

    Example:
        >>> import functad
        >>> w = functad.Variable(2.0)
        >>> value, pairs = implicit_value_and_gradients(lambda: w * w)()
        >>> float(value), float(pairs[0][0])
        (4.0, 4.0)
    """
    return implicit_function(f, conj, _STYLE)


def implicit_function(f: Callable[..., Any], conj: bool, style: Style) -> Callable[..., Any]:
    """Return the function of `implicit_value_and_gradients`, with Tensors in a style."""
    checked_conj(conj)

    @functools.wraps(f)
    def value_and_gradients(*args: Any, **kwargs: Any) -> tuple[Any, list[tuple[Any, Variable]]]:
        with style.tape() as tape:
            value = style.result(checked(tape.run(f, args, kwargs), f))
        variables = tape.watched_variables()
        if not variables:
            raise ValueError(
                f"{name_of(f)}, called at {here()}, reads no trainable Variable, so there is nothing to differentiate by. Use "
                f"functad.grad or gradients_function for derivatives by arguments."
            )
        found = tape.gradient(value, list(variables), conj=conj)
        return value, list(zip(found, variables, strict=True))

    return value_and_gradients


def positions_for(f: Callable[..., Any], params: Params) -> Callable[[int, Sequence[str]], list[int]]:
    """Return a function that returns the selected positions for a number of positional arguments and the names of the others.

    Raises:
        TypeError: an element of `params` is neither a name nor a position.
        ValueError: `params` mixes names and positions, or has an unknown name; (when called) only names are given.
        IndexError: (when called) the call lacks a selected argument.
    """
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [name for name, parameter in (parameters_of(f) or {}).items() if parameter.kind in kinds]
    chosen: list[Any] = [params] if isinstance(params, (str, int)) else list(params or ())
    for param in chosen:
        if not isinstance(param, (str, int)):
            raise TypeError(
                f"params of {name_of(f)} hold {param!r}, at {here()}: give the names or the positions of parameters."
            )
        if isinstance(param, str) is not isinstance(chosen[0], str):
            raise ValueError(f"params of {name_of(f)} mix names and positions, at {here()}: {chosen}. Use one or the other.")
        if isinstance(param, str) and param not in names:
            raise ValueError(f"{name_of(f)} has no parameter {param!r}, at {here()}: it has {', '.join(names) or 'none'}.")

    def positions(count: int, keywords: Sequence[str]) -> list[int]:
        if params is None:
            found = list(range(names[:1] in (["self"], ["cls"]), min(count, len(names)) if names else count))
            if not found and any(name in names for name in keywords):
                raise ValueError(
                    f"{name_of(f)}, called at {here()} with keywords only, has nothing to differentiate by: arguments "
                    f"given by name are constants. Give them by position, without their names."
                )
            return found
        places: list[int] = [names.index(param) if isinstance(param, str) else param for param in chosen]
        for param, place in zip(chosen, places, strict=True):
            if not -count <= place < count:
                by_name = param in keywords or (isinstance(param, int) and keywords)
                raise IndexError(
                    f"{name_of(f)} is to be differentiated by parameter {param!r}, but the call at {here()} has {count} "
                    f"positional arguments{'; what is given by name is a constant: give it by position' if by_name else ''}."
                )
        return [place % count for place in places]

    return positions


def as_array(argument: Any) -> Any:
    """Convert a nested list of numbers to an array; return another argument unchanged."""
    if isinstance(argument, (list, tuple)) and all(type(leaf) in PYTHON_SCALARS for leaf in flatten(argument)[0]):
        return np.asarray(argument)
    return argument


def own_tensors(argument: Any) -> Any:
    """Return an argument with new Tensors, so that equal arguments are separate sources; outer traces record the copies."""
    return containers.mapped(
        lambda leaf: COPY(value) if isinstance(value := value_of(leaf), Recorded) else constant(value), as_array(argument)
    )


def checked(value: Any, f: Callable[..., Any]) -> Any:
    """Return the result of a function; raise `ValueError` if it is `None`."""
    if value is None:
        raise ValueError(f"{name_of(f)}, called at {here()}, returned None: it must return Tensors or numbers.")
    return value


def _as_tensors(value: Any) -> Any:
    """Return the result of a function with Tensors in place of Variables and numbers."""

    def tensor(leaf: Any) -> Any:
        if isinstance(leaf, Recorded):
            return tensor_of(Tensor, leaf)
        return read(leaf) if isinstance(leaf, TensorLike) else idle(Tensor, constant(leaf).below)

    return containers.mapped(tensor, value)


_STYLE = Style(GradientTape, own_tensors, _as_tensors)
