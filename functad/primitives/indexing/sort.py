"""Sorting, partitioning and searching, and functions that return positions.

A first primitive computes positions, which are integers without a derivative. A second, linear primitive reads at the
positions, its only residual. Equal elements keep the order in which the sort returns them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from functad.errors import AbstractValueError
from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.places import here
from functad.primitives.arranging.reshape import Calls, as_shape, ravel, same_spec
from functad.primitives.batching import (
    Params,
    Values,
    Which,
    along_axis,
    elementwise,
    flat,
    one_by_one,
    padded,
    spread_out,
    stacked,
)
from functad.primitives.elementwise.conversion import astype
from functad.primitives.entry import Primitive
from functad.primitives.kinds import composite, constant, general, shaped_as_argument
from functad.primitives.operands import as_operand

_INTP = np.dtype(np.intp)
_DOC = "positions have no derivative"


def _unknown_shape(name: str) -> Callable[..., ArraySpec]:
    """Return the shape rule of a function with a value-dependent result shape. It raises an error in an abstract trace."""

    def spec(*specs: Any, **params: Any) -> ArraySpec:
        raise AbstractValueError(
            f"np.{name} of a Tensor without a value, {spec_of(specs[0])}, at {here()}: the shape of the result depends "
            f"on values, and an abstract trace has none. Use np.where(mask, x, 0), which keeps the shape."
        )

    return spec


def _places(mask: Any, *, axis: int, size: int) -> Any:
    found = np.nonzero(mask)[axis][:size]
    return found if len(found) == size else np.pad(found, (0, size - len(found)))


PLACES_OF = constant(
    _places,
    spec=lambda mask, *, axis, size: ArraySpec((size,), _INTP),
    samples=lambda array: [((array(2, 3) * np.array([1, 0, 1]),), {"axis": axis, "size": 4}) for axis in (0, 1)],
    name="places_of",
    internal=True,
    doc=_DOC,
    batch=one_by_one,
)
"""The places of the nonzero elements along an axis, cut or filled with zeros to a number of places that is known."""


def places_of(mask: Any) -> tuple[Any, ...]:
    """Return the places of the nonzero elements of a Tensor without a value, one array for each axis.

    Raises:
        AbstractValueError: the trace cannot guard their number.
    """
    size = operator.index(np.count_nonzero(mask))
    return tuple([PLACES_OF(mask, axis=axis, size=size) for axis in range(len(shape_of(mask)))])


_BY_PLACES: dict[Any, Callable[[Any], Any]] = {
    np.nonzero: places_of,
    np.flatnonzero: lambda a: places_of(ravel(a))[0],
    np.argwhere: lambda a: np.stack(places_of(a), axis=1),
}
"""The functions that return positions, by the places of nonzero elements."""


def _enter_places(function: Any, other: tuple[int, ...] = ()) -> Primitive:
    """Register a function that returns the positions of nonzero elements; `other` is the shape of a second sample."""
    return constant(
        function,
        spec=_unknown_shape(function.__name__),
        samples=lambda array: [((array(2, 3) * np.array([1, 0, 1]),), {}), ((array(*other),), {})],
        doc=_DOC,
        value_dependent=True,
        sized=_BY_PLACES[function],
    )


NONZERO = _enter_places(np.nonzero, (0,))
_enter_places(np.flatnonzero)
_enter_places(np.argwhere)


def _argsort_front(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None) -> Any:
    if order is not None:
        raise ValueError("Cannot specify order when the array has no fields.")
    a = as_operand(a)
    if not shape_of(a) and axis in (-1, 0, None):
        a, axis = np.reshape(a, 1), 0
    return ARGSORT(a, axis=axis, kind=kind, stable=stable)


ARGSORT = constant(
    np.argsort,
    spec=lambda a, *, axis, **params: ArraySpec((spec_of(a).size,) if axis is None else shape_of(a) or (1,), _INTP),
    samples=lambda array: [
        ((array(4),), {}),
        ((array(2, 3), 0), {}),
        ((array(2, 3),), {"axis": None, "kind": "stable"}),
        ((array(3),), {"stable": True}),
        ((array(0, 2),), {}),
    ],
    doc="positions have no derivative; x[np.argsort(x)] has that of sorting",
    batch=along_axis,
    front=_argsort_front,
)


def search(a: Any, v: Any, side: str) -> Any:
    """Return the insertion positions of the elements of each row of `v` in the same, sorted row of `a`.

    The position of an element is its rank in the sorted union of both rows, minus its rank in the row of `v`. The sort is
    stable, so the concatenation order decides between equal elements.
    """
    n, m = shape_of(a)[1], shape_of(v)[1]
    both, first = ([v, a], 0) if side == "left" else ([a, v], n)
    among_both = _ranks(np.concatenate(both, 1))[:, first : first + m]
    return among_both - _ranks(v)


def _ranks(rows: Any) -> Any:
    """Return the rank of each element in its row."""
    return np.argsort(np.argsort(rows, 1, stable=True), 1)


def _searchsorted_batch(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    """Call `np.searchsorted` if the examples share one sorted array, otherwise `search`."""
    a, v, *sorter = values
    if not batched[0] and not any(batched[2:]):
        return primitive(a, v, *sorter, **params)
    a, v = spread_out(a, batched[0], size), spread_out(v, batched[1], size)
    if sorter:
        a = np.take_along_axis(a, spread_out(sorter[0], batched[2], size), 1)
    return search(a, flat(v), params["side"]).reshape(shape_of(v))


SEARCHSORTED: Primitive = constant(
    np.searchsorted,
    compute=lambda a, v, /, *sorter, side: np.searchsorted(a, v, side, *sorter),
    spec=shaped_as_argument(_INTP, 1),
    samples=lambda array: [
        ((np.sort(array(4)), array(2, 3)), {}),
        ((np.sort(array(4)), array(), "right"), {}),
        ((np.sort(array(4))[[2, 0, 3, 1]], array(3)), {"sorter": np.array([1, 3, 0, 2])}),
    ],
    doc=_DOC,
    batch=_searchsorted_batch,
    front=lambda a, v, side="left", sorter=None: SEARCHSORTED(
        *[as_operand(value) for value in (a, v, sorter) if value is not None], side=side
    ),
)


def _digitize_batch(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    x, bins = values
    if not batched[1]:
        return primitive(x, bins, **params)
    x, n = spread_out(x, batched[0], size), shape_of(bins)[1]
    if n == 0:
        return np.zeros(shape_of(x), np.intp)
    down = bins[:, -1:] < bins[:, :1]
    bins = np.where(down, bins[:, ::-1], bins)
    if type(bins) is np.ndarray and (bins[:, 1:] < bins[:, :-1]).any():
        raise ValueError("bins must be monotonically increasing or decreasing")
    found = search(bins, flat(x), "left" if params["right"] else "right")
    return np.where(down, n - found, found).reshape(shape_of(x))


DIGITIZE: Primitive = constant(
    np.digitize,
    spec=shaped_as_argument(_INTP),
    samples=lambda array: [
        ((array(5), np.sort(array(3))), {}),
        ((array(2, 2), np.sort(array(3))[::-1], True), {}),
        ((array(), [-1.0, 0.0, 1.0]), {}),
    ],
    complex=False,
    doc=_DOC,
    batch=_digitize_batch,
    front=lambda x, bins, right=False: DIGITIZE(as_operand(x), as_operand(bins), right=right),
)


# Multi-indices, flat indices and bits


RAVEL_MULTI_INDEX: Primitive = constant(
    np.ravel_multi_index,
    sequences=("multi_index",),
    compute=lambda *indices, dims, mode, order: np.ravel_multi_index(indices, dims, mode, order),
    spec=lambda *indices, **params: ArraySpec(np.broadcast_shapes(*[spec_of(i).shape for i in indices]), _INTP),
    samples=lambda array: [(((np.array([1, 0]), np.array([2, 1])), (2, 3)), {}), (((1, 4), (2, 3), "wrap", "F"), {})],
    doc=_DOC,
    batch=elementwise,
    raises=lambda specs, params: (range(len(specs)), params["dims"]) if params["mode"] == "raise" else None,
    front=lambda multi_index, dims, mode="raise", order="C": RAVEL_MULTI_INDEX(
        *map(as_operand, multi_index), dims=as_shape(dims), mode=mode, order=order
    ),
)


UNRAVEL_INDEX: Primitive = constant(
    np.unravel_index,
    spec=lambda indices, *, shape, order: (ArraySpec(spec_of(indices).shape, _INTP),) * len(shape),
    samples=lambda array: [((np.array([1, 5]), (2, 3)), {}), ((4, (2, 3), "F"), {})],
    doc=_DOC,
    multiple=True,
    batch=elementwise,
    raises=lambda specs, params: ((0,), params["shape"]),
    front=lambda indices, shape, order="C": UNRAVEL_INDEX(as_operand(indices), shape=as_shape(shape), order=order),
)


def _enter_bits(function: Any, names: tuple[str, ...], samples: Any) -> None:
    """Enter a function with parameters of the given names after `axis`, which NumPy also takes by position."""

    def front(a: Any, axis: Any = None, *args: Any, **params: Any) -> Any:
        return entry(as_operand(a), axis=axis, **dict(zip(names, args, strict=False)), **params)

    entry = constant(function, samples=samples, doc="integers have no derivative", front=front, batch=along_axis)


_enter_bits(
    np.packbits, ("bitorder",), lambda array: [((np.array([1, 0, 1, 1, 0, 0, 0, 1, 1]),), {}), ((np.eye(2, dtype=bool), 1), {})]
)
_enter_bits(
    np.unpackbits,
    ("count", "bitorder"),
    lambda array: [((np.array([3, 7], np.uint8),), {}), ((np.array([[3]], np.uint8), 1, 4), {})],
)


_FEW = 4
"""The maximum number of ranks found with a partition; more ranks use a sort."""


# Permutations of all elements


def _reordered(a: Any, indices: Any, *, axis: int) -> Any:
    """Return `a` with the elements along an axis permuted, like `np.take_along_axis` with permutations."""
    out = np.take_along_axis(a, indices, axis)
    if out.ndim < 2 or type(a) is not np.ndarray or a.flags.c_contiguous:
        return out
    copied = np.empty_like(a)  # has the memory layout of NumPy's sorted copy
    copied[...] = out
    return copied


def _restored(a: Any, indices: Any, *, axis: int) -> Any:
    """Return `a` with the elements along an axis written to the positions of permutations: the inverse of `_reordered`."""
    out = np.empty_like(a)
    np.put_along_axis(out, indices, a, axis)
    return out


def _restored_by_index(a: Any, indices: Any, *, axis: int) -> Any:
    out = np.zeros(a.shape, a.dtype, like=a)
    index = list(np.ogrid[tuple([slice(n) for n in a.shape])])
    index[axis] = indices
    out[tuple(index)] = a
    return out


def _enter_order(function: Any, back: Callable[[], Primitive], doc: str, decomposition: Any) -> Primitive:
    """Register a function that permutes elements along an axis; `back()` returns its inverse and transpose."""
    entry: Primitive = general(
        function,
        lambda g, indices, axis: back()(g, indices, axis=axis),
        None,
        jvps=(lambda t, indices, axis: entry(t, indices, axis=axis), None),
        spec=same_spec,
        samples=lambda array: [
            ((array(3), np.array([1, 2, 0])), {"axis": 0}),
            ((array(2, 3), np.array([[2, 0, 1], [0, 2, 1]])), {"axis": 1}),
            ((array(3, 1), np.array([[2], [0], [1]])), {"axis": 0}),
            ((array(0, 2), np.zeros((0, 2), np.intp)), {"axis": 0}),
        ],
        internal=True,
        doc=doc,
        batch=along_axis,
        curvature="none",
        dependence="axes",
        exact=True,
        decomposition=decomposition,
    )
    return entry


REORDERED: Primitive = _enter_order(
    _reordered, lambda: RESTORED, "linear; the cotangent is put back in the order of the argument", np.take_along_axis
)
RESTORED: Primitive = _enter_order(
    _restored, lambda: REORDERED, "linear; the transpose of reading in another order", _restored_by_index
)


# Reads of some elements of each row


def _picked(a: Any, indices: Any) -> Any:
    """Return the elements of each row of `a` (last axis) at the positions in the same row of `indices`."""
    return np.take_along_axis(a, indices, -1)


def _placed(a: Any, indices: Any, *, length: int) -> Any:
    """Return rows of zeros, with the elements of each row of `a` added at the positions in `indices`."""
    if a.shape[-1] != 1:
        return _added(a, indices, length=length)
    out = np.zeros((*a.shape[:-1], length), a.dtype, like=a)
    np.put_along_axis(out, indices, a, -1)
    return out


def _added(a: Any, indices: Any, *, length: int) -> Any:
    out = np.zeros((*a.shape[:-1], length), a.dtype, like=a)
    np.add.at(out, (*np.ogrid[tuple([slice(n) for n in a.shape])][:-1], indices), a)
    return out


PICKED: Primitive = general(
    _picked,
    lambda g, indices, a_shape: PLACED(g, indices, length=a_shape[-1]),
    None,
    jvps=(lambda t, indices: PICKED(t, indices), None),
    spec=lambda a, indices: ArraySpec(spec_of(indices).shape, dtype_of(a)),
    samples=lambda array: [
        ((array(3), np.array([1, 1])), {}),
        ((array(2, 3), np.array([[2, 0], [1, 1]])), {}),
        ((array(2, 3), np.array([[2], [0]])), {}),
        ((array(0, 2), np.zeros((0, 1), np.intp)), {}),
    ],
    internal=True,
    doc="linear; the cotangents of an element that is read repeatedly add up",
    decomposition=True,
    exact=True,
    batch=stacked,
    curvature="none",
    dependence="last axis",
)

PLACED: Primitive = general(
    _placed,
    lambda g, indices: PICKED(g, indices),
    None,
    jvps=(lambda t, indices, length: PLACED(t, indices, length=length), None),
    spec=lambda a, indices, *, length: ArraySpec((*spec_of(a).shape[:-1], length), dtype_of(a)),
    samples=lambda array: [
        ((array(2), np.array([1, 1])), {"length": 3}),
        ((array(2, 2), np.array([[2, 0], [1, 1]])), {"length": 3}),
        ((array(2, 1), np.array([[2], [0]])), {"length": 3}),
    ],
    internal=True,
    doc="linear; the transpose of reading some elements of each row",
    decomposition=_added,
    batch=stacked,
    curvature="none",
    dependence="last axis",
)


def _positions_of_ranks(a: Any, ranks: Any, *, skip_nan: bool) -> Any:
    """Return the positions of the elements with the given ranks in each row of `a` (last axis).

    `ranks` is a vector for all rows or has a row for each row of `a`. For a row with a NaN, the result is the position of the
    NaN; with `skip_nan`, NaNs rank last instead.
    """
    wanted = np.unique(ranks)
    few = len(wanted) <= _FEW and a.size and type(wanted) is np.ndarray
    order = np.argpartition(a, [*wanted.tolist(), a.shape[-1] - 1], -1) if few else np.argsort(a, -1)
    return _at_ranks(order, a, ranks, skip_nan)


def _at_ranks(order: Any, a: Any, ranks: Any, skip_nan: bool) -> Any:
    found = np.take_along_axis(order, np.broadcast_to(ranks, (*a.shape[:-1], ranks.shape[-1])), -1)
    if skip_nan or a.dtype.kind not in "fc":
        return found
    last = order[..., -1:]
    return np.where(np.isnan(np.take_along_axis(a, last, -1)), last, found)


def _positions_batch(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    """Align batched ranks with the rows of their examples."""
    a, ranks = values
    a = spread_out(a, batched[0], size)
    return primitive(a, padded(ranks, len(shape_of(a)) - 1) if batched[1] else ranks, **params)


POSITIONS = constant(
    _positions_of_ranks,
    spec=lambda a, ranks, *, skip_nan: ArraySpec((*spec_of(a).shape[:-1], spec_of(ranks).shape[-1]), _INTP),
    samples=lambda array: [
        ((array(4), np.array([1, 2])), {"skip_nan": False}),
        ((array(2, 3), np.array([[1], [0]])), {"skip_nan": True}),
        ((array(6), np.arange(6)), {"skip_nan": False}),
    ],
    internal=True,
    doc="positions have no derivative",
    decomposition=lambda a, ranks, *, skip_nan: _at_ranks(np.argsort(a, -1, kind="stable"), a, ranks, skip_nan),
    batch=_positions_batch,
)


# Sorting


def scanned_axis(a: Any, axis: int | None) -> tuple[Any, int]:
    """Return the array and the normalised axis of a sort; `axis=None` flattens the array."""
    a = as_operand(a)
    if axis is None:
        return ravel(a), 0
    return a, normalize_axis_index(axis, len(shape_of(a)))


def _refuse_order(order: Any) -> None:
    if order is not None:
        raise ValueError("Cannot specify order when the array has no fields.")


@composite(
    np.sort,
    samples=lambda array: [
        ((array(5),), {}),
        ((array(2, 3),), {}),
        ((array(3, 2), 0), {}),
        ((array(2, 2, 3),), {"axis": -2, "kind": "stable"}),
        ((array(2, 3), None), {}),
        ((array(4),), {"stable": True}),
        ((array(), None), {}),
        ((array(0, 2),), {}),
        ((array(2, 0),), {}),
        ((array(1),), {}),
    ],
    doc="a permutation; the cotangent is put back in the order of the argument",
)
def sort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None) -> Any:
    """Return the result of `np.sort`."""
    _refuse_order(order)
    a, axis = scanned_axis(a, axis)
    return REORDERED(a, ARGSORT(a, axis=axis, kind=kind, stable=stable), axis=axis)


@composite(
    np.sort_complex,
    samples=lambda array: [((array(4),), {}), ((array(2, 3),), {}), ((array(0),), {})],
    doc="a permutation, as sort; real numbers become complex",
)
def _sort_complex(a: Any) -> Any:
    out = sort(a)
    kind = dtype_of(out).char
    return out if kind in "FDG" else astype(out, {"b": "F", "h": "F", "B": "F", "H": "F", "g": "G"}.get(kind, "D"))


def _partition_samples(array: Any) -> Calls:
    """Return calls with ranks that determine the whole order."""
    return [
        ((array(3), 1), {}),
        ((array(4), (1, 2)), {}),
        ((array(2, 3), [0, -1]), {}),
        ((array(3, 2), np.array([0]), 1), {}),
        ((array(3, 2), 1), {"axis": 0, "kind": "introselect"}),
        ((array(1, 3), 1, None), {}),
    ]


def _chosen_ranks(kth: Any) -> Any:
    """Return ranks as an integer or a tuple of integers."""
    kth = np.asarray(kth)
    if kth.dtype.kind not in "iu":
        raise TypeError("Partition index must be integer")
    return int(kth) if kth.ndim == 0 else tuple(kth.tolist())


def _argpartition_front(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Any:
    _refuse_order(order)
    a, axis = scanned_axis(a, axis)
    return ARGPARTITION(a, kth=_chosen_ranks(kth), axis=axis, kind=kind)


ARGPARTITION = constant(
    np.argpartition,
    spec=shaped_as_argument(_INTP),
    samples=_partition_samples,
    doc="positions have no derivative; x[np.argpartition(x, k)] has that of a partition",
    batch=along_axis,
    front=_argpartition_front,
)


@composite(np.partition, samples=_partition_samples, doc="a permutation, as sort")
def partition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Any:
    """Return the result of `np.partition`."""
    _refuse_order(order)
    a, axis = scanned_axis(a, axis)
    return REORDERED(a, ARGPARTITION(a, kth=_chosen_ranks(kth), axis=axis, kind=kind), axis=axis)


def _lexsort_batch(primitive: Primitive, size: int, values: Values, batched: Which, params: Params) -> Any:
    """Sort along the axis of each example. An example of shape `()` has one element, at position 0."""
    ndims = [len(shape_of(value)) - own for value, own in zip(values, batched, strict=True)]
    if any(ndims):
        return along_axis(primitive, size, values, batched, params)
    return np.full(size, np.lexsort([0] * len(values), params["axis"]))


LEXSORT: Primitive = constant(
    np.lexsort,
    sequences=("keys",),
    compute=lambda *keys, axis: np.lexsort(keys, axis),
    spec=shaped_as_argument(_INTP),
    samples=lambda array: [
        (((array(4), np.array([1, 0, 1, 0])),), {}),
        (((array(2, 3), array(2, 3)), 0), {}),
        ((array(2, 3),), {"axis": -1}),
    ],
    doc="positions have no derivative",
    batch=_lexsort_batch,
    front=lambda keys, axis=-1: LEXSORT(*map(as_operand, keys), axis=axis),
)
