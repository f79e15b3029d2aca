"""The boundary of a traced call: arguments become Tensors on the way in, results lose their Tensors on the way out.

`wrap_inputs` selects and checks arguments, and makes them inputs of a trace. `traced` runs the function. `own_derivatives`
and `own_aux` return derivatives and auxiliary results in memory of their own. The checks of arguments, results, tangents
and cotangents, with their messages, come last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from functad.errors import ConstantError, InputError, OutputError, StructureError
from functad.expressions.spec import PLAIN, PYTHON_SCALARS, ArraySpec, dtype_of, shape_and_dtype, shape_of, spec_of
from functad.places import call_of, here, line_of, name_of
from functad.primitives.indexing.read import as_number
from functad.primitives.operands import all_examples, foreign_rules, strong
from functad.process import context_variable
from functad.tracing.conversions import refusal_behind
from functad.tracing.equations import AbstractRecorder
from functad.tracing.float_errors import LAST, float_errors, get_state, leave_float_errors, set_state
from functad.tracing.foreign import InGraphError, check_graph, check_wrapped
from functad.tracing.ownership import first_modified, hold_input, own_results, unrecorded
from functad.tracing.tensor import Tensor
from functad.tracing.trace import LIVE, OPEN, Recorded, Recorder, unwrap, value_of
from functad.transforms.reverse import foreign_array, zero_tangent
from functad.transforms.transform import Selection
from functad.trees import LEAF, Structure, flatten

INNER: ContextVar[Any] = context_variable("inner", default=None)
"""Replaces the functions that transforms call while `jit` traces (`functad.compilation.inner_loops`); usually `None`."""

_ndarray = np.ndarray
_float64 = np.float64
_FLOATS = frozenset({float, np.float64})
INTEGER = "Integers have no derivative: pass a float (1.0 instead of 1, x.astype(float)), or choose other arguments by argnums."
OBJECTS = "Objects have no derivative: np.stack(list(a)) makes an array of an object array with Tensors in it."
_NO_NUMBERS = "Derivatives are multiplied by it, so it must hold numbers: np.ones_like(x) shows the form."


class Inputs(NamedTuple):
    """The inputs of a trace: the leaves of the selected arguments of one call.

    Attributes:
        selection: the selected arguments.
        args, kwargs: the arguments, with Tensors in place of the selected ones.
        primals: the values of all leaves, argument by argument.
        structures: the tree structure of each selected argument.
        skipped: positions in `primals` of integers, which are no inputs of the trace.
    """

    selection: Selection
    args: list[Any]
    kwargs: dict[str, Any]
    primals: list[Any]
    structures: list[Structure]
    skipped: set[int]

    def pack(self, leaves: Iterable[Any]) -> Any:
        """Return one derivative per leaf in the form that the user gets: trees as the arguments, see `Selection.pack`."""
        rest = iter(leaves)
        return self.selection.pack([s.unflatten([next(rest) for _ in range(s.leaves)]) for s in self.structures])


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
    given = list(args)
    primals: list[Any] = []
    structures = []
    skipped = set()
    for key in selection.positions if len(args) > selection.highest else selection.keys(args, kwargs):
        value = args[key] if isinstance(key, int) else kwargs[key]
        leaves, structure = ([value], LEAF) if type(value) is _ndarray or type(value) in _FLOATS else flatten(value)
        tensors = []
        for i, leaf in enumerate(leaves):
            kind = type(leaf)
            if holomorphic or not (kind in _FLOATS or (kind is _ndarray and leaf.dtype.kind == "f")):
                leaf = value_of(leaf)
                reason = undifferentiable(leaf, holomorphic)
                if reason == INTEGER and allow_int:
                    skipped.add(len(primals))
                    primals.append(leaf)
                    tensors.append(leaf)
                    continue
                if reason is not None:
                    advice = " allow_int=True lets integers through." if reason == INTEGER and allow_int is not None else ""
                    root = f"args[{key}]" if isinstance(key, int) else f"kwargs[{key!r}]"
                    path = structure.paths(root)[i]
                    raise InputError(f"{selection.call}: {path} is {described(leaf)}. {reason}{advice}")
            held = hold_input(leaf, recorder)
            primals.append(held if recorder.lasting else leaf)
            tensors.append(recorder.append(None, held))
        made = tensors[0] if structure is LEAF else structure.unflatten(tensors)
        if isinstance(key, int):
            given[key] = made
        else:
            kwargs = {**kwargs, key: made}
        structures.append(structure)
    recorder.inputs = len(recorder.records)
    return Inputs(selection, given, kwargs, primals, structures, skipped)


def check_tangents(inputs: Inputs, tangents: Sequence[Any]) -> list[Any]:
    """Return the leaves of tangents, checked by `check_like` against the selected arguments."""
    given: list[Any] = []
    for i, (structure, tangent) in enumerate(zip(inputs.structures, tangents, strict=True)):
        primals = inputs.primals[len(given) : len(given) + structure.leaves]
        given.extend(check_like(tangent, structure, primals, f"tangents[{i}]", "primal"))
    return given


def traced(recorder: Recorder, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return `f(*args, **kwargs)`, and close the trace.

    Raises:
        ConversionError, AbstractValueError: the function needs the value of a Tensor. These errors also replace errors of NumPy
            with the same cause, such as "setting an array element with a sequence" for `a[0] = t`, or for `np.zeros(t)`.
    """
    around = OPEN.get()
    if (inner := INNER.get()) is not None:
        f = inner.calling(around, recorder, f)
    state, pair = get_state(), LAST[0]
    errors = pair if state is pair[0] else None if state is pair[1] else float_errors(state)
    try:
        try:
            LIVE.add(recorder.serial)
            if errors is not None:
                set_state(errors[1])
            OPEN.set(recorder)
            out = f(*args, **kwargs) if recorder.monitor is None else recorder.monitor.run(f, args, kwargs)
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
        out.current()
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


def overwritten(recorder: Recorder, a: Any, place: Any) -> ConstantError:
    """Return the error for a residual that the function has overwritten."""
    known = f"was used at {line_of(*place)}" if place is not None else "it was given"
    return ConstantError(
        f"{call_of(recorder.transform, recorder.function)}: an array, {spec_of(a)}, that {known} was overwritten before the "
        f"function returned, perhaps under another name or through a view; its derivative needs the old values. Write into a "
        f"copy: a = a.copy()."
    )


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


def own_derivatives(inputs: Inputs, found: list[Any], given: Sequence[Any] = ()) -> Any:
    """Return the derivatives in the form that the user gets, in writable arrays that share no memory.

    Args:
        inputs: the inputs of the trace.
        found: the cotangents of the inputs; `None` means zero.
        given: arrays of the user, with which derivatives must not share memory.
    """
    if len(inputs.primals) == len(found) == 1 and inputs.structures[0] is LEAF and inputs.selection.single:
        ct, primal = found[0], inputs.primals[0]  # the common case: a number, or an array that the backward pass owns
        whole = type(ct) is type(primal) is _ndarray and ct.base is None and ct.dtype is primal.dtype and ct.ndim
        if whole or (type(ct) is _float64 and type(primal) in _FLOATS):
            return ct
    waiting = iter(found)
    leaves = [_like(None if i in inputs.skipped else next(waiting), primal) for i, primal in enumerate(inputs.primals)]
    return inputs.pack(own_results(leaves, given))


def _like(ct: Any, primal: Any) -> Any:
    """Return a derivative cast to the dtype of its primal; zeros for `None`."""
    if ct is None:
        return zero_tangent(primal)
    dtype = dtype_of(primal)
    shape, own = shape_and_dtype(ct)
    if not shape and type(ct) is not _float64:
        ct = scalar_derivative(ct)
    return ct if own == dtype else ct.astype(dtype)


def own_aux(aux: Any, recorder: Recorder, primals: Sequence[Any], results: Sequence[Any] = ()) -> Any:
    """Return the auxiliary result without memory shared with arguments, captured arrays or other results."""
    given, structure = flatten(aux)
    known = [*primals, *results, *unrecorded(recorder, given)]
    return structure.unflatten(own_results(flatten(unwrap(aux, recorder))[0], known))


# Checks of leaves, and casts


def undifferentiable(leaf: Any, holomorphic: bool = False) -> str | None:
    """Return the reason why a leaf cannot be differentiated, and the fix; `None` if it can."""
    shape, dtype = shape_and_dtype(leaf)
    if shape is None or dtype is None:
        return "Only arrays and numbers, and containers of them, can be differentiated; choose others by argnums."
    if type(leaf) not in PLAIN and not isinstance(leaf, Recorded) and (reason := foreign_rules(leaf)) is not None:
        return reason
    kind = dtype.kind
    if kind in "biu":
        return INTEGER
    if kind not in "fc":
        return "Only floating-point and complex arrays can be differentiated; choose other arguments by argnums."
    if holomorphic and kind != "c":
        return "holomorphic=True asks for complex arguments: pass x.astype(complex), or leave holomorphic out."
    return None


def described(leaf: Any) -> str:
    """Return the type of a leaf as text, with shape and dtype if known."""
    try:
        return f"{type(leaf).__name__} ({spec_of(leaf)})"
    except (TypeError, AttributeError):  # not an array, or a dtype of another library
        return f"a {type(leaf).__name__}"


def checked_leaves(out: Any, transform: str, function: Any) -> tuple[list[Any], Structure]:
    """Return the leaves of a result, checked by `check_result`, and its structure."""
    leaves, structure = flatten(out)
    for number, leaf in enumerate(leaves):
        if not holds_numbers(leaf):
            check_result(leaf, structure.paths("result")[number], transform, function)
    return leaves, structure


def holds_numbers(leaf: Any) -> bool:
    """Return `True` for a number and for an array of numbers."""
    if type(leaf) in PYTHON_SCALARS:
        return True
    dtype = getattr(leaf, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind in "biufc"


def check_result(leaf: Any, path: str, transform: str, function: Any) -> None:
    """Check that a leaf of a result is an array of numbers or a number.

    Raises:
        OutputError: the leaf is something else, such as an array of objects.
    """
    if holds_numbers(leaf):
        return
    if not hasattr(leaf, "dtype"):
        found, cure = f"a {type(leaf).__name__}", "Return arrays and numbers only, and all other values with has_aux=True."
    elif not isinstance(dtype_of(leaf), np.dtype):
        found, cure = f"an array of {dtype_of(leaf)}, which is not a dtype of NumPy", "Return np.asarray of it."
    else:
        found, cure = f"an array of dtype {dtype_of(leaf)}", OBJECTS
    raise OutputError(f"{call_of(transform, function)}: {path} is {found}. {cure}")


def check_slope(leaf: Any, path: str, selection: Selection, allow_int: bool | None = None) -> None:
    """Check that a leaf of a result can have a derivative.

    Raises:
        OutputError: the leaf is integer or boolean, and `allow_int` is not set.
    """
    if dtype_of(leaf).kind in "biu" and not allow_int:
        raise OutputError(f"{selection.call}: {path} is {spec_of(leaf)}. {without_slope(allow_int)}")


def without_slope(allow_int: bool | None) -> str:
    """Return the reason and the fix for an integer result; `allow_int` is `None` if the transform has no such option."""
    reason = "Integers and booleans jump and have no derivative; functad.explain(f, ...) shows where each path is cut."
    return reason if allow_int is None else f"{reason} allow_int=True gives zeros."


def check_like(given: Any, structure: Structure, values: Sequence[Any], name: str, what: str) -> list[Any]:
    """Return the leaves of tangents or cotangents, cast to the dtypes of `values`; `None` for values that are not inexact.

    Args:
        given: the tree of tangents or cotangents.
        structure: the required structure.
        values: the leaves that `given` must match in shape.
        name: the name of `given`, for messages.
        what: a word for the values, for messages.

    Raises:
        StructureError: `given` does not match, or has a leaf that is not numeric; the message names the leaf.
    """
    leaves = structure.flatten_like(given, name)
    paths = structure.paths(name)
    result: list[Any] = []
    for leaf, value, path in zip(leaves, values, paths, strict=True):
        if dtype_of(value).kind not in "fc":
            result.append(None)
            continue
        if type(leaf) not in PYTHON_SCALARS and not hasattr(leaf, "dtype"):
            raise StructureError(f"{path} is a {type(leaf).__name__}, not an array, at {here()}.")
        reason = None if type(leaf) in PLAIN else foreign_rules(leaf)
        if reason is None and dtype_of(leaf).kind not in "biufc":
            reason = _NO_NUMBERS
        if reason is not None:
            raise StructureError(f"{path} is {described(leaf)}, at {here()}. {reason}")
        if shape_of(leaf) != shape_of(value):
            raise StructureError(f"{path} is {spec_of(leaf)}, but the {what} is {spec_of(value)}, at {here()}.")
        wanted, own = dtype_of(value), dtype_of(leaf)
        if own.kind == "c" and wanted.kind != "c":
            raise StructureError(f"{path} is complex, but the {what} is {spec_of(value)}, at {here()}.")
        leaf = as_dtype(leaf, wanted)
        if type(leaf) in PLAIN and (inner := foreign_array(value)) is not None:
            leaf = np.ones_like(inner) * leaf  # an array of the same library as the value
        result.append(scalar_derivative(leaf))  # loops and branches pass tangents through unchanged
    return result


def as_dtype(leaf: Any, dtype: Any) -> Any:
    """Return an array or number cast to a dtype; a Python number becomes a NumPy scalar."""
    if type(leaf) in PYTHON_SCALARS:
        return dtype.type(leaf)
    if type(leaf) not in PLAIN:
        leaf = strong(leaf)
    return leaf if dtype_of(leaf) == dtype else leaf.astype(dtype)


def scalar_derivative(derivative: Any) -> Any:
    """Return a derivative of shape `()` as a NumPy scalar, because some rules return arrays; return others unchanged."""
    if type(derivative) is _ndarray:
        return derivative if derivative.ndim else derivative[()]
    if isinstance(derivative, Recorded) and not shape_of(derivative) and isinstance(all_examples(derivative), ArraySpec):
        return derivative if _made_as_number(derivative) else as_number(derivative)
    return derivative


def _made_as_number(tensor: Any) -> bool:
    """Return `True` if the equation of a value of shape `()` always returns a NumPy scalar, as ufuncs and sums do."""
    while isinstance(tensor.below, Recorded):
        tensor = tensor.below
    if not isinstance(tensor.recorder, AbstractRecorder):
        return True  # one example of a batch
    made = tensor.recorder.records[tensor.slot]
    if made is None:
        return False
    primitive = made.primitive
    if primitive.lists:  # a carry that starts as an array of shape () stays an array
        return not tensor.below.zero_d
    return primitive.zero_d is False
