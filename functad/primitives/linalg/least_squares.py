"""Least squares, tensor equations and condition numbers; square systems are in `solve`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.elementwise.conversion import astype
from functad.primitives.entry import Primitive
from functad.primitives.indexing.read import as_number
from functad.primitives.kinds import composite, constant, general
from functad.primitives.linalg.decompositions import spread
from functad.primitives.linalg.products import as_array
from functad.primitives.linalg.singular_values import singular_sum, svdvals
from functad.primitives.linalg.solve import (
    INV,
    Calls,
    adjoint,
    conjugate,
    inexact,
    internal,
    matrix,
    pinv,
    rank_of,
    real_dtype,
    regular,
    samples_of_systems,
    solve,
)
from functad.primitives.operands import innermost
from functad.primitives.reductions.norms import _MATRIX_ORDERS, _of_matrices, _operand

# Least squares


def _pseudoinverse(a: Any, rcond: float) -> Any:
    """Return the pseudoinverse; singular values below the precision of the dtype count as zero."""
    return pinv(a, max(rcond, max(shape_of(a)[-2:]) * float(np.finfo(dtype_of(a)).eps)))


def _least_squares_vjp(g: Any, a: Any, b: Any, out: Any, rcond: float) -> tuple[Any, Any]:
    """`p^T g` for the right side; for the matrix the VJP of `pinv` with the cotangent `g b^T` of the pseudoinverse `p`.

    The latter is `-p^T g x^T + conj(r (g^T p p^H) + p^H x (g^T (1 - p a)))` with `r = b - a x`.
    """
    p = _pseudoinverse(a, rcond)
    dimensions = rank_of(a, p)  # the factors below are exact zeros at full row or column rank: see _pinv_vjp
    right = p.mT @ g
    residual = (b - a @ out) * (dimensions < shape_of(a)[-2])
    shortest = adjoint(p) @ out
    x = g.mT @ p @ adjoint(p)
    y = (g.mT - g.mT @ p @ a) * (dimensions < shape_of(a)[-1])
    return conjugate(residual @ x + shortest @ y) - right @ out.mT, right


def _least_squares_by_a(t: Any, a: Any, b: Any, out: Any, rcond: float) -> Any:
    """`p (p^H t^H r) - p t x + (1 - p a) t^H p^H x` with `r = b - a x`, where `p` is the pseudoinverse."""
    p = _pseudoinverse(a, rcond)
    dimensions = rank_of(a, p)
    residual = (b - a @ out) * (dimensions < shape_of(a)[-2])
    y = (adjoint(t) @ (adjoint(p) @ out)) * (dimensions < shape_of(a)[-1])
    return p @ (adjoint(p) @ (adjoint(t) @ residual) - t @ out) + y - p @ (a @ y)


def _least_squares_batch(
    primitive: Primitive, size: int, values: Sequence[Any], batched: Sequence[bool], params: Mapping[str, Any]
) -> Any:
    """Solve with one matrix and many right sides, as NumPy does; multiply by pseudoinverses if the matrix is batched."""
    a, b = values
    if not batched[0]:
        rows, columns = shape_of(b)[1:]
        x = primitive(a, np.moveaxis(b, 0, 1).reshape(rows, size * columns), **params)
        return np.moveaxis(x.reshape(shape_of(a)[1], size, columns), 1, 0)
    dtype = inexact(dtype_of(a), dtype_of(b))
    double = np.result_type(dtype, np.float64)  # NumPy solves in double precision for every dtype
    return astype(pinv(astype(a, double, copy=False), params["rcond"]) @ astype(b, double, copy=False), dtype, copy=False)


def _by_singular_values(a: Any, b: Any, *, rcond: float) -> Any:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    kept = s > rcond * s[:1]
    inverse = np.where(kept, 1 / np.where(kept, s, 1), 0)[:, None]
    return adjoint(vh) @ (inverse * (adjoint(u) @ b))


@internal(
    general,
    _least_squares_vjp,
    jvps=(_least_squares_by_a, lambda t, a, rcond: _pseudoinverse(a, rcond) @ t),
    joint=True,
    spec=lambda a, b, *, rcond: ArraySpec((shape_of(a)[1], shape_of(b)[1]), inexact(dtype_of(a), dtype_of(b))),
    samples=samples_of_systems(((3, 3), (3, 2)), ((4, 2), (4, 1)), ((2, 3), (2, 2)), rcond=1e-10),
    doc="that of pinv(a) b, for a rank that stays",
    batch=_least_squares_batch,
    conditioned=True,
    linear_by=lambda params: (1,),
    decomposition=_by_singular_values,
)
def least_squares(a: Any, b: Any, *, rcond: float) -> Any:
    """Return the `x` of least norm that minimizes `|a x - b|`; the columns of `b` are right sides."""
    return np.linalg.lstsq(a, b, rcond)[0]


@internal(
    constant,
    spec=lambda a, *, rcond, needed: ArraySpec(spec_of(a).shape[:-2], np.dtype(np.int32)),
    samples=lambda array: [((regular(array, 3, 2),), {"rcond": 1e-10, "needed": 2})],
    doc="a number of dimensions has no derivative",
)
def rank(a: Any, *, rcond: float, needed: int) -> Any:
    """Return the ranks of matrices; raise if one is smaller than `needed`, the assumption of an abstract trace."""
    s = np.linalg.svd(a.astype(np.result_type(a.dtype, np.float64)), compute_uv=False)
    ranks = np.count_nonzero(s > rcond * s.max(-1, keepdims=True, initial=0.0), -1)
    least = int(np.min(ranks, initial=needed))
    if least < needed:
        raise np.linalg.LinAlgError(
            f"np.linalg.lstsq: the matrix has rank {least}, but {needed} columns, so NumPy returns no residuals; a trace "
            f"without values counted on them. Compute them as abs(b - a @ x) ** 2."
        )
    return np.asarray(ranks, np.int32)[()]


def _lstsq_samples(array: Any) -> Calls:
    low = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]], array().real.dtype)
    return [
        ((regular(array, 3, 3), array(3)), {}),
        ((regular(array, 4, 2), array(4)), {}),
        ((regular(array, 4, 2), array(4, 2)), {"rcond": 1e-7}),
        ((regular(array, 2, 3), array(2)), {}),
        ((regular(array, 2, 3), array(2, 2), -1), {}),
        ((low.astype(int), array(3)), {}),
        ((regular(array, 3, 2), array(3, 0)), {}),
    ]


@composite(
    np.linalg.lstsq,
    samples=_lstsq_samples,
    doc="x: that of pinv(a) b, for a rank that stays; residuals and singular values: theirs; the rank is constant",
)
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """Return the least-squares solution, sums of squared residuals, rank, and singular values.

    The residuals are empty if the rank is smaller than the number of columns. An abstract trace assumes full rank; its
    expression list raises `LinAlgError` for a matrix of lower rank.
    """
    a, b = matrix(a, "lstsq"), as_array(b)
    if len(shape_of(a)) != 2 or len(shape_of(b)) not in (1, 2):
        raise np.linalg.LinAlgError(f"np.linalg.lstsq takes one matrix, and one or two axes; not {shape_of(a)}, {shape_of(b)}")
    rows, columns = shape_of(a)
    if shape_of(b)[0] != rows:
        raise np.linalg.LinAlgError(f"np.linalg.lstsq: {rows} rows of a, but {shape_of(b)[0]} of b")
    dtype = inexact(dtype_of(a), dtype_of(b))
    a, b = astype(a, dtype, copy=False), astype(b, dtype, copy=False)
    eps = float(np.finfo(np.float64).eps)  # NumPy solves in double precision for every dtype
    rcond = eps * max(rows, columns) if rcond is None else float(rcond)
    if rcond < 0:
        rcond = eps  # LAPACK's precision
    right = b[:, None] if len(shape_of(b)) == 1 else b
    x = least_squares(a, right, rcond=rcond)
    abstract = isinstance(innermost(a), ArraySpec)
    found = rank(a, rcond=rcond, needed=columns if abstract and rows > columns else 0)
    if rows > columns and (abstract or int(innermost(found)) == columns):
        left = right - a @ x
        residuals = (left * conjugate(left)).real.sum(0)
    else:
        residuals = np.zeros(0, real_dtype(dtype))
    return x if len(shape_of(b)) == 2 else x[:, 0], residuals, found, svdvals(a)


# Tensor equations


def _tensorsolve_samples(array: Any) -> Calls:
    a = array(6, 2, 3, low=-0.3, high=0.3) + np.eye(6).reshape(6, 2, 3).astype(array().dtype)
    return [
        ((a, array(6)), {}),
        ((a.reshape(2, 3, 2, 3), array(2, 3)), {}),
        ((a.reshape(2, 3, 6).transpose(2, 0, 1), array(2, 3)), {"axes": (0,)}),
    ]


@composite(np.linalg.tensorsolve, samples=_tensorsolve_samples, doc="that of solve")
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """Return the tensor `x` with `tensordot(a, x, x.ndim) = b`."""
    a, b = as_array(a), as_array(b)
    ndim = len(shape_of(a))
    if axes is not None:
        order = list(range(ndim))
        for axis in axes:
            order.remove(axis)
            order.insert(ndim, axis)
        a = a.transpose(order)
    shape = shape_of(a)
    unknowns = shape[-(ndim - len(shape_of(b))) :]
    size = math.prod(unknowns)
    if math.prod(shape) != size**2:
        raise np.linalg.LinAlgError(
            f"np.linalg.tensorsolve: a of shape {shape} is not square: prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])"
        )
    return solve(a.reshape(size, size), b.reshape(-1)).reshape(unknowns)


@composite(
    np.linalg.tensorinv,
    samples=lambda array: [
        ((regular(array, 4, 4).reshape(2, 2, 4), 2), {}),
        ((regular(array, 4, 4).reshape(4, 2, 2),), {"ind": 1}),
        ((regular(array, 4, 4).reshape(2, 2, 2, 2),), {}),
    ],
    doc="that of inv",
)
def tensorinv(a: Any, ind: int = 2) -> Any:
    """Return the inverse of a tensor under `tensordot`; its first `ind` axes are the rows."""
    a = as_array(a)
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    shape = shape_of(a)
    rows = math.prod(shape[ind:])
    return INV(matrix(a.reshape(rows, -1), "tensorinv", square=True)).reshape(shape[ind:] + shape[:ind])


# Condition numbers


@internal(
    constant,
    spec=lambda a: ArraySpec(spec_of(a).shape[:-2], np.dtype(np.bool_)),
    samples=lambda array: [((regular(array, 3, 3),), {}), ((array(2, 2, 2),), {})],
    doc="the result is boolean",
    decomposition=True,
)
def singular(a: Any) -> Any:
    """Return a mask of the matrices with determinant zero."""
    with np.errstate(invalid="ignore"):
        return np.linalg.slogdet(a)[0] == 0


_COND_IS_REAL = np.linalg.cond(np.ones((1, 1), complex), 1).dtype.kind == "f"  # complex in older NumPy


def _cond_samples(array: Any) -> Calls:
    both = [((spread(array, 3, 3),), {}), ((spread(array, 3, 2), -2), {}), ((spread(array, 2, 2, 3),), {"p": 2})]
    others: Calls = [((spread(array, 3, 3), p), {}) for p in _MATRIX_ORDERS]
    others.append(((spread(array, 2, 2, 2), 1), {}))
    return both + (others if _COND_IS_REAL else [((args[0].real, args[1]), {}) for args, _ in others])


@composite(
    np.linalg.cond, samples=_cond_samples, doc="that of |x| |x^-1|, or of s_max / s_min; equal ones share it; 0 where infinite"
)
def cond(x: Any, p: Any = None) -> Any:
    """Return the condition numbers of matrices, infinite for singular matrices."""
    x = _operand(matrix(x, "cond"))
    if 0 in shape_of(x)[-2:]:
        raise np.linalg.LinAlgError("cond is not defined on empty arrays")
    if p is None or p in (2, -2):
        big, small = singular_sum(x, which="max"), singular_sum(x, which="min")
        over, under = (small, big) if p == -2 else (big, small)
        infinite = under == 0
        result = over / np.where(infinite, 1, under)
    else:
        infinite = singular(matrix(x, "cond", square=True))
        one = np.eye(shape_of(x)[-1], dtype=dtype_of(x))
        inverse = INV(np.where(infinite[..., None, None], one, x))
        result = _of_matrices(x, p, False) * _of_matrices(inverse, p, False)
    return as_number(np.where(infinite, dtype_of(result).type(math.inf), result))
