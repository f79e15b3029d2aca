"""Decompositions: what NumPy has by its rules, in the form of SciPy; and `lu`, by a rule of its own.

That of LU is the one of S. Walter, "Structured higher-order algorithmic differentiation in the forward and reverse mode with
application in optimum experimental design" (2012), section 2.6, and F. de Hoog, R. Anderssen and M. Lukas, "Differentiation of
matrix functionals using triangular factorization" (2011). The order of the rows is held fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from functad.adoption.scipy_functions import of_tensors
from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.batching import stacked
from functad.primitives.kinds import constant, general
from functad.primitives.linalg.products import as_array
from functad.primitives.linalg.solve import SOLVE, adjoint, conjugate, inexact, internal, regular, same_inexact
from functad.primitives.operands import concrete
from functad.scipy.matrices.checks import finite, refusal, square
from functad.scipy.matrices.equations import from_bands, hermitian_from_bands

# Triangular factors


@of_tensors("scipy.linalg")
def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The triangular factor of a positive definite matrix, `a = L L^H` or `a = U^H U`."""
    return np.linalg.cholesky(square(a, check_finite), upper=not lower)


@of_tensors("scipy.linalg")
def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The triangular factor of a positive definite matrix, with the elements of `a` in the other triangle."""
    a = square(a, check_finite)
    c = np.linalg.cholesky(a, upper=not lower)
    return c + (np.triu(a, 1) if lower else np.tril(a, -1)), lower


@of_tensors("scipy.linalg")
def cholesky_banded(ab: Any, overwrite_ab: bool = False, lower: bool = False, check_finite: bool = True) -> Any:
    """The diagonals of the triangular factor of a positive definite matrix, which is given by its diagonals."""
    ab = finite(ab, check_finite)
    c = np.linalg.cholesky(hermitian_from_bands(ab, lower), upper=not lower)
    count, n = shape_of(ab)[-2:]
    rows, columns = np.ogrid[:count, :n]
    places = columns + rows - (0 if lower else count - 1)
    found = np.where((places >= 0) & (places < n), c[..., np.clip(places, 0, n - 1), columns], 0)
    return np.where((places >= 0) & (places < n), found, ab)


@of_tensors("scipy.linalg")
def cho_solve_banded(cb_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """The solution of `a x = b`, given what `cholesky_banded` makes of a."""
    cb, lower = cb_and_lower
    cb, b = finite(cb, check_finite), finite(b, check_finite)
    count = shape_of(cb)[-2] - 1
    left = from_bands(cb, count, 0) if lower else adjoint(from_bands(cb, 0, count))
    return np.linalg.solve(adjoint(left), np.linalg.solve(left, b))


def _packed(a: Any) -> tuple[Any, Any]:
    """Return the factors and the row exchanges of stacks of matrices, as `getrf` does."""
    getrf = scipy.linalg.get_lapack_funcs("getrf", (a,))
    batch, (m, n) = a.shape[:-2], a.shape[-2:]
    found = [getrf(x)[:2] if x.size else (x, np.zeros(0, np.int32)) for x in a.reshape(-1, m, n)]
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
    """Return with which row each row of a matrix is exchanged, one after the other, by partial pivoting."""
    return _packed(a)[1]


@internal(
    constant,
    spec=lambda piv, *, rows: ArraySpec((*spec_of(piv).shape[:-1], rows), np.dtype(np.int32)),
    samples=lambda array: [((np.array([2, 1, 2]),), {"rows": 3})],
    doc="an order of rows has no derivative",
)
def order(piv: Any, *, rows: int) -> Any:
    """Return the order of the rows that exchanges lead to."""
    out = np.empty((*piv.shape[:-1], rows), np.int32)
    out[...] = np.arange(rows)
    for place in np.ndindex(piv.shape[:-1]):
        for i, j in enumerate(piv[place]):
            out[place][[i, j]] = out[place][[j, i]]
    return out


def _halves(lu: Any) -> tuple[Any, Any]:
    """Return the factors of square matrices that stand in one."""
    return np.tril(lu, -1) + np.eye(shape_of(lu)[-1], dtype=dtype_of(lu)), np.triu(lu)


def _factors_vjp(g: Any, out: Any) -> Any:
    """`l^-T (tril(l^T g, -1) + triu(g u^T)) u^-T`, of the strictly lower and the upper triangle of g."""
    left, right = _halves(out)
    middle = np.tril(left.mT @ np.tril(g, -1), -1) + np.triu(np.triu(g) @ right.mT)
    return SOLVE(left.mT, SOLVE(right, middle.mT).mT)


def _factors_jvp(t: Any, out: Any) -> Any:
    """`l tril(x, -1) + triu(x) u` with `x = l^-1 t u^-1`."""
    left, right = _halves(out)
    x = SOLVE(right.mT, SOLVE(left, t).mT).mT
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
    """Return both factors of square matrices, in one, without an exchange of rows."""
    lu, piv = _packed(np.asarray(a, inexact(a.dtype)))
    if (piv == np.arange(a.shape[-1])).all():
        return lu
    lu = np.array(a, inexact(a.dtype))  # two rows were as good, and rounding chose the other one
    for k in range(a.shape[-1] - 1):
        lu[..., k + 1 :, k] /= lu[..., k, None, k]
        lu[..., k + 1 :, k + 1 :] -= lu[..., k + 1 :, k, None] * lu[..., k, None, k + 1 :]
    return lu


def _decomposed(a: Any) -> tuple[Any, Any, Any, Any]:
    """Return the order of the rows and their exchanges, and both factors of the square part, and what is beside that in one."""
    piv = exchanges(a)
    m, n = shape_of(a)[-2:]
    p, k = order(piv, rows=m), min(m, n)
    a = np.take_along_axis(a, p[..., None], -2)
    lu = factors(a[..., :k, :k])
    left, right = _halves(lu)
    if m > n:
        beside = SOLVE(right.mT, a[..., k:, :].mT).mT
        return p, piv, (np.concatenate((left, beside), -2), right), np.concatenate((lu, beside), -2)
    if m < n:
        beside = SOLVE(left, a[..., k:])
        return p, piv, (left, np.concatenate((right, beside), -1)), np.concatenate((lu, beside), -1)
    return p, piv, (left, right), lu


@of_tensors("scipy.linalg")
def lu(
    a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True, p_indices: bool = False
) -> Any:
    """The order of the rows, and triangular factors, `a = P L U`."""
    p, _, (left, right), _ = _decomposed(finite(a, check_finite))
    p = np.argsort(p)
    if permute_l:
        return np.take_along_axis(left, p[..., None], -2), right
    real = dtype_of(left).type(0).real.dtype
    return p if p_indices else (p[..., None] == np.arange(shape_of(p)[-1])).astype(real), left, right


@of_tensors("scipy.linalg")
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Both triangular factors in one matrix, and the exchanges of rows."""
    _, piv, _, both = _decomposed(finite(a, check_finite))
    return both, piv


@of_tensors("scipy.linalg")
def lu_solve(lu_and_piv: Any, b: Any, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """The solution of `a x = b`, given what `lu_factor` makes of a; with `trans` that for a^T or a^H."""
    lu, piv = lu_and_piv
    lu, b = square(lu, False), finite(b, check_finite)
    left, right = _halves(lu)
    p = order(as_array(piv), rows=shape_of(lu)[-1])
    columns = b[:, None] if len(shape_of(b)) == 1 else b
    if trans == 0:
        x = SOLVE(right, SOLVE(left, np.take_along_axis(columns, p[..., None], -2)))
    else:
        turn: Callable[[Any], Any] = adjoint if trans == 2 else lambda x: x.mT
        x = np.take_along_axis(SOLVE(turn(left), SOLVE(turn(right), columns)), np.argsort(p)[..., None], -2)
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
    """The factors `a = Q R`, or with `pivoting` those of `a[:, p]`, and p."""
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
    """Return in which order `qr` takes the columns of matrices, if it may choose."""
    found = [scipy.linalg.qr(x, mode="r", pivoting=True)[1] for x in a.reshape(-1, *a.shape[-2:])]
    return np.array(found, np.int32).reshape(*a.shape[:-2], a.shape[-1])


@of_tensors("scipy.linalg")
def rq(
    a: Any, overwrite_a: bool = False, lwork: int | None = None, mode: str = "full", check_finite: bool = True
) -> Any:
    """The factors `a = R Q`: those of `qr`, of rows and columns in the opposite order."""
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
    """The product of `c` and the factor Q of `a`, and the factor R."""
    if mode not in ("left", "right"):
        raise ValueError(f"Mode argument can only be 'left' or 'right' but not '{mode}'")
    a, c = finite(a), finite(c)
    flat = len(shape_of(c)) == 1
    m, n = shape_of(a)[-2:]
    q, *_ = qr(a, mode="economic", pivoting=pivoting)
    q = q.conj() if conjugate else q
    c = (c[:, None] if mode == "left" else c[None, :]) if flat else c
    product = q @ c if mode == "left" else c @ q
    return (product.ravel() if flat else product, *qr(a, mode="r", pivoting=pivoting))


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
    """Singular vectors and values, `a = U diag(s) Vh`."""
    if lapack_driver not in ("gesdd", "gesvd"):
        raise ValueError(f'lapack_driver must be "gesdd" or "gesvd", not "{lapack_driver}"')
    a = finite(a, check_finite)
    return tuple(np.linalg.svd(a, full_matrices)) if compute_uv else np.linalg.svdvals(a)


@of_tensors("scipy.linalg")
def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The singular values of matrices."""
    return np.linalg.svdvals(finite(a, check_finite))


# Eigenvalues


@internal(
    constant,
    spec=lambda v, *arrays, call: ArraySpec((*spec_of(v).shape[:-2], 1, spec_of(v).shape[-1]), spec_of(v).dtype),
    samples=None,
    doc="which of several vectors LAPACK gives has no derivative",
    batch=None,
)
def phases(v: Any, *arrays: Any, call: Any) -> Any:
    """Return by which number of absolute value 1 each column is to be multiplied to be that of SciPy, which `call` gives."""
    found = np.sum(v.conj() * call(*arrays), -2, keepdims=True)
    size = np.abs(found)
    return np.where(size > 0.5, found / np.where(size > 0.5, size, 1), 1).astype(v.dtype)


def _vectors(solver: Any, **options: Any) -> Any:
    """Return a function that computes eigenvectors by SciPy, for stacks of matrices."""

    def call(*arrays: Any) -> Any:
        batch = arrays[0].shape[:-2]
        found = [solver(*[a[place] for a in arrays], **options)[1] for place in np.ndindex(batch)]
        return np.array(found).reshape(*batch, *found[0].shape) if found else 1.0

    return call


def _chosen(w: Any, by_index: Any, by_value: Any, of: str) -> slice | None:
    """Return which of the ascending eigenvalues are asked for."""
    if by_index is not None and by_value is not None:
        raise ValueError("Either index or value subset can be requested.")
    n = shape_of(w)[-1]
    if by_index is not None:
        low, high = map(int, by_index)
        if not 0 <= low <= high < n:
            raise ValueError(f"Requested eigenvalue indices are not valid. Valid range is [0, {n - 1}] and start <= end")
        return slice(low, high + 1)
    if by_value is not None:
        values = concrete(w, of)
        low, high = by_value
        if not low < high:
            raise ValueError("Requested eigenvalue bounds are not valid. Valid range is (-inf, inf) and low < high")
        return slice(int((values <= low).sum()), int((values <= high).sum()))
    return None


@of_tensors("scipy.linalg")
def eigh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: str | None = None,
) -> Any:
    """Eigenvalues and vectors of a Hermitian matrix, or of `a v = w b v` for a positive definite `b`.

    That is reduced to one matrix by the Cholesky factor of b, as LAPACK does; `type` 2 is `a b v = w v`, 3 is `b a v = w v`.
    """
    a, uplo = square(a, check_finite), "L" if lower else "U"
    turned: Any = None
    if b is not None:
        b = square(b, check_finite)
        if shape_of(b) != shape_of(a):
            raise ValueError(f"wrong b dimensions {shape_of(b)}, should be {shape_of(a)}")
        if type not in (1, 2, 3):
            raise ValueError('"type" keyword only accepts 1, 2, and 3.')
        left = np.linalg.cholesky(b if lower else adjoint(b))
        whole = _hermitian(a, lower)
        reduced = adjoint(left) @ whole @ left if type > 1 else SOLVE(left, adjoint(SOLVE(left, whole)))
        turned = (lambda v: left @ v) if type == 3 else lambda v: SOLVE(adjoint(left), v)
    else:
        reduced = a
    if eigvals_only:
        w = np.linalg.eigvalsh(reduced, uplo)
        chosen = _chosen(w, subset_by_index, subset_by_value, "scipy.linalg.eigh")
        return w if chosen is None else w[..., chosen]
    w, v = np.linalg.eigh(reduced, uplo)
    options = {"lower": lower, "type": type, "driver": driver if driver not in ("evx", "gvx") else None}
    arrays = (a,) if b is None else (a, b)
    whole_v = v if turned is None else turned(v)
    sizes = np.sqrt((whole_v * whole_v.conj()).real.sum(-2, keepdims=True)) if b is not None else 1.0
    v = whole_v * phases(whole_v / sizes, *arrays, call=_unit(_vectors(scipy.linalg.eigh, **options)))
    chosen = _chosen(w, subset_by_index, subset_by_value, "scipy.linalg.eigh")
    return (w, v) if chosen is None else (w[..., chosen], v[..., chosen])


def _unit(vectors: Any) -> Any:
    """Return a function that computes vectors of length 1."""

    def call(*arrays: Any) -> Any:
        v = vectors(*arrays)
        return v / np.linalg.norm(v, axis=-2, keepdims=True)

    return call


def _hermitian(a: Any, lower: bool) -> Any:
    return np.tril(a) + adjoint(np.tril(a, -1)) if lower else np.triu(a) + adjoint(np.triu(a, 1))


@of_tensors("scipy.linalg")
def eigvalsh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: str | None = None,
) -> Any:
    """The eigenvalues that `eigh` gives."""
    subset = {"subset_by_index": subset_by_index, "subset_by_value": subset_by_value}
    return eigh(a, b, lower=lower, eigvals_only=True, type=type, check_finite=check_finite, driver=driver, **subset)


def _selected(select: Any, select_range: Any) -> dict[str, Any]:
    """Return what `eigh` takes for the choice of eigenvalues of a banded matrix."""
    if select in (0, "a", "all"):
        return {}
    return {"subset_by_index" if select in (2, "i", "index") else "subset_by_value": tuple(select_range)}


@of_tensors("scipy.linalg")
def eig_banded(
    a_band: Any,
    lower: bool = False,
    eigvals_only: bool = False,
    overwrite_a_band: bool = False,
    select: Any = "a",
    select_range: Any = None,
    max_ev: int = 0,
    check_finite: bool = True,
) -> Any:
    """Eigenvalues and vectors of a Hermitian matrix, which is given by its diagonals."""
    ab = finite(a_band, check_finite)
    return _of_bands(hermitian_from_bands(ab, lower), ab, select, select_range, eigvals_only, lower)


def _of_bands(a: Any, ab: Any, select: Any, select_range: Any, eigvals_only: bool, lower: bool) -> Any:
    if eigvals_only:
        return eigh(a, eigvals_only=True, **_selected(select, select_range))
    w, v = np.linalg.eigh(a)
    v = v * phases(v, ab, call=_vectors(scipy.linalg.eig_banded, lower=lower))
    subset = _selected(select, select_range)
    chosen = _chosen(w, subset.get("subset_by_index"), subset.get("subset_by_value"), "scipy.linalg.eig_banded")
    return (w, v) if chosen is None else (w[..., chosen], v[..., chosen])


@of_tensors("scipy.linalg")
def eigvals_banded(
    a_band: Any,
    lower: bool = False,
    overwrite_a_band: bool = False,
    select: Any = "a",
    select_range: Any = None,
    check_finite: bool = True,
) -> Any:
    """The eigenvalues that `eig_banded` gives."""
    return eig_banded(a_band, lower, True, select=select, select_range=select_range, check_finite=check_finite)


@of_tensors("scipy.linalg")
def eig(
    a: Any,
    b: Any = None,
    left: bool = False,
    right: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:
    """Eigenvalues and right eigenvectors of a square matrix; the values are complex always."""
    if b is not None:
        raise refusal("eig with b", "Use eig(solve(b, a)), or eigh for Hermitian matrices.")
    if left:
        raise refusal("eig with left=True", "The left vectors are the rows of inv(v), apart from their lengths.")
    if homogeneous_eigvals:
        raise refusal("eig with homogeneous_eigvals=True", "Leave it out, and the second row is ones.")
    w, v = np.linalg.eig(square(a, check_finite))
    w = w.astype(np.result_type(dtype_of(w), np.complex64))
    return (w, v) if right else w


@of_tensors("scipy.linalg")
def eigvals(
    a: Any, b: Any = None, overwrite_a: bool = False, check_finite: bool = True, homogeneous_eigvals: bool = False
) -> Any:
    """The eigenvalues that `eig` gives."""
    return eig(a, b, right=False, check_finite=check_finite, homogeneous_eigvals=homogeneous_eigvals)
