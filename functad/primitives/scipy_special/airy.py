"""Airy, Kelvin and parabolic cylinder functions, and integrals of Airy, Bessel and Struve functions.

SciPy returns solutions of second-order equations together with their derivatives. The equation gives the second derivative.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from functad.errors import UnsupportedError
from functad.expressions.spec import dtype_of
from functad.places import here
from functad.primitives.entry import Rule
from functad.primitives.safe import inverse, product
from functad.primitives.scipy_special.declaration import several_functions, special_function

_X = (0.5, 4.0)

several_functions(
    "airy",
    lambda x, out: (out[1], x * out[0], out[3], x * out[2]),
    arguments=[(-3.0, 2.0)],
    complex=True,
    doc="dAi = Ai' dx, dAi' = x Ai dx, and Bi likewise",
)


def _scaled_airy(x: Any, out: Any) -> tuple[Any, ...]:
    """Derivatives of `Ai exp(z)` and `Bi exp(-z)`, `z = 2/3 x^(3/2)`; for x < 0, `Ai exp(z)` is not real and Bi not scaled."""
    root = np.sqrt(x)
    shrink = np.sqrt(np.maximum(x, 0))
    return (
        out[1] + root * out[0],
        x * out[0] + root * out[1],
        out[3] - shrink * out[2],
        x * out[2] - shrink * out[3],
    )


def airye(z: Any) -> Any:
    """`special.airye` for real numbers.

    Raises:
        UnsupportedError: `z` is complex.
    """
    if dtype_of(z).kind == "c":
        raise UnsupportedError(
            f"scipy.special.airye of a complex Tensor, at {here()}, is not holomorphic and has no derivative rule. "
            f"Use scipy.special.airy(z), and scale its results."
        )
    return AIRYE(z)


AIRYE: Any = several_functions(
    "airye",
    _scaled_airy,
    arguments=[_X],
    doc="as airy, plus sqrt(x) times the function for Ai, minus it for Bi; real x",
    front=airye,
)
several_functions(
    "itairy",
    lambda x: tuple([special.airy(s * x)[i] for s, i in ((1, 0), (1, 2), (-1, 0), (-1, 2))]),
    arguments=[(0.2, 1.0)],  # SciPy is exact to only five digits elsewhere
    doc="the integrands Ai(x), Bi(x), Ai(-x), Bi(-x)",
)
several_functions("itj0y0", lambda x: (special.j0(x), special.y0(x)), arguments=[_X], doc="the integrands J0(x), Y0(x)")
several_functions("iti0k0", lambda x: (special.i0(x), special.k0(x)), arguments=[_X], doc="the integrands I0(x), K0(x)")
special_function("itstruve0", lambda g, x: g * special.struve(0, x), arguments=[_X], doc="the integrand H0(x)")
special_function("itmodstruve0", lambda g, x: product(g, special.modstruve(0, x)), arguments=[_X], doc="the integrand L0(x)")
special_function(
    "it2struve0",
    lambda g, x: product(g, np.where(x == 0, -2 / np.pi, -special.struve(0, x) / np.where(x == 0, 1, x))),
    arguments=[_X],
    doc="-H0(x) / x dx",
)


def _distance_from_one(x: Any, sign: int) -> Any:
    """`(1 - J0(x)) / x` (sign 1), `(I0(x) - 1) / x` (sign -1); `1 = J0 + 2 J2 + 2 J4 + ...` avoids cancellation near 0."""
    bessel = special.jv if sign == 1 else special.iv
    near = np.absolute(x) < 2
    y, z = np.where(near, x, 1), np.where(near, 2, x)
    total: Any = 0.0
    for k in range(1, 10):
        total = total + (sign ** (k + 1)) * (bessel(2 * k - 1, y) + sign * bessel(2 * k + 1, y)) / (2 * k)
    return np.where(near, total, (1 - bessel(0, z)) * sign / z)


several_functions(
    "it2j0y0",
    lambda x: (_distance_from_one(x, 1), -special.y0(x) / x),
    arguments=[_X],
    doc="the integrands (1 - J0(x)) / x and -Y0(x) / x",
)
several_functions(
    "it2i0k0",
    lambda x: (_distance_from_one(x, -1), -special.k0(x) / x),
    arguments=[_X],
    doc="the integrands (I0(x) - 1) / x and -K0(x) / x",
)

# Kelvin functions: ber + i bei solves `f'' + f'/x = i f`

_BY_DERIVATIVE: list[tuple[str, Rule, str]] = [
    ("ber", lambda g, x: product(g, special.berp(x)), "d ber = berp dx"),
    ("bei", lambda g, x: product(g, special.beip(x)), "d bei = beip dx"),
    ("ker", lambda g, x: product(g, special.kerp(x)), "d ker = kerp dx"),
    ("kei", lambda g, x: product(g, special.keip(x)), "d kei = keip dx"),
    ("berp", lambda g, x, out: -product(g, special.bei(x) + out * inverse(x)), "d berp = -(bei + berp/x) dx; 0 at 0"),
    (
        "beip",
        lambda g, x, out: product(g, special.ber(x) - out * inverse(x) - 0.5 * (x == 0)),
        "d beip = (ber - beip/x) dx; 1/2 at 0",
    ),
    ("kerp", lambda g, x, out: -product(g, special.kei(x) + out / x), "d kerp = -(kei + kerp/x) dx"),
    ("keip", lambda g, x, out: product(g, special.ker(x) - out / x), "d keip = (ker - keip/x) dx"),
]
for _name, _rule, _doc in _BY_DERIVATIVE:
    special_function(_name, _rule, arguments=[_X], doc=_doc)
several_functions(
    "kelvin",
    lambda x, out: (out[2], out[3], 1j * out[0] - out[2] / x, 1j * out[1] - out[3] / x),
    arguments=[_X],
    doc="dBe = Bep dx, dKe = Kep dx, dBep = (i Be - Bep/x) dx, dKep = (i Ke - Kep/x) dx",
)

# Parabolic cylinder functions

for _name in ("pbdv", "pbvv"):
    several_functions(
        _name,
        lambda v, x, out: (out[1], (x * x / 4 - v - 0.5) * out[0]),
        arguments=[[0.5, 1.25, -0.5], (0.5, 2.0)],
        names=("v", "x"),
        doc="dD = D' dx, dD' = (x^2/4 - v - 1/2) D dx",
    )
several_functions(
    "pbwa",
    lambda a, x, out: (out[1], (a - x * x / 4) * out[0]),
    arguments=[[0.5, 1.25, -0.5], (0.5, 2.0)],
    names=("a", "x"),
    doc="dW = W' dx, dW' = (a - x^2/4) W dx",
)
