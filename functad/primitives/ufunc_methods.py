"""The methods of ufuncs (`np.add.reduce`, `np.multiply.outer`, ...) and the keywords of ufunc calls, on Tensors.

A reduction or scan with its own entry is called (`np.add.reduce` is a sum). Any other ufunc of two arguments is applied to one
slice after the other, at a cost linear in the number of elements.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from functad.errors import ConversionError, FunctadError, UnsupportedError
from functad.expressions.spec import PYTHON_SCALARS, dtype_of, shape_of, spec_of, stand_in
from functad.places import WRITE_INTO, adoption_cure, augmented_assignment, here
from functad.primitives.arranging.reshape import RESHAPE, permuted
from functad.primitives.elementwise.conversion import COPY, astype
from functad.primitives.indexing.read import get_item, scatter
from functad.primitives.operands import as_operand, concrete, innermost, is_traced
from functad.primitives.reductions import over_axes, scans

_NoValue = np._NoValue

_REDUCTIONS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: over_axes.sum,
    np.multiply: over_axes.prod,
    np.maximum: over_axes.MAX.front,
    np.minimum: over_axes.MIN.front,
    np.logical_and: over_axes.ALL.front,
    np.logical_or: over_axes.ANY.front,
}
_SCANS: dict[np.ufunc, Callable[..., Any]] = {np.add: scans.cumsum, np.multiply: scans.cumprod}


_OF_A_CALLER = (
    " If a caller passes the array, the caller must make it with np.zeros(shape, like=t) or functad.numpy.zeros(shape). "
    "Tensors can be written into these arrays."
)


def _refuse_out(ufunc: np.ufunc, method: str, out: Any) -> None:
    if any(part is not None for part in (out if isinstance(out, tuple) else (out,))):
        call = f"np.{ufunc.__name__}{method}"
        statement = augmented_assignment()
        if statement:
            into_a_part = statement.split("=", 1)[0].rstrip("+-*/%@&|^<> ").endswith("]")
            cure = f"{WRITE_INTO}." if into_a_part else "Use an assignment, a = a + t, which makes a new array."
            raise ConversionError(
                f"`{statement}` writes a Tensor into a plain array, at {here()}, and its derivative would be lost. "
                f"{cure}{adoption_cure() or _OF_A_CALLER}"
            )
        raise UnsupportedError(
            f"{call} of a Tensor cannot write to out=, at {here()}. Assign the result instead: y = {call}(...). "
            f"Or make the array with functad.numpy, whose arrays take Tensors."
        )


# Methods


def _reduce(
    ufunc: np.ufunc,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = _NoValue,
    where: Any = True,
) -> Any:
    """Return `ufunc.reduce` of an array."""
    _refuse_out(ufunc, ".reduce", out)
    array = as_operand(array)
    front = _REDUCTIONS.get(ufunc)
    if front is None:
        return _folded(ufunc, array if dtype is None else astype(array, dtype, copy=False), axis, keepdims, initial, where)
    if ufunc in (np.logical_and, np.logical_or):
        result = front(array, axis=axis, keepdims=keepdims, where=where)
        return result if initial is _NoValue or initial is None else ufunc(result, initial)
    if dtype is None:
        return front(array, axis=axis, keepdims=keepdims, initial=initial, where=where)
    result = front(astype(array, dtype, copy=False), axis=axis, keepdims=keepdims, initial=initial, where=where)
    return astype(result, dtype, copy=False)  # np.sum adds booleans and short integers in int64


def _result_of(call: Callable[..., Any], array: Any, *args: Any, **kwargs: Any) -> Any:
    """Return NumPy's result for a placeholder of an array: its shape and dtype are those of the fold. Raise NumPy's errors."""
    with np.errstate(all="ignore"):
        return call(stand_in(spec_of(array)), *args, **kwargs)


def _folded(ufunc: np.ufunc, array: Any, axis: Any, keepdims: bool, initial: Any, where: Any) -> Any:
    """Return a reduction as a left fold over slices, the definition that also holds for ufuncs that are not associative."""
    first = initial is _NoValue or initial is None
    mask = where if where is True else as_operand(where)
    of_mask = mask if mask is True else np.ones(shape_of(mask), np.bool_)
    model = _result_of(ufunc.reduce, array, axis, None, None, keepdims, initial if first else 1, of_mask)
    array, shape = astype(array, model.dtype, copy=False), shape_of(array)
    axes = tuple(range(len(shape))) if axis is None or not shape else normalize_axis_tuple(axis, len(shape))
    kept = tuple([i for i in range(len(shape)) if i not in axes])
    flat = (math.prod([shape[i] for i in axes]), *[shape[i] for i in kept])
    slices = RESHAPE(permuted(array, (*axes, *kept)), shape=flat)
    if mask is not True:
        mask = RESHAPE(permuted(np.broadcast_to(mask, shape), (*axes, *kept)), shape=flat)
    if initial is _NoValue and (mask is not True or flat[0] == 0 or ufunc is np.hypot):
        initial = ufunc.identity  # hypot of a single element is its absolute value
        first = initial is None
    result = COPY(slices[0]) if first else np.broadcast_to(over_axes.number_like(initial, array), flat[1:])
    for i in range(first, flat[0]):
        step = ufunc(result, slices[i])
        result = step if mask is True else np.where(mask[i], step, result)
    if shape_of(result) != model.shape:
        return RESHAPE(result, shape=model.shape)
    return result[()] if type(result) is np.ndarray and type(model) is not np.ndarray else result


def _accumulate(ufunc: np.ufunc, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
    """Return `ufunc.accumulate` of an array."""
    _refuse_out(ufunc, ".accumulate", out)
    array = as_operand(array)
    scan = _SCANS.get(ufunc)
    if scan is not None and shape_of(array):
        return scan(array, axis, dtype)
    array = array if dtype is None else astype(array, dtype, copy=False)
    model = _result_of(ufunc.accumulate, array, axis)
    array = astype(array, model.dtype, copy=False)
    if model.shape[axis] < 2:
        return COPY(array)
    rows = np.moveaxis(array, axis, 0)
    return np.stack(list(itertools.accumulate([rows[i] for i in range(model.shape[axis])], ufunc)), axis)


def _outer(ufunc: np.ufunc, a: Any, b: Any, **kwargs: Any) -> Any:
    """Return `ufunc.outer`: the ufunc of every element of `a` with every element of `b`."""
    if (ufunc.nin, ufunc.nout, ufunc.signature) != (2, 1, None):
        ufunc.outer(1.0, 1.0)  # raises NumPy's error
    _refuse_out(ufunc, ".outer", kwargs.pop("out", None))
    a, b = as_operand(a), as_operand(b)
    columns = len(shape_of(b))
    if columns:
        a = RESHAPE(a, shape=shape_of(a) + (1,) * columns)
    return ufunc(a, b, **kwargs)


def _reduceat(ufunc: np.ufunc, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
    """Return `ufunc.reduceat`: reductions from each index to the next, or one element if the next index is not greater."""
    _refuse_out(ufunc, ".reduceat", out)
    array, starts = as_operand(array), np.asarray(concrete(as_operand(indices), f"np.{ufunc.__name__}.reduceat"))
    starts = starts if starts.size else starts.astype(np.intp)
    if dtype is not None:
        array = astype(array, dtype, copy=False)
    model = _result_of(ufunc.reduceat, array, starts, axis)
    axis = normalize_axis_index(axis, len(model.shape))
    ends = np.maximum(np.append(starts[1:], shape_of(array)[axis]), starts + 1)
    before = (slice(None),) * axis
    if ufunc is np.add and dtype_of(array).kind in "fc":  # one scatter-add
        places = np.concatenate([np.zeros(0, np.intp), *map(np.arange, starts, ends)])
        results = np.repeat(np.arange(len(starts)), ends - starts)
        read = get_item(array, (*before, places))
        return scatter(read, indices=((*before, results),), shape=model.shape, dtype=dtype_of(array))
    if not len(starts):
        return np.zeros(model.shape, model.dtype)
    parts = [get_item(array, (*before, slice(a, b))) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
    initial = None if ufunc is np.hypot else _NoValue  # NumPy uses no identity here
    return np.stack([_reduce(ufunc, part, axis, initial=initial) for part in parts], axis)


def _at(ufunc: np.ufunc, *inputs: Any) -> None:
    from functad.primitives.indexing.overwrite import at  # noqa: PLC0415 - few programs need it

    at(ufunc, *inputs)


METHODS: dict[str, Callable[..., Any]] = {
    "reduce": _reduce,
    "accumulate": _accumulate,
    "outer": _outer,
    "reduceat": _reduceat,
    "at": _at,
}
"""The handler of each ufunc method: `handler(ufunc, *inputs, **kwargs)`."""


# Keywords of calls


def call_with_keywords(entry: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a ufunc with keywords. Keywords for dtypes become casts, and keywords for the memory layout are ignored.

    Args:
        entry: the entry of the ufunc.
        inputs: its arguments.
        kwargs: the keywords, as `__array_ufunc__` receives them.

    Raises:
        UnsupportedError: `out`, `where` or `signature` is given and cannot be supported.
    """
    ufunc: np.ufunc = entry.function
    outs = kwargs.get("out", ())
    if entry.kind == "constant" and outs and not any(map(is_traced, outs)):  # no derivative is lost
        return ufunc(*[concrete(as_operand(value), f"np.{ufunc.__name__}(out=)") for value in inputs], **kwargs)
    if outs and not any(map(is_traced, outs)) and (constants := _constants(inputs)) is not None:
        return ufunc(*constants, **kwargs)
    keywords = {key: value for key, value in kwargs.items() if key not in ("order", "subok")}
    _refuse_out(ufunc, "", keywords.pop("out", None))
    where = keywords.pop("where", True)
    if where is not True:
        given = ", ".join(["x", "y", "z"][: ufunc.nin])
        raise UnsupportedError(
            f"np.{ufunc.__name__} of a Tensor with where=, at {here()}: what the mask leaves out would have no value. "
            f"Use np.where(mask, np.{ufunc.__name__}({given}), x), which says what stands there."
        )
    dtype, casting = keywords.pop("dtype", None), keywords.pop("casting", "same_kind")
    if "signature" in keywords or "sig" in keywords:
        raise UnsupportedError(
            f"np.{ufunc.__name__} of a Tensor with signature=, at {here()}. Use dtype=, or cast with astype."
        )
    operands = [as_operand(value) for value in inputs]
    if dtype is not None or casting != "same_kind":
        operands = _cast_operands(ufunc, operands, dtype, casting)
    if ufunc.signature is not None:
        return _call_along_axes(entry, operands, **keywords)
    return entry.front(*operands, **keywords)


def _constants(inputs: tuple[Any, ...]) -> list[Any] | None:
    """Return the values of operands that depend on no differentiated input; `None` if an operand does."""
    if any(is_traced(value) and value.recorder.inactive for value in inputs):
        return None
    try:
        return [value._plain("out=") if is_traced(value) else value for value in inputs]
    except FunctadError:
        return None


def _call_along_axes(entry: Any, operands: list[Any], axes: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Call a product such as `matmul` or `vecdot` along other axes than the last: move the axes there and back."""
    ufunc: np.ufunc = entry.function
    name = f"np.{ufunc.__name__}"
    if axes is not None and (axis is not None or keepdims):
        raise UnsupportedError(f"{name} of a Tensor with axes= and axis= or keepdims=, at {here()}. Use np.moveaxis before it.")
    reduces = ufunc.signature == "(n),(n)->()"
    if not reduces and (axis is not None or keepdims):
        raise TypeError(f"{name} takes axis= and keepdims= only if it sums over one axis of all its arguments")
    axis = -1 if axis is None else operator.index(axis)
    places = [axis] * ufunc.nin if axes is None else list(axes)
    if len(places) not in (ufunc.nin, ufunc.nin + ufunc.nout):
        raise ValueError(
            f"axes of {name} must be a list with an entry for each of its {ufunc.nin} arguments, and for the result"
        )
    places = [tuple(place) if isinstance(place, (tuple, list)) else (place,) for place in places]
    moved = [
        np.moveaxis(x, place, range(-len(place), 0)) if len(place) <= len(shape_of(x)) else x
        for x, place in zip(map(as_operand, operands), places, strict=False)
    ]
    out = entry.front(*moved)
    if len(places) > ufunc.nin and places[-1]:
        out = np.moveaxis(out, range(-len(places[-1]), 0), places[-1])
    return np.expand_dims(out, axis) if keepdims else out


def _cast_operands(ufunc: np.ufunc, operands: list[Any], dtype: Any, casting: Any) -> list[Any]:
    """Return the arguments in the dtypes of NumPy's loop for the result dtype `dtype`."""
    known = [_resolvable(value) for value in operands]
    named: dict[str, Any] = {} if dtype is None else {"signature": (*[None] * ufunc.nin, *[np.dtype(dtype)] * ufunc.nout)}
    found = ufunc.resolve_dtypes((*known, *[None] * ufunc.nout), casting=casting, **named)
    return [
        astype(value, wanted, copy=False) if hasattr(value, "astype") else wanted.type(value)
        for value, wanted in zip(operands, found[: ufunc.nin], strict=True)
    ]


def _resolvable(value: Any) -> Any:
    """Return the dtype of an argument; for a Python number its type, which yields to the dtypes of arrays."""
    kind = type(innermost(value))
    return kind if kind in PYTHON_SCALARS and kind is not bool else dtype_of(value)
