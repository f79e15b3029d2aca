"""Functions that return positions: of nonzero elements, of a sort, of bins. Positions are integers, without derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.errors import AbstractValueError
from functad.expressions.spec import ArraySpec, shape_of, spec_of
from functad.places import here
from functad.primitives.arranging.broadcast import as_shape
from functad.primitives.batching import Params, Values, Which, along_axis, elementwise, flat, spread_out
from functad.primitives.entry import Primitive
from functad.primitives.kinds import constant, shaped_as_argument
from functad.primitives.operands import as_operand

_INTP = np.dtype(np.intp)
_DOC = "positions have no derivative"


def _unknown_shape(name: str) -> Callable[..., ArraySpec]:
    """Return the shape rule of a function with a value-dependent result shape. It raises an error in an abstract trace."""

    def spec(*specs: Any, **params: Any) -> ArraySpec:
        raise AbstractValueError(
            f"np.{name} of a Tensor of which only {spec_of(specs[0])} is known, at {here()}: the shape of the result depends "
            f"on values, and an abstract trace has none. Use np.where(mask, x, 0), which keeps the shape."
        )

    return spec


def _enter_places(function: Any, other: tuple[int, ...] = ()) -> Primitive:
    """Register a function that returns the positions of nonzero elements; `other` is the shape of a second sample."""
    return constant(
        function,
        spec=_unknown_shape(function.__name__),
        samples=lambda array: [((array(2, 3) * np.array([1, 0, 1]),), {}), ((array(*other),), {})],
        doc=_DOC,
        value_dependent=True,
    )


NONZERO = _enter_places(np.nonzero, (0,))
_enter_places(np.flatnonzero)
_enter_places(np.argwhere)


def nonzero(a: Any) -> Any:
    """Return the positions of the nonzero elements, like `np.nonzero`."""
    return NONZERO(as_operand(a))


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
