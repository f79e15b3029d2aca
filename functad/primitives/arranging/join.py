"""Joining and splitting of arrays: concatenate, stack, block, split and similar functions.

A join is jointly linear in all arrays, and each array gets its part of the cotangent. A split reads slices.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from functad.expressions.spec import ArraySpec, shape_of, spec_of
from functad.primitives.arranging.reshape import RESHAPE, atleast, ravel
from functad.primitives.batching import along_axis
from functad.primitives.elementwise.conversion import COPY, array_of_number
from functad.primitives.entry import Samples
from functad.primitives.indexing.read import get_item
from functad.primitives.kinds import composite, linear
from functad.primitives.operands import as_operand, refuse_out

_PLAIN = frozenset(
    {np.ndarray, np.float64, np.float32, np.complex128, np.complex64, np.int64, np.bool_, float, int, complex, bool}
)


def _concatenate_spec(*arrays: Any, axis: int) -> ArraySpec:
    specs = [spec_of(a) for a in arrays]
    first = specs[0].shape
    rest = {(*spec.shape[:axis], *spec.shape[axis + 1 :]) for spec in specs}
    if len(rest) > 1 or any(spec.ndim != len(first) for spec in specs):
        raise ValueError(f"concatenate along axis {axis} of {', '.join(map(str, specs))}: the other axes must match")
    shape = (*first[:axis], sum(spec.shape[axis] for spec in specs), *first[axis + 1 :])
    return ArraySpec(shape, np.result_type(*[spec.dtype for spec in specs]))


def _concatenate_vjp(g: Any, shapes: tuple[tuple[int, ...], ...], axis: int) -> list[Any]:
    """Return the slice of the cotangent for each array."""
    before = (slice(None),) * axis
    parts, start = [], 0
    for shape in shapes:
        end = start + shape[axis]
        parts.append(g[(*before, slice(start, end))])
        start = end
    return parts


def _operands(arrays: Iterable[Any], dtype: Any, casting: Any) -> list[Any]:
    """Return the operands of a join as arrays and Tensors, cast to `dtype` if it is given."""
    found = [as_operand(a) if type(a) is list or type(a) is tuple else a for a in arrays]
    if dtype is not None:
        found = [(a if hasattr(a, "astype") else np.asarray(a)).astype(dtype, casting=casting) for a in found]
    return found


def _numbers_yield(found: list[Any]) -> list[Any]:
    """Return the operands, with Python numbers cast to the common dtype, as in NumPy for `axis=None`."""
    specs = [spec_of(a) for a in found]
    if not any(s.weak for s in specs):
        return found
    dtype = np.result_type(*[s.dtype.type(0).item() if s.weak else s.dtype for s in specs])
    return [
        a if not s.weak else a.astype(dtype) if hasattr(a, "astype") else dtype.type(a)
        for a, s in zip(found, specs, strict=True)
    ]


def concatenate(
    arrays: Iterable[Any], /, axis: int | None = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Any:
    """Return the result of `np.concatenate`."""
    refuse_out(out, "concatenate")
    found = _operands(arrays, dtype, casting)
    if not found:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        found, axis = [ravel(a) for a in _numbers_yield(found)], 0
    ndim = len(shape_of(found[0]))
    if not ndim:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    return CONCATENATE(*found, axis=normalize_axis_index(axis, ndim))


CONCATENATE = linear(
    np.concatenate,
    _concatenate_vjp,
    compute=lambda *arrays, axis: np.concatenate(arrays, axis),
    spec=_concatenate_spec,
    samples=lambda array: [
        (([array(2), array(3)],), {}),
        (([array(2, 3), array(1, 3), np.ones((1, 3))],), {}),
        (((array(2, 3), array(2, 1)),), {"axis": 1}),
        (([array(2, 3), array(2, 1)], -1), {}),
        (([array(2, 2), array(3), array()],), {"axis": None}),
        (([array(2), 1.5],), {"axis": None}),
        (([array(2), [1.0, 2.0]],), {}),
        (([array(2), array(0)],), {}),
        (([array(2)],), {}),
        (([array(2), array(2)],), {"dtype": np.complex128}),
    ],
    doc="linear; each array gets its part of the cotangent",
    front=concatenate,
    sequences=("arrays",),
    batch=along_axis,
    ordered=True,
    dependence="moved",
)


def _stack(*arrays: Any, axis: int) -> Any:
    if axis == 0 and np.ndim(arrays[0]) < 2 and all(type(a) in _PLAIN for a in arrays):  # np.stack keeps other layouts
        try:
            return np.array(arrays)  # 0.4 us for three numbers, np.stack takes 5 us; never slower
        except ValueError:
            raise ValueError("all input arrays must have the same shape") from None
    return np.stack(arrays, axis)


def _stack_spec(*arrays: Any, axis: int) -> ArraySpec:
    specs = [spec_of(a) for a in arrays]
    first = specs[0].shape
    if any(spec.shape != first for spec in specs):
        raise ValueError("all input arrays must have the same shape")
    return ArraySpec((*first[:axis], len(specs), *first[axis:]), np.result_type(*[spec.dtype for spec in specs]))


def stack(arrays: Iterable[Any], axis: int = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """Return the result of `np.stack`. The computation or the shape rule checks that the shapes are equal."""
    refuse_out(out, "stack")
    found = _operands(arrays, dtype, casting)
    if not found:
        raise ValueError("need at least one array to stack")
    return STACK(*found, axis=axis if axis == 0 else normalize_axis_index(axis, len(shape_of(found[0])) + 1))


STACK = linear(
    np.stack,
    lambda g, axis: list(g) if axis == 0 else [g[(*(slice(None),) * axis, i)] for i in range(g.shape[axis])],
    compute=_stack,
    spec=_stack_spec,
    samples=lambda array: [
        (([array(), array(), array()],), {}),
        (([array(2), array(2)],), {}),
        (([array(2), array(2), [1.0, 2.0]], 1), {}),
        (([array(2, 3), array(2, 3)],), {"axis": -1}),
        (([array(2, 3), array(2, 3)],), {"axis": -2}),
        (([array(2, 3), array(2, 3)],), {}),
        (([array(), 1.0],), {}),
        (([array(0), array(0)],), {}),
        (([array(2), array(2)],), {"dtype": np.complex128}),
    ],
    doc="linear; each array gets its part of the cotangent",
    front=stack,
    sequences=("arrays",),
    batch=along_axis,
    ordered=True,
    dependence="moved",
)


@composite(
    np.vstack,
    samples=lambda array: [
        (([array(3), array(3)],), {}),
        (([array(2, 3), array(3)],), {}),
        (([array(), array()],), {}),
        (([array(0, 2), array(1, 2)],), {}),
    ],
    doc="a concatenation",
    sequences=("tup",),
)
def _vstack(tup: Iterable[Any], *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    return concatenate([atleast(a, 2) for a in tup], 0, dtype=dtype, casting=casting)


@composite(
    np.hstack,
    samples=lambda array: [
        (([array(3), array(2)],), {}),
        (([array(2, 3), array(2, 1)],), {}),
        (([array(), array()],), {}),
        (([array(2, 0), array(2, 1)],), {}),
    ],
    doc="a concatenation",
    sequences=("tup",),
)
def _hstack(tup: Iterable[Any], *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    found = [atleast(a, 1) for a in tup]
    axis = 0 if found and len(shape_of(found[0])) == 1 else 1
    return concatenate(found, axis, dtype=dtype, casting=casting)


@composite(
    np.dstack,
    samples=lambda array: [
        (([array(3), array(3)],), {}),
        (([array(2, 3), array(2, 3)],), {}),
        (([array(1, 2, 1), array(1, 2, 2)],), {}),
        (([array(), array()],), {}),
    ],
    doc="a concatenation",
    sequences=("tup",),
)
def _dstack(tup: Iterable[Any]) -> Any:
    return concatenate([atleast(a, 3) for a in tup], 2)


@composite(
    np.column_stack,
    samples=lambda array: [
        (([array(3), array(3)],), {}),
        (([array(2), array(2, 3)],), {}),
        (([array(0), array(0)],), {}),
    ],
    doc="a concatenation",
    sequences=("tup",),
)
def _column_stack(tup: Iterable[Any]) -> Any:
    return concatenate([_column(as_operand(a)) for a in tup], 1)


def _column(a: Any) -> Any:
    """Return an array with fewer than two axes as a column."""
    shape = shape_of(a)
    return a if len(shape) > 1 else RESHAPE(a, shape=(math.prod(shape), 1))


@composite(
    np.append,
    samples=lambda array: [
        ((array(2), array(3)), {}),
        ((array(2, 2), array()), {}),
        ((array(2, 2), array(1, 2)), {"axis": 0}),
        ((array(2), [1.0]), {}),
    ],
    doc="a concatenation",
)
def _append(arr: Any, values: Any, axis: int | None = None) -> Any:
    if axis is None:  # NumPy converts numbers to arrays first here, so they are not weak
        return concatenate((ravel(as_operand(arr)), ravel(as_operand(values))))
    return concatenate((arr, values), axis)


@composite(
    np.block,
    samples=lambda array: [
        (([array(2), array(), 1.0],), {}),
        (([[array(2, 2), array(2, 1)], [array(1, 2), array()]],), {}),
        (([[array(2)], [array(2)]],), {}),
        ((array(2),), {}),
    ],
    doc="concatenations",
    sequences=("arrays",),
)
def _block(arrays: Any) -> Any:
    depth = _list_depth(arrays)
    joined = _join(arrays, depth, max(depth, _largest_ndim(arrays)))
    return joined if depth else COPY(array_of_number(joined))


def _list_depth(arrays: Any) -> int:
    """Return the nesting depth of the lists, which must be uniform."""
    if isinstance(arrays, tuple):
        raise TypeError("np.block takes lists, not tuples: only lists say which arrays lie side by side")
    if not isinstance(arrays, list):
        return 0
    depths = {_list_depth(part) for part in arrays}
    if len(depths) != 1:
        raise ValueError("np.block: the lists must not be empty and must all be nested to the same depth")
    return depths.pop() + 1


def _largest_ndim(arrays: Any) -> int:
    return max(map(_largest_ndim, arrays)) if isinstance(arrays, list) else len(shape_of(arrays))


def _join(arrays: Any, depth: int, ndim: int) -> Any:
    """Join the innermost lists along the last axis, the enclosing lists along the second-last axis, and so on."""
    if depth:
        return concatenate([_join(part, depth - 1, ndim) for part in arrays], -depth)
    shape = shape_of(arrays)
    return arrays if len(shape) >= ndim else RESHAPE(arrays, shape=(1,) * (ndim - len(shape)) + shape)


@composite(
    np.array_split,
    samples=lambda array: [((array(7), 3), {}), ((array(2, 3), 2), {"axis": -1}), ((array(5), [1, 3, 9]), {})],
    doc="slices",
)
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Return the result of `np.array_split`."""
    shape = shape_of(ary)
    axis = normalize_axis_index(axis, len(shape))
    n = shape[axis]
    if isinstance(indices_or_sections, Sequence) or np.ndim(indices_or_sections):
        bounds = [0, *map(int, indices_or_sections), n]
    else:
        sections = int(indices_or_sections)
        if sections <= 0:
            raise ValueError("number sections must be larger than 0.")
        each, extras = divmod(n, sections)
        bounds = [i * each + min(i, extras) for i in range(sections + 1)]
    before = (slice(None),) * axis
    return [get_item(ary, (*before, slice(*pair))) for pair in itertools.pairwise(bounds)]


@composite(
    np.split,
    samples=lambda array: [
        ((array(6), 3), {}),
        ((array(2, 4), 2), {"axis": 1}),
        ((array(5), [2, 3]), {}),
        ((array(4, 2), np.array([1])), {}),
        ((array(4), (3, 1)), {}),
        ((array(0, 2), 1), {}),
    ],
    doc="slices",
)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    """Return the result of `np.split`."""
    if not isinstance(indices_or_sections, Sequence) and not np.ndim(indices_or_sections):
        n = shape_of(ary)[normalize_axis_index(axis, len(shape_of(ary)))]
        if n % int(indices_or_sections):
            raise ValueError("array split does not result in an equal division")
    return array_split(ary, indices_or_sections, axis)


def _enter_split(function: Any, axis: int, ndim: int, samples: Samples) -> None:
    """Register a split along `axis` of an array with at least `ndim` axes; a vector is split along its only axis."""

    @composite(function, samples=samples, doc="slices")
    def entered(ary: Any, indices_or_sections: Any) -> Any:
        _need_axes(ary, ndim, function.__name__)
        return split(ary, indices_or_sections, min(axis, len(shape_of(ary)) - 1))


def _need_axes(ary: Any, ndim: int, name: str) -> None:
    if len(shape_of(ary)) < ndim:
        raise ValueError(f"{name} only works on arrays of {ndim} or more dimensions")


_enter_split(np.hsplit, 1, 1, lambda array: [((array(4), 2), {}), ((array(2, 3), [1]), {}), ((array(1, 2, 2), 2), {})])
_enter_split(np.vsplit, 0, 2, lambda array: [((array(4, 1), 2), {}), ((array(3, 2), [1]), {})])
_enter_split(np.dsplit, 2, 3, lambda array: [((array(1, 2, 4), 2), {}), ((array(1, 2, 3), [1]), {})])


if hasattr(np, "unstack"):  # NumPy 2.1

    @composite(
        np.unstack,
        samples=lambda array: [((array(3),), {}), ((array(2, 3),), {"axis": -1}), ((array(2, 0),), {})],
        doc="slices",
    )
    def _unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
        _need_axes(x, 1, "unstack")
        shape = shape_of(x)
        axis = normalize_axis_index(axis, len(shape))
        before = (slice(None),) * axis
        return tuple([get_item(x, (*before, i)) for i in range(shape[axis])])
