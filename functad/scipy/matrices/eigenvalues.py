"""Eigenvalues and eigenvectors in the form of SciPy; the vectors have the signs of SciPy's LAPACK routines.

A problem `a v = w b v` is reduced to one matrix by the Cholesky factor of b, as in LAPACK.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.linalg

from functad.adoption.scipy_functions import of_tensors, outside_traces, plain_value, with_value
from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.kinds import constant
from functad.primitives.linalg.solve import TRIANGULAR_SOLVE, adjoint, internal
from functad.primitives.operands import concrete
from functad.scipy.matrices.checks import finite, refusal, square
from functad.scipy.matrices.equations import hermitian_from_bands


@internal(
    constant,
    spec=lambda v, *arrays, call: ArraySpec((*spec_of(v).shape[:-2], 1, spec_of(v).shape[-1]), spec_of(v).dtype),
    samples=lambda array: [((array(3, 2), array(3, 2)), {"call": lambda a: -a})],
    doc="which of several vectors LAPACK gives has no derivative",
)
def phases(v: Any, *arrays: Any, call: Any) -> Any:
    """Return the unit factor for each column that turns it into SciPy's vector, which `call` returns."""
    found = np.sum(v.conj() * call(*arrays), -2, keepdims=True)
    size, whole = np.abs(found), np.sum(np.abs(v) ** 2, -2, keepdims=True)
    alike = size > 0.5 * whole  # else an eigenvalue has several eigenvectors
    return np.where(alike, found / np.where(alike, size, 1), 1).astype(v.dtype)


def _vectors(solver: Any, **options: Any) -> Any:
    """Return a function that computes SciPy's eigenvectors for stacks of matrices."""

    def call(*arrays: Any) -> Any:
        batch = arrays[0].shape[:-2]
        found = [solver(*[a[place] for a in arrays], **options)[1] for place in np.ndindex(batch)]
        return np.array(found).reshape(*batch, *found[0].shape) if found else 1.0

    return call


def _chosen(w: Any, by_index: Any, by_value: Any, of: str) -> slice | None:
    """Return the slice of the selected ascending eigenvalues, or `None` for all."""
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
    """Return eigenvalues and vectors of a Hermitian matrix, or of `a v = w b v` for a positive definite `b`.

    The Cholesky factor of b reduces the problem to one matrix, as in LAPACK. `type` 2 is `a b v = w v`, 3 is `b a v = w v`.
    """
    a = square(a, check_finite)
    uplo: Literal["L", "U"] = "L" if lower else "U"
    turned: Any = None
    if b is not None:
        b = square(b, check_finite)
        if shape_of(b) != shape_of(a):
            raise ValueError(f"wrong b dimensions {shape_of(b)}, should be {shape_of(a)}")
        if type not in (1, 2, 3):
            raise ValueError('"type" keyword only accepts 1, 2, and 3.')
        left = np.linalg.cholesky(b if lower else adjoint(b))
        whole = _hermitian(a, lower)
        half = adjoint(left) @ whole if type > 1 else adjoint(TRIANGULAR_SOLVE(left, whole, lower=True))
        reduced = half @ left if type > 1 else TRIANGULAR_SOLVE(left, half, lower=True)
        turned = (lambda v: left @ v) if type == 3 else lambda v: TRIANGULAR_SOLVE(adjoint(left), v, lower=False)
    else:
        reduced = a
    subset = {"subset_by_index": subset_by_index, "subset_by_value": subset_by_value}
    if eigvals_only:
        w = np.linalg.eigvalsh(reduced, uplo)
        return _part(w, w[..., None, :], subset, "scipy.linalg.eigh")[0]
    w, v = _part(*np.linalg.eigh(reduced, uplo), subset, "scipy.linalg.eigh")
    v = v if turned is None else turned(v)
    call = _vectors(scipy.linalg.eigh, lower=lower, type=type, driver=driver, **subset)
    return w, v * phases(v, *((a,) if b is None else (a, b)), call=call)


def _part(w: Any, v: Any, subset: dict[str, Any], of: str) -> tuple[Any, Any]:
    """Return the selected eigenvalues and vectors."""
    chosen = _chosen(w, subset.get("subset_by_index"), subset.get("subset_by_value"), of)
    return (w, v) if chosen is None else (w[..., chosen], v[..., chosen])


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
    """Return the eigenvalues of `eigh`."""
    subset = {"subset_by_index": subset_by_index, "subset_by_value": subset_by_value}
    return eigh(a, b, lower=lower, eigvals_only=True, type=type, check_finite=check_finite, driver=driver, **subset)


_SELECTIONS = {
    0: "", "a": "", "all": "",
    1: "subset_by_value", "v": "subset_by_value", "value": "subset_by_value",
    2: "subset_by_index", "i": "subset_by_index", "index": "subset_by_index",
}  # fmt: skip


def _selected(select: Any, select_range: Any) -> dict[str, Any]:
    """Return the arguments of `eigh` that select eigenvalues of a banded matrix."""
    select = select.lower() if isinstance(select, str) else select
    if select not in _SELECTIONS:
        raise ValueError("invalid argument for select")
    if not _SELECTIONS[select]:
        return {}
    if np.shape(select_range) != (2,) or select_range[1] < select_range[0]:
        raise ValueError("select_range must be a 2-element array-like in nondecreasing order")
    return {_SELECTIONS[select]: tuple(select_range)}


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
    """Return eigenvalues and vectors of a Hermitian matrix, given by its diagonals."""
    ab = finite(a_band, check_finite)
    a = hermitian_from_bands(ab, lower)
    if eigvals_only:
        return eigh(a, eigvals_only=True, **_selected(select, select_range))
    w, v = _part(*np.linalg.eigh(a), _selected(select, select_range), "scipy.linalg.eig_banded")
    # each selection uses a LAPACK routine with its own signs
    call = _vectors(scipy.linalg.eig_banded, lower=lower, select=select, select_range=select_range)
    return w, v * phases(v, ab, call=call)


@of_tensors("scipy.linalg")
def eigvals_banded(
    a_band: Any,
    lower: bool = False,
    overwrite_a_band: bool = False,
    select: Any = "a",
    select_range: Any = None,
    check_finite: bool = True,
) -> Any:
    """Return the eigenvalues of `eig_banded`."""
    return eig_banded(a_band, lower, True, select=select, select_range=select_range, check_finite=check_finite)


@of_tensors("scipy.linalg")
def eigh_tridiagonal(
    d: Any,
    e: Any,
    eigvals_only: bool = False,
    select: Any = "a",
    select_range: Any = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Any:
    """Return eigenvalues and vectors of a real symmetric matrix, given by its diagonal and first off-diagonal."""
    d, e = finite(d, check_finite), finite(e, check_finite)
    ab = np.stack((d, np.concatenate((e, np.zeros((*shape_of(e)[:-1], 1))), -1)), -2)
    a = hermitian_from_bands(ab, lower=True)
    if eigvals_only:
        return eigh(a, eigvals_only=True, **_selected(select, select_range))
    w, v = _part(*np.linalg.eigh(a), _selected(select, select_range), "scipy.linalg.eigh_tridiagonal")
    options = {"select": select, "select_range": select_range, "tol": tol, "lapack_driver": lapack_driver}
    return w, v * phases(v, d, e, call=_vectors(scipy.linalg.eigh_tridiagonal, **options))


@of_tensors("scipy.linalg")
def eigvalsh_tridiagonal(
    d: Any,
    e: Any,
    select: Any = "a",
    select_range: Any = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Any:
    """Return the eigenvalues of `eigh_tridiagonal`."""
    return eigh_tridiagonal(d, e, True, select, select_range, check_finite)


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
    """Return eigenvalues and right eigenvectors of a square matrix; the eigenvalues are always complex."""
    if b is not None:
        raise refusal("eig with b", "Use eig(solve(b, a)), or eigh for Hermitian matrices.")
    if left:
        raise refusal("eig with left=True", "Use the rows of inv(v), which are the left vectors apart from their lengths.")
    if homogeneous_eigvals:
        raise refusal("eig with homogeneous_eigvals=True", "Leave it out, and the second row is ones.")
    w, v = np.linalg.eig(square(a, check_finite))
    w = w.astype(np.result_type(dtype_of(w), np.complex64))
    return (w, v) if right else w


@of_tensors("scipy.linalg")
def eigvals(
    a: Any, b: Any = None, overwrite_a: bool = False, check_finite: bool = True, homogeneous_eigvals: bool = False
) -> Any:
    """Return the eigenvalues of `eig`."""
    return eig(a, b, right=False, check_finite=check_finite, homogeneous_eigvals=homogeneous_eigvals)


@of_tensors("scipy.linalg")
def schur(
    a: Any,
    output: str = "real",
    lwork: int | None = None,
    overwrite_a: bool = False,
    sort: Any = None,
    check_finite: bool = True,
) -> Any:
    """Return the triangular form `a = Z T Z^T` of a matrix with distinct real eigenvalues.

    The columns of Z are the eigenvectors, orthonormalized in SciPy's order and with SciPy's signs.
    """
    a = square(a, check_finite)
    found = outside_traces(scipy.linalg.schur, plain_value(a), output, sort=sort, check_finite=False)
    t, z = found[:2]
    if t.ndim > 2 or t.dtype.kind == "c" or np.tril(t, -1).any():
        raise refusal(
            "schur with complex eigenvalues, or of a stack",
            "Its vectors are determined but for phases, and its blocks change their form: use eig, or eigh if it is Hermitian.",
        )
    w, v = map(np.real, np.linalg.eig(a))  # always complex since NumPy 2.5
    places = [int(np.argmin(np.abs(plain_value(w) - value))) for value in np.diag(t)]
    if len(set(places)) < len(places):
        raise refusal("schur with equal eigenvalues", "Use eigh if the matrix is Hermitian; move it a little if it is not.")
    q = np.linalg.qr(v[:, places])[0]
    q = q * np.sign(np.sum(plain_value(q) * z, axis=0))
    return with_value(np.triu(q.T @ a @ q), t), with_value(q, z), *found[2:]
