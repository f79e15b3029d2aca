"""Decompositions: NumPy's rules in the form of SciPy, and a separate rule for `lu`.

The rule for LU is in S. Walter, "Structured higher-order algorithmic differentiation in the forward and reverse mode with
application in optimum experimental design" (2012), section 2.6, and in F. de Hoog, R. Anderssen and M. Lukas,
"Differentiation of matrix functionals using triangular factorization" (2011). The order of the rows is constant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from functad.adoption.scipy_functions import of_tensors
from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.kinds import constant, general
from functad.primitives.linalg.products import as_array
from functad.primitives.linalg.solve import (
    TRIANGULAR_SOLVE,
    adjoint,
    inexact,
    internal,
    regular,
    same_inexact,
    solve_by_substitution,
)
from functad.scipy.matrices.checks import finite, refusal, square
from functad.scipy.matrices.equations import from_bands, hermitian_from_bands

# Triangular factors


@of_tensors("scipy.linalg")
def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return the triangular factor of a positive definite matrix, `a = L L^H` or `a = U^H U`."""
    return np.linalg.cholesky(square(a, check_finite), upper=not lower)


_CLEARS = scipy.linalg.cho_factor(np.array([[2.0, 1.0], [1.0, 2.0]]))[0][1, 0] == 0.0
"""`True` if the installed SciPy clears the other triangle in `cho_factor`."""


@of_tensors("scipy.linalg")
def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return the triangular factor of a definite matrix; SciPy before 1.18 leaves elements of `a` in the other triangle."""
    a = square(a, check_finite)
    c = np.linalg.cholesky(a, upper=not lower)
    if _CLEARS:
        return c, np.tile(lower, shape_of(a)[:-2])
    return c + (np.triu(a, 1) if lower else np.tril(a, -1)), lower


@of_tensors("scipy.linalg")
def cholesky_banded(ab: Any, overwrite_ab: bool = False, lower: bool = False, check_finite: bool = True) -> Any:
    """Return the diagonals of the triangular factor of a positive definite matrix, given by its diagonals."""
    ab = finite(ab, check_finite)
    c = np.linalg.cholesky(hermitian_from_bands(ab, lower), upper=not lower)
    count, n = shape_of(ab)[-2:]
    rows, columns = np.ogrid[:count, :n]
    places = columns + rows - (0 if lower else count - 1)
    found = np.where((places >= 0) & (places < n), c[..., np.clip(places, 0, n - 1), columns], 0)
    return np.where((places >= 0) & (places < n), found, ab)


@of_tensors("scipy.linalg")
def cho_solve_banded(cb_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """Return the solution of `a x = b`, given the result of `cholesky_banded` for `a`."""
    cb, lower = cb_and_lower
    cb, b = finite(cb, check_finite), finite(b, check_finite)
    count = shape_of(cb)[-2] - 1
    left = from_bands(cb, count, 0) if lower else adjoint(from_bands(cb, 0, count))
    return solve_by_substitution(adjoint(left), solve_by_substitution(left, b, lower=True), lower=False)


def _packed(a: Any) -> tuple[Any, Any]:
    """Return the packed factors and the row exchanges of stacks of matrices, as `getrf` does."""
    batch, (m, n) = a.shape[:-2], a.shape[-2:]
    if a.size == 0:
        return a.copy(), np.broadcast_to(np.arange(min(m, n), dtype=np.int32), (*batch, min(m, n)))
    getrf = scipy.linalg.get_lapack_funcs("getrf", (a,))
    found = [getrf(x)[:2] for x in a.reshape(-1, m, n)]
    lu = np.array([x for x, _ in found]).reshape(a.shape)
    return lu, np.array([p for _, p in found], np.int32).reshape(*batch, min(m, n))


def _exchanges_spec(a: Any) -> ArraySpec:
    shape = spec_of(a).shape
    return ArraySpec((*shape[:-2], min(shape[-2:])), np.dtype(np.int32))


@internal(
    constant,
    spec=_exchanges_spec,
    samples=lambda array: [((regular(array, 3, 3),), {}), ((regular(array, 2, 3, 2),), {})],
    doc="an order of rows has no derivative",
)
def exchanges(a: Any) -> Any:
    """Return the row exchanges of partial pivoting: the index of the row that each row is exchanged with, in sequence."""
    return _packed(a)[1]


@internal(
    constant,
    spec=lambda piv, *, rows: ArraySpec((*spec_of(piv).shape[:-1], rows), np.dtype(np.int32)),
    samples=lambda array: [((np.array([2, 1, 2]),), {"rows": 3})],
    doc="an order of rows has no derivative",
)
def order(piv: Any, *, rows: int) -> Any:
    """Return the row order that results from the exchanges."""
    out = np.empty((*piv.shape[:-1], rows), np.int32)
    out[...] = np.arange(rows)
    for place in np.ndindex(piv.shape[:-1]):
        for i, j in enumerate(piv[place]):
            out[place][[i, j]] = out[place][[j, i]]
    return out


def _halves(lu: Any) -> tuple[Any, Any]:
    """Return the two triangular factors of packed square matrices."""
    return np.tril(lu, -1) + np.eye(shape_of(lu)[-1], dtype=dtype_of(lu)), np.triu(lu)


def _factors_vjp(g: Any, out: Any) -> Any:
    """`l^-T (tril(l^T g, -1) + triu(g u^T)) u^-T`, with the strictly lower and the upper triangle of g."""
    left, right = _halves(out)
    middle = np.tril(left.mT @ np.tril(g, -1), -1) + np.triu(np.triu(g) @ right.mT)
    x = TRIANGULAR_SOLVE(right, middle.mT, lower=False).mT
    return TRIANGULAR_SOLVE(left.mT, x, lower=False)


def _factors_jvp(t: Any, out: Any) -> Any:
    """`l tril(x, -1) + triu(x) u` with `x = l^-1 t u^-1`."""
    left, right = _halves(out)
    x = TRIANGULAR_SOLVE(right.mT, TRIANGULAR_SOLVE(left, t, lower=True).mT, lower=True).mT
    return left @ np.tril(x, -1) + np.triu(x) @ right


@internal(
    general,
    _factors_vjp,
    jvps=(_factors_jvp,),
    spec=same_inexact,
    samples=lambda array: [((regular(array, 3, 3),), {}), ((regular(array, 2, 2, 2),), {}), ((array(0, 0),), {})],
    doc="dl = l tril(x, -1), du = triu(x) u with x = l^-1 da u^-1",
)
def factors(a: Any) -> Any:
    """Return both factors of square matrices, packed in one matrix, without row exchanges."""
    lu, piv = _packed(np.asarray(a, inexact(a.dtype)))
    if (piv == np.arange(a.shape[-1])).all():
        return lu
    lu = np.array(a, inexact(a.dtype))  # a tie of two pivots: rounding chose the other row
    for k in range(a.shape[-1] - 1):
        lu[..., k + 1 :, k] /= lu[..., k, None, k]
        lu[..., k + 1 :, k + 1 :] -= lu[..., k + 1 :, k, None] * lu[..., k, None, k + 1 :]
    return lu


def _decomposed(a: Any) -> tuple[Any, Any, Any, Any]:
    """Return the row order, the row exchanges, both factors, and all factors packed in one matrix."""
    piv = exchanges(a)
    m, n = shape_of(a)[-2:]
    p, k = order(piv, rows=m), min(m, n)
    a = np.take_along_axis(a, p[..., None], -2)
    lu = factors(a[..., :k, :k])
    left, right = _halves(lu)
    if m > n:
        beside = TRIANGULAR_SOLVE(right.mT, a[..., k:, :].mT, lower=True).mT
        return p, piv, (np.concatenate((left, beside), -2), right), np.concatenate((lu, beside), -2)
    if m < n:
        beside = TRIANGULAR_SOLVE(left, a[..., k:], lower=True)
        return p, piv, (left, np.concatenate((right, beside), -1)), np.concatenate((lu, beside), -1)
    return p, piv, (left, right), lu


@of_tensors("scipy.linalg")
def lu(a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True, p_indices: bool = False) -> Any:
    """Return the permutation and the triangular factors, `a = P L U`."""
    p, _, (left, right), _ = _decomposed(finite(a, check_finite))
    p = np.argsort(p)
    if permute_l:
        return np.take_along_axis(left, p[..., None], -2), right
    real = dtype_of(left).type(0).real.dtype
    return p if p_indices else (p[..., None] == np.arange(shape_of(p)[-1])).astype(real), left, right


@of_tensors("scipy.linalg")
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return both triangular factors in one matrix, and the row exchanges."""
    _, piv, _, both = _decomposed(finite(a, check_finite))
    return both, piv


@of_tensors("scipy.linalg")
def lu_solve(lu_and_piv: Any, b: Any, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """Return the solution of `a x = b`, given the result of `lu_factor` for `a`; `trans` selects a^T or a^H."""
    lu, piv = lu_and_piv
    lu, b = square(lu, False), finite(b, check_finite)
    left, right = _halves(lu)
    p = order(as_array(piv), rows=shape_of(lu)[-1])
    columns = b[:, None] if len(shape_of(b)) == 1 else b
    if trans == 0:
        x = TRIANGULAR_SOLVE(left, np.take_along_axis(columns, p[..., None], -2), lower=True)
        x = TRIANGULAR_SOLVE(right, x, lower=False)
    else:
        turn: Callable[[Any], Any] = adjoint if trans == 2 else lambda x: x.mT
        x = TRIANGULAR_SOLVE(turn(left), TRIANGULAR_SOLVE(turn(right), columns, lower=True), lower=False)
        x = np.take_along_axis(x, np.argsort(p)[..., None], -2)
    return x.reshape(shape_of(b))


# Orthogonal factors


@of_tensors("scipy.linalg")
def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: int | None = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> Any:
    """Return the factors `a = Q R`, or with `pivoting` the factors of `a[:, p]`, and p."""
    if mode not in ("full", "qr", "r", "economic", "raw"):
        raise ValueError("Mode argument should be one of ['full', 'r', 'economic', 'raw']")
    if mode == "raw":
        raise refusal("qr with mode='raw'", "Use mode='full' or mode='economic'.")
    a = finite(a, check_finite)
    also: tuple[Any, ...] = ()
    if pivoting:
        also = (columns_first(a),)
        a = np.take_along_axis(a, also[0][..., None, :], -1)
    q, r = np.linalg.qr(a, "reduced" if mode == "economic" else "complete")
    return (r, *also) if mode == "r" else (q, r, *also)


@internal(
    constant,
    spec=lambda a: ArraySpec((*spec_of(a).shape[:-2], spec_of(a).shape[-1]), np.dtype(np.int32)),
    samples=lambda array: [((regular(array, 3, 3),), {}), ((regular(array, 2, 3, 2),), {})],
    doc="an order of columns has no derivative",
)
def columns_first(a: Any) -> Any:
    """Return the column order that `qr` selects with pivoting."""
    found = [scipy.linalg.qr(x, mode="r", pivoting=True)[1] for x in a.reshape(-1, *a.shape[-2:])]
    return np.array(found, np.int32).reshape(*a.shape[:-2], a.shape[-1])


@of_tensors("scipy.linalg")
def rq(a: Any, overwrite_a: bool = False, lwork: int | None = None, mode: str = "full", check_finite: bool = True) -> Any:
    """Return the factors `a = R Q`: those of `qr` with reversed rows and columns."""
    if mode not in ("full", "r", "economic"):
        raise ValueError("Mode argument should be one of ['full', 'r', 'economic']")
    turned = adjoint(finite(a, check_finite)[..., ::-1, ::-1])
    q, r = np.linalg.qr(turned, "reduced" if mode == "economic" else "complete")
    r = adjoint(r)[..., ::-1, ::-1]
    return r if mode == "r" else (r, adjoint(q)[..., ::-1, ::-1])


@of_tensors("scipy.linalg")
def qr_multiply(
    a: Any,
    c: Any,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> Any:
    """Return the product of `c` and the factor Q of `a`, and the factor R."""
    if mode not in ("left", "right"):
        raise ValueError(f"Mode argument can only be 'left' or 'right' but not '{mode}'")
    a, c = finite(a), finite(c)
    flat = len(shape_of(c)) == 1
    q, *others = qr(a, mode="economic", pivoting=pivoting)
    q = q.conj() if conjugate else q
    c = (c[:, None] if mode == "left" else c[None, :]) if flat else c
    product = q @ c if mode == "left" else c @ q
    return (product.ravel() if flat else product, *others)


# Singular values


@of_tensors("scipy.linalg")
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """Return singular vectors and values, `a = U diag(s) Vh`."""
    if lapack_driver not in ("gesdd", "gesvd"):
        raise ValueError(f'lapack_driver must be "gesdd" or "gesvd", not "{lapack_driver}"')
    a = finite(a, check_finite)
    return tuple(np.linalg.svd(a, full_matrices)) if compute_uv else np.linalg.svdvals(a)


@of_tensors("scipy.linalg")
def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Return the singular values of matrices."""
    return np.linalg.svdvals(finite(a, check_finite))
