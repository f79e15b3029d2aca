"""Determinants, after M. Giles, "Collected matrix derivative results" (2008), section 2.2.3; see `linalg`."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec, dtype_of, spec_of
from functad.primitives.batching import stacked
from functad.primitives.kinds import general
from functad.primitives.linalg import INV, SQUARES, inexact, matrix, real_dtype, regular, same_inexact
from functad.primitives.primitive import Primitive
from functad.primitives.reductions import others


def cofactors(a: Any) -> Any:
    """Return the derivative of the determinant by each element, which singular matrices have too."""
    return COFACTORS(a)


def _cofactors(a: Any) -> Any:
    det = np.linalg.det(a)
    if np.all(det != 0):
        return det[..., None, None] * np.linalg.inv(a).mT
    u, s, vh = np.linalg.svd(a)
    return np.linalg.det(u @ vh)[..., None, None] * ((u.conj() * others(s, s.ndim - 1)[..., None, :]) @ vh.conj())


def cofactor_slopes(a: Any, t: Any) -> Any:
    """Return the derivative of the cofactors in the direction `t`; a second derivative of `det`: its own transpose."""
    return COFACTOR_SLOPES(a, t)


def _without_pairs(s: Any) -> Any:
    """Return the products of all elements but two, and zero on the diagonal."""
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
    """`det(u vh) conj(u) (diag(p diag(x)) - p x^T) conj(vh)`, `x = u^H t v`, `p_ij` the product of all s_k but s_i and s_j.

    There is no division, so singular matrices have it too.
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


def _third_derivative(e: Any, a: Any, t: Any) -> Any:
    """Return the derivative of `cofactor_slopes(a, t) = sum(a^-T t) c - a^-T t^T c` by a, where c are cofactors, along `e`."""
    inverse, c, slopes = INV(a).mT, cofactors(a), cofactor_slopes(a, e)
    both = inverse @ e.mT @ inverse
    of_traces = (inverse * t).sum((-2, -1))[..., None, None] * slopes - (both * t).sum((-2, -1))[..., None, None] * c
    return of_traces + both @ t.mT @ c - inverse @ t.mT @ slopes


COFACTOR_SLOPES: Primitive = general(
    cofactor_slopes,
    _third_derivative,
    lambda g, a: cofactor_slopes(a, g),
    jvps=(_third_derivative, lambda t, a: cofactor_slopes(a, t)),
    compute=_cofactor_slopes,
    spec=lambda a, t: ArraySpec(spec_of(a).shape, inexact(spec_of(a).dtype, spec_of(t).dtype)),
    samples=lambda array: [
        ((regular(array, *shape), array(*shape)), {}) for shape in ((3, 3), (2, 2, 2), (1, 1), (4, 4), (0, 0), (0, 2, 2))
    ],
    internal=True,
    doc="the third derivative of det; not for singular matrices",
)
COFACTOR_SLOPES.batch = stacked


COFACTORS: Primitive = general(
    cofactors,
    lambda g, a: cofactor_slopes(a, g),
    jvps=(lambda t, a: cofactor_slopes(a, t),),
    compute=_cofactors,
    spec=same_inexact,
    samples=SQUARES,
    internal=True,
    doc="of c = det(a) a^-T: dc = sum(a^-T da) c - a^-T da^T c, for singular matrices too",
)
COFACTORS.batch = stacked


def _det(a: Any) -> Any:
    return np.linalg.det(a)


def _det_spec(a: Any) -> ArraySpec:
    spec = spec_of(a)
    return ArraySpec(spec.shape[:-2], inexact(spec.dtype))


DET = general(
    np.linalg.det,
    lambda g, a: g[..., None, None] * cofactors(a),
    jvps=(lambda t, a: (cofactors(a) * t).sum((-2, -1)),),
    compute=_det,
    spec=_det_spec,
    samples=SQUARES,
    doc="d det(a) = sum(cofactors da), for singular matrices too",
)
DET.front = lambda a: DET(matrix(a, "det", square=True))
DET.batch = stacked

_SlogdetResult: Any = type(np.linalg.slogdet(np.ones((1, 1))))


def _slogdet(a: Any) -> Any:
    return np.linalg.slogdet(a)


def _slogdet_vjp(g: Any, a: Any, out: Any) -> Any:
    """`g a^-T` of the logarithm; that of the sign is `i s Im(tr(a^-1 da))`, and 0 for real matrices."""
    of_sign, of_log = g
    if dtype_of(a).kind == "c":
        of_log = of_log + 1j * (of_sign * out[0]).imag
    return of_log[..., None, None] * INV(a).mT


def _slogdet_jvp(t: Any, a: Any, out: Any) -> Any:
    """`(i s Im(z), Re(z))` with `z = tr(a^-1 t)`."""
    z = (INV(a).mT * t).sum((-2, -1))
    if dtype_of(a).kind != "c":
        return out[0] * 0, z
    return 1j * out[0] * z.imag, z.real


def _slogdet_spec(a: Any) -> Any:
    spec = _det_spec(a)
    return _SlogdetResult(spec, ArraySpec(spec.shape, real_dtype(spec.dtype)))


SLOGDET = general(
    np.linalg.slogdet,
    _slogdet_vjp,
    jvps=(_slogdet_jvp,),
    compute=_slogdet,
    spec=_slogdet_spec,
    multiple=True,
    samples=SQUARES,
    doc="d log|det(a)| = Re(tr(a^-1 da)); d sign = i sign Im(tr(a^-1 da))",
)
SLOGDET.front = lambda a: SLOGDET(matrix(a, "slogdet", square=True))
SLOGDET.batch = stacked
