"""Determinants, after M. Giles, "Collected matrix derivative results" (2008), section 2.2.3; see `linalg`."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec, dtype_of, spec_of
from functad.primitives.kinds import general
from functad.primitives.linalg import INV, SQUARES, inexact, matrix, real_dtype, same_inexact
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


def _cofactors_vjp(g: Any, a: Any, out: Any) -> Any:
    """`sum(g c) a^-T - c g^T a^-T`, where `c` is the result."""
    inverse = INV(a).mT
    return (g * out).sum((-2, -1))[..., None, None] * inverse - out @ g.mT @ inverse


def _cofactors_jvp(t: Any, a: Any, out: Any) -> Any:
    """`sum(a^-T t) c - a^-T t^T c`, where `c` is the result."""
    inverse = INV(a).mT
    return (inverse * t).sum((-2, -1))[..., None, None] * out - inverse @ t.mT @ out


COFACTORS: Primitive = general(
    cofactors,
    _cofactors_vjp,
    jvps=(_cofactors_jvp,),
    compute=_cofactors,
    spec=same_inexact,
    samples=SQUARES,
    internal=True,
    doc="of c = det(a) a^-T: dc = sum(a^-T da) c - a^-T da^T c; not for singular matrices",
)


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
    doc="d det(a) = sum(cofactors da), for singular matrices too; those have no second derivative here",
)
DET.front = lambda a: DET(matrix(a, "det", square=True))

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
