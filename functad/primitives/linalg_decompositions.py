"""Decompositions of matrices: `cholesky`, `eigh`, `svd`, `qr`.

The rules follow M. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation"
(2008), section 3, and for singular vectors and complex numbers J. Townsend, "Differentiating the singular value
decomposition" (2016), transposed by hand. Nothing is conjugated: the walks pair a cotangent and a tangent as `Re(sum(g t))`.

What NumPy does not read has derivative zero: `cholesky` and `eigh` read one triangle of a matrix that they take to be
Hermitian, and the cotangent is in that triangle.

The derivatives of eigenvectors contain `1 / (w_i - w_j)`. Where two eigenvalues are equal that term is dropped: first
derivatives of functions of the eigenvalues alone that treat them alike, such as their sum or the sum of their logarithms, are
right, and those of a projection onto all vectors of one eigenvalue too. There is no second derivative at such a matrix. The
same holds for singular values. Eigenvectors and singular vectors of complex matrices are determined up to a phase, and only
derivatives of what does not depend on it have a meaning.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.errors import UnsupportedError, here
from functad.expressions.spec import ArraySpec, dtype_of, shape_of
from functad.primitives.kinds import composite, general
from functad.primitives.linalg import (
    SOLVE,
    Calls,
    adjoint,
    completed,
    conjugate,
    lower_half,
    matrix,
    real_dtype,
    regular,
    same_inexact,
)
from functad.primitives.safe import inverse

# Cholesky


def _cholesky(a: Any) -> Any:
    return np.linalg.cholesky(a)


def _cholesky_vjp(g: Any, out: Any) -> Any:
    """`P(w + w^H)` with `w = l^-T P(l^T g) conj(l)^-1`, where `P` takes the lower triangle and half the diagonal."""
    x = SOLVE(out.mT, lower_half(out.mT @ g))
    w = SOLVE(adjoint(out), x.mT).mT
    return lower_half(w + adjoint(w))


def _cholesky_jvp(t: Any, out: Any) -> Any:
    """`l P(l^-1 h l^-H)`, where `h` is the tangent made Hermitian."""
    return out @ lower_half(SOLVE(out, adjoint(SOLVE(out, completed(t)))))


def positive(array: Any, *shape: int) -> Any:
    """Return sample matrices that are positive definite in either triangle."""
    a = array(*shape, low=-0.8, high=0.8)
    return a + 3 * np.eye(shape[-1], dtype=a.dtype)


CHOLESKY = general(
    np.linalg.cholesky,
    _cholesky_vjp,
    jvps=(_cholesky_jvp,),
    compute=_cholesky,
    spec=same_inexact,
    samples=lambda array: [
        ((positive(array, 3, 3),), {}), ((positive(array, 2, 2, 2),), {}), ((positive(array, 3, 3),), {"upper": True}),
        ((positive(array, 1, 1),), {}), ((array(0, 0),), {}), ((array(0, 2, 2),), {}),
    ],
    doc="dl = l P(l^-1 da l^-H), P: lower triangle, half the diagonal; the triangle that is not read has derivative 0",
)  # fmt: skip


def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """Return the lower triangular `l` with `a = l l^H`, or the upper triangular `u` with `a = u^H u`."""
    a = matrix(a, "cholesky", square=True)
    return adjoint(CHOLESKY(adjoint(a))) if upper else CHOLESKY(a)


CHOLESKY.front = cholesky


# Eigenvalues of Hermitian matrices

_EighResult: Any = type(np.linalg.eigh(np.ones((1, 1))))


def _eigh(a: Any, *, uplo: Any) -> Any:
    return np.linalg.eigh(a, uplo)


def _gaps(w: Any) -> Any:
    """Return `1 / (w_j - w_i)`, and 0 where they are equal."""
    return inverse(w[..., None, :] - w[..., :, None])


def _eigh_vjp(g: Any, out: Any, uplo: str) -> Any:
    """`P(x + x^H)` with `x = conj(v) (diag(g_w) + F (v^T g_v)) v^T`, where `F_ij = 1 / (w_j - w_i)`.

    `P` takes the lower triangle and half the diagonal, or the upper triangle.
    """
    of_w, of_v = g
    w, v = out
    x = conjugate(v) @ (of_w[..., :, None] * v.mT + (_gaps(w) * (v.mT @ of_v)) @ v.mT)
    x = x + adjoint(x)
    return lower_half(x) if uplo == "L" else lower_half(x.mT).mT


def _eigh_jvp(t: Any, out: Any, uplo: str) -> Any:
    """`(diag(x), v (F x))` with `x = v^H h v`, where `h` is the tangent made Hermitian and `F_ij = 1 / (w_j - w_i)`."""
    w, v = out
    x = adjoint(v) @ completed(t if uplo == "L" else adjoint(t)) @ v
    return np.diagonal(x, 0, -2, -1).real, v @ (_gaps(w) * x)


def _eigh_spec(a: Any, *, uplo: str) -> Any:
    spec = same_inexact(a)
    return _EighResult(ArraySpec(spec.shape[:-1], real_dtype(spec.dtype)), spec)


def spread(array: Any, *shape: int) -> Any:
    """Return sample matrices with eigenvalues and singular values far from each other."""
    a = array(*shape, low=-0.8, high=0.8)
    return a + np.eye(*shape[-2:], dtype=a.dtype) * (1 + 2 * np.arange(shape[-1], dtype=a.real.dtype))


def real_samples(samples: Any) -> Any:
    """Return the samples with real matrices only: LAPACK chooses the phases of complex vectors, and differences see that."""

    def parts(array: Any) -> Calls:
        return [((args[0].real, *args[1:]), kwargs) for args, kwargs in samples(array)]

    return parts


def _eigh_samples(array: Any) -> Calls:
    return [
        ((spread(array, 3, 3),), {}), ((spread(array, 3, 3), "U"), {}), ((spread(array, 2, 2, 2),), {"UPLO": "l"}),
        ((spread(array, 1, 1),), {}), ((array(0, 0),), {}),
    ]  # fmt: skip


EIGH = general(
    np.linalg.eigh,
    _eigh_vjp,
    jvps=(_eigh_jvp,),
    compute=_eigh,
    spec=_eigh_spec,
    multiple=True,
    samples=real_samples(_eigh_samples),
    doc="dw = diag(v^H da v), dv = v (F v^H da v), F_ij = 1 / (w_j - w_i) and 0 for equal eigenvalues",
)


def eigh(a: Any, UPLO: str = "L") -> Any:
    """Return eigenvalues and eigenvectors of Hermitian matrices, of which one triangle is read."""
    a = matrix(a, "eigh", square=True)
    UPLO = UPLO.upper()
    if UPLO not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return EIGH(a, uplo=UPLO)


EIGH.front = eigh


@composite(np.linalg.eigvalsh, samples=_eigh_samples, doc="dw = diag(v^H da v)")
def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """Return the eigenvalues of Hermitian matrices."""
    return eigh(a, UPLO).eigenvalues


# Singular values

_SVDResult: Any = type(np.linalg.svd(np.ones((1, 1))))


def _svd(a: Any) -> Any:
    return np.linalg.svd(a, full_matrices=False)


def _svd_vjp(g: Any, out: Any) -> Any:
    """`conj(u) (diag(g_s) + (x + x^H) s + s (y + y^H)) conj(vh)`, and what is orthogonal to u or to v.

    Here `x = F (u^T g_u)` and `y = -F (g_vh vh^T)` with `F_ij = 1 / (s_j^2 - s_i^2)`. Complex vectors turn by a common phase
    without effect; their turning against each other by `Im(diag(u^H da v)) / s` is shared equally.
    """
    of_u, of_s, of_vh = g
    u, s, vh = out
    uh_gu, gv_v = u.mT @ of_u, of_vh @ vh.mT
    gaps = _gaps(s) * inverse(s[..., None, :] + s[..., :, None])
    over_s = inverse(s)
    x, y = gaps * uh_gu, -(gaps * gv_v)
    core = (x + adjoint(x)) * s[..., None, :] + s[..., :, None] * (y + adjoint(y))
    if dtype_of(u).kind == "c":
        of_s = of_s + 0.5j * np.diagonal(uh_gu + gv_v, 0, -2, -1).imag * over_s
    left, right = conjugate(u), conjugate(vh)
    inner = core @ right + of_s[..., :, None] * right
    if shape_of(vh)[-1] > shape_of(s)[-1]:
        inner = inner + over_s[..., :, None] * (of_vh - gv_v @ right)
    result = left @ inner
    if shape_of(u)[-2] > shape_of(s)[-1]:
        result = result + ((of_u - left @ uh_gu) * over_s[..., None, :]) @ right
    return result


def _svd_spec(a: Any) -> Any:
    spec = same_inexact(a)
    *batch, rows, columns = spec.shape
    k = min(rows, columns)
    return _SVDResult(
        ArraySpec((*batch, rows, k), spec.dtype),
        ArraySpec((*batch, k), real_dtype(spec.dtype)),
        ArraySpec((*batch, k, columns), spec.dtype),
    )


def _svd_samples(array: Any) -> Calls:
    return [
        ((spread(array, 3, 3),), {}), ((spread(array, 3, 2), False), {}), ((spread(array, 2, 3),), {"full_matrices": False}),
        ((spread(array, 2, 2, 2),), {}), ((spread(array, 2, 2),), {"hermitian": True}), ((array(0, 0),), {}),
    ]  # fmt: skip


SVD = general(
    np.linalg.svd,
    _svd_vjp,
    compute=_svd,
    spec=_svd_spec,
    multiple=True,
    samples=real_samples(_svd_samples),
    doc="ds = Re(diag(u^H da v)); du and dv with 1 / (s_j^2 - s_i^2), and 0 for equal singular values",
)


def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Return `u`, `s` and `vh` with `a = u diag(s) vh`, or `s` alone.

    Raises:
        UnsupportedError: vectors beyond the singular values are asked for.
    """
    a = matrix(a, "svd")
    if hermitian:
        return _svd_of_hermitian(a, compute_uv)
    if not compute_uv:
        return SVD(a).S
    rows, columns = shape_of(a)[-2:]
    if full_matrices and rows != columns:
        raise UnsupportedError(
            f"np.linalg.svd with full_matrices=True of matrices of shape ({rows}, {columns}), at {here()}: the vectors beyond "
            f"the singular values are any basis of what is left, and have no derivative. Use full_matrices=False."
        )
    return SVD(a)


SVD.front = svd


def _svd_of_hermitian(a: Any, compute_uv: bool) -> Any:
    """Return the decomposition as NumPy makes it of eigenvalues and eigenvectors."""
    w, v = eigh(a)
    sizes = abs(w)
    order = np.argsort(sizes)[..., ::-1]
    s = np.take_along_axis(sizes, order, -1)
    if not compute_uv:
        return s
    signs = np.take_along_axis(np.sign(w), order, -1)
    u = np.take_along_axis(v, order[..., None, :], -1)
    return _SVDResult(u, s, adjoint(u * signs[..., None, :]))


@composite(
    np.linalg.svdvals,
    samples=lambda array: [((spread(array, 3, 3),), {}), ((spread(array, 2, 3, 2),), {}), ((spread(array, 2, 3),), {})],
    doc="ds = Re(diag(u^H da v))",
)
def svdvals(x: Any, /) -> Any:
    """Return the singular values."""
    return SVD(matrix(x, "svdvals")).S


# QR

_QRResult: Any = type(np.linalg.qr(np.ones((1, 1))))


def _qr(a: Any) -> Any:
    return np.linalg.qr(a)


def _qr_vjp(g: Any, out: Any) -> Any:
    """`(g_q + conj(q) k) r^-T` with `k = m - P(m - m^H)` and `m = g_r r^T - q^T g_q`, P: lower triangle, half the diagonal."""
    of_q, of_r = g
    q, r = out
    m = of_r @ r.mT - q.mT @ of_q
    k = m - lower_half(m - adjoint(m))
    return SOLVE(r, (of_q + conjugate(q) @ k).mT).mT


def _qr_spec(a: Any) -> Any:
    spec = same_inexact(a)
    *batch, _, columns = spec.shape
    return _QRResult(spec, ArraySpec((*batch, columns, columns), spec.dtype))


QR = general(
    np.linalg.qr,
    _qr_vjp,
    compute=_qr,
    spec=_qr_spec,
    multiple=True,
    samples=lambda array: [
        ((regular(array, 3, 3),), {}), ((regular(array, 3, 2),), {}), ((regular(array, 2, 3),), {}),
        ((regular(array, 2, 3, 2), "r"), {}), ((regular(array, 2, 2),), {"mode": "complete"}), ((array(0, 0),), {}),
    ],
    doc="dr = (x - w) r, dq = da r^-1 - q (x - w), x = q^H da r^-1, w = P(x) - P(x)^H, P: lower triangle, half the diagonal",
)  # fmt: skip


def qr(a: Any, mode: str = "reduced") -> Any:
    """Return `q` with orthonormal columns and upper triangular `r` with `a = q r`, or `r` alone.

    Raises:
        UnsupportedError: the mode asks for columns that are not determined, or for LAPACK's own form.
    """
    a = matrix(a, "qr")
    rows, columns = shape_of(a)[-2:]
    if mode not in ("reduced", "complete", "r", "raw"):
        raise ValueError(f"Unrecognized mode {mode!r}")
    if mode == "raw" or (mode == "complete" and rows > columns):
        raise UnsupportedError(
            f"np.linalg.qr with mode={mode!r} of matrices of shape ({rows}, {columns}), at {here()}, has no derivative rule. "
            f"Use mode='reduced'."
        )
    if rows >= columns:
        result = QR(a)
        return result.R if mode == "r" else result
    q, left = QR(a[..., :rows])
    r = np.concatenate((left, adjoint(q) @ a[..., rows:]), -1)
    return r if mode == "r" else _QRResult(q, r)


QR.front = qr
