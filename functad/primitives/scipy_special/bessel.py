"""Bessel functions of all kinds, their scaled forms, Struve functions, with derivatives with respect to the argument only.

The derivatives follow from recurrences such as `J_v' = (J_(v-1) - J_(v+1)) / 2` (DLMF 10.6, 10.29, 11.4), which hold for every
order and have no singularity at 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from functad.expressions.spec import dtype_of
from functad.primitives.entry import Rule
from functad.primitives.safe import product
from functad.primitives.scipy_special.declaration import find_ufunc, special_function, unknown

_X = (0.5, 4.0)
_ORDERS = [0, 1, 2, 3]

# Orders 0 and 1

for _name, _rule, _doc in (
    ("j0", lambda g, x: -product(g, special.j1(x)), "d J0 = -J1 dx"),
    ("j1", lambda g, x: product(g, (special.j0(x) - special.jv(2, x)) / 2), "d J1 = (J0 - J2) / 2 dx"),
    ("y0", lambda g, x: -product(g, special.y1(x)), "d Y0 = -Y1 dx"),
    ("y1", lambda g, x: product(g, (special.y0(x) - special.yn(2, x)) / 2), "d Y1 = (Y0 - Y2) / 2 dx"),
    ("i0", lambda g, x: product(g, special.i1(x)), "d I0 = I1 dx"),
    ("i1", lambda g, x: product(g, (special.i0(x) + special.iv(2, x)) / 2), "d I1 = (I0 + I2) / 2 dx"),
    ("k0", lambda g, x: -product(g, special.k1(x)), "d K0 = -K1 dx"),
    ("k1", lambda g, x: product(g, (special.k0(x) + special.kn(2, x)) / -2), "d K1 = -(K0 + K2) / 2 dx"),
    ("i0e", lambda g, x, out: product(g, special.i1e(x) - np.sign(x) * out), "d i0e = (i1e - sign(x) i0e) dx"),
    (
        "i1e",
        lambda g, x, out: product(g, (special.i0e(x) + special.ive(2, x)) / 2 - np.sign(x) * out),
        "d i1e = ((i0e + ive(2)) / 2 - sign(x) i1e) dx",
    ),
    ("k0e", lambda g, x, out: product(g, out - special.k1e(x)), "d k0e = (k0e - k1e) dx"),
    (
        "k1e",
        lambda g, x, out: product(g, out - (special.k0e(x) + special.kve(2, x)) / 2),
        "d k1e = (k1e - (k0e + kve(2)) / 2) dx",
    ),
):
    special_function(_name, _rule, arguments=[_X], doc=_doc)


# Any order. `factor` multiplies the difference (sign 1: f_(v-1) - f_(v+1)) or the sum (sign -1).


def _slope(name: str, v: Any, z: Any, sign: int, factor: float) -> Any:
    function = find_ufunc(name)
    above = function(v + 1, z)
    return factor * (function(v - 1, z) - above if sign == 1 else function(v - 1, z) + above)


def _enter(
    name: str, sign: int, factor: float, doc: str, scaling: complex = 0, *, complex: bool = True, whole: bool = False
) -> None:
    """Enter a function of order and argument.

    A scaling c, for the factor `exp(c z)`, adds a term `c f` to the derivative. `whole`: SciPy truncates the order.
    """

    def plain(g: Any, v: Any, z: Any) -> Any:
        return product(g, _slope(name, np.trunc(v) if whole else v, z, sign, factor))

    def scaled(g: Any, v: Any, z: Any, out: Any) -> Any:
        return product(g, _slope(name, v, z, sign, factor) + scaling * out)

    rule: Rule = scaled if scaling else plain
    special_function(name, rule, arguments=[_ORDERS, _X], names=("v", "z"), complex=complex, doc=doc)


_enter("jv", 1, 0.5, "dJ_v(z) = (J_(v-1) - J_(v+1)) / 2 dz")
_enter("yv", 1, 0.5, "dY_v(z) = (Y_(v-1) - Y_(v+1)) / 2 dz")
_enter("iv", -1, 0.5, "dI_v(z) = (I_(v-1) + I_(v+1)) / 2 dz")
_enter("kv", -1, -0.5, "dK_v(z) = -(K_(v-1) + K_(v+1)) / 2 dz")
_enter("hankel1", 1, 0.5, "dH_v(z) = (H_(v-1) - H_(v+1)) / 2 dz")
_enter("hankel2", 1, 0.5, "dH_v(z) = (H_(v-1) - H_(v+1)) / 2 dz")
_enter("kve", -1, -0.5, "K_v(z) exp(z): d = (f_v - (f_(v-1) + f_(v+1)) / 2) dz", 1)
_enter("hankel1e", 1, 0.5, "H_v(z) exp(-iz): d = ((f_(v-1) - f_(v+1)) / 2 - i f_v) dz", -1j)
_enter("hankel2e", 1, 0.5, "H_v(z) exp(iz): d = ((f_(v-1) - f_(v+1)) / 2 + i f_v) dz", 1j)
_enter("kn", -1, -0.5, "dK_n(x) = -(K_(n-1) + K_(n+1)) / 2 dx", complex=False, whole=True)
_enter("yn", 1, 0.5, "dY_n(x) = (Y_(n-1) - Y_(n+1)) / 2 dx", complex=False, whole=True)


def _enter_scaled_by_part(name: str, sign: int, doc: str, *, imaginary: bool) -> None:
    """Enter a function scaled by `exp(-|Im z|)` or `exp(-|Re z|)`. It is not holomorphic, so VJP and JVP differ."""

    def vjp(g: Any, v: Any, z: Any, out: Any) -> Any:
        ct = product(g, _slope(name, v, z, sign, 0.5))
        if dtype_of(z).kind != "c":
            return ct if imaginary else ct - product(g, np.sign(z) * out)
        if imaginary:
            return ct + 1j * np.sign(z.imag) * np.real(g * out)
        return ct - np.sign(z.real) * np.real(g * out)

    def jvp(t: Any, v: Any, z: Any, out: Any) -> Any:
        slope = _slope(name, v, z, sign, 0.5) * t
        if dtype_of(z).kind != "c":
            return slope if imaginary else slope - np.sign(z) * out * t
        return slope - (np.sign(z.imag) * t.imag if imaginary else np.sign(z.real) * t.real) * out

    rules = (unknown(name, "v"), jvp)
    special_function(name, vjp, jvps=rules, arguments=[_ORDERS, _X], names=("v", "z"), complex=True, doc=doc)


_enter_scaled_by_part("jve", 1, "J_v(z) exp(-|Im z|): real z as jv; not holomorphic", imaginary=True)
_enter_scaled_by_part("yve", 1, "Y_v(z) exp(-|Im z|): real z as yv; not holomorphic", imaginary=True)
_enter_scaled_by_part("ive", -1, "I_v(z) exp(-|Re z|): as iv, less sign(Re z) ive(z) Re dz; not holomorphic", imaginary=False)


# Struve functions and others


def _struve_term(v: Any, x: Any) -> Any:
    """`(x/2)^v / (2 sqrt(pi) gamma(v + 3/2))`."""
    return np.power(x / 2, v) * special.rgamma(v + 1.5) / (2 * math.sqrt(math.pi))


special_function(
    "struve",
    lambda g, v, x: product(g, _slope("struve", v, x, 1, 0.5) + _struve_term(v, x)),
    arguments=[_ORDERS, _X],
    names=("v", "x"),
    doc="dH_v(x) = (H_(v-1) - H_(v+1)) / 2 + (x/2)^v / (2 sqrt(pi) gamma(v + 3/2)) dx",
)
special_function(
    "modstruve",
    lambda g, v, x: product(g, _slope("modstruve", v, x, -1, 0.5) + _struve_term(v, x)),
    arguments=[_ORDERS, _X],
    names=("v", "x"),
    doc="dL_v(x) = (L_(v-1) + L_(v+1)) / 2 + (x/2)^v / (2 sqrt(pi) gamma(v + 3/2)) dx",
)
special_function(
    "besselpoly",
    lambda g, a, lmb, nu: product(g, special.besselpoly(a, lmb + 1, nu - 1) - special.besselpoly(a, lmb + 1, nu + 1)),
    unknown("besselpoly", "lmb"),
    unknown("besselpoly", "nu"),
    arguments=[_X, [0, 1, 2], [4, 3, 5]],
    names=("a", "lmb", "nu"),
    doc="d int_0^1 t^l J_n(2 a t) dt = int_0^1 t^(l+1) (J_(n-1) - J_(n+1))(2 a t) dt da",
)
special_function(
    "wright_bessel",
    lambda g, a, b, x: product(g, special.wright_bessel(a, a + b, x)),
    arguments=[[0.5, 1.0, 2.0], [1.0, 0.5, 2.0], _X],
    names=("a", "b", "x"),
    doc="d Phi(a, b; x) = Phi(a, a + b; x) dx",
)
special_function(
    "log_wright_bessel",
    lambda g, a, b, x, out: product(g, np.exp(special.log_wright_bessel(a, a + b, x) - out)),
    arguments=[[0.5, 1.0, 2.0], [1.0, 0.5, 2.0], _X],
    names=("a", "b", "x"),
    doc="d log Phi(a, b; x) = Phi(a, a + b; x) / Phi(a, b; x) dx",
)


# Spherical Bessel functions: both kinds solve `f'' = -2/z f' + (n (n+1) / z^2 -+ 1) f`, with + for the modified ones


def _enter_spherical(kind: str, sign: int, interval: tuple[float, float]) -> None:
    name = f"_spherical_{kind}n"
    function, slope = find_ufunc(name), find_ufunc(f"{name}_d")
    for own, rule, doc in (
        (name, lambda g, n, z: product(g, slope(n, z)), f"{name[1:]}'(n, z) dz"),
        (
            f"{name}_d",
            lambda g, n, z: product(g, function(n, z) * (n * (n + 1) / (z * z) + sign) - slope(n, z) * 2 / z),
            "by Bessel's equation",
        ),
    ):
        special_function(
            own,
            None,  # SciPy takes integers only for n
            rule,
            names=("n", "z"),
            arguments=[[np.int64(2), np.int64(0), np.int64(1)], interval],
            doc=doc,
            complex=True,
        )


for _kind, _sign in (("j", -1), ("y", -1), ("i", 1), ("k", 1)):
    _enter_spherical(_kind, _sign, (0.8, 3.0))
