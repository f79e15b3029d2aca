"""Real and imaginary parts, conjugates, angles and signs of complex numbers.

A cotangent `g` and a tangent `t` are paired as `Re(g t)`, without conjugation. A real-valued function with differential
`Re(c dx)` therefore has the VJP rule `g * c`, and the rule of the conjugate is the conjugate.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functad.expressions.spec import ArraySpec, dtype_of, spec_of, strong_spec
from functad.primitives import batching
from functad.primitives.elementwise.conversion import array_of_number
from functad.primitives.kinds import broadcasting_samples, composite, constant, elementwise, linear, shaped_as_argument
from functad.primitives.operands import strong
from functad.primitives.safe import inverse

_ONE = broadcasting_samples(((-2.0, 2.0),))
_BOOL = np.dtype(np.bool_)


def _imag_vjp(g: Any, val_dtype: Any) -> Any:
    """Return `-i g`, because `Im(x) = Re(-i x)`. The cotangent of a real argument is a real zero."""
    return g * -1j if val_dtype.kind == "c" else np.zeros_like(g)


def _part_spec(val: Any) -> ArraySpec:
    spec = spec_of(val)
    if spec.weak and spec.dtype.kind == "b":  # True.real is an integer
        return spec_of(0)
    return ArraySpec(spec.shape, spec.dtype.type(0).real.dtype, spec.weak)


REAL = linear(
    np.real,
    lambda g: g,
    compute=lambda val: val.real,
    spec=_part_spec,
    samples=_ONE,
    doc="d Re(x) = Re(dx)",
    views="always",
    batch=batching.elementwise,
    dependence="same",
)
IMAG = linear(
    np.imag,
    _imag_vjp,
    compute=lambda val: val.imag,
    spec=_part_spec,
    samples=_ONE,
    doc="d Im(x) = Im(dx)",
    views="always",
    batch=batching.elementwise,
    dependence="same",
)
CONJUGATE = elementwise(np.conjugate, lambda g: g.conj(), doc="d conj(x) = conj(dx)", curvature="none", exact=True)


def _complex_sign_vjp(g: Any, x: Any, out: Any) -> Any:
    """Return `i conj(s) Im(s g) / |x|` with `s = x/|x|`, from `ds = i s Im(conj(s) dx) / |x|`; 0 at x = 0."""
    return 1j * (out.conj() * (out * g).imag) * inverse(np.absolute(x))


def _complex_sign_jvp(t: Any, x: Any, out: Any) -> Any:
    """Return `i s Im(conj(s) t) / |x|` with `s = x/|x|`; 0 at x = 0."""
    return 1j * (out * (out.conj() * t).imag) * inverse(np.absolute(x))


COMPLEX_SIGN = elementwise(
    np.sign,
    _complex_sign_vjp,
    jvps=(_complex_sign_jvp,),
    name="complex_sign",
    spec=strong_spec,
    samples=lambda array: [((array() + 1j * array(),), {}), ((array(3) + 1j * array(3),), {}), ((1j * array(0),), {})],
    internal=True,
    doc="d(x / |x|) = i s Im(conj(s) dx) / |x| with s = x / |x|; 0 at x = 0",
)
REAL_SIGN = constant(
    np.sign,
    spec=strong_spec,
    samples=_ONE,
    complex=False,
    internal=True,
    doc="piecewise constant: the derivative is 0, at x = 0 too",
    jumps=lambda x: x,
    flat=elementwise(
        np.sign,
        lambda g: g * 0,
        spec=strong_spec,
        samples=_ONE,
        complex=False,
        registered=False,
        doc="as the sign; the derivative is a zero that is computed",
    ),
)


@composite(np.sign, doc="real: piecewise constant, the derivative is 0, at 0 too; complex: that of x / |x|", samples=_ONE)
def sign(x: Any, /) -> Any:
    """Return -1, 0 or 1 for real x, and `x / |x|` for complex x."""
    return COMPLEX_SIGN(x) if dtype_of(x).kind == "c" else REAL_SIGN(x)


@composite(
    np.angle,
    doc="d angle(z) = Im(dz / z); 0 at z = 0",
    samples=lambda array: [
        ((array(2, 3),), {}), ((array(3),), {"deg": True}), ((array(low=0.5),), {}), ((array(0),), {}),
    ],
)  # fmt: skip
def angle(z: Any, deg: bool = False) -> Any:
    """Return the argument of a complex number, in radians or degrees."""
    result = np.arctan2(z.imag, z.real) if dtype_of(z).kind == "c" else np.arctan2(0, z)
    return result * (180 / math.pi) if deg else result


for _function in (np.iscomplex, np.isreal):
    constant(_function, doc="the result is boolean", spec=shaped_as_argument(_BOOL), samples=_ONE, batch=batching.elementwise)


@composite(
    np.real_if_close,
    doc="the derivative of the real part where that is returned, else of the identity",
    samples=lambda array: [((array(3),), {}), ((array(3),), {"tol": 1e6}), ((array(2).real + 0j,), {"tol": 1e13})],
    value_dependent=True,
)
def real_if_close(a: Any, tol: float = 100) -> Any:
    """Return the real part if all imaginary parts are within `tol` of zero (`tol` > 1: times the machine epsilon)."""
    a, dtype = array_of_number(strong(a)), dtype_of(a)
    if dtype.kind != "c":
        return a
    if tol > 1:
        tol = float(np.finfo(dtype).eps) * tol
    return a.real if bool((np.absolute(a.imag) < tol).all()) else a
