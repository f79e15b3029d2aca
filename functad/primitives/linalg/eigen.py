"""Eigenvalues and eigenvectors of Hermitian matrices (`eigh`, `eigvalsh`) and of general matrices (`eig`, `eigvals`).

The rules follow M. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation"
(2008), section 3.1. Nothing is conjugated: the pairing of a cotangent and a tangent is `Re(sum(g t))`. For equal eigenvalues
see `degenerate`.

`eigh` assumes a Hermitian matrix and reads one triangle; the cotangent is zero in the other triangle. LAPACK chooses the
arbitrary phase of complex vectors. Only derivatives of functions that do not depend on the phase are meaningful. For `eigh`
the derivative of the phase is zero (`v_i^H dv_i = 0`). The vectors of `eig` have length 1 and a real largest element, and
their derivatives keep both properties.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.errors import DegenerateError
from functad.expressions.spec import ArraySpec, dtype_of, spec_of
from functad.places import here
from functad.primitives.batching import stacked
from functad.primitives.entry import Branches
from functad.primitives.kinds import composite, constant, general
from functad.primitives.linalg.decompositions import real_samples, spread
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
    tied,
    turning,
    unjoined,
)
from functad.primitives.linalg.solve import (
    SOLVE,
    Calls,
    adjoint,
    completed,
    conjugate,
    internal,
    matrix,
    real_dtype,
    regular,
    same_inexact,
    samples_of_shapes,
)
from functad.primitives.operands import concrete, is_absent, is_traced

# Hermitian matrices. The primitives take a full Hermitian matrix, completed from one triangle.

_EighResult: Any = type(np.linalg.eigh(np.ones((1, 1))))
_EigResult: Any = type(np.linalg.eig(np.ones((1, 1))))


def _diagonal(x: Any) -> Any:
    return np.diagonal(x, 0, -2, -1)


def _held_fast(a: Any, out: Any) -> tuple[Any, Any, Any]:
    """Return eigenvalues, vectors that raise where their derivative would lose a term, and a mask of pairs of equal values."""
    w, v = out
    same = tied(w)
    if is_traced(a):
        still = frozen(v)
        v = fixed(v, adjoint(still) @ a @ still, same)
    return w, v, same


def _eigh_vjp(g: Any, a: Any, out: Any) -> Any:
    """`conj(v) (diag(g_w) + F k / 2) v^T` with `k = m - m^H`, `m = v^T g_v`, `F_ij = 1 / (w_j - w_i)`."""
    of_w, of_v = g
    w, v, same = _held_fast(a, out)
    m = v.mT @ of_v
    if not is_absent(of_w):
        of_w = alike(of_w, same) if is_absent(of_v) else unjoined(of_w, m, same, np.False_)
    core = 0.5 * gaps(w, same) * turning(m - adjoint(m), m, same)
    return conjugate(v) @ (of_w[..., :, None] * v.mT + core @ v.mT)


def _eigh_jvp(t: Any, a: Any, out: Any) -> Any:
    """`(diag(x), v (F x))` with `x = v^H t v` and `F_ij = 1 / (w_j - w_i)`."""
    w, v, same = _held_fast(a, out)
    x = adjoint(v) @ t @ v
    return _diagonal(x).real, v @ (gaps(w, same) * x)


def _eigh_spec(a: Any, *, uplo: str = "L") -> Any:
    spec = same_inexact(a)
    return _EighResult(ArraySpec(spec.shape[:-1], real_dtype(spec.dtype)), spec)


def _eigh_samples(array: Any) -> Calls:
    return [
        ((spread(array, 3, 3),), {}), ((spread(array, 3, 3), "U"), {}), ((spread(array, 2, 2, 2),), {"UPLO": "l"}),
        ((spread(array, 1, 1),), {}), ((array(0, 0),), {}),
    ]  # fmt: skip


def _hermitian(a: Any, name: str, UPLO: str) -> Any:  # NumPy's name
    a = matrix(a, name, square=True)
    if UPLO.upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return completed(a if UPLO.upper() == "L" else adjoint(a))


def eigh(a: Any, UPLO: str = "L") -> Any:
    """Return eigenvalues and eigenvectors of Hermitian matrices, read from one triangle."""
    return EIGH(_hermitian(a, "eigh", UPLO), uplo=UPLO.upper())


EIGH = general(
    np.linalg.eigh,
    _eigh_vjp,
    jvps=(_eigh_jvp,),
    compute=lambda a, *, uplo: np.linalg.eigh(a, uplo),  # the signs of the vectors depend on the triangle
    spec=_eigh_spec,
    multiple=True,
    samples=real_samples(_eigh_samples),
    doc="dw = diag(v^H da v), dv = v (F v^H da v), F_ij = 1 / (w_j - w_i), 0 for equal eigenvalues; raises where that is wrong",
    batch=stacked,
    front=eigh,
    lost=lambda t, a, out: _lost(out, lambda v: adjoint(v) @ t @ v),
    dependence="matrix",
)


def _lost(out: Any, transformed: Any) -> tuple[bool, ...]:
    """Return `Primitive.lost` at equal eigenvalues: check the vectors, and the values if the direction mixes the vectors."""
    same = tied(out[0])
    if not are_tied(same):
        return ()
    x = transformed(out[1])
    return (mixes(x, others(same), x), True) if x.any() else ()


def _vectors_along(t: Any, a: Any) -> Any:
    """Return the result of `_held_fast` for the vectors of `a + h t` in the limit of small `h`."""
    out = EIGH(a, uplo="L")
    w, v = out
    same = tied(w)
    x = frozen(adjoint(v) @ t @ v)
    turn = aligned(x, same)
    v = v @ turn
    return _held_fast(a, (w, forwards(v, misfit(x, turn, same)) if is_traced(a) else v))


def _eigvalsh_jvp(t: Any, a: Any, out: Any) -> Any:  # the operands of the VJP rule, for `lost`
    """`diag(v^H t v)`, in a basis where `v^H t v` has no off-diagonal elements between equal eigenvalues."""
    v = _vectors_along(t, a)[1]
    return _diagonal(adjoint(v) @ t @ v).real


def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """Return the eigenvalues of Hermitian matrices, read from one triangle."""
    return EIGVALSH(_hermitian(a, "eigvalsh", UPLO))


def _eigvalsh_lost(t: Any, a: Any, out: Any) -> tuple[bool, ...]:
    """Return `Primitive.lost`: check the values if equal ones separate in the direction."""
    same = tied(out)
    if not are_tied(same) or not t.any():
        return ()
    v = np.linalg.eigh(a).eigenvectors
    return (True,) if parts(adjoint(v) @ t @ v, same) else ()


def _half_sum(a: Any) -> Any:
    """Return the Hermitian part of a matrix; `eigenvalue_cotangent` depends on nothing else."""
    return 0.5 * (a + adjoint(a))


def _cotangent_vjp(g: Any, a: Any, weights: Any) -> tuple[Any, Any]:
    """`conj(v (D y) v^H)` and `diag(y)`; `y = v^H g v`, `D_ij = (q_j - q_i) / (w_j - w_i)`, with the weights `q`."""
    a = _half_sum(a)
    w, v, same = _held_fast(a, EIGH(a, uplo="L"))
    y = adjoint(v) @ g @ v
    ratios = (weights[..., None, :] - weights[..., :, None]) * gaps(w, same)
    return conjugate(_half_sum(v @ (ratios * guarded(y, y, others(same))) @ adjoint(v))), _diagonal(y).real


def _cotangent_jvp(ts: Any, a: Any, weights: Any) -> Any:
    """`conj(v (diag(s) + D x) v^H)`, `x = v^H t v`; the basis makes x diagonal between equal eigenvalues.

    `s` is the tangent of the weights. It depends on the tangent of the eigenvalues, which uses the same basis.
    """
    t, s = ts
    if t is None:
        return eigenvalue_cotangent(a, s)
    t = _half_sum(t)
    w, v, same = _vectors_along(t, _half_sum(a))
    core = (weights[..., None, :] - weights[..., :, None]) * gaps(w, same) * (adjoint(v) @ t @ v)
    result = v @ core @ adjoint(v)
    if s is not None:
        result = result + (v * s[..., None, :]) @ adjoint(v)
    return conjugate(result)


@internal(
    general,
    _cotangent_vjp,
    joint=True,
    jvps=(_cotangent_jvp,),
    spec=lambda a, weights: same_inexact(a),
    samples=lambda array: [((spread(array, 3, 3), array(3).real), {}), ((spread(array, 2, 2, 2), array(2, 2).real), {})],
    doc="d(v g v^H) = v (dg + D (v^H da v)) v^H, D_ij = (g_j - g_i) / (w_j - w_i)",
    linear_by=lambda params: (1,),
    decomposition=True,
)
def eigenvalue_cotangent(a: Any, weights: Any) -> Any:
    """Return `conj(v) diag(weights) v^T`, the cotangent of a matrix for the cotangent `weights` of its eigenvalues."""
    v = np.linalg.eigh(_half_sum(a)).eigenvectors
    return (v.conj() * weights[..., None, :]) @ v.mT


EIGVALSH = general(
    np.linalg.eigvalsh,
    lambda g, a, out: eigenvalue_cotangent(a, alike(g, tied(out))),
    jvps=(_eigvalsh_jvp,),
    compute=lambda a: np.linalg.eigvalsh(a),
    spec=lambda a: _eigh_spec(a)[0],
    samples=_eigh_samples,
    doc="dw = diag(v^H da v); at equal eigenvalues second derivatives in forward over reverse mode",
    batch=stacked,
    front=eigvalsh,
    lost=_eigvalsh_lost,
    looked_at_by=(eigenvalue_cotangent, EIGH),
    dependence="matrix",
)


# General matrices


@internal(
    constant,
    spec=lambda v: ArraySpec(spec_of(v).shape, real_dtype(spec_of(v).dtype)),
    samples=lambda array: [((array(3, 3),), {}), ((array(0, 0),), {})],
    doc="a position has no derivative",
    decomposition=True,
)
def largest(v: Any) -> Any:
    """Return an array with one at the largest real element of each column, and zero elsewhere."""
    sizes = np.where(v.imag == 0, np.abs(v), -1.0) if v.dtype.kind == "c" else np.abs(v)
    rows = np.arange(v.shape[-2])[:, None]
    return (rows == np.argmax(sizes, -2, keepdims=True)).astype(v.real.dtype) if rows.size else sizes


def _dependent(w: Any, v: Any) -> Any:
    s = np.linalg.svdvals(v)
    return (s[..., -1:] < 16 * s.shape[-1] * np.finfo(s.dtype).eps).any()


@internal(
    constant,
    spec=lambda w, v: tied.spec(w),
    samples=lambda array: [((array(3), regular(array, 3, 3)), {})],
    doc="the result is boolean",
    decomposition=Branches(_dependent, None, lambda w, v: tied.compute(w)),
)
def eig_tied(w: Any, v: Any) -> Any:
    """Return a mask of the pairs of equal eigenvalues; raise if the vectors are linearly dependent."""
    if _dependent(w, v):
        raise DegenerateError(
            f"The eigenvectors of a matrix are linearly dependent, at {here()}: nor have eigenvalues and vectors a derivative. "
            f"Use functions of the matrix itself instead, such as trace, det, inv or matrix_power."
        )
    return tied.compute(w)


def _eig_held_fast(a: Any, out: Any) -> tuple[Any, Any, Any]:
    w, v = out
    same = eig_tied(w, v)
    if is_traced(a):
        still = frozen(v)
        v = fixed(v, SOLVE(still, a @ still), same)
    return w, v, same


def _eig_vjp(g: Any, a: Any, out: Any) -> Any:
    """`v^-T (diag(g_w) + F (v^T h)) v^T` with `F_ij = 1 / (w_j - w_i)`.

    `h` is `g_v` without the components that change the length or phase of a vector: with `c = diag(v^T g_v)` it is
    `g_v - Re(c) conj(v) - i Im(c) / v_m`, with the last term only at the largest element `v_m` of each vector.
    """
    of_w, of_v = g
    w, v, same = _eig_held_fast(a, out)
    c = (v * of_v).sum(-2, keepdims=True)
    h = of_v - conjugate(v) * c.real
    if dtype_of(v).kind == "c":
        at = largest(v)
        h = h - 1j * at * (c.imag / (v * at).sum(-2, keepdims=True))
    m = v.mT @ h
    if not is_absent(of_w):  # m does not show a loss for v f(w) v^-1
        of_w = alike(of_w, same) if is_absent(of_v) else unjoined(of_w, np.ones_like(v), same, np.False_)
    core = gaps(w, same) * turning(m, m, same)
    return SOLVE(v.mT, (of_w[..., :, None] * v.mT + core @ v.mT))


def _eig_jvp(t: Any, a: Any, out: Any) -> Any:
    """`(diag(x), d - v (Re(diag(v^H d)) + i Im(d_m / v_m)))`, `x = v^-1 t v`, `d = v (F x)`, at the largest element m."""
    w, v, same = _eig_held_fast(a, out)
    x = SOLVE(v, t @ v)
    d = v @ (gaps(w, same) * x)
    change = (conjugate(v) * d).sum(-2, keepdims=True).real
    if dtype_of(v).kind == "c":
        at = largest(v)
        change = change + 1j * ((d * at).sum(-2, keepdims=True) / (v * at).sum(-2, keepdims=True)).imag
    return _diagonal(x), d - v * change


_ALWAYS_COMPLEX = np.linalg.eig(np.ones((1, 1)))[0].dtype.kind == "c"  # announced by NumPy


def _eig_spec(a: Any) -> Any:
    spec = same_inexact(a)
    if _ALWAYS_COMPLEX:
        spec = ArraySpec(spec.shape, np.result_type(spec.dtype, np.complex64))
    return _EigResult(ArraySpec(spec.shape[:-1], spec.dtype), spec)


_eig_samples = samples_of_shapes((3, 3), (2, 2, 2), (1, 1), (0, 0), make=spread)


def _eigvals_samples(array: Any) -> Calls:
    """Return `_eig_samples` and a rotation, not used for `eig`: rounding decides the signs of conjugate eigenvectors."""
    rotating = spread(array, 3, 3) + np.array([[0, 3, 0], [-3, 0, 0], [0, 0, 4]])
    return [((rotating.astype(array().dtype),), {}), *_eig_samples(array)]


def eig(a: Any) -> Any:
    """Return eigenvalues and eigenvectors, complex if an eigenvalue is complex."""
    a = matrix(a, "eig", square=True)
    if dtype_of(a).kind != "c" and not _ALWAYS_COMPLEX:
        concrete(a, "np.linalg.eig")  # the dtype of the result depends on values
    return EIG(a)


EIG = general(
    np.linalg.eig,
    _eig_vjp,
    jvps=(_eig_jvp,),
    spec=_eig_spec,
    multiple=True,
    samples=_eig_samples,
    doc="dw = diag(v^-1 da v), dv = v (F v^-1 da v - Re(...)): vectors of length 1, largest element real",
    batch=stacked,
    front=eig,
    lost=lambda t, a, out: _lost(out, lambda v: np.linalg.solve(v, t @ v)),
    value_dependent=not _ALWAYS_COMPLEX,
    dependence="matrix",
)


@composite(np.linalg.eigvals, samples=_eigvals_samples, value_dependent=not _ALWAYS_COMPLEX, doc="dw = diag(v^-1 da v)")
def eigvals(a: Any) -> Any:
    """Return the eigenvalues, complex if one of them is complex."""
    return eig(a).eigenvalues
