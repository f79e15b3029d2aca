"""Set functions: `unique` and its variants, unions, intersections and differences; also `trim_zeros`.

The values of the arguments decide which elements are returned. Each returned element is a read of its first occurrence in the
argument, so the first occurrence gets the cotangent. Positions and counts are constants.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from functad.expressions.spec import shape_of
from functad.primitives.arranging.join import concatenate
from functad.primitives.arranging.reshape import Calls, ravel
from functad.primitives.batching import Params, Values, Which, flat, spread_out
from functad.primitives.elementwise.conversion import astype
from functad.primitives.entry import Primitive, Samples
from functad.primitives.indexing.read import get_item
from functad.primitives.indexing.sort import search
from functad.primitives.kinds import composite, constant, shaped_as_argument
from functad.primitives.operands import as_operand, concrete
from functad.primitives.signals.differences import array_of

_FIRST = "each value is read from its first place in the argument, which gets the cotangent"


# Unique values


def _first_places(flat: Any, values: Any) -> Any:
    """Return the first position in `flat` of each of `values`, in any order. Each NaN gets a position of its own."""
    order = np.argsort(flat, kind="stable")
    places = np.searchsorted(flat[order], values)
    missing = values != values
    if np.any(missing):  # complex NaNs have a sort order among themselves
        nans = np.flatnonzero(flat[order] != flat[order])
        places[missing] = nans[np.argsort(np.argsort(values[missing], kind="stable"), kind="stable")]
    return order[places]


def _unique_samples(array: Any) -> Calls:
    return [
        ((array(4),), {}),
        ((array(2, 3),), {"return_index": True}),
        ((array(3), True, True, True), {}),
        ((array(2, 3),), {"axis": 0}),
        ((array(2, 3),), {"axis": -1, "return_inverse": True, "return_counts": True}),
        ((array(3),), {"axis": 0, "equal_nan": False}),
        ((array(),), {}),
        ((array(0),), {}),
    ]


@composite(np.unique, samples=_unique_samples, value_dependent=True, doc=_FIRST)
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    **keywords: Any,
) -> Any:
    """Return the result of `np.unique`."""
    ar = array_of(ar)
    value = concrete(ar, "np.unique")
    call: Any = np.unique
    found = call(value, return_index, return_inverse, return_counts, axis, **keywords)
    alone = not (return_index or return_inverse or return_counts)
    if axis is None or len(shape_of(ar)) == 1:
        picked = get_item(ravel(ar), _first_places(value.ravel(), found if alone else found[0]))
    else:
        places = call(value, return_index=True, axis=axis, **keywords)[1]
        picked = get_item(ar, (*(slice(None),) * (axis % len(shape_of(ar))), places))
    return picked if alone else (picked, *found[1:])


def _some(array: Any) -> Calls:
    return [((array(4),), {}), ((array(2, 2),), {})]


def _enter_relative(function: Any, samples: Samples = _some) -> None:
    """Register a function of the array API that returns the unique values, alone or as the first field of a named tuple."""

    @composite(function, samples=samples, value_dependent=True, doc=_FIRST)
    def relative(x: Any) -> Any:
        x = array_of(x)
        value = concrete(x, f"np.{function.__name__}")
        found = function(value)
        if not isinstance(found, tuple):
            return get_item(ravel(x), _first_places(value.ravel(), found))
        picked = get_item(ravel(x), _first_places(value.ravel(), found[0]))
        return type(found)(picked, *found[1:])


# np.unique_values returns the values in no defined order, so samples with several values cannot be compared.
_enter_relative(np.unique_values, lambda array: [((array(1),), {}), ((array(),), {}), ((array(0),), {})])
_enter_relative(np.unique_counts)
_enter_relative(np.unique_inverse)
_enter_relative(np.unique_all)


# Two sets


def _two(array: Any) -> Calls:
    return [((array(3), array(2)), {}), ((array(2, 2), array()), {}), ((array(0), array(2)), {})]


def _two_sets(array: Any) -> Calls:
    return [*_two(array), ((array(3), array(2)), {"assume_unique": True}), ((array(2), [1.0, 2.0]), {})]


@composite(np.union1d, samples=_two, value_dependent=True, doc=_FIRST)
def _union1d(ar1: Any, ar2: Any) -> Any:
    return unique(concatenate((as_operand(ar1), as_operand(ar2)), None))


@composite(
    np.intersect1d,
    samples=lambda array: [*_two_sets(array), ((array(2), array(3)), {"return_indices": True})],
    value_dependent=True,
    doc="each value is read from its first place in the first argument, which gets the cotangent",
)
def _intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    ar1, ar2 = array_of(ar1), array_of(ar2)
    first, second = (concrete(a, "np.intersect1d") for a in (ar1, ar2))
    if assume_unique and not return_indices:  # like NumPy: elements with an equal neighbour after the sort
        both = concatenate((ar1, ar2), None)
        values = np.concatenate((first, second), None)
        order = np.argsort(values, kind="stable")
        return get_item(both, order[:-1][values[order[1:]] == values[order[:-1]]])
    places = np.intersect1d(first, second, assume_unique, return_indices=True)[1:]
    picked = astype(get_item(ravel(ar1), places[0]), np.result_type(first, second), copy=False)
    return (picked, *places) if return_indices else picked


@composite(np.setdiff1d, samples=_two_sets, value_dependent=True, doc=_FIRST)
def _setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    ar1 = ravel(array_of(ar1)) if assume_unique else unique(ar1)
    first, second = (concrete(array_of(a), "np.setdiff1d") for a in (ar1, ar2))
    return get_item(ar1, np.isin(first, second, assume_unique=assume_unique, invert=True))


@composite(np.setxor1d, samples=_two_sets, value_dependent=True, doc=_FIRST)
def _setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    ar1, ar2 = (array_of(a) if assume_unique else unique(a) for a in (ar1, ar2))
    both = concatenate((ar1, ar2), None)
    values = concrete(both, "np.setxor1d")
    order = np.argsort(values, kind="stable")
    new = np.concatenate([[True], values[order[1:]] != values[order[:-1]], [True]])
    return get_item(both, order[new[1:] & new[:-1]] if len(order) else order)


def _is_in_front(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: str | None = None
) -> Any:
    elements = as_operand(element), as_operand(test_elements)
    return IS_IN(*elements, assume_unique=assume_unique, invert=invert, kind=kind)


def _is_in_batch(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    """Call `np.isin` if the examples share one set, otherwise sort the sets and search them for the elements."""
    element, tests = values
    if not batched[1]:
        return primitive(element, tests, **params)
    element = spread_out(element, batched[0], size)
    flat_element, rows, n = flat(element), np.sort(flat(tests), 1), math.prod(shape_of(tests)[1:])
    if n == 0:
        found = np.zeros(shape_of(element), np.bool_)
    else:
        places = np.minimum(search(rows, flat_element, "left"), n - 1)
        found = (np.take_along_axis(rows, places, 1) == flat_element).reshape(shape_of(element))
    return ~found if params["invert"] else found


IS_IN = constant(
    np.isin,
    spec=shaped_as_argument(np.dtype(np.bool_)),
    samples=lambda array: [
        *_two_sets(array),
        ((array(2), array(3), False, True), {}),
        ((array(3), [0.5]), {"kind": "sort"}),
    ],
    doc="the result is boolean",
    front=_is_in_front,
    batch=_is_in_batch,
)


if hasattr(np, "in1d"):  # until NumPy 2.3, and deprecated
    _IN_1D: Any = getattr(np, "in1d")  # noqa: B009 # missing from the type stubs of some NumPy versions

    def _in_set(ar1: Any, ar2: Any, assume_unique: bool = False, invert: bool = False, *, kind: str | None = None) -> Any:
        return ravel(_is_in_front(ravel(array_of(ar1)), ar2, assume_unique, invert, kind=kind))

    def _in_set_batch(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
        rows = [flat(value) if given else ravel(value) for value, given in zip(values, batched, strict=True)]
        return _is_in_batch(IS_IN, size, rows, batched, {"assume_unique": False, "invert": False, "kind": None, **params})

    constant(_IN_1D, samples=_two, doc="the result is boolean", front=_in_set, batch=_in_set_batch)

# Zeros at the ends


@composite(
    np.trim_zeros,
    samples=lambda array: [((array(3),), {}), ((array(3), "b"), {}), ((array(0),), {})],
    value_dependent=True,
    doc="linear; what is trimmed gets zero",
)
def _trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    filt = array_of(filt)
    value = concrete(filt, "np.trim_zeros")
    trim = trim.lower()
    if trim not in {"fb", "bf", "f", "b"}:
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    axes = range(value.ndim) if axis is None else normalize_axis_tuple(axis, value.ndim)
    places = np.argwhere(value)
    index = [slice(None)] * value.ndim
    for i in axes:
        first = places[:, i].min() if "f" in trim and len(places) else None
        last = places[:, i].max() + 1 if "b" in trim and len(places) else None
        index[i] = slice(first, last) if len(places) else slice(0, 0)
    return get_item(filt, tuple(index))
