"""Orthogonal polynomials and associated Legendre functions, differentiated in their variable.

The derivative is a polynomial of the next lower degree, of the same family or another, and has no singularity at the ends of
the interval. Its factor is 0 in degree 0.
"""

from __future__ import annotations

from typing import Any

from scipy import special

from functad.primitives.entry import Rule
from functad.primitives.safe import product
from functad.primitives.scipy_special.declaration import special_function, unknown

_DEGREES = [2, 0, 1, 3]
_INSIDE = (-0.9, 0.9)


def _of_degree(name: str, derivative: Any, doc: str, *, complex: bool = True) -> None:
    """Enter a polynomial of a degree; `derivative(n, x)` is right for n > 0."""

    def rule(g: Any, n: Any, x: Any) -> Any:
        return product(g, product(n != 0, derivative(n, x)))

    special_function(
        name,
        unknown(name, "n"),
        rule,
        arguments=[_DEGREES, _INSIDE],
        names=("n", "x"),
        complex=complex,
        doc=doc,
        selects=True,
    )


_of_degree("eval_legendre", lambda n, x: (n + 1) / 2 * special.eval_jacobi(n - 1, 1.0, 1.0, x), "P_n' = (n+1)/2 P^(1,1)_(n-1)")
_of_degree("eval_chebyt", lambda n, x: n * special.eval_chebyu(n - 1, x), "T_n' = n U_(n-1)")
_of_degree("eval_chebyu", lambda n, x: 2 * special.eval_gegenbauer(n - 1, 2.0, x), "U_n' = 2 C^(2)_(n-1)")
_of_degree("eval_chebyc", lambda n, x: n * special.eval_chebys(n - 1, x), "C_n' = n S_(n-1)")
_of_degree("eval_chebys", lambda n, x: special.eval_gegenbauer(n - 1, 2.0, x / 2), "S_n' = C^(2)_(n-1)(x/2)")
_of_degree("eval_laguerre", lambda n, x: -special.eval_genlaguerre(n - 1, 1.0, x), "L_n' = -L^(1)_(n-1)")
_of_degree("eval_hermite", lambda n, x: 2 * n * special.eval_hermite(n - 1, x), "H_n' = 2n H_(n-1)", complex=False)
_of_degree("eval_hermitenorm", lambda n, x: n * special.eval_hermitenorm(n - 1, x), "He_n' = n He_(n-1)", complex=False)
_of_degree(
    "eval_sh_legendre",
    lambda n, x: (n + 1) * special.eval_jacobi(n - 1, 1.0, 1.0, 2 * x - 1),
    "P_n(2x-1)' = (n+1) P^(1,1)_(n-1)(2x-1)",
)
_of_degree("eval_sh_chebyt", lambda n, x: 2 * n * special.eval_sh_chebyu(n - 1, x), "T_n(2x-1)' = 2n U_(n-1)(2x-1)")
_of_degree(
    "eval_sh_chebyu", lambda n, x: 4 * special.eval_gegenbauer(n - 1, 2.0, 2 * x - 1), "U_n(2x-1)' = 4 C^(2)_(n-1)(2x-1)"
)


def _with_parameters(name: str, parameters: str, derivative: Any, doc: str) -> None:
    """Enter a polynomial with further parameters; `derivative(n, *parameters, x)` is right for n > 0."""

    def two(g: Any, n: Any, a: Any, x: Any) -> Any:
        return product(g, product(n != 0, derivative(n, a, x)))

    def three(g: Any, n: Any, a: Any, b: Any, x: Any) -> Any:
        return product(g, product(n != 0, derivative(n, a, b, x)))

    several = len(parameters.split()) == 2
    rule: Rule = three if several else two
    special_function(
        name,
        *[unknown(name, argument) for argument in ("n", *parameters.split())],
        rule,
        arguments=[_DEGREES, [2.5, 1.5, 3.0], *([[1.5, 1.25, 2.0]] if several else []), _INSIDE],
        names=("n", "a", "b", "x") if several else ("n", "a", "x"),
        complex=True,
        doc=doc,
        selects=True,
    )


_with_parameters(
    "eval_gegenbauer",
    "alpha",
    lambda n, a, x: 2 * a * special.eval_gegenbauer(n - 1, a + 1, x),
    "C^(a)_n' = 2a C^(a+1)_(n-1)",
)
_with_parameters(
    "eval_genlaguerre", "alpha", lambda n, a, x: -special.eval_genlaguerre(n - 1, a + 1, x), "L^(a)_n' = -L^(a+1)_(n-1)"
)
_with_parameters(
    "eval_jacobi",
    "alpha beta",
    lambda n, a, b, x: (n + a + b + 1) / 2 * special.eval_jacobi(n - 1, a + 1, b + 1, x),
    "P^(a,b)_n' = (n+a+b+1)/2 P^(a+1,b+1)_(n-1)",
)
_with_parameters(
    "eval_sh_jacobi",
    "p q",
    lambda n, p, q, x: n * special.eval_sh_jacobi(n - 1, p + 2, q + 1, x),
    "G^(p,q)_n' = n G^(p+2,q+1)_(n-1)",
)
special_function(
    "lpmv",
    unknown("lpmv", "m"),
    unknown("lpmv", "v"),
    lambda g, m, v, x, out: product(g, (v * x * out - (v + m) * special.lpmv(m, v - 1, x)) / (x * x - 1)),
    arguments=[[0, 1, 2], [2, 3, 3], (-0.6, 0.6)],
    names=("m", "v", "x"),
    doc="dP^m_v(x) = (v x P^m_v - (v+m) P^m_(v-1)) / (x^2 - 1) dx, inside (-1, 1)",
)
