"""Norms of vectors and matrices. The derivative of every norm is 0 where the norm is 0."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from functad.expressions.spec import dtype_of, shape_of
from functad.primitives.batching import along_axes
from functad.primitives.elementwise.conversion import astype
from functad.primitives.kinds import composite, general
from functad.primitives.linalg.decompositions import spread
from functad.primitives.linalg.singular_values import singular_sum
from functad.primitives.linalg.solve import Calls, conjugate, inexact, matrix, real_dtype
from functad.primitives.operands import as_operand
from functad.primitives.reductions.over_axes import (
    MAX,
    MIN,
    SUM,
    Axes,
    expand,
    reduced_axes,
    reduced_shape,
    reduced_spec,
    summed,
)
from functad.primitives.safe import careful_product, over_radius, strict

# The Euclidean norm


def _euclidean_norm(x: Any, *, axis: Axes, keepdims: bool) -> Any:
    """Return the square root of the sum of `|x|^2`."""
    if axis is None and not keepdims:
        return np.linalg.norm(x)
    return _root_of_sum(x, axis=axis, keepdims=keepdims)


def _root_of_sum(x: Any, *, axis: Axes, keepdims: bool) -> Any:
    squares = x.real * x.real + x.imag * x.imag if x.dtype.kind == "c" else x * x
    return np.sqrt(summed(squares, axis, keepdims))


def _euclidean_vjp(g: Any, x: Any, out: Any, axis: Axes, keepdims: bool) -> Any:
    """Return `conj(x) g / |x|`."""
    return careful_product(conjugate(x), expand(careful_product(g, over_radius(out)), shape_of(x), axis, keepdims))


def _euclidean_jvp(t: Any, x: Any, out: Any, axis: Axes, keepdims: bool) -> Any:
    """Return `Re(sum(conj(x) t)) / |x|`."""
    return careful_product(careful_product(conjugate(x), t).sum(axis, keepdims=keepdims).real, over_radius(out))


EUCLIDEAN = general(
    _euclidean_norm,
    _euclidean_vjp,
    jvps=(_euclidean_jvp,),
    spec=reduced_spec(lambda own: real_dtype(inexact(own))),
    samples=lambda array: [
        ((array(3),), {"axis": None, "keepdims": False}), ((array(2, 3),), {"axis": None, "keepdims": True}),
        ((array(2, 3, 2),), {"axis": (0, 2), "keepdims": False}), ((array(3, 2),), {"axis": (1,), "keepdims": True}),
        ((array(0),), {"axis": None, "keepdims": False}), ((array(0, 2),), {"axis": (0,), "keepdims": False}),
    ],
    internal=True,
    doc="d|x| = Re(sum(conj(x) dx)) / |x|; 0 where |x| = 0",
    batch=along_axes,
    fresh=True,
    dependence="reduction",
    kinks=_euclidean_norm,
    decomposition=_root_of_sum,
)  # fmt: skip


# Norms of vectors


def _of_vectors(x: Any, p: Any, axis: Axes, keepdims: bool) -> Any:
    """Return the vector norm of order `p` over one or several axes."""
    if p is None or p == 2:
        return EUCLIDEAN(x, axis=axis, keepdims=keepdims)
    if 0 in shape_of(x) and (p < 0 or p == math.inf):  # a constant or an error, from NumPy
        plain: Any = np.linalg.vector_norm
        return plain(np.zeros(shape_of(x), dtype_of(x)), axis=axis, keepdims=keepdims, ord=p)
    if p == 0:
        return (x != 0).astype(real_dtype(dtype_of(x))).sum(axis, keepdims=keepdims)
    sizes = abs(x)
    if p == math.inf:
        return MAX.front(sizes, axis, keepdims=keepdims)
    if p == -math.inf:
        return MIN.front(sizes, axis, keepdims=keepdims)
    if p == 1:
        return SUM(sizes, axis=axis, keepdims=keepdims)
    total = SUM(sizes**p, axis=axis, keepdims=keepdims)
    if strict():
        return total ** (1 / p)
    zero = total == 0  # the infinite derivative of the root would turn the zero derivative of the power into NaN
    return (total + zero) ** (1 / p) * ~zero


def _order(p: Any) -> Any:
    """Return the order of a vector norm as a Python float, which does not widen the dtype."""
    if p is None:
        return None
    if isinstance(p, str):
        raise ValueError(f"Invalid norm order '{p}' for vectors")  # noqa: TRY004 # as NumPy
    return float(p)


def _operand(x: Any) -> Any:
    """Return `x` as an array with an inexact dtype."""
    x = as_operand(x)
    if not hasattr(x, "dtype"):
        x = np.asarray(x)
    return astype(x, np.float64) if dtype_of(x).kind in "biu" else x


def _vector_norm_samples(array: Any) -> Calls:
    zeros = np.zeros(3, array().dtype)
    orders = (2, 1, 3, 0.5, -1.5, 0, math.inf, -math.inf)
    return [
        *[((array(3),), {"ord": p}) for p in orders],
        ((array(2, 3),), {"axis": 0, "ord": 3}),
        ((array(2, 3, 2),), {"axis": (0, -1), "keepdims": True}),
        ((array(2, 2),), {"keepdims": True, "ord": 1}),
        ((array(2, 2),), {}),
        ((array(),), {}),
        ((zeros.copy()[:0],), {}),
    ]


@composite(np.linalg.vector_norm, samples=_vector_norm_samples, doc="d|x|_p = sum(|x|^(p-1) sign(x) dx) / |x|_p^(p-1)")
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:  # NumPy's name
    """Return vector norms over one or several axes."""
    x = _operand(x)
    return _of_vectors(x, _order(ord), reduced_axes(axis, len(shape_of(x))), bool(keepdims))


# Norms of matrices


def _of_matrices(x: Any, p: Any, keepdims: bool) -> Any:
    """Return the norms of order `p` of the matrices in the last two axes."""
    if p is None or p in ("fro", "f"):
        return EUCLIDEAN(x, axis=reduced_axes((-2, -1), len(shape_of(x))), keepdims=keepdims)
    if 0 in shape_of(x):
        return np.linalg.matrix_norm(np.zeros(shape_of(x), dtype_of(x)), keepdims=keepdims, ord=p)
    if p == "nuc":
        result = singular_sum(x, which="sum")
    elif p in (1, -1, math.inf, -math.inf):
        sums = abs(x).sum(-2 if abs(p) == 1 else -1)
        result = sums.max(-1) if p > 0 else sums.min(-1)
    elif p in (2, -2):
        result = singular_sum(x, which="max" if p > 0 else "min")
    else:
        raise ValueError("Invalid norm order for matrices.")
    return result[..., None, None] if keepdims else result


_MATRIX_ORDERS = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


@composite(
    np.linalg.matrix_norm,
    samples=lambda array: [
        *[((spread(array, 3, 2),), {"ord": p}) for p in _MATRIX_ORDERS],
        *[((spread(array, 2, 2, 2),), {"ord": p, "keepdims": True}) for p in ("fro", "nuc", 1, 2)],
        ((array(2, 3),), {}),
    ],
    doc="that of sums and largest elements of |x| or of the singular values; equal ones share it",
)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:  # NumPy's name
    """Return the norms of the matrices in the last two axes."""
    return _of_matrices(_operand(matrix(x, "matrix_norm")), ord, bool(keepdims))


# `norm`


def _norm_samples(array: Any) -> Calls:
    return [
        ((array(3),), {}),
        ((array(2, 2, 2),), {}),
        ((array(2, 3),), {"keepdims": True}),
        *[((array(3), p), {}) for p in (2, 1, 3, 2.5, -1, 0, np.inf, -np.inf)],
        ((array(2, 3), None, 1), {}),
        ((array(2, 3), 3), {"axis": (0,), "keepdims": True}),
        *[((spread(array, 3, 2), p), {}) for p in _MATRIX_ORDERS],
        ((spread(array, 2, 3, 2), 1, (0, 2)), {}),
        ((spread(array, 2, 3, 2), 2), {"axis": (-1, 1), "keepdims": True}),
        ((array(2, 3), "fro", (1, 0)), {}),
        ((array(),), {}),
        ((array(0),), {}),
    ]


@composite(np.linalg.norm, samples=_norm_samples, doc="that of vector_norm or matrix_norm; 0 where the norm is 0")
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:  # NumPy's name
    """Return vector norms for one axis and matrix norms for two axes."""
    x, keepdims = _operand(x), bool(keepdims)
    shape = shape_of(x)
    ndim = len(shape)
    if axis is None:
        if ord is None or (ord in ("f", "fro") and ndim == 2) or (ord == 2 and ndim == 1):
            return EUCLIDEAN(x, axis=None, keepdims=keepdims)
        axes = tuple(range(ndim))
    else:
        axes = normalize_axis_tuple(axis, ndim)
    if len(axes) == 1:
        return _of_vectors(x, _order(ord), reduced_axes(axes, ndim), keepdims)
    if len(axes) != 2:
        raise ValueError("Improper number of dimensions to norm.")
    if axes != (ndim - 2, ndim - 1):
        x = np.moveaxis(x, axes, (-2, -1))
    result = _of_matrices(x, ord, keepdims=False)
    return result.reshape(reduced_shape(shape, axes, keepdims=True)) if keepdims else result
