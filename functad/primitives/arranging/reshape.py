"""Broadcast, reshape, transpose, and functions built on them: `moveaxis`, `ravel`, `squeeze`, `atleast_1d` and others.

`BROADCAST_TO`, `RESHAPE` and `TRANSPOSE` are the primitives. The transpose of a broadcast is a sum over the new axes. A reshape
in Fortran order is a transposition, a reshape in C order, and a second transposition.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from functad.errors import UnsupportedError
from functad.expressions.spec import ArraySpec, shape_of, spec_of
from functad.places import here
from functad.primitives.batching import by_parameter, padded
from functad.primitives.kinds import composite, linear
from functad.primitives.operands import as_operand, innermost, is_traced, is_weak

_ndarray = np.ndarray
_add_reduce: Callable[..., Any] = np.add.reduce


def unbroadcast(ct: Any, shape: tuple[int, ...]) -> Any:
    """Return `ct` summed over its broadcast axes, as an array of the given shape."""
    axes, keepdims = _axes_summed(shape_of(ct), shape)
    if axes:
        ct = _add_reduce(ct, axes, None, None, keepdims) if type(ct) is _ndarray else ct.sum(axis=axes, keepdims=keepdims)
        if keepdims:
            return ct
    return ct if shape_of(ct) == shape else ct.reshape(shape)


@lru_cache(maxsize=1024)  # 0.1 us instead of 0.6; programs use few shapes
def _axes_summed(given: tuple[int, ...], shape: tuple[int, ...]) -> tuple[tuple[int, ...], bool]:
    """Return the axes to sum over, and `True` if the sum with `keepdims` has the requested shape."""
    extra = len(given) - len(shape)
    return tuple([i for i, n in enumerate(given) if i < extra or (n != 1 and shape[i - extra] == 1)]), extra == 0


def as_shape(shape: Any) -> tuple[int, ...]:
    """Return a shape as a tuple of integers. An integer is the length of a single axis."""
    if isinstance(shape, Iterable):
        return tuple(map(operator.index, shape))
    return (operator.index(shape),)


def _broadcast_to(a: Any, *, shape: Any) -> Any:
    """Return a read-only broadcast view in 0.7 us instead of the 4 us of `np.broadcast_to`; every VJP of a sum calls it."""
    if type(a) is _ndarray:
        if a.size and a.flags.c_contiguous and a.dtype.kind in "fciub":
            strides = _broadcast_strides(a, shape)
            if strides is not None:
                out: Any = _ndarray(shape, a.dtype, a, 0, strides)
                out.setflags(write=False)
                return out
    elif issubclass(type(a), (np.floating, np.complexfloating)) and 0 not in shape:
        return _ndarray(shape, a.dtype, a, 0, (0,) * len(shape))
    elif hasattr(shape, "chunks") and hasattr(a, "chunks"):
        return shape.broadcast(a)
    return np.broadcast_to(a, shape)


def _broadcast_strides(a: Any, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the strides of `a` broadcast to `shape`, or `None` for errors and empty arrays, which NumPy handles."""
    extra = len(shape) - a.ndim
    if extra < 0 or 0 in shape:
        return None
    strides = [0] * extra
    for own, wanted, stride in zip(a.shape, shape[extra:], a.strides, strict=True):
        if own == wanted:
            strides.append(stride)
        elif own == 1:
            strides.append(0)
        else:
            return None
    return tuple(strides)


def _broadcast_to_spec(a: Any, *, shape: tuple[int, ...]) -> ArraySpec:
    own = spec_of(a)
    if np.broadcast_shapes(own.shape, shape) != shape:
        raise ValueError(f"{own} cannot be broadcast to shape {shape}")
    return ArraySpec(shape, own.dtype)


def _broadcast_to_front(array: Any, shape: Any, subok: bool = False) -> Any:
    return BROADCAST_TO(array, shape=as_shape(shape))  # a read-only view, even if the shape stays the same


BROADCAST_TO = linear(
    np.broadcast_to,
    lambda g, a_shape: unbroadcast(g, a_shape),
    compute=_broadcast_to,
    spec=_broadcast_to_spec,
    samples=lambda array: [
        ((array(), (2, 3)), {}),
        ((array(3), (2, 3)), {}),
        ((array(2, 1), (4, 2, 3)), {}),
        ((array(1), 3), {}),
        ((array(3), (3,)), {}),
        ((array(3, 2).T, (2, 2, 3)), {}),
        ((array(1, 3), (0, 3)), {}),
        ((array(0), (2, 0)), {}),
        ((array(), ()), {}),
    ],
    doc="linear; the cotangent is summed over the new axes",
    views="read-only",
    batch=lambda primitive, size, values, batched, params: primitive(
        padded(values[0], len(params["shape"])), shape=(size, *params["shape"])
    ),
    front=_broadcast_to_front,
    dependence="moved",
)


@composite(
    np.broadcast_arrays,
    samples=lambda array: [
        ((array(3), array(2, 1)), {}),
        ((array(), array(2)), {}),
        ((array(3),), {}),
        ((array(0), array(1), array()), {}),
    ],
    doc="each argument is broadcast to the common shape",
)
def _broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    given = [as_operand(arg) for arg in args]
    shape = np.broadcast_shapes(*map(shape_of, given))
    return tuple([a if is_traced(a) and shape and shape_of(a) == shape else np.broadcast_to(a, shape) for a in given])


Calls = list[tuple[tuple[Any, ...], dict[str, Any]]]


def _reshape(a: Any, *, shape: tuple[int, ...]) -> Any:
    try:
        return a.reshape(shape)
    except AttributeError:  # a Python number
        return np.reshape(a, shape)


def reshape(a: Any, shape: Any = None, order: str | None = "C", *, newshape: Any = None, copy: bool | None = None) -> Any:
    """Return the result of `np.reshape`, with the signatures of NumPy 2.0 to 2.4."""
    shape = as_shape(newshape if shape is None else shape)
    if copy is not None and not copy:
        _refuse_copy(a, shape, order)
    if is_fortran(a, order):
        backwards = RESHAPE(reverse_axes(a), shape=complete_shape(shape_of(a), shape)[::-1])
        out = reverse_axes(backwards)
    else:
        out = RESHAPE(a, shape=complete_shape(shape_of(a), shape))
    return np.copy(out) if copy else out


RESHAPE = linear(
    np.reshape,
    lambda g, a_shape: g.reshape(a_shape),
    compute=_reshape,
    samples=lambda array: [
        ((array(2, 3), (3, 2)), {}),
        ((array(2, 3), -1), {}),
        ((array(2, 3, 2), (-1, 4)), {}),
        ((array(2, 3), (3, 2), "F"), {}),
        ((array(2, 3), (3, -1)), {"order": "F"}),
        ((array(), (1, 1)), {}),
        ((array(1), ()), {}),
        ((array(0, 3), (3, 0, 2)), {}),
        ((array(0, 3), (-1, 3)), {}),
    ],
    doc="linear; the cotangent is reshaped back",
    views="by layout",
    batch=by_parameter("shape", lambda size, shape: (size, *shape)),
    front=reshape,
    dependence="moved",
)


def _refuse_copy(a: Any, shape: tuple[int, ...], order: Any) -> None:
    """Raise NumPy's error for `copy=False` if the reshape needs a copy."""
    value = innermost(a)
    if not isinstance(value, ArraySpec):
        view = np.asarray(value).view()
        np.reshape(view, shape, order, copy=False)


def complete_shape(own: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return `shape` with a -1 replaced by the length that keeps the number of elements."""
    if shape.count(-1) != 1:
        return shape
    size, known = math.prod(own), -math.prod(shape)
    if known <= 0 or size % known:
        return shape  # the call itself raises NumPy's error
    return tuple([size // known if n == -1 else n for n in shape])


def is_fortran(a: Any, order: str | None) -> bool:
    """Return `True` if `order` (`C`, `F` or `A`) means Fortran order for `a`."""
    if order in ("C", None, "c"):
        return False
    if order in ("F", "f"):
        return True
    if order not in ("A", "a"):
        raise ValueError(f"order must be one of 'C', 'F' and 'A', not {order!r}")
    value = _in_memory(a, order)
    flags = getattr(a if is_traced(a) and not isinstance(value, ArraySpec) else value, "flags", None)
    return flags is not None and bool(flags.f_contiguous) and not flags.c_contiguous


def _in_memory(a: Any, order: str) -> Any:
    """Return the concrete value of `a`, whose strides the caller reads.

    Raises:
        UnsupportedError: an abstract trace has no value.
    """
    value = innermost(a)
    if isinstance(value, ArraySpec) and value.ndim > 1:
        raise UnsupportedError(
            f"order={order!r} at {here()} depends on how a value lies in memory, and an abstract trace has no values. "
            f"Use order='C' or order='F'."
        )
    return value


def _transpose(a: Any, *, axes: tuple[int, ...]) -> Any:
    try:
        return a.transpose(axes)
    except AttributeError:  # a Python number
        return np.transpose(a, axes)


@functools.lru_cache(maxsize=1024)
def inverse_permutation(axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the inverse of a permutation of axes."""
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


def permuted(a: Any, axes: tuple[int, ...]) -> Any:
    """Return `a` transposed, or `a` itself for the identity permutation."""
    return a if axes == tuple(range(len(axes))) else TRANSPOSE(a, axes=axes)


def reverse_axes(a: Any) -> Any:
    """Return `a.T`."""
    return permuted(a, tuple(range(len(shape_of(a)) - 1, -1, -1)))


def _as_array(a: Any) -> Any:
    """Return a Tensor of a Python number as a Tensor of an array of shape `()`. Other values are returned unchanged."""
    return RESHAPE(a, shape=()) if is_traced(a) and is_weak(a) else a


def transpose(a: Any, axes: Any = None) -> Any:
    """Return the result of `np.transpose`."""
    a = _as_array(a)
    if axes is None:
        return reverse_axes(a)
    ndim = len(shape_of(a))
    order = normalize_axis_tuple(axes, ndim)
    if len(order) != ndim:
        raise ValueError("axes don't match array")
    return permuted(a, order)


TRANSPOSE = linear(
    np.transpose,
    lambda g, axes: g.transpose(inverse_permutation(axes)),
    compute=_transpose,
    samples=lambda array: [
        ((array(2, 3),), {}),
        ((array(2, 3, 2),), {}),
        ((array(2, 3, 1), (1, 2, 0)), {}),
        ((array(2, 3, 2),), {"axes": (-1, 0, 1)}),
        ((array(3),), {}),
        ((array(),), {}),
        ((array(0, 2),), {}),
    ],
    doc="linear; the cotangent is transposed back",
    views="always",
    batch=by_parameter("axes", lambda size, axes: (0, *[i + 1 for i in axes])),
    front=transpose,
    dependence="moved",
)


def matrix_samples(array: Any) -> Calls:
    """Return calls of a function of one array with at least two axes."""
    return [((array(2, 3),), {}), ((array(2, 1, 3),), {}), ((array(0, 3),), {})]


def matrix_transpose(x: Any, /) -> Any:
    """Return the result of `np.matrix_transpose`: the last two axes are swapped."""
    ndim = len(shape_of(x))
    if ndim < 2:
        raise ValueError(f"Input array must be at least 2-dimensional, but it is {ndim}")
    return TRANSPOSE(x, axes=(*range(ndim - 2), ndim - 1, ndim - 2))


for _function in (np.matrix_transpose, np.linalg.matrix_transpose):
    composite(_function, samples=matrix_samples, doc="a transposition")(matrix_transpose)


@composite(
    np.moveaxis,
    samples=lambda array: [
        ((array(2, 3, 1), 0, -1), {}),
        ((array(2, 3, 1), (0, 1), (1, 2)), {}),
        ((array(2, 3), 0, 0), {}),
        ((array(0, 3), 1, 0), {}),
    ],
    doc="a transposition",
)
def _moveaxis(a: Any, source: Any, destination: Any) -> Any:
    a = _as_array(a)
    ndim = len(shape_of(a))
    froms = normalize_axis_tuple(source, ndim, "source")
    tos = normalize_axis_tuple(destination, ndim, "destination")
    if len(froms) != len(tos):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    order = [axis for axis in range(ndim) if axis not in froms]
    for to, axis in sorted(zip(tos, froms, strict=True)):
        order.insert(to, axis)
    return permuted(a, tuple(order))


@composite(
    np.rollaxis,
    samples=lambda array: [((array(2, 3, 1), 2), {}), ((array(2, 3, 1), 0, 3), {}), ((array(2, 3), -1), {"start": -2})],
    doc="a transposition",
)
def _rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    ndim = len(shape_of(a))
    axis = normalize_axis_index(axis, ndim)
    if start < 0:
        start += ndim
    if not 0 <= start <= ndim:
        raise np.exceptions.AxisError(f"start must lie in [{-ndim}, {ndim}]")
    order = [other for other in range(ndim) if other != axis]
    order.insert(start - 1 if axis < start else start, axis)
    return permuted(a, tuple(order))


@composite(
    np.swapaxes,
    samples=lambda array: [((array(2, 3, 1), 0, -1), {}), ((array(2, 3), 1, 1), {}), ((array(0, 3), 0, 1), {})],
    doc="a transposition",
)
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Return the result of `np.swapaxes`."""
    ndim = len(shape_of(a))
    order = list(range(ndim))
    i, j = normalize_axis_index(axis1, ndim), normalize_axis_index(axis2, ndim)
    order[i], order[j] = j, i
    return permuted(a, tuple(order))


@composite(
    np.ravel,
    samples=lambda array: [
        ((array(2, 3),), {}),
        ((array(2, 3), "F"), {}),
        ((array(),), {}),
        ((array(0, 2),), {}),
    ],
    doc="a reshape",
)
def ravel(a: Any, order: str | None = "C") -> Any:
    """Return the result of `np.ravel`."""
    if order in ("K", "k"):
        strides = getattr(_in_memory(a, "K"), "strides", ())
        if len(strides) > 1:
            a = permuted(a, _as_they_lie(strides))
    elif is_fortran(a, order):
        a = reverse_axes(a)
    shape = shape_of(a)
    a = in_c_order(a)  # like NumPy, copies even if a view is possible
    return a if len(shape) == 1 else RESHAPE(a, shape=(math.prod(shape),))


def _as_they_lie(strides: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes sorted from the longest stride to the shortest. Broadcast axes (stride 0) keep their places."""
    axes: list[int] = []
    for axis, stride in enumerate(strides):
        place = len(axes)
        for i in reversed(range(len(axes))):
            if stride and strides[axes[i]]:
                if abs(stride) <= abs(strides[axes[i]]):
                    break
                place = i
        axes.insert(place, axis)
    return tuple(axes)


def in_c_order(a: Any) -> Any:
    """Return `a` if it is C-contiguous, otherwise a C-contiguous copy; either one if the layout of a Tensor is unknown."""
    if is_traced(a):
        return type(a).__functad_c_ordered__(a)
    flags = getattr(a, "flags", None)
    return a if flags is None or flags.c_contiguous else np.copy(a, "C")


def in_fortran_order(a: Any) -> Any:
    """Return `a` if it is Fortran-contiguous, otherwise a Fortran-contiguous copy."""
    return reverse_axes(in_c_order(reverse_axes(a)))


@composite(
    np.expand_dims,
    samples=lambda array: [
        ((array(3), 0), {}),
        ((array(2, 3), (0, -1)), {}),
        ((array(), 0), {}),
        ((array(0, 2), 1), {}),
    ],
    doc="a reshape",
)
def expand_dims(a: Any, axis: Any) -> Any:
    """Return the result of `np.expand_dims`."""
    own = shape_of(a)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    ndim = len(own) + len(axes)
    new = normalize_axis_tuple(axes, ndim)
    lengths = iter(own)
    return RESHAPE(a, shape=tuple([1 if i in new else next(lengths) for i in range(ndim)]))


@composite(
    np.squeeze,
    samples=lambda array: [
        ((array(1, 3, 1),), {}),
        ((array(1, 3, 1), 0), {}),
        ((array(1, 3, 1),), {"axis": (0, -1)}),
        ((array(2, 3),), {}),
        ((array(1),), {}),
        ((array(1, 0),), {}),
    ],
    doc="a reshape",
)
def squeeze(a: Any, axis: Any = None) -> Any:
    """Return the result of `np.squeeze`."""
    own = shape_of(a)
    a = _as_array(a)
    if axis is None:
        shape = tuple([n for n in own if n != 1])
    elif not own and axis in (0, -1):  # NumPy allows these axes of a scalar
        return a
    else:
        gone = (axis,) if type(axis) is int and 0 <= axis < len(own) else normalize_axis_tuple(axis, len(own))
        for i in gone:
            if own[i] != 1:
                raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
        shape = tuple([n for i, n in enumerate(own) if i not in gone])
    return a if shape == own else RESHAPE(a, shape=shape)


def atleast(a: Any, ndim: int) -> Any:
    """Return `a` with at least `ndim` axes. The new axes of length 1 have the positions of `np.atleast_1d`, `2d` and `3d`."""
    a = as_operand(a)
    shape = shape_of(a)
    if len(shape) >= ndim:
        return a
    missing = ndim - len(shape)
    if ndim == 3 and len(shape) in (1, 2):
        return RESHAPE(a, shape=(*(1,) * (missing - 1), *shape, 1))
    return RESHAPE(a, shape=(1,) * missing + shape)


def _enter_atleast(function: Any, ndim: int) -> None:
    def samples(array: Any) -> Calls:
        return [((array(),), {}), ((array(3),), {}), ((array(2, 3),), {}), ((array(3), array()), {}), ((array(0),), {})]

    @composite(function, samples=samples, doc="a reshape")
    def entered(*arys: Any) -> Any:
        return atleast(arys[0], ndim) if len(arys) == 1 else tuple([atleast(a, ndim) for a in arys])


_enter_atleast(np.atleast_1d, 1)
_enter_atleast(np.atleast_2d, 2)
_enter_atleast(np.atleast_3d, 3)


def same_spec(a: Any, *others: Any, **params: Any) -> ArraySpec:
    """Return the shape and dtype of the first argument: the shape rule of functions that keep both."""
    own = spec_of(a)
    return ArraySpec(own.shape, own.dtype)
