"""The zeta functions of Riemann and Hurwitz for real numbers.

The derivative with respect to s is the derivative of each term of the Euler-Maclaurin sum (NIST Digital Library of Mathematical
Functions, 25.11.7).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from functad.errors import UnsupportedError
from functad.expressions.spec import dtype_of
from functad.places import here
from functad.primitives.kinds import ufunc_spec
from functad.primitives.safe import product
from functad.primitives.scipy_special.declaration import find_ufunc, special_function

_TERMS = 12
# B_2j / (2j)!
_COEFFICIENTS = [float(b) / math.factorial(2 * j) for j, b in enumerate(special.bernoulli(28)[2::2], 1)]


def hurwitz_by_s(s: Any, q: Any) -> Any:
    """Return the derivative of `sum over k from 0 of (k + q)^-s` with respect to s, continued to s > -5.

    It uses the Euler-Maclaurin formula after 12 terms (DLMF 25.11.5, differentiated), with 14 Bernoulli numbers.
    """
    total: Any = 0.0
    for k in range(_TERMS):
        log = np.log(q + k)
        total = total - log * np.exp(-s * log)
    w = q + _TERMS
    log = np.log(w)
    power = np.exp(-s * log)
    rest = s - 1
    total = total - power * w * (log / rest + 1 / (rest * rest)) - power * log / 2
    # The rising factorial `s (s+1) ... (s+2j-2)` and its derivative, over a power of w.
    rising, slope = s / w, 1 / w
    for j, c in enumerate(_COEFFICIENTS, 1):
        total = total + power * (slope - rising * log) * c
        for i in (2 * j - 1, 2 * j):
            rising, slope = rising * (s + i) / w, (slope * (s + i) + rising) / w
    return total


def riemann_slope(s: Any) -> Any:
    """Return the derivative of Riemann's zeta function; for s < 0 from the reflection formula (DLMF 25.4.1)."""
    below = s < 0
    right, left = np.where(below, 0.5, s), np.where(below, s, -0.5)
    angle = left * (math.pi / 2)
    other = special.zeta(1 - left)
    factor = np.exp((left - 1) * math.log(2 * math.pi) + special.gammaln(1 - left)) * 2
    turned = ((math.log(2 * math.pi) - special.psi(1 - left)) * other - hurwitz_by_s(1 - left, 1.0)) * np.sin(angle)
    return np.where(below, factor * (turned + other * np.cos(angle) * (math.pi / 2)), hurwitz_by_s(right, 1.0))


def _real_only(name: str) -> dict[str, Any]:
    """Return traits of a ufunc that rejects complex numbers: the number of terms of its sums would depend on them."""
    function: Any = find_ufunc(name)

    def compute(*arguments: Any) -> Any:
        if any(dtype_of(x).kind == "c" for x in arguments):
            raise UnsupportedError(
                f"scipy.special.zeta of a complex Tensor, at {here()}, has no derivative rule. "
                f"Use a real argument, or functad.stop_gradient(x) if no derivative should flow through the call."
            )
        return function(*arguments)

    return {"operator": compute, "spec": ufunc_spec(function, keeps_weak=False)}


special_function(
    "_zeta",
    lambda g, x, q: product(g, hurwitz_by_s(x, q)),
    lambda g, x, q: -product(g, special.zeta(x + 1, q) * x),
    arguments=[(1.5, 4.0), (0.6, 3.0)],
    names=("x", "q"),
    doc="d zeta(x, q) = -sum log(k+q) (k+q)^-x dx - x zeta(x+1, q) dq",
    **_real_only("_zeta"),
)
for _name in ("_riemann_zeta", "zetac"):
    special_function(
        _name,
        lambda g, x: product(g, riemann_slope(x)),
        arguments=[(1.5, 4.0)],
        doc="d zeta(x) = -sum log(k) k^-x dx, and its continuation",
        **_real_only(_name),
    )
