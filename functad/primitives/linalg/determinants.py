"""Determinants, after M. Giles, "Collected matrix derivative results" (2008), section 2.2.3; see `linalg`."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.errors import DegenerateError
from functad.expressions.spec import ArraySpec, dtype_of, shape_of, spec_of
from functad.places import here
from functad.primitives.batching import stacked
from functad.primitives.entry import Branches, Primitive
from functad.primitives.kinds import general
from functad.primitives.linalg.solve import SQUARES, inexact, internal, matrix, real_dtype, regular, same_inexact
from functad.primitives.reductions.over_axes import others


@internal(
    general,
    lambda g, out: -(out.mT @ g @ out.mT),
    jvps=(lambda t, out: -(out @ t @ out),),
    spec=same_inexact,
    samples=lambda array: [((regular(array, 3, 3),), {"of": "it", "limit": np.inf})],
    doc="that of inv",
    conditioned=True,
    decomposition=True,
)
def inverse(a: Any, *, of: str, limit: float) -> Any:
    """Return the inverse for a rule of a function that is also defined at singular matrices; raise there.

    Args:
        a: the matrix.
        of: the name, in the error message, of the derivative that is not found.
        limit: the function raises if the condition number is not smaller, for then rounding errors are too large.
    """
    try:
        result = np.linalg.inv(a)
        if limit == np.inf or bool((np.linalg.norm(a, axis=(-2, -1)) * np.linalg.norm(result, axis=(-2, -1)) < limit).all()):
            return result
    except np.linalg.LinAlgError:
        pass
    raise DegenerateError(
        f"A matrix is singular or nearly so, at {here()}, where {of} cannot be found. np.linalg.det has derivatives up to the "
        f"third at any matrix; or add a small multiple of the identity."
    )


def _direction_samples(directions: int) -> Any:
    shapes = ((3, 3), (2, 2, 2), (1, 1), (4, 4), (0, 0), (0, 2, 2))
    return lambda array: [((regular(array, *shape), *[array(*shape) for _ in range(directions)]), {}) for shape in shapes]


def _cofactors(a: Any) -> Any:
    """Return the derivative of the determinant with respect to each element, also for singular matrices."""
    det = np.linalg.det(a)
    return _by_inverse(a, det) if np.all(det != 0) else _by_singular_values(a)


def _by_inverse(a: Any, det: Any) -> Any:
    return det[..., None, None] * np.linalg.inv(a).mT


def _by_singular_values(a: Any) -> Any:
    u, s, vh = np.linalg.svd(a)
    return np.linalg.det(u @ vh)[..., None, None] * ((u.conj() * others(s, s.ndim - 1)[..., None, :]) @ vh.conj())


def _without_pairs(s: Any) -> Any:
    """Return the products of all elements except `s_i` and `s_j`, and zero on the diagonal."""
    n = s.shape[-1]
    up = np.arange(n)[:, None] < np.arange(n)
    ones = np.ones_like(s[..., :1])
    before = np.cumprod(np.concatenate((ones, s[..., :-1]), -1), -1)
    after = np.cumprod(np.concatenate((ones, s[..., :0:-1]), -1), -1)[..., ::-1]
    through = np.cumprod(np.where(up, s[..., None, :], 1), -1)
    between = np.concatenate((np.ones_like(through[..., :1]), through[..., :-1]), -1)
    half = np.where(up, before[..., :, None] * between * after[..., None, :], 0)
    return half + half.mT


def _cofactor_slopes(a: Any, t: Any) -> Any:
    """Return the derivative of the cofactors in direction `t`: a second derivative of `det`, so this linear map is symmetric.

    `det(u vh) conj(u) (diag(p diag(x)) - p x^T) conj(vh)`, `x = u^H t v`; `p_ij` is the product of all s_k except s_i and s_j.
    The formula contains no division, so it holds for singular matrices.
    """
    if a.shape[-1] == 0:
        return np.zeros_like(a + t)
    u, s, vh = np.linalg.svd(a)
    x = u.conj().mT @ t @ vh.conj().mT
    products = _without_pairs(s)
    core = -products * x.mT
    places = np.arange(s.shape[-1])
    core[..., places, places] = (products @ np.diagonal(x, 0, -2, -1)[..., None])[..., 0]
    return np.linalg.det(u @ vh)[..., None, None] * (u.conj() @ core @ vh.conj())


def _fourth_derivative(h: Any, a: Any, t: Any, e: Any) -> Any:
    """Return the derivative of `cofactor_bends(a, t, e)` with respect to `a` in direction `h`; it needs the inverse.

    It is the derivative of `sum(i t) s_e - sum(b_e t) c + b_e t^T c - i t^T s_e`, with the cofactors c, their derivative s_e in
    direction `e`, `i = a^-T` and `b_e = i e^T i`.
    """
    if shape_of(a)[-1] < 4:
        return np.zeros_like(h + t)
    i = inverse(a, of="the fourth derivative of a determinant", limit=1e3).mT
    c, of_e, of_h, bends = cofactors(a), cofactor_slopes(a, e), cofactor_slopes(a, h), cofactor_bends(a, e, h)
    b, d = i @ e.mT @ i, i @ h.mT @ i
    both = d @ e.mT @ i + i @ e.mT @ d
    result = _trace(i, t) * bends - _trace(d, t) * of_e + _trace(both, t) * c - _trace(b, t) * of_h
    return result + b @ t.mT @ of_h - both @ t.mT @ c + d @ t.mT @ of_e - i @ t.mT @ bends


def _trace(a: Any, t: Any) -> Any:
    return (a * t).sum((-2, -1))[..., None, None]


def _cofactor_bends(a: Any, t: Any, e: Any) -> Any:
    """Return the second derivative of the cofactors in two directions: a third derivative of `det`, symmetric in all arguments.

    `det(u vh) conj(u) r conj(vh)`, `x = u^H t v`, `y = u^H e v`; `p_ijk` is the product of all s except `s_i`, `s_j` and `s_k`.
    `r_ij = sum_k p_ijk (x_jk y_ki + y_jk x_ki - x_ji y_kk - y_ji x_kk)`. The diagonal is the sum over the pairs `j < k` of
    `p_ijk (x_jj y_kk + y_jj x_kk - x_jk y_kj - y_jk x_kj)`, the terms of 3 x 3 determinants.
    """
    total = a + t + e
    n = total.shape[-1]
    if n == 0:
        return np.zeros_like(total)
    u, s, vh = np.linalg.svd(a)
    x, y = (u.conj().mT @ direction @ vh.conj().mT for direction in (t, e))
    core = np.zeros_like(x + y)
    places = np.arange(n)
    for k in places:
        kept = (places != k).astype(s.dtype)
        p = _without_pairs(np.where(places == k, 1, s)) * kept * kept[:, None]
        xk, yk = x[..., k, k][..., None], y[..., k, k][..., None]
        across = y[..., k, :, None] * x[..., None, :, k] + x[..., k, :, None] * y[..., None, :, k]
        core += p * (across - x.mT * yk[..., None] - y.mT * xk[..., None])
        diagonal = np.diagonal(x, 0, -2, -1) * yk + np.diagonal(y, 0, -2, -1) * xk
        diagonal = diagonal - x[..., :, k] * y[..., k, :] - y[..., :, k] * x[..., k, :]
        core[..., places, places] += 0.5 * (p @ diagonal[..., None])[..., 0]
    return np.linalg.det(u @ vh)[..., None, None] * (u.conj() @ core @ vh.conj())


cofactor_bends: Primitive = general(
    _cofactor_bends,
    _fourth_derivative,
    lambda g, a, e: cofactor_bends(a, g, e),
    lambda g, a, t: cofactor_bends(a, g, t),
    jvps=(_fourth_derivative, lambda h, a, e: cofactor_bends(a, h, e), lambda h, a, t: cofactor_bends(a, t, h)),
    spec=same_inexact,
    samples=_direction_samples(2),
    doc="the fourth derivative of det; not for singular matrices",
    name="cofactor_bends",
    internal=True,
    decomposition=True,
    batch=stacked,
)
cofactor_slopes: Primitive = general(
    _cofactor_slopes,
    lambda g, a, t: cofactor_bends(a, t, g),
    lambda g, a: cofactor_slopes(a, g),
    jvps=(lambda e, a, t: cofactor_bends(a, t, e), lambda t, a: cofactor_slopes(a, t)),
    spec=same_inexact,
    samples=_direction_samples(1),
    doc="the third derivative of det, for singular matrices too",
    name="cofactor_slopes",
    internal=True,
    decomposition=True,
    batch=stacked,
)
cofactors: Primitive = general(
    _cofactors,
    lambda g, a: cofactor_slopes(a, g),
    jvps=(lambda t, a: cofactor_slopes(a, t),),
    spec=same_inexact,
    samples=SQUARES,
    doc="of c = det(a) a^-T: dc = sum(a^-T da) c - a^-T da^T c, for singular matrices too",
    dependence="matrix",
    name="cofactors",
    internal=True,
    decomposition=Branches(
        lambda a: np.all(np.linalg.det(a) != 0), lambda a: _by_inverse(a, np.linalg.det(a)), _by_singular_values
    ),
    batch=stacked,
)


def _det_spec(a: Any) -> ArraySpec:
    spec = spec_of(a)
    return ArraySpec(spec.shape[:-2], inexact(spec.dtype))


DET: Primitive = general(
    np.linalg.det,
    lambda g, a: g[..., None, None] * cofactors(a),
    jvps=(lambda t, a: (cofactors(a) * t).sum((-2, -1)),),
    spec=_det_spec,
    samples=SQUARES,
    doc="d det(a) = sum(cofactors da), for singular matrices too",
    front=lambda a: DET(matrix(a, "det", square=True)),
    conditioned=True,
    batch=stacked,
    dependence="matrix",
)

_SlogdetResult: Any = type(np.linalg.slogdet(np.ones((1, 1))))


def _slogdet_vjp(g: Any, a: Any, out: Any) -> Any:
    """`(g_log + i Im(g_sign s)) a^-T`; the second term is 0 for real matrices."""
    of_sign, of_log = g
    if dtype_of(a).kind == "c":
        of_log = of_log + 1j * (of_sign * out[0]).imag
    return of_log[..., None, None] * inverse(a, of="the derivative of slogdet", limit=np.inf).mT


def _slogdet_jvp(t: Any, a: Any, out: Any) -> Any:
    """`(i s Im(z), Re(z))` with `z = tr(a^-1 t)`."""
    z = (inverse(a, of="the derivative of slogdet", limit=np.inf).mT * t).sum((-2, -1))
    if dtype_of(a).kind != "c":
        return out[0] * 0, z
    return 1j * out[0] * z.imag, z.real


def _slogdet_spec(a: Any) -> Any:
    spec = _det_spec(a)
    return _SlogdetResult(spec, ArraySpec(spec.shape, real_dtype(spec.dtype)))


SLOGDET: Primitive = general(
    np.linalg.slogdet,
    _slogdet_vjp,
    jvps=(_slogdet_jvp,),
    spec=_slogdet_spec,
    multiple=True,
    samples=SQUARES,
    doc="d log|det(a)| = Re(tr(a^-1 da)); d sign = i sign Im(tr(a^-1 da))",
    front=lambda a: SLOGDET(matrix(a, "slogdet", square=True)),
    conditioned=True,
    batch=stacked,
    dependence="matrix",
)
