"""Positions of elements: where an array is not zero, how it would be sorted. Integers have no derivative."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functad.errors import AbstractValueError
from functad.expressions.spec import ArraySpec, shape_of, spec_of
from functad.places import here
from functad.primitives.batching import along_axis, elementwise, flat, spread_out
from functad.primitives.entry import Primitive
from functad.primitives.kinds import constant
from functad.primitives.operands import as_operand

Calls = list[tuple[tuple[Any, ...], dict[str, Any]]]

_INTP = np.dtype(np.intp)
_DOC = "positions have no derivative"


def _unknown_shape(name: str) -> Callable[..., ArraySpec]:
    """Return the shape rule of a function of whose result not even the shape is known in an abstract trace."""

    def spec(*specs: Any, **params: Any) -> ArraySpec:
        raise AbstractValueError(
            f"np.{name} of a Tensor of which only {spec_of(specs[0])} is known, at {here()}: the shape of the result depends "
            f"on values, and an abstract trace has none. Use np.where(mask, x, 0), which keeps the shape."
        )

    return spec


def _some_zeros(array: Any) -> Any:
    return array(2, 3) * np.array([1, 0, 1])


NONZERO: Primitive = constant(
    np.nonzero,
    spec=_unknown_shape("nonzero"),
    samples=lambda array: [((_some_zeros(array),), {}), ((array(0),), {})],
    doc=_DOC,
    value_dependent=True,
)
FLATNONZERO = constant(
    np.flatnonzero,
    spec=_unknown_shape("flatnonzero"),
    samples=lambda array: [((_some_zeros(array),), {}), ((array(),), {})],
    doc=_DOC,
    value_dependent=True,
)
ARGWHERE = constant(
    np.argwhere,
    spec=_unknown_shape("argwhere"),
    samples=lambda array: [((_some_zeros(array),), {}), ((array(),), {})],
    doc=_DOC,
    value_dependent=True,
)


def nonzero(a: Any) -> Any:
    """Return the positions at which an array is not zero, as `np.nonzero` does."""
    return NONZERO(as_operand(a))


def _argsort(a: Any, *, axis: int | None, kind: Any, stable: bool | None) -> Any:
    return np.argsort(a, axis, kind, stable=stable)


def _argsort_spec(a: Any, *, axis: int | None, kind: Any, stable: bool | None) -> ArraySpec:
    spec = spec_of(a)
    return ArraySpec((spec.size,) if axis is None else spec.shape or (1,), _INTP)


def _argsort_front(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None) -> Any:
    if order is not None:
        raise ValueError("Cannot specify order when the array has no fields.")
    return ARGSORT(as_operand(a), axis=axis, kind=kind, stable=stable)


ARGSORT = constant(
    np.argsort,
    compute=_argsort,
    spec=_argsort_spec,
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


def _searchsorted(a: Any, v: Any, /, *sorter: Any, side: Any) -> Any:
    return np.searchsorted(a, v, side, *sorter)


def _searchsorted_spec(a: Any, v: Any, *sorter: Any, side: Any) -> ArraySpec:
    return ArraySpec(spec_of(v).shape, _INTP)


def _searchsorted_samples(array: Any) -> Calls:
    return [
        ((np.sort(array(4)), array(2, 3)), {}),
        ((np.sort(array(4)), array(), "right"), {}),
        ((np.sort(array(4))[[2, 0, 3, 1]], array(3)), {"sorter": np.array([1, 3, 0, 2])}),
    ]


def search(a: Any, v: Any, side: str) -> Any:
    """Return where the elements of each row of `v` would be inserted into the same row of `a`, which is sorted.

    An element has before it in `a` what it has before it in the sorted union of both, less what it has before it in `v`. Where
    elements are equal, a stable sort leaves those of the array that is named first in front.
    """
    n, m = shape_of(a)[1], shape_of(v)[1]
    both, first = ([v, a], 0) if side == "left" else ([a, v], n)
    among_both = _ranks(np.concatenate(both, 1))[:, first : first + m]
    return among_both - _ranks(v)


def _ranks(rows: Any) -> Any:
    """Return the places that the elements of each row have when it is sorted."""
    return np.argsort(np.argsort(rows, 1, stable=True), 1)


def _searchsorted_batch(
    primitive: Primitive, size: int, values: Sequence[Any], batched: Sequence[bool], params: Mapping[str, Any]
) -> Any:
    """NumPy takes one sorted array; where each example has its own, their unions with what is looked for are sorted."""
    a, v, *sorter = values
    if not batched[0] and not any(batched[2:]):
        return primitive(a, v, *sorter, **params)
    a, v = spread_out(a, batched[0], size), spread_out(v, batched[1], size)
    if sorter:
        a = np.take_along_axis(a, spread_out(sorter[0], batched[2], size), 1)
    return search(a, flat(v), params["side"]).reshape(shape_of(v))


def _searchsorted_front(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    arrays = [as_operand(value) for value in (a, v, sorter) if value is not None]
    return SEARCHSORTED(*arrays, side=side)


SEARCHSORTED = constant(
    np.searchsorted,
    compute=_searchsorted,
    spec=_searchsorted_spec,
    samples=_searchsorted_samples,
    doc=_DOC,
    batch=_searchsorted_batch,
    front=_searchsorted_front,
)


def _digitize(x: Any, bins: Any, *, right: bool) -> Any:
    return np.digitize(x, bins, right)


def _digitize_spec(x: Any, bins: Any, *, right: bool) -> ArraySpec:
    return ArraySpec(spec_of(x).shape, _INTP)


def _digitize_batch(
    primitive: Primitive, size: int, values: Sequence[Any], batched: Sequence[bool], params: Mapping[str, Any]
) -> Any:
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


def _digitize_front(x: Any, bins: Any, right: bool = False) -> Any:
    return DIGITIZE(as_operand(x), as_operand(bins), right=right)


DIGITIZE = constant(
    np.digitize,
    compute=_digitize,
    spec=_digitize_spec,
    samples=lambda array: [
        ((array(5), np.sort(array(3))), {}),
        ((array(2, 2), np.sort(array(3))[::-1], True), {}),
        ((array(), [-1.0, 0.0, 1.0]), {}),
    ],
    complex=False,
    doc=_DOC,
    batch=_digitize_batch,
    front=_digitize_front,
)


# Several numbers for a position, one number, one bit


def _ravel_multi_index(*indices: Any, dims: tuple[int, ...], mode: Any, order: Any) -> Any:
    return np.ravel_multi_index(indices, dims, mode, order)


def _ravel_multi_index_spec(*indices: Any, **params: Any) -> ArraySpec:
    return ArraySpec(np.broadcast_shapes(*[spec_of(i).shape for i in indices]), _INTP)


def _ravel_multi_index_front(multi_index: Any, dims: Any, mode: Any = "raise", order: Any = "C") -> Any:
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    return RAVEL_MULTI_INDEX(*map(as_operand, multi_index), dims=dims, mode=mode, order=order)


RAVEL_MULTI_INDEX = constant(
    np.ravel_multi_index,
    compute=_ravel_multi_index,
    spec=_ravel_multi_index_spec,
    samples=lambda array: [(((np.array([1, 0]), np.array([2, 1])), (2, 3)), {}), (((1, 4), (2, 3), "wrap", "F"), {})],
    doc=_DOC,
    batch=elementwise,
    front=_ravel_multi_index_front,
)


def _unravel_index(indices: Any, *, shape: tuple[int, ...], order: Any) -> Any:
    return np.unravel_index(indices, shape, order)


def _unravel_index_spec(indices: Any, *, shape: tuple[int, ...], order: Any) -> tuple[ArraySpec, ...]:
    return (ArraySpec(spec_of(indices).shape, _INTP),) * len(shape)


def _unravel_index_front(indices: Any, shape: Any, order: Any = "C") -> Any:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    return UNRAVEL_INDEX(as_operand(indices), shape=shape, order=order)


UNRAVEL_INDEX = constant(
    np.unravel_index,
    compute=_unravel_index,
    spec=_unravel_index_spec,
    samples=lambda array: [((np.array([1, 5]), (2, 3)), {}), ((4, (2, 3), "F"), {})],
    doc=_DOC,
    multiple=True,
    batch=elementwise,
    front=_unravel_index_front,
)


def _enter_bits(function: Any, samples: Any) -> None:
    def front(a: Any, axis: Any = None, *args: Any, **params: Any) -> Any:
        if args:  # a count, that stands before the only keyword
            params["count"] = args[0]
        return entry(as_operand(a), axis=axis, **params)

    entry = constant(function, samples=samples, doc="integers have no derivative", front=front, batch=along_axis)


_enter_bits(np.packbits, lambda array: [((np.array([1, 0, 1, 1, 0, 0, 0, 1, 1]),), {}), ((np.eye(2, dtype=bool), 1), {})])
_enter_bits(np.unpackbits, lambda array: [((np.array([3, 7], np.uint8),), {}), ((np.array([[3]], np.uint8), 1, 4), {})])
