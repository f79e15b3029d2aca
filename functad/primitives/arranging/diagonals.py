"""Diagonals and triangles of matrices."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from functad.expressions.spec import dtype_of, shape_of
from functad.primitives.arranging.reshape import Calls, same_spec
from functad.primitives.batching import elementwise
from functad.primitives.elementwise.conversion import laid_out_like
from functad.primitives.entry import ENTRIES
from functad.primitives.indexing.read import scatter
from functad.primitives.kinds import composite, linear
from functad.primitives.operands import as_operand, innermost, is_traced, read_only_view, refuse_out

# A diagonal of a flattened matrix is a slice with step columns + 1. The VJP of a slice adds cotangents in place.


def _places(rows: int, columns: int, offset: int) -> slice:
    """Return the slice that reads a diagonal from a flattened matrix."""
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    start = (offset if offset >= 0 else -offset * columns) if count else 0
    return slice(start, start + count * (columns + 1) - columns if count else start, columns + 1)


def _diagonal_samples(array: Any) -> Calls:
    return [
        ((array(3, 3),), {}),
        ((array(2, 3), 1), {}),
        ((array(3, 2), -1), {}),
        ((array(2, 2), 5), {}),
        ((array(2, 3, 2), 0, 0, 1), {}),
        ((array(2, 2, 3),), {"offset": -1, "axis1": -1, "axis2": 1}),
        ((array(0, 3),), {}),
    ]


@composite(np.diagonal, samples=_diagonal_samples, doc="linear; the cotangent is put on the diagonal")
def _diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    offset = operator.index(offset)
    params = {"offset": offset, "axis1": axis1, "axis2": axis2}
    out, known = _read_diagonal(as_operand(a), **params), innermost(a)
    if is_traced(a) and issubclass(type(known), np.ndarray):
        out = laid_out_like(out, np.diagonal(known, offset, axis1, axis2))
    return read_only_view(a, out, ENTRIES[np.diagonal], params)


def _read_diagonal(a: Any, offset: int, axis1: int, axis2: int) -> Any:
    ndim = len(shape_of(a))
    if ndim < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    first, second = normalize_axis_index(axis1, ndim), normalize_axis_index(axis2, ndim)
    if first == second:
        raise ValueError("axis1 and axis2 cannot be the same")
    others = [axis for axis in range(ndim) if axis not in (first, second)]
    order = (*others, first, second)
    if order != tuple(range(ndim)):
        a = a.transpose(order)
    *outer, rows, columns = shape_of(a)
    return a.reshape((*outer, rows * columns))[..., _places(rows, columns, offset)]


def _trace_samples(array: Any) -> Calls:
    return [
        ((array(3, 3),), {}),
        ((array(2, 3), 1), {}),
        ((array(2, 3, 2),), {"offset": -1, "axis1": 1, "axis2": 2}),
        ((array(2, 2),), {"dtype": np.complex128}),
        ((array(0, 0),), {}),
    ]


@composite(np.trace, samples=_trace_samples, doc="linear; the cotangent is put at every place of the diagonal", reduces=np.add)
def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    refuse_out(out, "trace")
    return np.sum(_diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


def _diag_samples(array: Any) -> Calls:
    return [
        ((array(3),), {}),
        ((array(2), 1), {}),
        ((array(2),), {"k": -2}),
        ((array(2, 3),), {}),
        ((array(3, 2), -1), {}),
        ((array(0),), {}),
    ]


@composite(np.diag, samples=_diag_samples, doc="linear: a vector is put on a diagonal, or one is read")
def _diag(v: Any, k: int = 0) -> Any:
    v, k = as_operand(v), operator.index(k)
    shape = shape_of(v)
    if len(shape) == 2:
        return _diagonal(v, k)
    if len(shape) != 1:
        raise ValueError("Input must be 1- or 2-d.")
    n = shape[0] + abs(k)
    return scatter(v, indices=(_places(n, n, k),), shape=(n * n,), dtype=dtype_of(v)).reshape((n, n))


@composite(
    np.diagflat,
    samples=lambda array: [((array(2, 2),), {}), ((array(), 1), {}), ((array(2), -1), {})],
    doc="linear: the elements are put on a diagonal",
)
def _diagflat(v: Any, k: int = 0) -> Any:
    return _diag(as_operand(v).reshape(-1), k)


def _enter_triangle(function: Any, doc: str) -> None:
    """Register `np.tril` or `np.triu`. As in NumPy, a vector is first broadcast to the rows of a square matrix."""

    def front(m: Any, k: int = 0) -> Any:
        m = as_operand(m)
        shape = shape_of(m)
        return entry(np.broadcast_to(m, shape * 2) if len(shape) == 1 else m, k=k)

    entry = linear(
        function,
        lambda g, k: entry(g, k=k),
        compute=lambda a, *, k: function(a, k),
        spec=same_spec,
        samples=lambda array: [
            ((array(3, 3),), {}),
            ((array(2, 3), 1), {}),
            ((array(2, 3, 2),), {"k": -1}),
            ((array(3),), {}),
            ((array(0, 2),), {}),
        ],
        doc=doc,
        front=front,
        batch=elementwise,
        dependence="moved",
    )


_enter_triangle(np.tril, "linear; the cotangent of what is above the diagonal is dropped")
_enter_triangle(np.triu, "linear; the cotangent of what is below the diagonal is dropped")
