"""Beta functions, incomplete gamma and beta functions with their inverses, and the Hurwitz and Riemann zeta functions.

In its variable an incomplete function has the integrand as its derivative; in its parameters there is no closed form.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from functad.primitives.safe import product, quotient
from functad.primitives.scipy_special.declaration import special_function, unknown

_POSITIVE = (0.6, 3.0)
_PARAMETERS = [1.5, 0.75, 2.5]
_OTHERS = [0.8, 2.25, 1.25]
_UNIT = (0.15, 0.85)


def gamma_density(a: Any, x: Any) -> Any:
    """Return `x^(a-1) exp(-x) / gamma(a)`."""
    return np.exp(special.xlogy(a - 1, x) - x - special.gammaln(a))


def beta_density(a: Any, b: Any, x: Any) -> Any:
    """Return `x^(a-1) (1-x)^(b-1) / beta(a, b)`."""
    return np.exp(special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - special.betaln(a, b))


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

special_function(
    "gammainc",
    unknown("gammainc", "a"),
    lambda g, a, x: product(g, gamma_density(a, x)),
    arguments=[_PARAMETERS, _POSITIVE],
    names=("a", "x"),
    doc="d P(a, x) = x^(a-1) exp(-x) / gamma(a) dx",
)
special_function(
    "gammaincc",
    unknown("gammaincc", "a"),
    lambda g, a, x: -product(g, gamma_density(a, x)),
    arguments=[_PARAMETERS, _POSITIVE],
    names=("a", "x"),
    doc="d Q(a, x) = -x^(a-1) exp(-x) / gamma(a) dx",
)
special_function(
    "gammaincinv",
    unknown("gammaincinv", "a"),
    lambda g, a, out: quotient(g, gamma_density(a, out)),
    arguments=[_PARAMETERS, _UNIT],
    names=("a", "y"),
    doc="the inverse in x: dx = dy / (x^(a-1) exp(-x) / gamma(a))",
)
special_function(
    "gammainccinv",
    unknown("gammainccinv", "a"),
    lambda g, a, out: -quotient(g, gamma_density(a, out)),
    arguments=[_PARAMETERS, _UNIT],
    names=("a", "y"),
    doc="the inverse in x: dx = -dy / (x^(a-1) exp(-x) / gamma(a))",
)
special_function(
    "betainc",
    unknown("betainc", "a"),
    unknown("betainc", "b"),
    lambda g, a, b, x: product(g, beta_density(a, b, x)),
    arguments=[_PARAMETERS, _OTHERS, _UNIT],
    names=("a", "b", "x"),
    doc="d I_x(a, b) = x^(a-1) (1-x)^(b-1) / B(a, b) dx",
)
special_function(
    "betaincc",
    unknown("betaincc", "a"),
    unknown("betaincc", "b"),
    lambda g, a, b, x: -product(g, beta_density(a, b, x)),
    arguments=[_PARAMETERS, _OTHERS, _UNIT],
    names=("a", "b", "x"),
    doc="d(1 - I_x(a, b)) = -x^(a-1) (1-x)^(b-1) / B(a, b) dx",
)
special_function(
    "betaincinv",
    unknown("betaincinv", "a"),
    unknown("betaincinv", "b"),
    lambda g, a, b, out: quotient(g, beta_density(a, b, out)),
    arguments=[_PARAMETERS, _OTHERS, _UNIT],
    names=("a", "b", "y"),
    doc="the inverse in x: dx = dy / (x^(a-1) (1-x)^(b-1) / B(a, b))",
)
special_function(
    "betainccinv",
    unknown("betainccinv", "a"),
    unknown("betainccinv", "b"),
    lambda g, a, b, out: -quotient(g, beta_density(a, b, out)),
    arguments=[_PARAMETERS, _OTHERS, _UNIT],
    names=("a", "b", "y"),
    doc="the inverse in x: dx = -dy / (x^(a-1) (1-x)^(b-1) / B(a, b))",
)
special_function(
    "_zeta",
    unknown("zeta", "x"),
    lambda g, x, q: -product(g, special.zeta(x + 1, q) * x),
    arguments=[[2.5, 3.0, 1.5], _POSITIVE],
    names=("x", "q"),
    doc="d zeta(x, q) = -x zeta(x+1, q) dq",
)
