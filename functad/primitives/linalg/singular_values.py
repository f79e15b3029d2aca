"""The singular value decomposition, and functions of singular values alone.

The rules follow J. Townsend, "Differentiating the singular value decomposition" (2016), transposed by hand. Nothing is
conjugated: the pairing of a cotangent and a tangent is `Re(sum(g t))`. For equal singular values see `degenerate`. Terms with
`1 / s` are dropped at zero singular values, which is right for functions that do not depend on the vectors of these values.

LAPACK chooses the arbitrary phase of complex vectors, common to left and right vectors. Only derivatives of functions that do
not depend on the phase are meaningful.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.primitives.batching import stacked
from functad.primitives.kinds import constant, general
from functad.primitives.linalg.decompositions import complement, real_samples, spread
from functad.primitives.linalg.degenerate import (
    aligned,
    alike,
    are_tied,
    fixed,
    forwards,
    frozen,
    gaps,
    guarded,
    misfit,
    mixes,
    others,
    parts,
    straight,
    tied,
    turning,
    unjoined,
    zero,
)
from functad.primitives.linalg.eigen import _diagonal, eigh
from functad.primitives.linalg.solve import (
    Calls,
    adjoint,
    completed,
    conjugate,
    inexact,
    internal,
    matrix,
    real_dtype,
    same_inexact,
    samples_of_shapes,
)
from functad.primitives.operands import is_absent, is_traced

_SVDResult: Any = type(np.linalg.svd(np.ones((1, 1))))


def _svd(a: Any, *, full: bool) -> Any:
    u, s, vh = np.linalg.svd(a, full_matrices=full)
    k = s.shape[-1]
    return _SVDResult(u[..., :k], s, vh[..., :k, :])


def _held_fast(a: Any, out: Any) -> tuple[Any, Any, Any, Any]:
    """Return the decomposition and a mask of equal values; the vectors raise where their derivative would lose a term."""
    u, s, vh = out
    same = tied(s)
    if is_traced(a):
        x = adjoint(frozen(u)) @ a @ adjoint(frozen(vh))
        x = 0.5 * (x + adjoint(x))  # the antihermitian part is not lost
        u, vh = fixed(u, x, same), fixed(vh, x, same, rows=True)
    return u, s, vh, same


def _over(s: Any) -> Any:
    """Return `1 / s`, and 0 where `s` is zero."""
    null = zero(s)
    return ~null / (s + null)


def _over_sums(s: Any) -> Any:
    """Return `1 / (s_i + s_j)`, and 0 where both are zero."""
    null = zero(s)
    both = null[..., None, :] & null[..., :, None]
    return ~both / (s[..., None, :] + s[..., :, None] + both)


def _svd_vjp(g: Any, a: Any, out: Any) -> Any:
    """`conj(u) (diag(g_s) + F (k - m) / 2 + E (k + m) / 2) conj(vh)`, plus the terms orthogonal to u or to v.

    `k` and `m` are the antihermitian parts, times 2, of `u^T g_u` and `g_vh vh^T`, `F_ij = 1 / (s_j - s_i)` and
    `E_ij = 1 / (s_i + s_j)`. A common phase of left and right vectors has no effect. Their relative phase changes by
    `Im(diag(u^H da v)) / s`; each side takes half.
    """
    of_u, of_s, of_vh = g
    u, s, vh, same = _held_fast(a, out)
    uh_gu, gv_v = u.mT @ of_u, of_vh @ vh.mT
    if not is_absent(of_s):
        alone = is_absent(of_u) and is_absent(of_vh)
        of_s = alike(of_s, same) if alone else unjoined(of_s, uh_gu + gv_v, same, zero(s))
    over_s = _over(s)
    k, m = uh_gu - adjoint(uh_gu), gv_v - adjoint(gv_v)
    core = gaps(s, same) * turning(k - m, abs(uh_gu) + abs(gv_v), same)
    core = 0.5 * (core + _over_sums(s) * (k + m) * ~np.eye(shape_of(s)[-1], dtype=bool))
    if dtype_of(u).kind == "c":
        of_s = of_s + 0.5j * _diagonal(uh_gu + gv_v).imag * over_s
    left, right = conjugate(u), conjugate(vh)
    inner = core @ right + of_s[..., :, None] * right
    if shape_of(vh)[-1] > shape_of(s)[-1]:
        inner = inner + over_s[..., :, None] * (of_vh - gv_v @ right)
    result = left @ inner
    if shape_of(u)[-2] > shape_of(s)[-1]:
        result = result + ((of_u - left @ uh_gu) * over_s[..., None, :]) @ right
    return result


def _svd_spec(a: Any, *, full: bool) -> Any:
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
        ((spread(array, 3, 2),), {}), ((spread(array, 2, 3),), {}), ((spread(array, 3, 2), True, False), {}),
    ]  # fmt: skip


def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Return `u`, `s` and `vh` with `a = u diag(s) vh`, or `s` alone.

    The vectors without a singular value are an arbitrary basis of the orthogonal complement. Only derivatives of functions that
    do not depend on this choice are meaningful.
    """
    a = matrix(a, "svd")
    if hermitian:
        return _svd_of_hermitian(a, compute_uv)
    if not compute_uv:
        return SVDVALS(a)
    rows, columns = shape_of(a)[-2:]
    result = SVD(a, full=bool(full_matrices) and rows != columns)
    if not full_matrices or rows == columns:
        return result
    u, s, vh = result
    if rows > columns:
        return _SVDResult(np.concatenate((u, complement(u, a, of="u")), -1), s, vh)
    return _SVDResult(u, s, np.concatenate((vh, adjoint(complement(adjoint(vh), a, of="v"))), -2))


def _svd_lost(t: Any, a: Any, out: Any) -> tuple[bool, ...]:
    """Return `Primitive.lost` at equal or zero values: check the vectors, and the values if the direction mixes the vectors."""
    u, s, vh = out
    same, null = tied(s), zero(s)
    if not (are_tied(same) or null.any()) or not t.any():
        return ()
    below, beside = t @ adjoint(vh), adjoint(u) @ t
    x = adjoint(u) @ below
    h, k = _parts(x)
    row, column = null[..., None, :], null[..., :, None]
    missed = (h, others(same)), (k, row & column), (below - u @ x, row), (beside - x @ vh, column)
    return True, any(mixes(part, places, t) for part, places in missed), True


SVD = general(
    np.linalg.svd,
    _svd_vjp,
    compute=_svd,
    spec=_svd_spec,
    multiple=True,
    samples=real_samples(_svd_samples),
    doc="ds = Re(diag(u^H da v)); du and dv with 1 / (s_j - s_i), 0 for equal values; raises where that is wrong",
    batch=stacked,
    front=svd,
    lost=_svd_lost,
    dependence="matrix",
)


def _svd_of_hermitian(a: Any, compute_uv: bool) -> Any:
    """Return the decomposition from eigenvalues and eigenvectors, as NumPy computes it."""
    if not compute_uv:
        return SVDVALS(completed(a))  # detects that eigenvalues 1 and -1 give equal singular values
    w, v = eigh(a)
    sizes = abs(w)
    order = np.argsort(sizes)[..., ::-1]
    s = np.take_along_axis(sizes, order, -1)
    signs = np.take_along_axis(np.sign(w), order, -1)
    u = np.take_along_axis(v, order[..., None, :], -1)
    return _SVDResult(u, s, adjoint(u * signs[..., None, :]))


# Singular values alone


def _along(t: Any, a: Any) -> tuple[Any, Any, Any, Any]:
    """Return the result of `_held_fast` for the vectors of `a + h t` in the limit of small `h`."""
    u, s, vh = SVD(a, full=False)
    same = tied(s)
    x = frozen(-_parts(adjoint(u) @ t @ adjoint(vh))[0])  # singular values descend
    turn = aligned(x, same)
    u, vh = u @ turn, adjoint(turn) @ vh
    return _held_fast(a, (forwards(u, misfit(x, turn, same)) if is_traced(a) else u, s, vh))


def _svdvals_jvp(t: Any, a: Any, out: Any) -> Any:  # the operands of the VJP rule, for `lost`
    """`Re(diag(u^H t v))`; the bases make the Hermitian part of `u^H t v` diagonal between equal singular values."""
    u, s, vh, _ = _along(t, a)
    values = _diagonal(adjoint(u) @ t @ adjoint(vh)).real
    return straight(values, _bent(t, u, s, vh)) if is_traced(a) else values


def _bent(t: Any, u: Any, s: Any, vh: Any) -> Any:
    """Return a mask of the zero singular values with a direction `t` that leaves the space of their vectors."""
    null = zero(s)
    below, beside = t @ adjoint(vh), adjoint(u) @ t
    x = adjoint(u) @ below
    small = float(np.finfo(dtype_of(u)).eps) ** (2 / 3) * abs(t).max((-2, -1))[..., None]
    within = abs(x * (null[..., None, :] & null[..., :, None] & ~np.eye(shape_of(s)[-1], dtype=bool)))
    turned = abs(_diagonal(x).imag) if dtype_of(u).kind == "c" else 0.0
    beyond = abs(below - u @ x).max(-2) + abs(beside - x @ vh).max(-1) + within.max(-1) + within.max(-2) + turned
    return null & (beyond > small)


def svdvals(x: Any, /) -> Any:
    """Return the singular values."""
    return SVDVALS(matrix(x, "svdvals"))


def _svdvals_lost(t: Any, a: Any, out: Any) -> tuple[bool, ...]:
    """Return `Primitive.lost`: check the values if equal ones separate in the direction."""
    same = tied(out)
    if not are_tied(same) or not t.any():
        return ()
    u, _, vh = np.linalg.svd(a, full_matrices=False)
    return (True,) if parts(_parts(adjoint(u) @ t @ adjoint(vh))[0], same) else ()


def _ratios(weights: Any, s: Any, same: Any) -> tuple[Any, Any, Any]:
    """Return `(q_j - q_i) / (s_j - s_i)`, `(q_i + q_j) / (s_i + s_j)` and `q / s`, with the weights `q`."""
    row, column = weights[..., None, :], weights[..., :, None]
    return (row - column) * gaps(s, same), (row + column) * _over_sums(s), weights * _over(s)


def _cotangent_vjp(g: Any, a: Any, weights: Any, linear: bool) -> tuple[Any, Any]:
    """`conj(u) (D (y + y^H) + E (y - y^H)) / 2 conj(vh)` plus the orthogonal terms, and `Re(diag(y))`.

    `y = u^T conj(g) vh^T`, `D_ij = (q_j - q_i) / (s_j - s_i)` and `E_ij = (q_i + q_j) / (s_i + s_j)`, with the weights `q`.
    """
    u, s, vh, same = _held_fast(a, SVD(a, full=False))
    g, left, right = conjugate(g), conjugate(u), conjugate(vh)
    below, beside = g @ vh.mT, u.mT @ g
    y = u.mT @ below
    across, against, over = _ratios(weights, s, same)
    below, beside = below - left @ y, beside - y @ right
    h, k = _parts(y)
    if not linear:
        h, k, below, beside = _lossless(h, k, below, beside, s, same)
    core = across * h + against * k
    return left @ (core @ right + over[..., :, None] * beside) + (below * over[..., None, :]) @ right, _diagonal(y).real


def _parts(x: Any) -> tuple[Any, Any]:
    """Return the Hermitian and the antihermitian part of a matrix."""
    return 0.5 * (x + adjoint(x)), 0.5 * (x - adjoint(x))


def _lossless(h: Any, k: Any, below: Any, beside: Any, s: Any, same: Any) -> tuple[Any, Any, Any, Any]:
    """Return the four parts of a direction; raise if a part is not zero where equal or zero values lose a term."""
    null = zero(s)
    row, column = null[..., None, :], null[..., :, None]
    return (
        guarded(h, h, others(same)),
        guarded(k, k, row & column),
        guarded(below, below, row),
        guarded(beside, beside, column),
    )


def _cotangent_jvp(ts: Any, a: Any, weights: Any, linear: bool) -> Any:
    """`conj(u (diag(r) + D (x + x^H) / 2 + E (x - x^H) / 2) vh)`, `x = u^H t v`, plus the orthogonal terms.

    The bases are the result of `_along`. `r` is the tangent of the weights; it depends on the tangent of the singular values,
    which uses the same bases.
    """
    t, r = ts
    if t is None:
        return singular_cotangent(a, r, linear=linear)
    u, s, vh, same = _along(t, a)
    below, beside = t @ adjoint(vh), adjoint(u) @ t
    x = adjoint(u) @ below
    across, against, over = _ratios(weights, s, same)
    below, beside = below - u @ x, beside - x @ vh
    h, k = _parts(x)
    if not linear:
        h, k, below, beside = _lossless(h, k, below, beside, s, same)
    core = across * h + against * k
    if r is not None:
        core = core + r[..., :, None] * np.eye(shape_of(s)[-1], dtype=bool)
    return conjugate(u @ (core @ vh + over[..., :, None] * beside) + (below * over[..., None, :]) @ vh)


@internal(
    general,
    _cotangent_vjp,
    joint=True,
    jvps=(_cotangent_jvp,),
    spec=lambda a, weights, *, linear: same_inexact(a),
    samples=lambda array: [
        ((spread(array, *shape), array(*shape[:-2], min(shape[-2:])).real), {"linear": linear})
        for shape, linear in (((3, 3), False), ((3, 2), True), ((2, 2, 3), False))
    ],
    doc="d(u g vh) = u (dg + D (x + x^H) / 2 + E (x - x^H) / 2) vh, x = u^H da v, and what is orthogonal to u or v",
    linear_by=lambda params: (1,),
    decomposition=True,
)
def singular_cotangent(a: Any, weights: Any, *, linear: bool) -> Any:
    """Return `conj(u) diag(weights) conj(vh)`, the cotangent of a matrix for the cotangent `weights` of its singular values.

    Args:
        a: the matrix.
        weights: the cotangent of the singular values.
        linear: `weights` belong to a function that is linear near `a`, so no second derivative is lost.
    """
    u, _, vh = np.linalg.svd(a, full_matrices=False)
    return (u.conj() * weights[..., None, :]) @ vh.conj()


SVDVALS = general(
    np.linalg.svdvals,
    lambda g, a, out: singular_cotangent(a, alike(g, tied(out)), linear=False),
    jvps=(_svdvals_jvp,),
    compute=lambda a: np.linalg.svd(a, compute_uv=False),
    spec=lambda a: _svd_spec(a, full=False)[1],
    samples=samples_of_shapes((3, 3), (2, 3, 2), (2, 3), make=spread),
    doc="ds = Re(diag(u^H da v)); at equal values second derivatives in forward over reverse mode",
    batch=stacked,
    front=svdvals,
    lost=_svdvals_lost,
    looked_at_by=(singular_cotangent, SVD),
    dependence="matrix",
)


@internal(
    constant,
    spec=lambda s, *, which: spec_of(s),
    samples=lambda array: [((array(3).real,), {"which": "max"})],
    doc="a choice has no derivative",
    decomposition=True,
)
def weights(s: Any, *, which: str) -> Any:
    """Return the derivative of the sum or an extreme of singular values with respect to each value."""
    if which == "sum":
        return (~zero(s)).astype(s.dtype)
    chosen = tied(s)[..., 0 if which == "max" else -1, :] & ~zero(s)
    return chosen / np.maximum(chosen.sum(-1, keepdims=True), 1).astype(s.dtype)


def _singular_sum_vjp(g: Any, a: Any, which: str) -> Any:
    """`g` times the cotangents of the selected values; equal values share it, and zero values receive zero."""
    return g[..., None, None] * singular_cotangent(a, weights(frozen(SVDVALS(a)), which=which), linear=True)


@internal(
    general,
    _singular_sum_vjp,
    spec=lambda a, *, which: ArraySpec(spec_of(a).shape[:-2], real_dtype(inexact(spec_of(a).dtype))),
    samples=lambda array: [
        ((spread(array, *shape),), {"which": which})
        for shape, which in (((3, 3), "sum"), ((3, 2), "sum"), ((3, 2), "max"), ((2, 2, 3), "min"))
    ],
    doc="Re(tr(u^H da v)) over the chosen values; equal ones share it; 0 of those that are zero",
    decomposition=True,
)
def singular_sum(a: Any, *, which: str) -> Any:
    """Return the sum, the maximum or the minimum of the singular values."""
    s = np.linalg.svd(a, compute_uv=False)
    if which == "sum":
        return s.sum(-1)
    return s.max(-1, initial=0) if which == "max" else s.min(-1)
