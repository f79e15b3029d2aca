"""`jvp`: the value of a function and its directional derivative, in one run of the function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functad.errors import InputError, StructureError
from functad.expressions.spec import is_inexact
from functad.places import call_of
from functad.tracing.concrete import ForwardRecorder
from functad.tracing.ownership import hold_input, own_results, unrecorded
from functad.tracing.trace import unwrap
from functad.transforms.boundary import (
    check_tangents,
    checked_leaves,
    scalar_derivative,
    split_aux,
    traced,
    wrap_inputs,
)
from functad.transforms.forward import push_through, with_zeros
from functad.transforms.transform import Selection
from functad.trees import flatten


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """Return the value of `f` and its tangent: `(f(x), J(x) t)`.

    Args:
        f: a function of NumPy code.
        primals: the arguments of `f`: arrays, numbers or pytrees of them. All are differentiated.
        tangents: one tangent per argument, with the structure, shapes and dtypes of the argument.
        has_aux: `f` returns a pair `(value, aux)`.

    Returns:
        `(value, tangent)`, or `(value, tangent, aux)`. The tangent has the structure, shapes and dtypes of the value.

    Raises:
        InputError: an argument cannot be differentiated.
        StructureError: the tangents do not match the arguments.

    Example:
        >>> import numpy as np
        >>> value, tangent = jvp(np.sin, (np.array([0.0, 1.0]),), (np.array([1.0, 2.0]),))
        >>> tangent.round(4)
        array([1.    , 1.0806])
    """
    return pushed_along("jvp", f, primals, tangents, has_aux=has_aux)


def check_counts(transform: str, f: Callable[..., Any], primals: Any, tangents: Any) -> None:
    """Raise an error unless primals and tangents are tuples or lists of the same length."""
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise InputError(
            f"{call_of(transform, f)}: primals and tangents are the tuples of all arguments; write {transform}(f, (x,), (t,)) "
            f"for one."
        )
    if len(primals) != len(tangents):
        raise StructureError(f"{call_of(transform, f)}: {len(primals)} primals but {len(tangents)} tangents.")


def pushed_along(
    transform: str, f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], *, has_aux: bool = False
) -> Any:
    """Return the value, the tangent and, with `has_aux`, the auxiliary result of a function."""
    check_counts(transform, f, primals, tangents)
    selection = Selection(transform, f, range(len(primals)))
    recorder = ForwardRecorder(transform, f)
    inputs = wrap_inputs(recorder, selection, tuple(primals), {})
    given = [hold_input(t, recorder) for t in check_tangents(inputs, tangents)]
    out, aux = split_aux(traced(recorder, f, inputs.args, {}), has_aux, selection)
    leaves, structure = checked_leaves(out, transform, f)
    found = push_through(recorder, given, leaves)
    values = [unwrap(leaf, recorder) for leaf in leaves]
    found = [
        t if t is None or is_inexact(value) else None for t, value in zip(found, values, strict=True)
    ]  # some rules return zeros for integers
    zeros = [scalar_derivative(t) for t in with_zeros(found, values)]
    rest, form = flatten(unwrap(aux, recorder)) if has_aux else ([], structure)
    known = [*inputs.primals, *given, *unrecorded(recorder, [*leaves, *flatten(aux)[0]] if has_aux else leaves)]
    owned, count = own_results([*values, *zeros, *rest], known), len(values)
    result = structure.unflatten(owned[:count]), structure.unflatten(owned[count : 2 * count])
    return (*result, form.unflatten(owned[2 * count :])) if has_aux else result
