"""Decompositions of matrices without eigenvalues: `cholesky`, `qr`; and orthonormal complements.

The rules follow M. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation"
(2008), section 3, extended to complex numbers. Nothing is conjugated: the pairing of a cotangent and a tangent is
`Re(sum(g t))`.

`cholesky` assumes a Hermitian matrix and reads one triangle. The cotangent is zero in the other triangle.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.errors import DegenerateError, UnsupportedError
from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.places import here
from functad.primitives.batching import stacked
from functad.primitives.elementwise.conversion import laid_out
from functad.primitives.entry import Branches
from functad.primitives.kinds import general
from functad.primitives.linalg.solve import (
    TRIANGULAR_SOLVE,
    Calls,
    adjoint,
    completed,
    conjugate,
    internal,
    lower_half,
    matrix,
    regular,
    same_inexact,
    turned,
)

# Cholesky


def _cholesky_vjp(g: Any, out: Any) -> Any:
    """`P(w + w^H)` with `w = l^-T P(l^T g) conj(l)^-1`; `P` is the lower triangle with half the diagonal."""
    x = TRIANGULAR_SOLVE(turned(out), lower_half(turned(out) @ g), lower=False)
    w = turned(TRIANGULAR_SOLVE(adjoint(out), turned(x), lower=False))
    return lower_half(w + adjoint(w))


def _cholesky_jvp(t: Any, out: Any) -> Any:
    """`l P(l^-1 h l^-H)`; `h` is the Hermitian matrix with the lower triangle of the tangent."""
    x = TRIANGULAR_SOLVE(out, adjoint(TRIANGULAR_SOLVE(out, completed(t), lower=True)), lower=True)
    return out @ lower_half(x)


def positive(array: Any, *shape: int) -> Any:
    """Return sample matrices; the Hermitian matrix of either triangle is positive definite."""
    a = array(*shape, low=-0.8, high=0.8)
    return a + 3 * np.eye(shape[-1], dtype=a.dtype)


def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """Return the lower triangular `l` with `a = l l^H`, or the upper triangular `u` with `a = u^H u`."""
    a = matrix(a, "cholesky", square=True)
    return laid_out(adjoint(CHOLESKY(adjoint(a))), "C") if upper else CHOLESKY(a)


def _cholesky(a: Any) -> Any:
    """Return the lower triangular factor; Dask returns the upper one."""
    out = np.linalg.cholesky(a)
    return np.conjugate(np.swapaxes(out, -1, -2)) if hasattr(type(a), "__dask_graph__") else out


CHOLESKY = general(
    np.linalg.cholesky,
    _cholesky_vjp,
    compute=_cholesky,
    jvps=(_cholesky_jvp,),
    spec=same_inexact,
    samples=lambda array: [
        ((positive(array, 3, 3),), {}), ((positive(array, 2, 2, 2),), {}), ((positive(array, 3, 3),), {"upper": True}),
        ((positive(array, 1, 1),), {}), ((array(0, 0),), {}), ((array(0, 2, 2),), {}),
    ],
    doc="dl = l P(l^-1 da l^-H), P: lower triangle, half the diagonal; the triangle that is not read has derivative 0",
    batch=stacked, front=cholesky,
    raises=lambda specs, params: ((0,), "positive definite"),
    conditioned=True,
    dependence="matrix",
)  # fmt: skip


def spread(array: Any, *shape: int) -> Any:
    """Return sample matrices with well separated eigenvalues and singular values."""
    a = array(*shape, low=-0.8, high=0.8)
    return a + np.eye(*shape[-2:], dtype=a.dtype) * (1 + 2 * np.arange(shape[-1], dtype=a.real.dtype))


def real_samples(samples: Any) -> Any:
    """Return the samples with real matrices only: finite differences see the phases that LAPACK chooses for complex vectors."""

    def parts(array: Any) -> Calls:
        return [((args[0].real, *args[1:]), kwargs) for args, kwargs in samples(array)]

    return parts


# QR

_QRResult: Any = type(np.linalg.qr(np.ones((1, 1))))


@internal(
    general,
    lambda g: g,
    jvps=(lambda t: t,),
    spec=lambda r: spec_of(r),
    samples=lambda array: [((np.triu(regular(array, 3, 3)),), {}), ((np.triu(regular(array, 2, 2, 2)),), {})],
    doc="the identity",
    decomposition=Branches(lambda r: dependent(r).any(), None, lambda r: r),
)
def independent(r: Any) -> Any:
    """Return the factor `r` of `qr`; raise `DegenerateError` if a column depends on the columns before it, within rounding."""
    if dependent(r).any():
        raise DegenerateError(
            f"The columns of a matrix are linearly dependent, so np.linalg.qr has no derivative there, at {here()}. "
            f"Use np.linalg.svd or np.linalg.pinv, whose derivatives need no full rank, or differentiate with respect to the "
            f"independent columns."
        )
    return r


def dependent(r: Any) -> Any:
    """Return a mask of the columns that depend on earlier columns, from the factor `r` of `qr`."""
    rest, whole = np.abs(np.diagonal(r, 0, -2, -1)), np.sqrt(np.sum(np.abs(r) ** 2, -2))
    return rest <= 4 * r.shape[-1] * float(np.finfo(r.dtype).eps) * whole


def _qr_vjp(g: Any, out: Any) -> Any:
    """`(g_q + conj(q) k) r^-T`, `k = m - P(m - m^H)`, `m = g_r r^T - q^T g_q`, P: the lower triangle with half the diagonal."""
    of_q, of_r = g
    q, r = out[0], independent(out[1])
    m = of_r @ turned(r) - turned(q) @ of_q
    k = m - lower_half(m - adjoint(m))
    return turned(TRIANGULAR_SOLVE(r, turned(of_q + conjugate(q) @ k), lower=False))


def _qr_spec(a: Any) -> Any:
    spec = same_inexact(a)
    *batch, _, columns = spec.shape
    return _QRResult(spec, ArraySpec((*batch, columns, columns), spec.dtype))


def qr(a: Any, mode: str = "reduced") -> Any:
    """Return `q` with orthonormal columns and upper triangular `r` with `a = q r`, or `r` alone.

    With `mode="complete"` the additional columns of `q` are an arbitrary basis of the orthogonal complement. Only derivatives
    of functions that do not depend on this choice are meaningful.

    Raises:
        UnsupportedError: `mode` is "raw", LAPACK's own form of the result.
        DegenerateError: a derivative is computed, and the columns are linearly dependent.
    """
    a = matrix(a, "qr")
    rows, columns = shape_of(a)[-2:]
    if mode not in ("reduced", "complete", "r", "raw"):
        raise ValueError(f"Unrecognized mode {mode!r}")
    if mode == "raw":
        raise UnsupportedError(
            f"np.linalg.qr with mode='raw', at {here()}: the reflections that LAPACK makes q of have no derivative rule. "
            f"Use mode='reduced' or mode='complete'."
        )
    if rows < columns:
        q, left = QR(a[..., :rows])
        r = np.concatenate((left, adjoint(q) @ a[..., rows:]), -1)
        return r if mode == "r" else _QRResult(q, r)
    q, r = QR(a)
    if mode == "complete" and rows > columns:
        below = np.zeros((*shape_of(a)[:-2], rows - columns, columns), dtype_of(r))
        return _QRResult(np.concatenate((q, complement(q, a, of="q")), -1), np.concatenate((r, below), -2))
    return r if mode == "r" else _QRResult(q, r)


QR = general(
    np.linalg.qr,
    _qr_vjp,
    compute=lambda a: np.linalg.qr(a),
    spec=_qr_spec,
    multiple=True,
    samples=lambda array: [
        ((regular(array, 3, 3),), {}), ((regular(array, 3, 2),), {}), ((regular(array, 2, 3),), {}),
        ((regular(array, 2, 3, 2), "r"), {}), ((regular(array, 2, 2),), {"mode": "complete"}), ((array(0, 0),), {}),
        ((regular(array, 3, 2).real,), {"mode": "complete"}), ((regular(array, 2, 3),), {"mode": "complete"}),
    ],
    doc="dr = (x - w) r, dq = da r^-1 - q (x - w), x = q^H da r^-1, w = P(x) - P(x)^H, P: lower triangle, half the diagonal",
    batch=stacked, front=qr,
    dependence="matrix",
)  # fmt: skip


# Orthonormal complements


def _complement_spec(u: Any, a: Any, *, of: str) -> ArraySpec:
    spec = spec_of(u)
    rows, columns = spec.shape[-2:]
    return ArraySpec((*spec.shape[:-1], rows - columns), spec.dtype)


def _complement_samples(array: Any) -> Calls:
    a, dtype = np.array([[2, 1], [0, 3], [1, 0]]), array().dtype
    u = (np.linalg.qr(a).Q * np.exp(1j if dtype.kind == "c" else 0)).astype(dtype)  # orthogonal to the complement of a
    return [((u, a), {"of": "q"}), ((u, a), {"of": "u"}), ((u, a.T), {"of": "v"})]


@internal(
    general,
    lambda g, u, out: -conjugate(out @ (g.mT @ u)),
    None,
    jvps=(lambda t, u, out: -(u @ (adjoint(t) @ out)), None),
    spec=_complement_spec,
    samples=_complement_samples,
    doc="-u du^H c: the least turning that keeps the columns c orthogonal to u",
)
def complement(u: Any, a: Any, *, of: str) -> Any:
    """Return the columns that a complete decomposition of `a` adds to the orthonormal columns `u` of the reduced one."""
    k, a = u.shape[-1], a.astype(u.dtype, copy=False)
    if of == "q":
        c = np.linalg.qr(a, "complete").Q[..., k:]
    else:
        result = np.linalg.svd(a)
        c = result.U[..., k:] if of == "u" else result.Vh[..., k:, :].conj().mT
    return c - u @ (adjoint(u) @ c)  # removes rounding errors, and makes the result a function of u
