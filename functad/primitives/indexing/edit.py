"""Insertion and deletion, `bincount`, grids and windows, and functions that apply a function to rows, axes or pieces."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple
from numpy.lib.stride_tricks import sliding_window_view

from functad.errors import UnsupportedError
from functad.expressions.spec import ArraySpec, dtype_of, shape_of
from functad.places import here
from functad.primitives.arranging.reshape import RESHAPE, Calls
from functad.primitives.batching import elementwise
from functad.primitives.elementwise.conversion import astype, laid_out, laid_out_like
from functad.primitives.elementwise.elementary import to_integer
from functad.primitives.entry import ENTRIES
from functad.primitives.indexing.read import get_item, scatter
from functad.primitives.indexing.sort import scanned_axis
from functad.primitives.kinds import composite, constant
from functad.primitives.operands import (
    as_operand,
    concrete,
    innermost,
    is_number,
    is_traced,
    read_only_view,
    refuse_out,
    strong,
)
from functad.primitives.signals.differences import array_of

_INTP = np.dtype(np.intp)


# Inserting, deleting, counting


@composite(
    np.delete,
    samples=lambda array: [
        ((array(4), 1), {}),
        ((array(2, 3), [0, -1]), {"axis": 1}),
        ((array(3, 2), slice(None, None, 2), 0), {}),
        ((array(2, 3), np.array([4, 4])), {}),
        ((array(3), np.array([True, False, True])), {}),
        ((array(3), []), {}),
    ],
    doc="linear; what is deleted gets zero",
)
def _delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    arr, axis = scanned_axis(arr, axis)
    obj = concrete(obj, "np.delete")
    n = shape_of(arr)[axis]
    order = _order_of(arr) if isinstance(obj, slice) or np.size(obj) == 1 else None
    kept = np.zeros(n, np.bool_)  # a mask reads each element at most once, so its VJP is fast
    kept[np.delete(np.arange(n), obj)] = True
    out = get_item(arr, (*(slice(None),) * axis, kept))
    return out if order is None else laid_out(out, order)


def _order_of(a: Any) -> str:
    """Return the memory order in which some NumPy functions allocate a result for `a`."""
    return "F" if getattr(getattr(innermost(a), "flags", None), "fnc", False) else "C"


@composite(
    np.insert,
    samples=lambda array: [
        ((array(3), 1, array()), {}),
        ((array(3), -1, array(2)), {}),
        ((array(2, 3), 1, array(3)), {"axis": 0}),
        ((array(2, 3), 1, array(2)), {"axis": 1}),
        ((array(2, 3), [1], array(2, 1)), {"axis": 1}),
        ((array(2, 3), [0, 2, 2], array(3)), {"axis": 1}),
        ((array(2, 2), [0, 3], array()), {}),
        ((array(3), slice(0, 2), [1.0, 2.0]), {}),
        ((array(2), [], array()), {}),
    ],
    doc="linear; both arrays get their parts of the cotangent",
)
def _insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    arr, axis = scanned_axis(arr, axis)
    obj = concrete(obj, "np.insert")
    values = strong(as_operand(values))
    shape = shape_of(arr)
    n, ndim = shape[axis], len(shape)
    if isinstance(obj, slice):
        obj = np.arange(*obj.indices(n))
    count = len(np.insert(np.arange(n), obj, 0)) - n  # NumPy versions interpret a mask differently
    if len(shape_of(values)) < ndim:
        values = np.reshape(values, (1,) * (ndim - len(shape_of(values))) + shape_of(values))
    if count == 1:
        if np.ndim(obj) == 0:
            values = np.moveaxis(values, 0, axis)
        count = shape_of(values)[axis]
    values = np.broadcast_to(values, (*shape[:axis], count, *shape[axis + 1 :]))
    both = np.concatenate([arr, astype(values, dtype_of(arr), copy=False)], axis)
    index = np.insert(np.arange(n), obj, np.arange(n, n + count))
    return laid_out(get_item(both, (*(slice(None),) * axis, index)), _order_of(arr))


@composite(
    np.bincount,
    samples=lambda array: [
        ((np.array([1, 0, 3, 1]), array(4)), {}),
        ((np.array([1, 1]), array(2)), {"minlength": 4}),
        (([0, 2], array(2), 1), {}),
    ],
    complex=False,
    doc="linear in the weights, which read the cotangents of their bins; a count has no derivative",
)
def _bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    x, weights = concrete(as_operand(x), "np.bincount"), as_operand(weights)
    counts = np.bincount(x, None, minlength)
    if weights is None:
        return counts
    if dtype_of(weights).kind == "c":
        raise TypeError("Cannot cast array data from complex numbers to dtype('float64') according to the rule 'safe'")
    if shape_of(weights) != x.shape:
        raise ValueError("The weights and list don't have the same length.")
    return scatter(weights, indices=(x.astype(_INTP),), shape=counts.shape, dtype=np.dtype(np.float64))


# Grids


def _axis_of(x: Any, axis: int, ndim: int) -> Any:
    """Return all elements of `x` along axis `axis` of an array with `ndim` axes; the other axes have length 1."""
    return RESHAPE(x, shape=(*(1,) * axis, math.prod(shape_of(x)), *(1,) * (ndim - axis - 1)))


@composite(
    np.meshgrid,
    samples=lambda array: [
        ((array(2), array(3)), {}),
        ((array(2), array(3), array(1)), {"indexing": "ij"}),
        ((array(2), array(), array(2)), {"sparse": True}),
        ((array(3),), {}),
        ((array(2), array(0)), {}),
    ],
    doc="the cotangents of each coordinate add up along the other axes",
)
def _meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Any, ...]:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    arrays = [strong(as_operand(x)) for x in xi]
    arrays = [x if hasattr(x, "reshape") else np.asarray(x) for x in arrays]
    order = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        order[:2] = 1, 0
    grids = [_axis_of(x, axis, len(arrays)) for x, axis in zip(arrays, order, strict=True)]
    if not sparse:
        shape = np.broadcast_shapes(*map(shape_of, grids))
        grids = [np.broadcast_to(grid, shape) for grid in grids]
    return tuple([np.copy(grid, "C") for grid in grids]) if copy else tuple(grids)


@composite(
    np.ix_,
    samples=lambda array: [((array(2), array(3)), {}), ((array(2), [0, 1], array(1)), {}), ((array(0),), {})],
    doc="a reshape",
)
def _ix(*args: Any) -> tuple[Any, ...]:
    arrays = [array_of(a) for a in args]
    for i, a in enumerate(arrays):
        if len(shape_of(a)) != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if dtype_of(a).kind == "b":
            arrays[i] = np.nonzero(a)[0]
        elif shape_of(a) == (0,) and not is_traced(a):
            arrays[i] = a.astype(_INTP)
    return tuple([_axis_of(a, i, len(arrays)) for i, a in enumerate(arrays)])


@composite(
    sliding_window_view,
    samples=lambda array: [
        ((array(5), 3), {}),
        ((array(3, 4), (2, 3)), {}),
        ((array(3, 4), 2), {"axis": 1}),
        ((array(4, 2), (2, 2)), {"axis": (0, 0)}),
        ((array(3), 1), {}),
    ],
    doc="linear; the cotangents of an element add up over the windows that it is in",
)
def _sliding_window_view(x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False) -> Any:
    if writeable and is_traced(x):
        raise UnsupportedError(f"sliding_window_view of a Tensor is read-only, at {here()}. Write into the Tensor itself.")
    params = {"window_shape": window_shape, "axis": axis}
    entry = ENTRIES[np.lib.stride_tricks.sliding_window_view]
    out, known = _windows(as_operand(x), window_shape, axis), innermost(x)
    if is_traced(x) and issubclass(type(known), np.ndarray):
        out = laid_out_like(out, sliding_window_view(known, window_shape, axis))
    return read_only_view(x, out, entry, params)


def _windows(x: Any, window_shape: Any, axis: Any) -> Any:
    lengths = tuple(window_shape) if np.iterable(window_shape) else (window_shape,)
    ndim = len(shape_of(x))
    axes = tuple(range(ndim)) if axis is None else normalize_axis_tuple(axis, ndim, allow_duplicate=True)
    if len(lengths) != len(axes):
        raise ValueError(f"Must provide matching length window_shape and axis; got {len(lengths)} and {len(axes)}.")
    if any(n < 0 for n in lengths):
        raise ValueError("`window_shape` cannot contain negative values")
    for i, n in zip(axes, lengths, strict=True):
        count = shape_of(x)[i] - n + 1
        if count < 1:
            raise ValueError("window shape cannot be larger than input array shape")
        before = (slice(None),) * i
        if n == 0:
            none = np.expand_dims(np.moveaxis(get_item(x, (*before, slice(0, 0))), i, -1), i)
            x = np.broadcast_to(none, (*shape_of(x)[:i], count, *shape_of(x)[i + 1 :], 0))
            continue
        x = np.stack([get_item(x, (*before, slice(start, start + count))) for start in range(n)], -1)
    return x


# Functions applied to rows and axes


def _apply_samples(array: Any) -> Calls:
    return [
        ((np.sum, 0, array(2, 3)), {}),
        ((np.cumsum, -1, array(2, 3)), {}),
        ((lambda row, scale: scale * row[:2] * row[0], 1, array(2, 3, 2), 1.5), {}),
        ((np.diag, 0, array(2, 3)), {}),
        ((np.prod, 0, array(3)), {}),
    ]


@composite(np.apply_along_axis, samples=_apply_samples, doc="that of the function, row by row")
def _apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    arr = as_operand(arr)
    axis = normalize_axis_index(axis, len(shape_of(arr)))
    rows = np.moveaxis(arr, axis, -1)
    batch = shape_of(rows)[:-1]
    if 0 in batch:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    out = np.stack([as_operand(func1d(rows[index], *args, **kwargs)) for index in np.ndindex(batch)])
    own = shape_of(out)[1:]
    out = out.reshape((*batch, *own))
    return np.moveaxis(out, tuple(range(len(batch), len(batch) + len(own))), tuple(range(axis, axis + len(own))))


@composite(
    np.apply_over_axes,
    samples=lambda array: [
        ((np.sum, array(2, 3, 2), (0, 2)), {}),
        ((np.prod, array(2, 3), -1), {}),
        ((np.cumsum, array(2, 3), [0, 1]), {}),
    ],
    doc="that of the function, axis after axis",
)
def _apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Any:
    a = as_operand(a)
    ndim = len(shape_of(a))
    for axis in np.atleast_1d(axes).tolist():
        axis = axis + ndim if axis < 0 else axis
        result = func(a, axis)
        if len(shape_of(result)) != ndim:
            result = np.expand_dims(result, axis)
            if len(shape_of(result)) != ndim:
                raise ValueError("function is not returning an array of the correct shape")
        a = result
    return a


# Piecewise functions


def _piecewise_samples(array: Any) -> Calls:
    x, y = array(4), array(2, 3)
    return [
        ((x, [np.real(x) < 0, np.real(x) >= 0], [lambda v: -v * v, lambda v: 2 * v]), {}),
        ((y, [np.real(y) > 0.5, np.real(y) > -0.5], [lambda v: v * v, 1.5, lambda v: -v]), {}),
        ((x, np.real(x) < 0, [lambda v, w: v * w, lambda v, w: v + w], 3.0), {}),
        ((x, [np.real(x) < 0], [lambda v, scale: v * scale]), {"scale": 2.0}),
        ((array(), [True, False], [lambda v: v * v, 0]), {}),
    ]


@composite(
    np.piecewise,
    samples=_piecewise_samples,
    doc="that of the function whose condition is the last to hold",
    sequences=("condlist", "funclist"),
)
def _piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    x = array_of(x)
    given = [condlist] if _is_condition(condlist, x) else condlist
    conditions = [_condition(c, shape_of(x)) for c in given]
    if any(shape_of(condition) != shape_of(conditions[0]) for condition in conditions):
        raise ValueError("the conditions of np.piecewise have different shapes")
    if len(conditions) == len(funclist) - 1:
        held = conditions[0]
        for condition in conditions[1:]:
            held = held | condition
        conditions.append(~held)
    elif len(conditions) != len(funclist):
        n = len(conditions)
        raise ValueError(f"with {n} condition(s), either {n} or {n + 1} functions are expected")
    out = np.zeros_like(x)
    for condition, function in zip(conditions, funclist, strict=True):
        spread = condition.reshape(shape_of(condition) + (1,) * (len(shape_of(x)) - len(shape_of(condition))))
        out = np.where(spread, _piece(x, condition, function, args, kw), out)
    return laid_out_like(out, x)


def _is_condition(condlist: Any, x: Any) -> bool:
    """Return `True` if `condlist` is a single condition instead of a list."""
    if np.isscalar(condlist) or is_traced(condlist):
        return len(shape_of(condlist)) <= len(shape_of(x))
    first = condlist[0]
    is_array = issubclass(type(first), (list, np.ndarray)) or (is_traced(first) and not is_number(first))
    return len(shape_of(x)) > 0 and not is_array


def _condition(given: Any, shape: tuple[int, ...]) -> Any:
    """Return a condition as a mask of the leading axes of an array, as NumPy indexes with it."""
    condition = astype(array_of(given), np.bool_, copy=False)
    own = shape_of(condition)
    if len(own) > len(shape):
        raise IndexError(f"too many indices for array: array is {len(shape)}-dimensional, but {len(own)} were indexed")
    for axis, (count, wanted) in enumerate(zip(own, shape, strict=False)):
        if count != wanted:
            raise IndexError(
                f"boolean index did not match indexed array along axis {axis}; size of axis is {wanted} but size of "
                f"corresponding boolean axis is {count}"
            )
    return condition


def _piece(x: Any, condition: Any, function: Any, args: tuple[Any, ...], kw: dict[str, Any]) -> Any:
    """Return the values of `function` at the elements where `condition` holds, at their positions in `x`.

    An abstract trace does not know the number of these elements, so it applies `function` to all elements.
    """
    if not callable(function):
        return astype(array_of(function), dtype_of(x), copy=False)
    if is_traced(condition):
        return astype(array_of(function(x, *args, **kw)), dtype_of(x), copy=False)
    chosen = get_item(x, condition)
    if not chosen.size:
        return np.zeros((), dtype_of(x))
    values = np.broadcast_to(astype(array_of(function(chosen, *args, **kw)), dtype_of(x), copy=False), shape_of(chosen))
    return scatter(values, indices=(condition,), shape=shape_of(x), dtype=dtype_of(x))


# Rounding towards zero


def _fix(x: Any, out: Any = None) -> Any:
    refuse_out(out, "fix")
    rounded: Any = ENTRIES[np.fix]
    return rounded(as_operand(x))


FIX = constant(  # deprecated since NumPy 2.5: np.trunc replaces it
    np.fix,
    compute=np.trunc,
    spec=lambda x: ArraySpec(shape_of(x), np.trunc(np.zeros(1, dtype_of(x))).dtype),
    samples=lambda array: [((array(3),), {}), ((array(),), {}), ((array(0, 2),), {})],
    complex=False,
    doc="piecewise constant: the derivative is 0",
    front=_fix,
    jumps=to_integer,
    batch=elementwise,
    decomposition=True,
)
