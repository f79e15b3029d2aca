"""`scipy.special`: the functions that SciPy writes in Python and that make plain arrays even when they are adopted."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from functad.adoption.scipy_functions import of_tensors
from functad.errors import UnsupportedError
from functad.places import here
from functad.rules.custom import custom_jvp
from functad.scipy._integrals import Proven, outside, plain, valued


@of_tensors("scipy.special")
def multigammaln(a: Any, d: Any) -> Any:
    """The logarithm of the multivariate gamma function, a sum of `gammaln(a - i/2)` for i below d."""
    total = sum([special.gammaln(a - i / 2) for i in range(1, int(d))], special.gammaln(a))
    formula = total + d * (d - 1) / 4 * np.log(np.pi)
    known = plain(a)
    return formula if known is None else valued(special.multigammaln(known[0], d), formula)


def _followed(name: str, counts: tuple[Any, ...], z: Any, diff_n: int, **options: Any) -> Any:
    """Return a function of Legendre's kind, which SciPy gives with derivatives: those up to `diff_n`, along the first axis.

    So the derivative of each is the next.
    """
    if diff_n > 2:
        raise UnsupportedError(
            f"scipy.special.{name} has derivatives up to the second, and more are asked for at {here()}. Use special.lpmv or "
            f"special.eval_legendre, which have all."
        )
    original = getattr(special, name)

    @custom_jvp
    def known(z: Any) -> Any:
        values = plain(z)
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

    known.checks = Proven()
    return known(z)


@of_tensors("scipy.special")
def legendre_p(n: Any, z: Any, *, diff_n: int = 0) -> Any:
    """Legendre's polynomial of degree n, with its derivatives up to `diff_n`."""
    return _followed("legendre_p", (n,), z, diff_n)


@of_tensors("scipy.special")
def legendre_p_all(n: Any, z: Any, *, diff_n: int = 0) -> Any:
    """Those of all degrees up to n."""
    return _followed("legendre_p_all", (n,), z, diff_n)


@of_tensors("scipy.special")
def assoc_legendre_p(n: Any, m: Any, z: Any, *, branch_cut: Any = 2, norm: bool = False, diff_n: int = 0) -> Any:
    """The associated polynomial of degree n and order m, likewise."""
    return _followed("assoc_legendre_p", (n, m), z, diff_n, branch_cut=branch_cut, norm=norm)


@of_tensors("scipy.special")
def assoc_legendre_p_all(n: Any, m: Any, z: Any, *, branch_cut: Any = 2, norm: bool = False, diff_n: int = 0) -> Any:
    """Those of all degrees up to n and orders up to m."""
    return _followed("assoc_legendre_p_all", (n, m), z, diff_n, branch_cut=branch_cut, norm=norm)


@of_tensors("scipy.special")
def sph_legendre_p(n: Any, m: Any, theta: Any, *, diff_n: int = 0) -> Any:
    """The polynomial of degree n and order m of spherical harmonics, as a function of the polar angle."""
    return _followed("sph_legendre_p", (n, m), theta, diff_n)


@of_tensors("scipy.special")
def sph_legendre_p_all(n: Any, m: Any, theta: Any, *, diff_n: int = 0) -> Any:
    """Those of all degrees up to n and orders up to m."""
    return _followed("sph_legendre_p_all", (n, m), theta, diff_n)


def _harmonic(name: str, counts: tuple[Any, Any], orders: Any, theta: Any, phi: Any, diff_n: int) -> Any:
    if diff_n:
        raise UnsupportedError(
            f"scipy.special.{name} with diff_n = {diff_n} has no derivatives, at {here()}. Use diff_n = 0 and functad's."
        )
    formula = _followed(name.replace("harm_y", "legendre_p"), counts, theta, 0)[0] * np.exp(1j * orders * phi)
    known = plain(theta, phi)
    if known is None:
        return formula
    with outside():
        return valued(getattr(special, name)(*counts, *known), formula)


@of_tensors("scipy.special")
def sph_harm_y(n: Any, m: Any, theta: Any, phi: Any, *, diff_n: int = 0) -> Any:
    """The spherical harmonic of degree n and order m, that polynomial times `exp(i m phi)`."""
    return _harmonic("sph_harm_y", (n, m), m, theta, phi, diff_n)


@of_tensors("scipy.special")
def sph_harm_y_all(n: Any, m: Any, theta: Any, phi: Any, *, diff_n: int = 0) -> Any:
    """Those of all degrees up to n and orders from -m to m, the negative ones last."""
    orders = np.concatenate([np.arange(m + 1), np.arange(-m, 0)])
    axes = max(np.ndim(theta), np.ndim(phi))
    return _harmonic("sph_harm_y_all", (n, m), orders.reshape(-1, *[1] * axes), theta, phi, diff_n)


REFUSED: dict[str, str] = {
    "lmbda": "one of the algorithms that give all orders at once in compiled code; special.jv gives each",
    "factorial2": "defined for integers; factorial has a continuation",
}
"""Functions that are refused, and why."""
