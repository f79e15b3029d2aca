"""Conversions between dtypes, and copies."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from functad.errors import ConversionError
from functad.expressions.spec import PYTHON_SCALARS, ArraySpec, dtype_of, spec_of
from functad.places import here
from functad.primitives.arranging.reshape import BROADCAST_TO, TRANSPOSE, inverse_permutation, same_spec
from functad.primitives.batching import elementwise
from functad.primitives.kinds import composite, constant, linear
from functad.primitives.operands import innermost, is_number, is_traced


def _astype(a: Any, *, dtype: np.dtype[Any]) -> Any:
    try:
        return a.astype(dtype)
    except AttributeError:  # a Python number; int() raises for infinities and NaN
        return np.asarray(a).astype(dtype)[()] if type(a) is float and dtype.kind in "iu" else dtype.type(a)


def _astype_spec(a: Any, *, dtype: np.dtype[Any]) -> ArraySpec:
    return ArraySpec(spec_of(a).shape, dtype)


def _wider(array: Any) -> list[Any]:
    own = array().dtype
    return [np.dtype(np.complex128), np.result_type(own, np.float64), own]


ASTYPE = linear(
    _astype,
    lambda g: g,
    spec=_astype_spec,
    samples=lambda array: [((array(*s),), {"dtype": dtype}) for dtype in _wider(array) for s in ((3,), (), (0, 2))],
    internal=True,
    doc="linear between floating and complex dtypes; the cotangent is cast back",
    cost=1.0,
    exact=True,
    batch=elementwise,
    dependence="same",
)

ASTYPE_INTEGER = constant(
    _astype,
    spec=_astype_spec,
    samples=lambda array: [((np.abs(array(3)),), {"dtype": np.dtype(np.int64)}), ((array(),), {"dtype": np.dtype(np.bool_)})],
    name="astype_integer",
    complex=False,
    internal=True,
    doc="integers and booleans have no derivative",
    cost=1.0,
    jumps=lambda a, *, dtype: a - np.rint(a),
    batch=elementwise,
)


def astype(a: Any, dtype: Any, casting: Any = "unsafe", copy: bool = True) -> Any:
    """Return an array or Tensor in another dtype. A result with an integer or boolean dtype is a constant.

    Raises:
        ConversionError: a Tensor cannot become an array of objects or text.
    """
    dtype = np.dtype(dtype)
    own = dtype_of(a)
    if casting != "unsafe" and not np.can_cast(own, dtype, casting):
        raise TypeError(f"Cannot cast array data from {own!r} to {dtype!r} according to the rule '{casting}'")
    if dtype.kind not in "biufc" and is_traced(a):
        raise ConversionError(
            f"Conversion of a Tensor to {dtype}, at {here()}, would lose its derivative. Use functad.stop_gradient(t) first."
        )
    if own == dtype:
        return COPY(a) if copy else a
    return ASTYPE(a, dtype=dtype) if dtype.kind in "fc" else ASTYPE_INTEGER(a, dtype=dtype)


if hasattr(np, "astype"):  # NumPy 2.1

    @composite(
        np.astype,
        samples=lambda array: [((array(3), dtype), {}) for dtype in _wider(array)],
        doc="linear between floating and complex dtypes",
    )
    def _astype_function(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
        return astype(x, dtype, copy=copy)


def _copy(a: Any, *, order: str = "K") -> Any:
    if type(a) in PYTHON_SCALARS:
        try:
            return PYTHON_SCALARS[type(a)].type(a)
        except OverflowError:
            return np.uint64(a)  # an integer beyond uint64 raises OverflowError again
    if not issubclass(type(a), (np.ndarray, np.generic)):
        return a.copy()  # an array of another library: the library decides the memory layout
    try:
        return a.copy(order)
    except TypeError:  # a scalar has no order
        return a


def of_parts(real: Any, imaginary: Any) -> Any:
    """Return the complex array with two real parts. `x + 1j * y` is NaN where `y` is infinite, and loses signs of zeros."""
    shape = spec_of(real).shape
    out = np.atleast_1d(astype(real, np.result_type(dtype_of(real), np.complex64)))
    out.imag = imaginary
    return out if shape else out[0]


def copy_alike(array: Any) -> Any:
    """Return a copy with the same memory layout, so that an operation returns a view of the copy if it does of the array.

    The copy keeps the order of the axes, gaps, and negative and zero strides. The copy is read-only if elements share memory.
    """
    if array.flags.forc or type(array) is not np.ndarray:
        return array.copy("K")
    low, high = byte_bounds(array)
    start = array.__array_interface__["data"][0] - low
    out: Any = np.ndarray(array.shape, array.dtype, np.empty(high - low, np.uint8), start, array.strides)
    out[...] = array
    out.setflags(write=all(stride for stride, n in zip(array.strides, array.shape, strict=True) if n > 1))
    return out


def laid_out(a: Any, order: str) -> Any:
    """Return an array or Tensor, copied if its memory layout is known and differs from `order` (`C` or `F`).

    `order` is the layout of the result of the NumPy function. The layout decides which later operations return views.
    """
    flags = getattr(innermost(a), "flags", None)
    wrong = flags is not None and not (flags.f_contiguous if order == "F" else flags.c_contiguous)
    return COPY(a, order=order) if wrong else a


def laid_out_like(a: Any, model: Any) -> Any:
    """Return an array or Tensor, copied if its memory layout is known and differs from a copy of `model` (same shape)."""
    own, wanted = innermost(a), innermost(model)
    if type(own) is not np.ndarray or type(wanted) is not np.ndarray or own.ndim < 2 or own.shape != wanted.shape:
        return a
    if own.flags.c_contiguous and wanted.flags.c_contiguous:
        return a
    return arranged(a, np.empty_like(wanted).strides)


def arranged(a: Any, strides: Sequence[int]) -> Any:
    """Return an array or Tensor, copied if its memory is known not to be contiguous in the axis order of `strides`."""
    own, axes = innermost(a), tuple(sorted(range(len(strides)), key=lambda axis: -strides[axis]))
    if type(own) is not np.ndarray or own.transpose(axes).flags.c_contiguous:
        return a
    return TRANSPOSE(COPY(TRANSPOSE(a, axes=axes), order="C"), axes=inverse_permutation(axes))


def array_of_number(a: Any) -> Any:
    """Return a Tensor of a scalar as a Tensor of an array of shape `()`. Other values are returned unchanged."""
    return COPY(BROADCAST_TO(a, shape=())) if is_traced(a) and is_number(a) else a


def _copy_front(a: Any, order: str = "K", subok: bool = False) -> Any:
    a = array_of_number(a)  # unlike the method `copy`, which returns a number for a number
    return COPY(a) if order == "K" else COPY(a, order=order)  # the layout decides which operations on the copy return views


COPY = linear(
    np.copy,
    lambda g: g,
    compute=_copy,
    python=operator.pos,
    spec=same_spec,
    samples=lambda array: [((array(3),), {}), ((array(),), {}), ((array(2, 3), "F"), {}), ((array(0),), {})],
    doc="linear; the cotangent passes",
    cost=1.0,
    batch=elementwise,
    front=_copy_front,
    dependence="moved",
)
