"""The methods of ufuncs (`np.add.reduce`, `np.multiply.outer`, ...) and the keywords of ufunc calls, on Tensors.

A reduction or scan with its own entry is called (`np.add.reduce` is a sum). Any other ufunc of two arguments is applied to one
slice after the other, at a cost linear in the number of elements.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from functad.errors import ConversionError, FunctadError, UnsupportedError
from functad.expressions.spec import PYTHON_SCALARS, dtype_of, shape_of
from functad.places import WRITE_INTO, adoption_cure, augmented_assignment, here
from functad.primitives.arranging.reshape import RESHAPE, permuted
from functad.primitives.elementwise.conversion import COPY, astype
from functad.primitives.indexing.read import get_item, scatter
from functad.primitives.operands import as_operand, concrete, innermost, is_traced
from functad.primitives.reductions import extremes, scans
from functad.primitives.reductions import sums as reductions

_NoValue = np._NoValue

_REDUCTIONS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: reductions.sum,
    np.multiply: reductions.prod,
    np.maximum: extremes.MAX.front,
    np.minimum: extremes.MIN.front,
    np.logical_and: reductions.ALL.front,
    np.logical_or: reductions.ANY.front,
}
_SCANS: dict[np.ufunc, Callable[..., Any]] = {np.add: scans.cumsum, np.multiply: scans.cumprod}


def _check_binary(ufunc: np.ufunc, method: str) -> None:
    if ufunc.nin != 2 or ufunc.nout != 1:
        raise ValueError(f"{method} only supported for binary functions that return a single value")
    if ufunc.signature is not None:
        raise RuntimeError(f"{method} is not defined on ufuncs with a core signature")


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


# reduce


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
    _check_binary(ufunc, "reduce")
    _refuse_out(ufunc, ".reduce", out)
    array = as_operand(array)
    front = _REDUCTIONS.get(ufunc)
    if front is None:
        array = _as_folded(ufunc, array if dtype is None else astype(array, dtype, copy=False), "reduce")
        return _reduce_by_slices(ufunc, array, axis, bool(keepdims), initial, where)
    if ufunc in (np.logical_and, np.logical_or):
        result = front(array, axis=axis, keepdims=keepdims, where=where)
        return result if initial is _NoValue or initial is None else ufunc(result, initial)
    if dtype is None:
        return front(array, axis=axis, keepdims=keepdims, initial=initial, where=where)
    result = front(astype(array, dtype, copy=False), axis=axis, keepdims=keepdims, initial=initial, where=where)
    return astype(result, dtype, copy=False)  # np.sum adds booleans and short integers in int64


def _reduce_by_slices(ufunc: np.ufunc, array: Any, axis: Any, keepdims: bool, initial: Any, where: Any) -> Any:
    """Return a reduction as a left fold, the definition that also holds for ufuncs that are not associative."""
    shape = shape_of(array)
    whole = axis is None or (not shape and axis in (0, -1))  # NumPy also accepts axis 0 for a number
    axes = tuple(range(len(shape))) if whole else normalize_axis_tuple(axis, len(shape))
    if len(axes) > 1 and ufunc.identity is None and ufunc not in (np.fmax, np.fmin):
        raise ValueError(f"reduction operation '{ufunc.__name__}' is not reorderable, so at most one axis may be specified")
    kept = tuple([i for i in range(len(shape)) if i not in axes])
    kept_shape = tuple([shape[i] for i in kept])
    flat = (math.prod([shape[i] for i in axes]), *kept_shape)
    slices = RESHAPE(permuted(array, (*axes, *kept)), shape=flat)
    mask = None
    if where is not True:
        mask = np.broadcast_to(as_operand(where), shape)
        mask = RESHAPE(permuted(mask, (*axes, *kept)), shape=flat)
    if initial is _NoValue and (mask is not None or flat[0] == 0):
        initial = ufunc.identity
    if initial is _NoValue and ufunc is np.hypot:
        initial = ufunc.identity  # hypot of a single element is its absolute value
    result, first = _start(ufunc, slices, initial, mask)
    for i in range(first, flat[0]):
        step = ufunc(result, slices[i])
        result = step if mask is None else np.where(mask[i], step, result)
    if flat[0] == 1:
        result = COPY(result)  # it is a view of the argument
    if not keepdims:
        return result[()] if type(result) is np.ndarray else result  # for empty input NumPy returns a scalar too
    return RESHAPE(result, shape=tuple([1 if i in axes else n for i, n in enumerate(shape)]))


def _start(ufunc: np.ufunc, slices: Any, initial: Any, mask: Any) -> tuple[Any, int]:
    """Return the initial value of a fold, and the index of the first slice to combine with it."""
    shape = shape_of(slices)
    if initial is not _NoValue and initial is not None:
        start = astype(initial, dtype_of(slices), copy=False) if hasattr(initial, "astype") else dtype_of(slices).type(initial)
        return np.broadcast_to(start, shape[1:]), 0
    if mask is not None:
        raise ValueError(f"reduction operation '{ufunc.__name__}' has no identity, so where= needs initial= too")
    if shape[0] == 0:
        raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
    return slices[0], 1


def _as_folded(ufunc: np.ufunc, array: Any, method: str) -> Any:
    """Return an array in the dtype of NumPy's fold, which is also the dtype of the result for one element.

    Raises:
        TypeError: the ufunc has no loop for this dtype; the error is NumPy's own.
    """
    try:
        return astype(array, ufunc.resolve_dtypes((None, dtype_of(array), None), reduction=True)[0], copy=False)
    except TypeError:
        getattr(ufunc, method)(np.ones(2, dtype_of(array)))  # NumPy folds some dtypes that it cannot resolve (ldexp)
        return array


# accumulate and outer


def _accumulate(ufunc: np.ufunc, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
    """Return `ufunc.accumulate` of an array."""
    _check_binary(ufunc, "accumulate")
    _refuse_out(ufunc, ".accumulate", out)
    array = as_operand(array)
    shape = shape_of(array)
    if not shape:
        raise TypeError("cannot accumulate on a scalar")
    scan = _SCANS.get(ufunc)
    if scan is not None:
        return scan(array, axis, dtype)
    array = _as_folded(ufunc, array if dtype is None else astype(array, dtype, copy=False), "accumulate")
    axis = normalize_axis_index(axis, len(shape))
    if shape[axis] < 2:
        return COPY(array)
    before = (slice(None),) * axis
    results = [array[(*before, 0)]]
    for i in range(1, shape[axis]):
        results.append(ufunc(results[-1], array[(*before, i)]))
    return np.stack(results, axis)


def _outer(ufunc: np.ufunc, a: Any, b: Any, **kwargs: Any) -> Any:
    """Return `ufunc.outer`: the ufunc of every element of `a` with every element of `b`."""
    _check_binary(ufunc, "outer")
    _refuse_out(ufunc, ".outer", kwargs.pop("out", None))
    a, b = as_operand(a), as_operand(b)
    columns = len(shape_of(b))
    if columns:
        a = RESHAPE(a, shape=shape_of(a) + (1,) * columns)
    return ufunc(a, b, **kwargs)


def _reduceat(ufunc: np.ufunc, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
    """Return `ufunc.reduceat`: reductions from each index to the next, or one element if the next index is not greater."""
    _check_binary(ufunc, "reduceat")
    _refuse_out(ufunc, ".reduceat", out)
    array, starts = as_operand(array), np.asarray(concrete(as_operand(indices), f"np.{ufunc.__name__}.reduceat"))
    starts = starts if starts.size else starts.astype(np.intp)
    shape = shape_of(array)
    axis = normalize_axis_index(axis, len(shape))
    length = shape[axis]
    wrong = starts[(starts < 0) | (starts >= length)]
    if wrong.size:
        raise IndexError(f"index {wrong[0]} out-of-bounds in {ufunc.__name__}.reduceat [0, {length})")
    ends = np.maximum(np.append(starts[1:], length), starts + 1).astype(np.intp)
    if dtype is not None:
        array = astype(array, dtype, copy=False)
    before = (slice(None),) * axis
    if ufunc is np.add and dtype_of(array).kind in "fc":  # one scatter-add
        counts = ends - starts
        if np.array_equal(starts[1:], ends[:-1]):
            places: Any = slice(int(starts[0]) if len(starts) else length, length)
        else:
            places = np.concatenate([np.arange(a, b) for a, b in zip(starts, ends, strict=True)])
        results = np.repeat(np.arange(len(starts)), counts)
        whole = (*shape[:axis], len(starts), *shape[axis + 1 :])
        return scatter(get_item(array, (*before, places)), indices=((*before, results),), shape=whole, dtype=dtype_of(array))
    if not len(starts):
        return np.zeros((*shape[:axis], 0, *shape[axis + 1 :]), ufunc.reduceat(np.ones(1, dtype_of(array)), [0]).dtype)
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
    if getattr(entry, "kind", "") == "constant" and outs and not any(map(is_traced, outs)):  # no derivative is lost
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
