"""Beta functions, and incomplete gamma and beta functions with their inverses.

The derivative of an incomplete function is the integrand with respect to the variable, and an integral over a tail with respect
to a parameter.
"""

from __future__ import annotations

from scipy import special

from functad.primitives.safe import product
from functad.primitives.scipy_special.declaration import special_function
from functad.primitives.scipy_special.densities import beta_density, betainc_by_a, betainc_by_b, gamma_density, gammainc_by_a
from functad.primitives.scipy_special.inverses import Partials

_POSITIVE = (0.6, 3.0)
_UNIT = (0.15, 0.85)
_SHAPE = (1.0, 3.0)
_INNER = (0.25, 0.75)

special_function(
    "beta",
    lambda g, x, y, out: product(g, out * (special.psi(x) - special.psi(x + y))),
    lambda g, x, y, out: product(g, out * (special.psi(y) - special.psi(x + y))),
    arguments=[_POSITIVE, _POSITIVE],
    doc="d B(a, b) = B(a, b) ((psi(a) - psi(a+b)) da + (psi(b) - psi(a+b)) db)",
)
special_function(
    "betaln",
    lambda g, x, y: product(g, special.psi(x) - special.psi(x + y)),
    lambda g, x, y: product(g, special.psi(y) - special.psi(x + y)),
    arguments=[_POSITIVE, _POSITIVE],
    doc="d log B(a, b) = (psi(a) - psi(a+b)) da + (psi(b) - psi(a+b)) db",
)

GAMMA = Partials("gammainc(a, x)", gammainc_by_a, gamma_density)
GAMMA.enter(
    [_POSITIVE, _POSITIVE],
    "dP(a, x) = E[log t - psi(a); t < x] da + x^(a-1) exp(-x) / gamma(a) dx, of the gamma distribution",
    "gammaincc",
)
GAMMA.invert("gammaincinv", "x", [_POSITIVE, _UNIT])
GAMMA.invert("gammainccinv", "x", [_POSITIVE, _UNIT], complement=True)

BETA = Partials("betainc(a, b, x)", betainc_by_a, betainc_by_b, beta_density)
BETA.enter(
    [_POSITIVE, _POSITIVE, _UNIT],
    "dI_x(a, b) = E[log t - E log t; t < x] da + E[log(1-t) - E log(1-t); t < x] db + the beta density dx",
    "betaincc",
)
BETA.invert("betaincinv", "x", [_POSITIVE, _POSITIVE, _UNIT])
BETA.invert("betainccinv", "x", [_POSITIVE, _POSITIVE, _UNIT], complement=True)
BETA.invert("btdtria", "a", [_INNER, _SHAPE, _INNER], limit=1e99)
BETA.invert("btdtrib", "b", [_SHAPE, _INNER, _INNER], limit=1e99)
