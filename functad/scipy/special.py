"""`scipy.special`: SciPy's Python functions that return plain arrays even when they are adopted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from functad.adoption.scipy_functions import of_tensors, refuse
from functad.errors import UnsupportedError
from functad.expressions.spec import shape_of
from functad.places import here
from functad.primitives.operands import known_values
from functad.rules.custom import custom_jvp
from functad.scipy._integrals import outside, valued


@of_tensors("scipy.special")
def multigammaln(a: Any, d: Any) -> Any:
    """Return the logarithm of the multivariate gamma function, a sum of `gammaln(a - i/2)` for i below d."""
    total = sum([special.gammaln(a - i / 2) for i in range(1, int(d))], special.gammaln(a))
    formula = total + d * (d - 1) / 4 * np.log(np.pi)
    known = known_values(a)
    return formula if known is None else valued(special.multigammaln(known[0], d), formula)


def _followed(name: str, counts: tuple[Any, ...], z: Any, diff_n: int, **options: Any) -> Any:
    """Return a Legendre-type function with its derivatives up to `diff_n` along the first axis.

    The derivative of each entry is the next entry.
    """
    if diff_n > 2:
        raise UnsupportedError(
            f"scipy.special.{name} has derivatives up to the second, and more are asked for at {here()}. Use special.lpmv or "
            f"special.eval_legendre, which have all."
        )
    original = getattr(special, name)

    @custom_jvp
    def known(z: Any) -> Any:
        values = known_values(z)
        if values is None:
            raise UnsupportedError(
                f"scipy.special.{name} needs values, which are not known in jit or vmap, at {here()}. Use special.lpmv or "
                f"special.eval_legendre."
            )
        with outside():
            return np.asarray(original(*counts, values[0], diff_n=diff_n, **options))

    @known.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        return known(*primals), tangents[0] * _followed(name, counts, primals[0], diff_n + 1, **options)[1:]

    return known(z)


@of_tensors("scipy.special")
def legendre_p(n: Any, z: Any, *, diff_n: int = 0) -> Any:
    """Return the Legendre polynomial of degree n, with its derivatives up to `diff_n`."""
    return _followed("legendre_p", (n,), z, diff_n)


@of_tensors("scipy.special")
def legendre_p_all(n: Any, z: Any, *, diff_n: int = 0) -> Any:
    """Return the Legendre polynomials of all degrees up to n, with their derivatives up to `diff_n`."""
    return _followed("legendre_p_all", (n,), z, diff_n)


@of_tensors("scipy.special")
def assoc_legendre_p(n: Any, m: Any, z: Any, *, branch_cut: Any = 2, norm: bool = False, diff_n: int = 0) -> Any:
    """Return the associated polynomial of degree n and order m, with its derivatives up to `diff_n`."""
    return _followed("assoc_legendre_p", (n, m), z, diff_n, branch_cut=branch_cut, norm=norm)


@of_tensors("scipy.special")
def assoc_legendre_p_all(n: Any, m: Any, z: Any, *, branch_cut: Any = 2, norm: bool = False, diff_n: int = 0) -> Any:
    """Return the associated polynomials of all degrees up to n and orders up to m, with their derivatives up to `diff_n`."""
    return _followed("assoc_legendre_p_all", (n, m), z, diff_n, branch_cut=branch_cut, norm=norm)


@of_tensors("scipy.special")
def sph_legendre_p(n: Any, m: Any, theta: Any, *, diff_n: int = 0) -> Any:
    """Return the polynomial of degree n and order m of spherical harmonics, as a function of the polar angle."""
    return _followed("sph_legendre_p", (n, m), theta, diff_n)


@of_tensors("scipy.special")
def sph_legendre_p_all(n: Any, m: Any, theta: Any, *, diff_n: int = 0) -> Any:
    """Return the polynomials of spherical harmonics of all degrees up to n and orders up to m."""
    return _followed("sph_legendre_p_all", (n, m), theta, diff_n)


def _harmonic(name: str, counts: tuple[Any, Any], orders: Any, theta: Any, phi: Any, diff_n: int) -> Any:
    if diff_n:
        raise UnsupportedError(
            f"scipy.special.{name} with diff_n = {diff_n} has no derivatives, at {here()}. Use diff_n = 0 and functad's."
        )
    formula = _followed(name.replace("harm_y", "legendre_p"), counts, theta, 0)[0] * np.exp(1j * orders * phi)
    known = known_values(theta, phi)
    if known is None:
        return formula
    with outside():
        return valued(getattr(special, name)(*counts, *known), formula)


@of_tensors("scipy.special")
def sph_harm_y(n: Any, m: Any, theta: Any, phi: Any, *, diff_n: int = 0) -> Any:
    """Return the spherical harmonic of degree n and order m, `sph_legendre_p` times `exp(i m phi)`."""
    return _harmonic("sph_harm_y", (n, m), m, theta, phi, diff_n)


@of_tensors("scipy.special")
def sph_harm_y_all(n: Any, m: Any, theta: Any, phi: Any, *, diff_n: int = 0) -> Any:
    """Return the spherical harmonics of all degrees up to n and orders from -m to m, negative orders last."""
    orders = np.concatenate([np.arange(m + 1), np.arange(-m, 0)])
    axes = max(np.ndim(theta), np.ndim(phi))
    return _harmonic("sph_harm_y_all", (n, m), orders.reshape(-1, *[1] * axes), theta, phi, diff_n)


# Solutions of second-order differential equations, with first derivatives


def _solutions(name: str, counts: tuple[Any, ...], x: Any, curvature: Callable[[Any, Any, Any], Any]) -> Any:
    """Return SciPy's functions of several orders and their first derivatives, differentiable through the second derivatives.

    Args:
        name: SciPy's name of the function.
        counts: the other arguments, which come first.
        x: the argument.
        curvature: returns second derivatives from the argument, the functions and their first derivatives.
    """

    @custom_jvp
    def known(x: Any) -> Any:
        values = known_values(x)
        if values is None:
            raise UnsupportedError(
                f"scipy.special.{name} needs values, which are not known in jit or vmap, at {here()}. Call it outside."
            )
        with outside():
            return tuple(getattr(special, name)(*counts, np.asarray(values[0])[()]))

    @known.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (point,), (tangent,) = primals, tangents
        y, slope = _solutions(name, counts, point, curvature)
        return (y, slope), (slope * tangent, curvature(point, y, slope) * tangent)

    return known(x)


@of_tensors("scipy.special")
def lqn(n: Any, z: Any) -> Any:
    """Return the Legendre functions of the second kind of all degrees up to n, and their first derivatives."""
    k = np.arange(max(int(n), 1) + 1)[: int(n) + 1].reshape(-1, *[1] * np.ndim(z))
    return _solutions("lqn", (n,), z, lambda z, q, slope: (2 * z * slope - k * (k + 1) * q) / (1 - z * z))


@of_tensors("scipy.special")
def lqmn(m: Any, n: Any, z: Any) -> Any:
    """Return the associated Legendre functions of the second kind up to order m and degree n, and their first derivatives."""
    k = np.arange(n + 1).reshape(-1, *[1] * np.ndim(z))
    order = np.arange(m + 1).reshape(-1, 1, *[1] * np.ndim(z))
    return _solutions(
        "lqmn", (m, n), z, lambda z, q, slope: (2 * z * slope - (k * (k + 1) - order**2 / (1 - z * z)) * q) / (1 - z * z)
    )


def _riccati(name: str) -> None:
    @of_tensors("scipy.special", name)
    def riccati(n: Any, x: Any) -> Any:
        """Return the Riccati functions, x times spherical Bessel functions, of all orders up to n."""
        k = np.arange(n + 1)
        return _solutions(name, (n,), x, lambda x, s, slope: (k * (k + 1) / (x * x) - 1) * s)


_riccati("riccati_jn")
_riccati("riccati_yn")


def _parabolic(name: str) -> None:
    @of_tensors("scipy.special", name)
    def parabolic(v: Any, x: Any) -> Any:
        """Return the parabolic cylinder functions of the orders `v - int(v)`, ..., `v`."""
        if v < 0:
            raise UnsupportedError(
                f"scipy.special.{name} of a Tensor with a negative order, at {here()}, for which SciPy's values and slopes do "
                f"not belong together. Use special.{name[:4]} for each order."
            )
        orders = v - int(v) + np.arange(max(int(v), 1) + 1)
        return _solutions(name, (v,), x, lambda x, d, slope: (x * x / 4 - orders[: shape_of(d)[0]] - 0.5) * d)


for _name in ("pbdv_seq", "pbvv_seq"):
    _parabolic(_name)


@of_tensors("scipy.special")
def lmbda(v: Any, x: Any) -> Any:
    """Return the Jahnke-Emden functions, `gamma(v + 1) (2/x)^v J_v(x)`, of all orders up to v."""
    orders = v - int(v) + np.arange(int(v) + 1)
    return _solutions("lmbda", (v,), x, lambda x, y, slope: -(2 * orders + 1) / x * slope - y)


_CLOSED = "their derivatives by it have no closed form; pass a constant, such as functad.stop_gradient of it"
_NODES = "the derivative by alpha has no closed form. Pass alpha as a constant"

REFUSED: dict[str, str] = {
    "ellip_harm": "Lame functions are compiled, and their slopes are not known; pass the argument as a constant",
    "ellip_harm_2": "it is an integral of ellip_harm, whose slope is not known; pass the argument as a constant",
    "ellip_normal": "its derivatives by the axes have no closed form; pass them as constants",
    "pbdn_seq": "SciPy's values for complex numbers are not those of a differentiable function; use special.pbdv of real ones",
    "mathieu_even_coef": f"coefficients follow from characteristic values by q: {_CLOSED}",
    "mathieu_odd_coef": f"coefficients follow from characteristic values by q: {_CLOSED}",
    "pro_cv_seq": f"these are characteristic values by c: {_CLOSED}",
    "obl_cv_seq": f"these are characteristic values by c: {_CLOSED}",
}
"""Functions that reject Tensors, and the reasons."""

refuse("scipy.special", REFUSED)

REFUSED |= dict.fromkeys(("pbdv_seq(-1)", "pbvv_seq(-1)"), "SciPy's values and slopes do not belong together")
for _name in ("gegenbauer", "genlaguerre", "jacobi", "sh_jacobi"):
    REFUSED[f"roots_{_name}(alpha)"] = _NODES
REFUSED |= {f"{name}(alpha)": _NODES for name in ("cg_roots", "la_roots", "j_roots", "js_roots")}
