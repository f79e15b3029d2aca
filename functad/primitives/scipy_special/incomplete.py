"""Beta functions, and incomplete gamma and beta functions with their inverses.

In its variable an incomplete function has the integrand as its derivative, in its parameters an integral over a tail.
"""

from __future__ import annotations

from scipy import special

from functad.primitives.safe import product, quotient
from functad.primitives.scipy_special.declaration import special_function
from functad.primitives.scipy_special.densities import beta_density, betainc_by_a, betainc_by_b, gamma_density, gammainc_by_a

_POSITIVE = (0.6, 3.0)
_UNIT = (0.15, 0.85)

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
    lambda g, a, x: product(g, gammainc_by_a(a, x)),
    lambda g, a, x: product(g, gamma_density(a, x)),
    arguments=[_POSITIVE, _POSITIVE],
    names=("a", "x"),
    doc="dP(a, x) = E[log t - psi(a); t < x] da + x^(a-1) exp(-x) / gamma(a) dx, of the gamma distribution",
)
special_function(
    "gammaincc",
    lambda g, a, x: -product(g, gammainc_by_a(a, x)),
    lambda g, a, x: -product(g, gamma_density(a, x)),
    arguments=[_POSITIVE, _POSITIVE],
    names=("a", "x"),
    doc="dQ(a, x) = -dP(a, x)",
)
special_function(
    "gammaincinv",
    lambda g, a, out: -quotient(product(g, gammainc_by_a(a, out)), gamma_density(a, out)),
    lambda g, a, out: quotient(g, gamma_density(a, out)),
    arguments=[_POSITIVE, _UNIT],
    names=("a", "y"),
    doc="the inverse in x: dx = (dy - dP/da da) / (x^(a-1) exp(-x) / gamma(a))",
)
special_function(
    "gammainccinv",
    lambda g, a, out: -quotient(product(g, gammainc_by_a(a, out)), gamma_density(a, out)),
    lambda g, a, out: -quotient(g, gamma_density(a, out)),
    arguments=[_POSITIVE, _UNIT],
    names=("a", "y"),
    doc="the inverse in x: dx = (-dy - dP/da da) / (x^(a-1) exp(-x) / gamma(a))",
)
special_function(
    "betainc",
    lambda g, a, b, x: product(g, betainc_by_a(a, b, x)),
    lambda g, a, b, x: product(g, betainc_by_b(a, b, x)),
    lambda g, a, b, x: product(g, beta_density(a, b, x)),
    arguments=[_POSITIVE, _POSITIVE, _UNIT],
    names=("a", "b", "x"),
    doc="dI_x(a, b) = E[log t - E log t; t < x] da + E[log(1-t) - E log(1-t); t < x] db + the beta density dx",
)
special_function(
    "betaincc",
    lambda g, a, b, x: -product(g, betainc_by_a(a, b, x)),
    lambda g, a, b, x: -product(g, betainc_by_b(a, b, x)),
    lambda g, a, b, x: -product(g, beta_density(a, b, x)),
    arguments=[_POSITIVE, _POSITIVE, _UNIT],
    names=("a", "b", "x"),
    doc="minus the derivatives of betainc",
)
special_function(
    "betaincinv",
    lambda g, a, b, out: -quotient(product(g, betainc_by_a(a, b, out)), beta_density(a, b, out)),
    lambda g, a, b, out: -quotient(product(g, betainc_by_b(a, b, out)), beta_density(a, b, out)),
    lambda g, a, b, out: quotient(g, beta_density(a, b, out)),
    arguments=[_POSITIVE, _POSITIVE, _UNIT],
    names=("a", "b", "y"),
    doc="the inverse in x: dx = (dy - dI/da da - dI/db db) / (x^(a-1) (1-x)^(b-1) / B(a, b))",
)
special_function(
    "betainccinv",
    lambda g, a, b, out: -quotient(product(g, betainc_by_a(a, b, out)), beta_density(a, b, out)),
    lambda g, a, b, out: -quotient(product(g, betainc_by_b(a, b, out)), beta_density(a, b, out)),
    lambda g, a, b, out: -quotient(g, beta_density(a, b, out)),
    arguments=[_POSITIVE, _POSITIVE, _UNIT],
    names=("a", "b", "y"),
    doc="the inverse in x: dx = (-dy - dI/da da - dI/db db) / (x^(a-1) (1-x)^(b-1) / B(a, b))",
)
