"""Gradient functions in the style of TensorFlow's first eager interface, with respect to arguments or to Variables."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

import numpy as np

from functad.eager import containers
from functad.eager.models.variable import TensorLike, Variable
from functad.eager.tape.recorder import constant
from functad.eager.tape.request import checked_conj
from functad.eager.tape.tape import GradientTape
from functad.expressions.spec import PYTHON_SCALARS, dtype_of
from functad.places import here, name_of
from functad.primitives.elementwise.conversion import COPY
from functad.primitives.operands import read
from functad.tracing.concrete import idle, tensor_of
from functad.tracing.tensor import Tensor
from functad.tracing.trace import Recorded, value_of
from functad.transforms.transform import transform
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
    both = value_and_gradients_function(f, params, conj=conj)

    @functools.wraps(f)
    def gradients(*args: Any, **kwargs: Any) -> list[Any]:
        return both(*args, **kwargs)[1]

    return gradients


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
    both = make_vjp(f, params, persistent=False, conj=conj)

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
    chosen = _Parameters(f, params)
    checked_conj(conj)

    @functools.wraps(f)
    def value_and_vjp(*args: Any, **kwargs: Any) -> tuple[Any, Callable[..., list[Any]]]:
        positions = chosen.positions(len(args), list(kwargs))
        given = list(args)
        tape = GradientTape(persistent=persistent, watch_accessed_variables=False)
        with tape:
            for position in dict.fromkeys(positions):
                given[position] = containers.mapped(_own_tensor, _arrays(args[position]))
                tape.watch([leaf for leaf in flatten(given[position])[0] if dtype_of(leaf).kind in "fc"])
            value = _as_tensors(tape.run(f, given, kwargs), f)

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
        conj: for complex Variables, return the conjugates of the derivatives of `functad.grad`, as TensorFlow does. `False`
            returns the derivatives of `functad.grad`.

    Returns:
        A function with the arguments of `f` that returns pairs `(gradient, variable)`, in the order of creation of the
        Variables. The gradient is `None` for a Variable that was read but not used.

    Raises:
        ValueError: `f` reads no trainable Variable, or returned `None`.

    Example:
        >>> import functad
        >>> w = functad.Variable(2.0, name="w")
        >>> ((g, variable),) = implicit_gradients(lambda x: w * w * x)(3.0)
        >>> float(g), variable.name
        (12.0, 'w')
    """
    both = implicit_value_and_gradients(f, conj=conj)

    @functools.wraps(f)
    def gradients(*args: P.args, **kwargs: P.kwargs) -> list[tuple[Any, Variable]]:
        return both(*args, **kwargs)[1]

    return gradients


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
    checked_conj(conj)

    @functools.wraps(f)
    def value_and_gradients(*args: P.args, **kwargs: P.kwargs) -> tuple[Any, list[tuple[Any, Variable]]]:
        with GradientTape() as tape:
            value = _as_tensors(tape.run(f, args, kwargs), f)
        variables = tape.watched_variables()
        if not variables:
            raise ValueError(
                f"{name_of(f)}, called at {here()}, reads no trainable Variable, so there is nothing to differentiate by. Use "
                f"functad.grad or gradients_function for derivatives by arguments."
            )
        found = tape.gradient(value, list(variables), conj=conj)
        return value, list(zip(found, variables, strict=True))

    return value_and_gradients


class _Parameters:
    """The selection of the arguments to differentiate with respect to."""

    def __init__(self, f: Callable[..., Any], params: Params) -> None:
        self.f = f
        self.chosen: list[Any] | None = [params] if isinstance(params, (str, int)) else None if params is None else list(params)
        try:
            self.names = [
                p.name
                for p in inspect.signature(f).parameters.values()
                if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
            ]
        except (TypeError, ValueError):
            self.names = []
        if self.chosen is None:
            return
        for param in self.chosen:
            if not isinstance(param, (str, int)):
                raise TypeError(
                    f"params of {name_of(f)} hold {param!r}, at {here()}: give the names or the positions of parameters."
                )
        if len({type(param) is str for param in self.chosen}) > 1:
            raise ValueError(
                f"params of {name_of(f)} mix names and positions, at {here()}: {self.chosen}. Use one or the other."
            )
        for param in self.chosen:
            if isinstance(param, str) and param not in self.names:
                raise ValueError(
                    f"{name_of(f)} has no parameter {param!r}, at {here()}: it has {', '.join(self.names) or 'none'}."
                )

    def positions(self, count: int, keywords: Sequence[str]) -> list[int]:
        """Return the selected positions for a call with `count` positional arguments and the given keywords.

        Raises:
            IndexError: the call lacks a selected position.
            ValueError: no selection was made, and the call gives keywords only.
        """
        if self.chosen is None:
            first = 1 if self.names[:1] in (["self"], ["cls"]) else 0
            found = list(range(first, min(count, len(self.names)) if self.names else count))
            if not found and any(name in self.names for name in keywords):
                raise ValueError(
                    f"{name_of(self.f)}, called at {here()} with keywords only, has nothing to differentiate by: arguments "
                    f"given by name are constants. Give them by position, without their names."
                )
            return found
        result = []
        for param in self.chosen:
            place = self.names.index(param) if isinstance(param, str) else param
            if not -count <= place < count:
                by_name = param in keywords or (isinstance(param, int) and keywords)
                raise IndexError(
                    f"{name_of(self.f)} is to be differentiated by parameter {param!r}, but the call at {here()} has {count} "
                    f"positional arguments{'; what is given by name is a constant: give it by position' if by_name else ''}."
                )
            result.append(place % count)
        return result


def _arrays(argument: Any) -> Any:
    """Convert a nested list of numbers to an array; return another argument unchanged."""
    if isinstance(argument, (list, tuple)) and all(type(leaf) in PYTHON_SCALARS for leaf in flatten(argument)[0]):
        return np.asarray(argument)
    return argument


def _own_tensor(leaf: Any) -> Any:
    """Return an argument as a new Tensor, so that equal arguments are separate sources; outer traces record the copy."""
    value = value_of(leaf)
    if isinstance(value, Recorded):
        return COPY(value)
    return constant(value)


def _as_tensors(value: Any, f: Callable[..., Any]) -> Any:
    """Return the result of a function with Tensors in place of Variables and numbers.

    Raises:
        ValueError: the result is `None`.
    """
    if value is None:
        raise ValueError(f"{name_of(f)}, called at {here()}, returned None: it must return Tensors or numbers.")
    return containers.mapped(lambda leaf: tensor_of(Tensor, leaf) if isinstance(leaf, Recorded) else _tensor(leaf), value)


def _tensor(leaf: Any) -> Any:
    return read(leaf) if isinstance(leaf, TensorLike) else idle(Tensor, constant(leaf).below)
