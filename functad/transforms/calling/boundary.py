"""The boundary of a traced call: arguments become Tensors on the way in, results lose their Tensors on the way out.

`wrap_inputs` selects and checks arguments, and makes them inputs of a trace. `traced` runs the function. `own_derivatives` and
`own_aux` return derivatives and auxiliary results in memory of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.errors import InputError, OutputError
from functad.expressions.spec import PLAIN, dtype_of, shape_and_dtype
from functad.places import here, name_of
from functad.tracing.conversions import refusal_behind
from functad.tracing.float_errors import LAST, float_errors, get_state, leave_float_errors, set_state
from functad.tracing.graphs import InGraphError, check_graph, check_wrapped
from functad.tracing.ownership import first_modified, hold_input, own_results, unrecorded
from functad.tracing.tensor import Tensor
from functad.tracing.traces.base import LIVE, OPEN, Recorder
from functad.tracing.values import unwrap, value_of
from functad.transforms.calling.checks import INTEGER, check_like, described, overwritten, scalar_derivative, undifferentiable
from functad.transforms.calling.selection import Selection
from functad.transforms.walks.cotangents import zero_tangent
from functad.trees.structure import LEAF, Structure, flatten

_ndarray = np.ndarray
_float64 = np.float64
_FLOATS = frozenset({float, np.float64})


class Inputs:
    """The inputs of a trace: the leaves of the selected arguments of one call.

    Attributes:
        args, kwargs: the arguments, with Tensors in place of the selected ones.
        primals: the values of all leaves, argument by argument.
        structures: the tree structure of each selected argument.
        skipped: positions in `primals` of integers, which are no inputs of the trace.
    """

    __slots__ = ("args", "kwargs", "primals", "skipped", "structures")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = list(args)
        self.kwargs = kwargs
        self.primals: list[Any] = []
        self.structures: list[Structure] = []
        self.skipped: set[int] = set()


def wrap_inputs(
    recorder: Recorder,
    selection: Selection,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    holomorphic: bool = False,
    allow_int: bool | None = None,
) -> Inputs:
    """Return the selected arguments of a call as inputs of a trace.

    Args:
        recorder: the trace.
        selection: the selected arguments.
        args: the positional arguments of the call.
        kwargs: the keyword arguments of the call.
        holomorphic: the selected arguments must be complex.
        allow_int: integer leaves are accepted; `None` if the transform has no such option.

    Raises:
        InputError: a selected argument cannot be differentiated.
    """
    inputs = Inputs(args, kwargs)
    for key in selection.keys(args, kwargs):
        value = args[key] if isinstance(key, int) else kwargs[key]
        made: Any
        kind = type(value)
        if not holomorphic and (kind is float or kind is _float64 or (kind is _ndarray and value.dtype.kind == "f")):
            inputs.structures.append(LEAF)
            made = _enter(recorder, inputs, value)
        else:
            made = _enter_tree(recorder, selection, inputs, key, holomorphic, allow_int)
        if isinstance(key, int):
            inputs.args[key] = made
        else:
            inputs.kwargs = {**inputs.kwargs, key: made}
    return inputs


def _enter(recorder: Recorder, inputs: Inputs, leaf: Any) -> Any:
    """Add a leaf to the inputs of a trace, and return its Tensor."""
    value = hold_input(leaf, recorder)
    inputs.primals.append(value if recorder.lasting else leaf)
    return recorder.enter(value)


def _enter_tree(
    recorder: Recorder, selection: Selection, inputs: Inputs, key: int | str, holomorphic: bool, allow_int: bool | None
) -> Any:
    """Return one argument with Tensors in place of its leaves."""
    leaves, structure = flatten(inputs.args[key] if isinstance(key, int) else inputs.kwargs[key])
    inputs.structures.append(structure)
    tensors: list[Any] = []
    for i, given in enumerate(leaves):
        if type(given) is _ndarray and given.dtype.kind == "f" and not holomorphic:  # the common case
            tensors.append(_enter(recorder, inputs, given))
            continue
        leaf = value_of(given)
        reason = undifferentiable(leaf, holomorphic)
        if reason == INTEGER and allow_int:
            inputs.skipped.add(len(inputs.primals))
            inputs.primals.append(leaf)
            tensors.append(leaf)
        elif reason is not None:
            if reason == INTEGER and allow_int is not None:
                reason = f"{INTEGER} allow_int=True lets integers through."
            root = f"args[{key}]" if isinstance(key, int) else f"kwargs[{key!r}]"
            raise InputError(f"{selection.call}: {structure.paths(root)[i]} is {described(leaf)}. {reason}")
        else:
            tensors.append(_enter(recorder, inputs, leaf))
    return structure.unflatten(tensors)


def traced(recorder: Recorder, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return `f(*args, **kwargs)`, and close the trace.

    Raises:
        ConversionError, AbstractValueError: the function needs the value of a Tensor. These errors also replace errors of NumPy
            with the same cause, such as "setting an array element with a sequence" for `a[0] = t`, or for `np.zeros(t)`.
    """
    around = OPEN.get()
    state, pair = get_state(), LAST[0]
    errors = pair if state is pair[0] else None if state is pair[1] else float_errors(state)
    try:
        try:
            LIVE.add(recorder.serial)
            if errors is not None:
                set_state(errors[1])
            OPEN.set(recorder)
            out = f(*args, **kwargs) if recorder.watch is None else recorder.watch.run(f, args, kwargs)
            if recorder.checksums and (broken := first_modified(recorder)) is not None:
                raise overwritten(recorder, *broken)
            if type(out) is Tensor and out.recorder is recorder and not recorder.written:
                if type(out.below) not in PLAIN:
                    check_graph(out)
                return out
            return _settled(out)
        finally:
            OPEN.set(around)
            LIVE.discard(recorder.serial)
            if errors is not None and get_state() is errors[1]:
                set_state(errors[0])
            elif errors is not None:
                leave_float_errors(errors)
            recorder.close()
    except BaseException as error:  # repeats the cleanup, which an interrupt may have cut short
        OPEN.set(around)
        LIVE.discard(recorder.serial)
        leave_float_errors(errors)
        recorder.close()
        if isinstance(error, InGraphError):
            raise error.error.with_traceback(error.__traceback__) from None
        if (refused := refusal_behind(error)) is not None:
            raise refused from None
        raise


def _settled(out: Any) -> Any:
    """Return a result with stale views renewed and with Tensors of inactive tapes replaced by their values."""
    if type(out) in PLAIN:
        return out
    if isinstance(out, Tensor):
        out.renew()
        out = value_of(out)
        check_graph(out)
        return out
    leaves, structure = flatten(out)
    for leaf in leaves:
        if type(leaf) not in PLAIN:
            check_wrapped(leaf)
    settled = [
        leaf if type(leaf) in PLAIN else _settled(leaf) if isinstance(leaf, Tensor) else value_of(leaf) for leaf in leaves
    ]
    return out if all(a is b for a, b in zip(leaves, settled, strict=True)) else structure.unflatten(settled)


def split_aux(out: Any, has_aux: bool, selection: Selection) -> tuple[Any, Any]:
    """Return the differentiable result and the auxiliary result, which is `None` without `has_aux`.

    Raises:
        OutputError: `has_aux` is set, and `out` is not a pair.
    """
    if not has_aux:
        return out, None
    if not isinstance(out, tuple) or len(out) != 2:
        raise OutputError(
            f"{selection.transform} of {name_of(selection.function)} with has_aux=True, called at {here()}: "
            f"the function must return a pair (result, aux), not a {type(out).__name__}."
        )
    return out[0], out[1]


def own_aux(aux: Any, recorder: Recorder, primals: Sequence[Any], results: Sequence[Any] = ()) -> Any:
    """Return the auxiliary result without memory shared with arguments, captured arrays or other results."""
    given, structure = flatten(aux)
    known = [*primals, *results, *unrecorded(recorder, given)]
    return structure.unflatten(own_results(flatten(unwrap(aux, recorder))[0], known))


def check_tangents(inputs: Inputs, tangents: Sequence[Any]) -> list[Any]:
    """Return the leaves of tangents, checked by `check_like` against the selected arguments."""
    given: list[Any] = []
    for i, (structure, tangent) in enumerate(zip(inputs.structures, tangents, strict=True)):
        primals = inputs.primals[len(given) : len(given) + structure.leaves]
        given.extend(check_like(tangent, structure, primals, f"tangents[{i}]", "primal"))
    return given


def own_derivatives(inputs: Inputs, found: list[Any], foreign: Sequence[Any] = ()) -> list[Any]:
    """Return one derivative per selected argument, in writable arrays that share no memory.

    Args:
        inputs: the inputs of the trace.
        found: the cotangents of the inputs; `None` means zero.
        foreign: arrays of the user, with which derivatives must not share memory.
    """
    if len(inputs.structures) == len(inputs.primals) == len(found) == 1 and not foreign:
        ct, primal = found[0], inputs.primals[0]  # the common case: a number, or an array that the backward pass owns
        whole = type(ct) is type(primal) is _ndarray and ct.base is None and ct.dtype is primal.dtype and ct.ndim
        if whole or (type(ct) is _float64 and type(primal) in _FLOATS):
            structure = inputs.structures[0]
            return [ct] if structure is LEAF else [structure.unflatten([ct])]
    waiting = iter(found)
    leaves = []
    for i, primal in enumerate(inputs.primals):
        ct = None if i in inputs.skipped else next(waiting)
        leaves.append(_like(ct, primal))
    return by_argument(inputs, own_results(leaves, foreign))


def by_argument(inputs: Inputs, leaves: list[Any]) -> list[Any]:
    """Unflatten the leaves of the selected arguments into one tree per argument."""
    if len(inputs.structures) == 1 and inputs.structures[0].kind is None:
        return leaves
    remaining = iter(leaves)
    return [structure.unflatten([next(remaining) for _ in range(structure.leaves)]) for structure in inputs.structures]


def _like(ct: Any, primal: Any) -> Any:
    """Return a derivative cast to the dtype of its primal; zeros for `None`."""
    if ct is None:
        return zero_tangent(primal)
    dtype = dtype_of(primal)
    shape, own = shape_and_dtype(ct)
    if not shape and type(ct) is not _float64:
        ct = scalar_derivative(ct)
    return ct if own == dtype else ct.astype(dtype)
