"""Detection of the sparsity patterns of Jacobians and Hessians: `jacobian_sparsity`, `hessian_sparsity`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.errors import InputError, NonScalarError
from functad.expressions.spec import PLAIN, ArraySpec, dtype_of, is_array, is_array_or_number, shape_of, spec_of
from functad.places import here, name_of
from functad.primitives.operands import foreign_rules, innermost
from functad.sparse.curvature import multiplied
from functad.sparse.pattern import SparsityPattern
from functad.sparse.trace import Dependence
from functad.tracing.trace import value_of
from functad.transforms.boundary import check_result, split_aux, traced
from functad.transforms.lists import trace
from functad.transforms.transform import ArgNames, ArgNums, Selection
from functad.trees import flatten


def _followed(
    selection: Selection, args: Sequence[Any], kwargs: dict[str, Any], *, has_aux: bool, second: bool
) -> tuple[Dependence, list[Any]]:
    """Run a function on dependence-tracking Tensors. Return the trace and the leaves of the result."""
    transform, f = selection.transform, selection.function
    keys = selection.keys(tuple(args), kwargs)
    recorder = Dependence(transform, f, second=second)
    trees: dict[int | str, Any] = {**dict(enumerate(args)), **kwargs}  # type: ignore[dict-item]
    flattened = {key: flatten(tree) for key, tree in trees.items()}
    leaves = {key: [innermost(value_of(leaf)) for leaf in flattened[key][0]] for key in trees}
    for key in keys:
        root = f"args[{key}]" if isinstance(key, int) else f"kwargs[{key!r}]"
        for leaf, path in zip(leaves[key], flattened[key][1].paths(root), strict=True):
            _check_input(leaf, path, transform, f)
    abstract = any(isinstance(leaf, ArraySpec) for values in leaves.values() for leaf in values)
    call: Callable[..., Any] = _without_aux(selection) if has_aux else f
    if abstract:  # an expression list has no branches on values, so it can be traced without values
        given = {key: flattened[key][1].unflatten(leaves[key]) for key in trees}
        own = tuple([given[i] for i in range(len(args))])
        call = trace(transform, call, own, {key: given[key] for key in kwargs})
        leaves = {key: [spec_of(leaf) for leaf in values] for key, values in leaves.items()}
    made = {key: [recorder.enter_elements(leaf, active=True) for leaf in leaves[key]] for key in keys}
    for key in trees:
        if key not in keys:
            made[key] = [recorder.enter_elements(leaf, active=False) for leaf in leaves[key]] if abstract else leaves[key]
    entered = {key: flattened[key][1].unflatten(made[key]) for key in trees}
    out = traced(recorder, call, [entered[i] for i in range(len(args))], {key: entered[key] for key in kwargs})
    results, structure = flatten(out)
    for result, path in zip(results, structure.paths("result"), strict=True):
        check_result(result, path, transform, f)
    return recorder, results


def _without_aux(selection: Selection) -> Callable[..., Any]:
    return functools.wraps(selection.function)(
        lambda *args, **kwargs: split_aux(selection.function(*args, **kwargs), True, selection)[0]
    )


def _check_input(leaf: Any, path: str, transform: str, f: Callable[..., Any]) -> None:
    if type(leaf) not in PLAIN and is_array(leaf) and (reason := foreign_rules(leaf)) is not None:
        raise InputError(f"{transform} of {name_of(f)}, called at {here()}: {path} is a {type(leaf).__name__}. {reason}")
    kind = dtype_of(leaf).kind if is_array_or_number(leaf) else None
    if kind != "f":
        cure = "Pass the real and the imaginary parts as two arrays." if kind == "c" else "Pass floats, or choose by argnums."
        raise InputError(f"{transform} of {name_of(f)}, called at {here()}: {path} is no array of real floats. {cure}")


def jacobian_sparsity(
    f: Callable[..., Any],
    *args: Any,
    argnums: ArgNums = 0,
    argnames: ArgNames | None = None,
    has_aux: bool = False,
    **kwargs: Any,
) -> SparsityPattern:
    """Return the sparsity pattern of the Jacobian of `f`.

    The function runs once. Each element of each value carries the set of input elements that it depends on. Values matter only
    where Python code of the function reads them (`if`, `while`, positions found by `np.argmax`). The pattern holds for all
    arguments of the same shapes that take the same branches. A coefficient that happens to be zero counts as nonzero.

    Recorded loops and all branches of a recorded condition are traced. A function with a custom rule is traced by its rule. The
    result of an operation without a dependence rule depends on all inputs of the operation. A pattern may therefore have too
    many entries, but never too few.

    Args:
        f: a function of NumPy code that returns an array, or a pytree of arrays; or an `Expressions`.
        args: its arguments: arrays, numbers, pytrees of them. `ArraySpec`s suffice unless `f` branches on values.
        argnums: position, or positions, of the arguments to differentiate with respect to, real floating-point arrays.
        argnames: name, or names, of these arguments. If given, the default of `argnums` does not apply.
        has_aux: `f` returns a pair `(value, aux)`, and `aux` is ignored.
        kwargs: keyword arguments of `f`.

    Returns:
        The pattern, with a row for each element of the result and a column for each element of the selected arguments. Arrays
        are raveled in C order; the leaves of a pytree and of several arguments are concatenated.

    Raises:
        InputError: an argument cannot be differentiated.
        OutputError: the result of `f` is not a pytree of arrays.

    Example:
        >>> import numpy as np
        >>> jacobian_sparsity(lambda x: x[1:] ** 2 - x[:-1], np.zeros(5))
        SparsityPattern(shape=(4, 5), nnz=8)
        XX...
        .XX..
        ..XX.
        ...XX

    Source: index sets, Griewank and Walther, Evaluating Derivatives (SIAM 2008), section 7.1.
    """
    return jacobian_pattern(Selection("jacobian_sparsity", f, argnums, argnames), args, kwargs, has_aux=has_aux)


def jacobian_pattern(selection: Selection, args: Sequence[Any], kwargs: dict[str, Any], *, has_aux: bool) -> SparsityPattern:
    """Return the pattern of `jacobian_sparsity`, under the transform name of `selection`."""
    recorder, results = _followed(selection, args, kwargs, has_aux=has_aux, second=False)
    sets = np.concatenate([np.zeros(0, np.int64), *[recorder.sets_of(leaf).ravel() for leaf in results]])
    rows = np.repeat(np.arange(len(sets)), recorder.sets.length[sets])
    return SparsityPattern._sorted(rows, recorder.sets.members(sets), (len(sets), recorder.sets.universe))


def hessian_sparsity(
    f: Callable[..., Any],
    *args: Any,
    argnums: ArgNums = 0,
    argnames: ArgNames | None = None,
    has_aux: bool = False,
    **kwargs: Any,
) -> SparsityPattern:
    """Return the sparsity pattern of the Hessian of `f`.

    The trace also records which inputs interact in a nonlinear operation that the result depends on. Sums keep their terms
    separate, so the Hessian of `np.sum(x**2)` is diagonal.

    Args:
        f: a function of NumPy code that returns one number; or an `Expressions`.
        args, argnums, argnames, has_aux, kwargs: as for `jacobian_sparsity`.

    Returns:
        The symmetric pattern, with a row and a column for each element of the selected arguments.

    Raises:
        NonScalarError: the result of `f` is not one number.
        InputError: an argument cannot be differentiated.

    Example:
        >>> import numpy as np
        >>> hessian_sparsity(lambda x: np.sum(x**2) + np.sin(x[0] * x[2]) + x[3], np.zeros(4))
        SparsityPattern(shape=(4, 4), nnz=6)
        X.X.
        .X..
        X.X.
        ...X
    """
    return hessian_pattern(Selection("hessian_sparsity", f, argnums, argnames), args, kwargs, has_aux=has_aux)


def hessian_pattern(selection: Selection, args: Sequence[Any], kwargs: dict[str, Any], *, has_aux: bool) -> SparsityPattern:
    """Return the pattern of `hessian_sparsity`, under the transform name of `selection`."""
    recorder, results = _followed(selection, args, kwargs, has_aux=has_aux, second=True)
    if len(results) != 1 or shape_of(results[0]) != ():
        what = f"{len(results)} arrays" if len(results) != 1 else f"{spec_of(results[0])}"
        raise NonScalarError(
            f"{selection.transform} needs a function that returns one number, but {name_of(selection.function)}, called at "
            f"{here()}, returned {what}. Reduce it (np.sum, np.mean), or take the sum of the products with multipliers."
        )
    n, leaf, happened = recorder.sets.universe, results[0], recorder.happened
    if happened is None or not recorder.owns(leaf):
        return SparsityPattern([], [], (n, n))
    slot: Any = leaf.slot
    first, second = happened.pairs(slot.events, len(recorder.sets))
    return SparsityPattern._sorted(*multiplied(recorder.sets, first, second), (n, n))
