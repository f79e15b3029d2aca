"""Orthogonal polynomials and associated Legendre functions, with derivatives with respect to the variable.

The derivative is a polynomial of the next lower degree, of the same or another family, without a singularity at the ends of
the interval. It is 0 for degree 0.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from functad.primitives.safe import product
from functad.primitives.scipy_special.declaration import Argument, reading, special_function

_DEGREES = [2, 0, 1, 3]
_PARAMETERS = [[2.5, 1.5, 3.0], [1.5, 1.25, 2.0]]
_INSIDE = (-0.9, 0.9)


def _whole(n: Any) -> tuple[Any, Any]:
    return n, 1


def _of_degree(
    name: str, derivative: Callable[..., Any], doc: str, *, complex: bool = True, mirrored: Callable[[Any], Any] = _whole
) -> None:
    """Enter a polynomial of degree n with optional parameters; `derivative(n, *parameters, x)` is right for n > 0.

    Args:
        name: of SciPy's function.
        derivative: the derivative.
        doc: the rule.
        complex: the variable may be complex.
        mirrored: gives for any degree that of the same polynomial for which the derivative is right, and its sign.
    """

    def rule(g: Any, n: Any, *values: Any) -> Any:
        n, sign = mirrored(n)
        return product(g, product(sign * (n != 0), derivative(n, *values)))

    names = tuple(inspect.signature(derivative).parameters)
    arguments: list[Argument] = [_DEGREES, *_PARAMETERS[: len(names) - 2], _INSIDE]
    special_function(name, reading(rule, names), arguments=arguments, names=names, complex=complex, doc=doc)


def _about_half(n: Any) -> tuple[Any, Any]:
    """`P_n = P_(-n-1)`."""
    return np.where(n < -0.5, -1 - n, n), 1


def _about_one(n: Any) -> tuple[Any, Any]:
    """`U_n = -U_(-n-2)`, and so `U_(-1) = 0`."""
    below = n < -1
    return np.where(below, -2 - n, n), np.where(below, -1, np.where(n == -1, 0, 1))


_of_degree(
    "eval_legendre",
    lambda n, x: (n + 1) / 2 * special.eval_jacobi(n - 1, 1.0, 1.0, x),
    "P_n' = (n+1)/2 P^(1,1)_(n-1)",
    mirrored=_about_half,
)
_of_degree("eval_chebyt", lambda n, x: n * special.eval_chebyu(n - 1, x), "T_n' = n U_(n-1)")
_of_degree(
    "eval_chebyu",
    lambda n, x: 2 * special.eval_gegenbauer(n - 1, 2.0, x),
    "U_n' = 2 C^(2)_(n-1)",
    mirrored=_about_one,
)
_of_degree("eval_chebyc", lambda n, x: n * special.eval_chebys(n - 1, x), "C_n' = n S_(n-1)")
_of_degree(
    "eval_chebys", lambda n, x: special.eval_gegenbauer(n - 1, 2.0, x / 2), "S_n' = C^(2)_(n-1)(x/2)", mirrored=_about_one
)
_of_degree("eval_laguerre", lambda n, x: -special.eval_genlaguerre(n - 1, 1.0, x), "L_n' = -L^(1)_(n-1)")
_of_degree("eval_hermite", lambda n, x: 2 * n * special.eval_hermite(n - 1, x), "H_n' = 2n H_(n-1)", complex=False)
_of_degree("eval_hermitenorm", lambda n, x: n * special.eval_hermitenorm(n - 1, x), "He_n' = n He_(n-1)", complex=False)
_of_degree(
    "eval_sh_legendre",
    lambda n, x: (n + 1) * special.eval_jacobi(n - 1, 1.0, 1.0, 2 * x - 1),
    "P_n(2x-1)' = (n+1) P^(1,1)_(n-1)(2x-1)",
    mirrored=_about_half,
)
_of_degree("eval_sh_chebyt", lambda n, x: 2 * n * special.eval_sh_chebyu(n - 1, x), "T_n(2x-1)' = 2n U_(n-1)(2x-1)")
_of_degree(
    "eval_sh_chebyu",
    lambda n, x: 4 * special.eval_gegenbauer(n - 1, 2.0, 2 * x - 1),
    "U_n(2x-1)' = 4 C^(2)_(n-1)(2x-1)",
    mirrored=_about_one,
)
_of_degree(
    "eval_gegenbauer",
    lambda n, alpha, x: 2 * alpha * special.eval_gegenbauer(n - 1, alpha + 1, x),
    "C^(a)_n' = 2a C^(a+1)_(n-1)",
)
_of_degree(
    "eval_genlaguerre",
    lambda n, alpha, x: -special.eval_genlaguerre(n - 1, alpha + 1, x),
    "L^(a)_n' = -L^(a+1)_(n-1)",
)
_of_degree(
    "eval_jacobi",
    lambda n, alpha, beta, x: (n + alpha + beta + 1) / 2 * special.eval_jacobi(n - 1, alpha + 1, beta + 1, x),
    "P^(a,b)_n' = (n+a+b+1)/2 P^(a+1,b+1)_(n-1)",
)
_of_degree(
    "eval_sh_jacobi",
    lambda n, p, q, x: n * special.eval_sh_jacobi(n - 1, p + 2, q + 1, x),
    "G^(p,q)_n' = n G^(p+2,q+1)_(n-1)",
)
special_function(
    "lpmv",
    lambda g, m, v, x, out: product(g, (v * x * out - product(v + m, special.lpmv(m, v - 1, x))) / (x * x - 1)),
    arguments=[[0, 1, 2], [2, 3, 3], (-0.6, 0.6)],
    names=("m", "v", "x"),
    doc="dP^m_v(x) = (v x P^m_v - (v+m) P^m_(v-1)) / (x^2 - 1) dx, inside (-1, 1)",
)
