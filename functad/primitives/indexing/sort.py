"""Sorting and partitioning: elements are reordered, or picked by their rank.

The positions are found first, which has no derivative; what is then read at them is linear, and the positions are all
that is kept. Elements that are equal have the order that the sort happens to leave them in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.arranging.reshape import Calls, ravel
from functad.primitives.batching import along_axis, padded, spread_out, stacked
from functad.primitives.elementwise.conversion import astype
from functad.primitives.entry import Primitive
from functad.primitives.indexing.positions import ARGSORT
from functad.primitives.kinds import composite, constant, general
from functad.primitives.operands import as_operand

_INTP = np.dtype(np.intp)
_FEW = 4
"""For up to so many ranks a partition is taken, for more a sort."""


# Reading all elements in another order


def reordered(a: Any, indices: Any, *, axis: int) -> Any:
    """Return `a` with its elements along an axis in another order, as `np.take_along_axis` does for permutations."""
    return REORDERED(a, indices, axis=axis)


def _reordered(a: Any, indices: Any, *, axis: int) -> Any:
    out = np.take_along_axis(a, indices, axis)
    if out.ndim < 2 or a.flags.c_contiguous:
        return out
    copied = np.empty_like(a)  # lies as NumPy's sorted copy does
    copied[...] = out
    return copied


def restored(a: Any, indices: Any, *, axis: int) -> Any:
    """Return `a` with its elements along an axis put to the places that permutations name: `reordered` backwards."""
    return RESTORED(a, indices, axis=axis)


def _restored(a: Any, indices: Any, *, axis: int) -> Any:
    out = np.empty_like(a)
    np.put_along_axis(out, indices, a, axis)
    return out


def _order_spec(a: Any, indices: Any, *, axis: int) -> ArraySpec:
    spec = spec_of(a)
    return ArraySpec(spec.shape, spec.dtype)


def _order_samples(array: Any) -> Calls:
    return [
        ((array(3), np.array([1, 2, 0])), {"axis": 0}),
        ((array(2, 3), np.array([[2, 0, 1], [0, 2, 1]])), {"axis": 1}),
        ((array(3, 1), np.array([[2], [0], [1]])), {"axis": 0}),
        ((array(0, 2), np.zeros((0, 2), np.intp)), {"axis": 0}),
    ]


REORDERED: Primitive = general(
    reordered,
    lambda g, indices, axis: RESTORED(g, indices, axis=axis),
    None,
    jvps=(lambda t, indices, axis: REORDERED(t, indices, axis=axis), None),
    compute=_reordered,
    spec=_order_spec,
    samples=_order_samples,
    internal=True,
    doc="linear; the cotangent is put back in the order of the argument",
    batch=along_axis,
    curvature="none",
    dependence="axes",
)

RESTORED: Primitive = general(
    restored,
    lambda g, indices, axis: REORDERED(g, indices, axis=axis),
    None,
    jvps=(lambda t, indices, axis: RESTORED(t, indices, axis=axis), None),
    compute=_restored,
    spec=_order_spec,
    samples=_order_samples,
    internal=True,
    doc="linear; the transpose of reading in another order",
    batch=along_axis,
    curvature="none",
    dependence="axes",
)


# Reading some elements of each row


def picked(a: Any, indices: Any) -> Any:
    """Return the elements of each row of `a`, along its last axis, at the positions in the same row of `indices`."""
    return PICKED(a, indices)


def _picked(a: Any, indices: Any) -> Any:
    return np.take_along_axis(a, indices, -1)


def _picked_spec(a: Any, indices: Any) -> ArraySpec:
    return ArraySpec(spec_of(indices).shape, spec_of(a).dtype)


def placed(a: Any, indices: Any, *, length: int) -> Any:
    """Return rows of zeros to which the elements of each row of `a` have been added at the positions in `indices`."""
    return PLACED(a, indices, length=length)


def _placed(a: Any, indices: Any, *, length: int) -> Any:
    out = np.zeros((*a.shape[:-1], length), a.dtype, like=a)
    if a.shape[-1] == 1:
        np.put_along_axis(out, indices, a, -1)
    else:
        np.add.at(out, (*np.ogrid[tuple([slice(n) for n in a.shape])][:-1], indices), a)
    return out


def _placed_spec(a: Any, indices: Any, *, length: int) -> ArraySpec:
    spec = spec_of(a)
    return ArraySpec((*spec.shape[:-1], length), spec.dtype)


def _picked_samples(array: Any) -> Calls:
    return [
        ((array(3), np.array([1, 1])), {}),
        ((array(2, 3), np.array([[2, 0], [1, 1]])), {}),
        ((array(2, 3), np.array([[2], [0]])), {}),
        ((array(0, 2), np.zeros((0, 1), np.intp)), {}),
    ]


PICKED: Primitive = general(
    picked,
    lambda g, indices, a_shape: PLACED(g, indices, length=a_shape[-1]),
    None,
    jvps=(lambda t, indices: PICKED(t, indices), None),
    compute=_picked,
    spec=_picked_spec,
    samples=_picked_samples,
    internal=True,
    doc="linear; the cotangents of an element that is read repeatedly add up",
    batch=stacked,
    selects=True,
    curvature="none",
    dependence="last axis",
)

PLACED: Primitive = general(
    placed,
    lambda g, indices: PICKED(g, indices),
    None,
    jvps=(lambda t, indices, length: PLACED(t, indices, length=length), None),
    compute=_placed,
    spec=_placed_spec,
    samples=lambda array: [
        ((array(2), np.array([1, 1])), {"length": 3}),
        ((array(2, 2), np.array([[2, 0], [1, 1]])), {"length": 3}),
        ((array(2, 1), np.array([[2], [0]])), {"length": 3}),
    ],
    internal=True,
    doc="linear; the transpose of reading some elements of each row",
    batch=stacked,
    curvature="none",
    dependence="last axis",
)


def positions_of_ranks(a: Any, ranks: Any, *, skip_nan: bool) -> Any:
    """Return where in each row of `a`, along its last axis, the elements of the given ranks stand.

    The ranks are the same for all rows, or an array with a row for each. A row with a NaN in it, which has no ranks, has
    the position of the NaN, unless NaNs are skipped: then they come last.
    """
    return POSITIONS(a, ranks, skip_nan=skip_nan)


def _positions(a: Any, ranks: Any, *, skip_nan: bool) -> Any:
    wanted = np.unique(ranks)
    few = len(wanted) <= _FEW and a.size and type(wanted) is np.ndarray
    order = np.argpartition(a, [*wanted.tolist(), a.shape[-1] - 1], -1) if few else np.argsort(a, -1)
    found = np.take_along_axis(order, np.broadcast_to(ranks, (*a.shape[:-1], ranks.shape[-1])), -1)
    if skip_nan or a.dtype.kind not in "fc":
        return found
    last = order[..., -1:]
    return np.where(np.isnan(np.take_along_axis(a, last, -1)), last, found)


def _positions_spec(a: Any, ranks: Any, *, skip_nan: bool) -> ArraySpec:
    return ArraySpec((*spec_of(a).shape[:-1], spec_of(ranks).shape[-1]), _INTP)


def _positions_batch(
    primitive: Primitive, size: int, values: Sequence[Any], batched: Sequence[bool], params: Mapping[str, Any]
) -> Any:
    """Ranks that are the same for all rows may differ from example to example."""
    a, ranks = values
    a = spread_out(a, batched[0], size)
    return primitive(a, padded(ranks, len(shape_of(a)) - 1) if batched[1] else ranks, **params)


POSITIONS = constant(
    positions_of_ranks,
    compute=_positions,
    spec=_positions_spec,
    samples=lambda array: [
        ((array(4), np.array([1, 2])), {"skip_nan": False}),
        ((array(2, 3), np.array([[1], [0]])), {"skip_nan": True}),
        ((array(6), np.arange(6)), {"skip_nan": False}),
    ],
    internal=True,
    doc="positions have no derivative",
    batch=_positions_batch,
)


# Sorting


def scanned_axis(a: Any, axis: int | None) -> tuple[Any, int]:
    """Return the array and the axis that is sorted; `None` stands for all elements in order."""
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
    """`np.sort`."""
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


def _argpartition(a: Any, *, kth: Any, axis: int, kind: Any) -> Any:
    return np.argpartition(a, kth, axis, kind)


def _argpartition_spec(a: Any, *, kth: Any, axis: int, kind: Any) -> ArraySpec:
    return ArraySpec(spec_of(a).shape, _INTP)


def _partition_samples(array: Any) -> Calls:
    """Return calls in which the ranks given determine the whole order."""
    return [
        ((array(3), 1), {}),
        ((array(4), (1, 2)), {}),
        ((array(2, 3), [0, -1]), {}),
        ((array(3, 2), np.array([0]), 1), {}),
        ((array(3, 2), 1), {"axis": 0, "kind": "introselect"}),
        ((array(1, 3), 1, None), {}),
    ]


def _ranks(kth: Any) -> Any:
    """Return ranks as plain data: an integer or a tuple of them."""
    kth = np.asarray(kth)
    if kth.dtype.kind not in "iu":
        raise TypeError("Partition index must be integer")
    return int(kth) if kth.ndim == 0 else tuple(kth.tolist())


def _argpartition_front(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Any:
    _refuse_order(order)
    a, axis = scanned_axis(a, axis)
    return ARGPARTITION(a, kth=_ranks(kth), axis=axis, kind=kind)


ARGPARTITION = constant(
    np.argpartition,
    compute=_argpartition,
    spec=_argpartition_spec,
    samples=_partition_samples,
    doc="positions have no derivative; x[np.argpartition(x, k)] has that of a partition",
    batch=along_axis,
    front=_argpartition_front,
)


@composite(np.partition, samples=_partition_samples, doc="a permutation, as sort")
def partition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Any:
    """`np.partition`."""
    _refuse_order(order)
    a, axis = scanned_axis(a, axis)
    return REORDERED(a, ARGPARTITION(a, kth=_ranks(kth), axis=axis, kind=kind), axis=axis)


def _lexsort(*keys: Any, axis: int) -> Any:
    return np.lexsort(keys, axis)


def _lexsort_spec(*keys: Any, axis: int) -> ArraySpec:
    return ArraySpec(spec_of(keys[0]).shape, _INTP)


def _lexsort_front(keys: Any, axis: int = -1) -> Any:
    return LEXSORT(*[as_operand(key) for key in keys], axis=axis)


LEXSORT = constant(
    np.lexsort,
    compute=_lexsort,
    spec=_lexsort_spec,
    samples=lambda array: [
        (((array(4), np.array([1, 0, 1, 0])),), {}),
        (((array(2, 3), array(2, 3)), 0), {}),
        ((array(2, 3),), {"axis": -1}),
    ],
    doc="positions have no derivative",
    batch=along_axis,
    front=_lexsort_front,
)
