"""Checks of arguments, results, tangents and cotangents, and their messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.errors import ConstantError, OutputError, StructureError
from functad.expressions.spec import PLAIN, PYTHON_SCALARS, ArraySpec, dtype_of, shape_and_dtype, shape_of, spec_of
from functad.places import call_of, here, line_of
from functad.primitives.indexing.read import as_number
from functad.primitives.operands import all_examples, foreign_rules, strong
from functad.tracing.traces.base import Recorded, Recorder
from functad.tracing.traces.equations import AbstractRecorder
from functad.transforms.calling.selection import Selection
from functad.transforms.walks.cotangents import foreign
from functad.trees.structure import Structure, flatten

_ndarray = np.ndarray


INTEGER = "Integers have no derivative: pass a float (1.0 instead of 1, x.astype(float)), or choose other arguments by argnums."


def without_slope(allow_int: bool | None) -> str:
    """Return the reason and the fix for an integer result; `allow_int` is `None` if the transform has no such option."""
    reason = "Integers and booleans jump and have no derivative; functad.explain(f, ...) shows where each path is cut."
    return reason if allow_int is None else f"{reason} allow_int=True gives zeros."


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


def overwritten(recorder: Recorder, a: Any, place: Any) -> ConstantError:
    """Return the error for a residual that the function has overwritten."""
    known = f"was used at {line_of(*place)}" if place is not None else "it was given"
    return ConstantError(
        f"{call_of(recorder.transform, recorder.function)}: an array, {spec_of(a)}, that {known} was overwritten before the "
        f"function returned, perhaps under another name or through a view; its derivative needs the old values. Write into a "
        f"copy: a = a.copy()."
    )


OBJECTS = "Objects have no derivative: np.stack(list(a)) makes an array of an object array with Tensors in it."


def check_slope(leaf: Any, path: str, selection: Selection, allow_int: bool | None = None) -> None:
    """Check that a leaf of a result can have a derivative.

    Raises:
        OutputError: the leaf is integer or boolean, and `allow_int` is not set.
    """
    if dtype_of(leaf).kind in "biu" and not allow_int:
        raise OutputError(f"{selection.call}: {path} is {spec_of(leaf)}. {without_slope(allow_int)}")


def check_result(leaf: Any, path: str, transform: str, function: Any) -> None:
    """Check that a leaf of a result is an array of numbers or a number.

    Raises:
        OutputError: the leaf is something else, such as an array of objects.
    """
    if type(leaf) not in PYTHON_SCALARS and not hasattr(leaf, "dtype"):
        found, cure = f"a {type(leaf).__name__}", "Return arrays and numbers only, and all other values with has_aux=True."
    elif not isinstance(dtype_of(leaf), np.dtype):
        found, cure = f"an array of {dtype_of(leaf)}, which is not a dtype of NumPy", "Return np.asarray of it."
    elif dtype_of(leaf).kind not in "biufc":
        found, cure = f"an array of dtype {dtype_of(leaf)}", OBJECTS
    else:
        return
    raise OutputError(f"{call_of(transform, function)}: {path} is {found}. {cure}")


def checked_leaves(out: Any, transform: str, function: Any) -> tuple[list[Any], Structure]:
    """Return the leaves of a result, checked by `check_result`, and its structure."""
    leaves, structure = flatten(out)
    for leaf, path in zip(leaves, structure.paths("result"), strict=True):
        check_result(leaf, path, transform, function)
    return leaves, structure


_NO_NUMBERS = "Derivatives are multiplied by it, so it must hold numbers: np.ones_like(x) shows the form."


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
        if type(leaf) in PLAIN and (inner := foreign(value)) is not None:
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
    if type(tensor.recorder) is not AbstractRecorder:
        return True  # one example of a batch
    made = tensor.recorder.equations[tensor.slot]
    if made is None:
        return False
    primitive = made.primitive
    if primitive.lists:  # a carry that starts as an array of shape () stays an array
        return not tensor.below.zero_d
    return primitive.zero_d is False
