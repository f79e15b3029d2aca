"""`jacobian`: all rows of the derivative of a function that returns arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, overload

import numpy as np

from functad.expressions.spec import dtype_of, shape_of
from functad.tracing.recorder import REVERSE, Recorded, Recorder
from functad.transforms.arguments import ArgNames, ArgNums, Selection, enter, lower, split_aux, traced
from functad.transforms.explain import warn_of_unconnected
from functad.transforms.gradient import pullback_of
from functad.trees import flatten, tree_map

P = ParamSpec("P")


@overload
def jacobian(
    f: Callable[P, Any],
    argnums: ArgNums = 0,
    argnames: ArgNames | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    warn_unconnected: bool = False,
) -> Callable[P, Any]: ...
@overload
def jacobian(
    f: None = None,
    argnums: ArgNums = 0,
    argnames: ArgNames | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    warn_unconnected: bool = False,
) -> Callable[[Callable[P, Any]], Callable[P, Any]]: ...
def jacobian(
    f: Callable[..., Any] | None = None,
    argnums: ArgNums = 0,
    argnames: ArgNames | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    warn_unconnected: bool = False,
) -> Any:
    """Return a function that gives the Jacobian of `f`: `J[i, j] = d f(x)[i] / d x[j]`.

    The function is run once, on concrete values; each element of its result costs one backward pass.

    Args:
        f: a function of NumPy code that returns an array, or a tree of arrays.
        argnums: position, or positions, of the arguments to differentiate.
        argnames: name, or names, of arguments to differentiate; they take the place of the default `argnums=0`.
        has_aux: `f` returns a pair `(value, aux)`, of which `aux` is handed through.
        holomorphic: arguments and values are complex, and the complex derivative is meant.
        allow_int: integers among the selected arguments are let through.
        warn_unconnected: as for `grad`, but `f` is always run a second time.

    Returns:
        A function with the signature of `f`. For an array result and an array argument it returns an array of shape
        `value.shape + argument.shape`; in general the structure of the result, at each leaf of which is that of the argument.
        With `has_aux` it returns `(jacobian, aux)`.

    Raises:
        InputError: an argument cannot be differentiated.
        OutputError: `f` returned something that is no tree of arrays.

    Example:
        >>> import numpy as np
        >>> jacobian(lambda x: np.stack([x[0] * x[1], x[0] ** 2]))(np.array([2.0, 3.0]))
        array([[3., 2.],
               [4., 0.]])
    """
    if f is None:
        return functools.partial(
            jacobian,
            argnums=argnums,
            argnames=argnames,
            has_aux=has_aux,
            holomorphic=holomorphic,
            allow_int=allow_int,
            warn_unconnected=warn_unconnected,
        )
    selection = Selection("jacobian", f, argnums, argnames)

    @functools.wraps(f)
    def rows(*args: Any, **kwargs: Any) -> Any:
        recorder = Recorder(REVERSE, "jacobian", f)
        inputs = enter(recorder, selection, args, kwargs, holomorphic=holomorphic, allow_int=allow_int)
        out, aux = split_aux(traced(recorder, f, inputs.args, inputs.kwargs), has_aux, selection)
        value, pull = pullback_of(recorder, inputs, out, selection)
        if warn_unconnected:
            warn_of_unconnected(selection, args, kwargs, has_aux)
        leaves, structure = flatten(value)
        result = structure.unflatten([_rows_of_leaf(leaves, i, structure, pull, selection) for i in range(len(leaves))])
        return (result, lower(aux, recorder)) if has_aux else result

    return rows


def _rows_of_leaf(
    leaves: list[Any], position: int, structure: Any, pull: Callable[[Any], list[Any]], selection: Selection
) -> Any:
    """Return the Jacobian of one leaf of the result: one backward pass for each of its elements."""
    seeds = [np.zeros(shape_of(leaf), _inexact(leaf)) for leaf in leaves]
    shape = shape_of(leaves[position])
    rows = []
    for index in np.ndindex(shape):
        seeds[position] = np.zeros(shape, _inexact(leaves[position]))
        seeds[position][index] = 1
        rows.append(selection.pack(pull(structure.unflatten(seeds))))
    if not rows:
        template = selection.pack(pull(structure.unflatten(seeds)))
        return tree_map(lambda t: np.zeros(shape + shape_of(t), dtype_of(t)), template)
    return tree_map(lambda *parts: _stack(parts, shape), *rows)


def _inexact(leaf: Any) -> Any:
    return dtype_of(leaf) if dtype_of(leaf).kind in "fc" else np.float64


def _stack(parts: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    if not shape:
        return parts[0]
    whole = np.stack(parts) if any(isinstance(part, Recorded) for part in parts) else np.array(parts)
    return whole.reshape(shape + whole.shape[1:])
