"""`functad.scipy.special`: the functions that SciPy writes in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special

import functad
from functad.errors import UnsupportedError
from functad.scipy import special
from functad.testing import check_grads

X = np.array([2.2, 2.5, 2.9])
Z = np.array([0.2, 0.5, -0.3])

BY_X: dict[str, Any] = {
    "logsumexp": lambda s, t: s.logsumexp(t),
    "logsumexp with b": lambda s, t: s.logsumexp(t, b=[1.0, 2.0, 0.5]),
    "softmax": lambda s, t: s.softmax(t),
    "log_softmax": lambda s, t: s.log_softmax(t),
    "polygamma": lambda s, t: s.polygamma(2, t),
    "multigammaln": lambda s, t: s.multigammaln(t, 3),
    "factorial": lambda s, t: s.factorial(t),
    "comb": lambda s, t: s.comb(t, 2),
    "perm": lambda s, t: s.perm(t, 2),
    "diric": lambda s, t: s.diric(t, 3),
    "zeta": lambda s, t: s.zeta(t, 1.5),
    **{f"spherical_{k}n": lambda s, t, k=k: getattr(s, f"spherical_{k}n")(2, t) for k in "jyik"},
    **{f"spherical_{k}n'": lambda s, t, k=k: getattr(s, f"spherical_{k}n")(1, t, derivative=True) for k in "jyik"},
    "spherical_jn of negative": lambda s, t: s.spherical_jn(2, -t),
    "sph_harm_y": lambda s, t: np.stack([s.sph_harm_y(2, 1, t, t / 2).real, s.sph_harm_y(3, -2, t, 0.4).imag]),
}
BY_Z: dict[str, Any] = {
    "legendre_p": lambda s, t: s.legendre_p(3, t),
    "assoc_legendre_p": lambda s, t: s.assoc_legendre_p(3, 1, t),
    "assoc_legendre_p normalised": lambda s, t: s.assoc_legendre_p(3, 1, t, norm=True),
    "sph_legendre_p": lambda s, t: s.sph_legendre_p(3, 1, t),
    "legendre_p_all": lambda s, t: s.legendre_p_all(3, t),
    "assoc_legendre_p_all": lambda s, t: s.assoc_legendre_p_all(2, 1, t),
    "sph_legendre_p_all": lambda s, t: s.sph_legendre_p_all(2, 1, t),
    "sph_harm_y_all": lambda s, t: s.sph_harm_y_all(2, 2, t, t * 2).imag,
}


@pytest.mark.parametrize("name", [*BY_X, *BY_Z])
def test_functions(name: str) -> None:
    call, t = (BY_X[name], X) if name in BY_X else (BY_Z[name], Z)
    check_grads(lambda t: call(special, t), [t], order=2)
    plain = call(scipy.special, t)
    np.testing.assert_array_equal(call(special, t), plain)
    value, _ = functad.vjp(lambda t: call(special, t), t)
    np.testing.assert_allclose(value, plain, rtol=1e-13, atol=1e-15)
    assert value.dtype == np.asarray(plain).dtype


def test_derivatives_that_scipy_gives() -> None:
    check_grads(lambda t: special.legendre_p(3, t, diff_n=1), [Z], order=1)
    with pytest.raises(UnsupportedError, match="derivatives up to the second"):
        functad.grad(lambda t: np.sum(special.legendre_p(3, t, diff_n=2)))(Z)
    with pytest.raises(UnsupportedError, match="Use diff_n = 0"):
        functad.grad(lambda t: np.sum(special.sph_harm_y(3, 1, t, 0.3, diff_n=1)[0].real))(Z)


def test_sequences_that_solve_an_equation_of_second_order() -> None:
    for f in (
        lambda t: special.lqn(3, t),
        lambda t: special.lqmn(2, 3, t / 3),
        lambda t: special.riccati_jn(2, t[0]),
        lambda t: special.riccati_yn(2, t[0]),
        lambda t: special.pbdv_seq(1.5, t[0]),
        lambda t: special.pbvv_seq(2.5, t[0]),
        lambda t: special.lmbda(1.5, t[0]),
    ):
        check_grads(f, [X], order=2)
    with pytest.raises(UnsupportedError, match="negative order"):
        functad.grad(lambda x: special.pbdv_seq(-1.5, x)[0][0])(2.0)
    with pytest.raises(UnsupportedError, match="which are not known in jit or vmap"):
        functad.vmap(lambda x: special.lqn(2, x)[0])(X)


def test_plain_parameters_are_constants_inside_of_a_trace() -> None:
    for name in ("jvp", "yvp", "ivp", "kvp", "h1vp", "h2vp"):
        check_grads(lambda t, name=name: getattr(special, name)(1.5, t, 2), [X], order=1)

    def f(x: Any) -> Any:
        return x * special.roots_jacobi(3, 0.5, 1.5)[0]

    np.testing.assert_allclose(functad.jacobian(f)(2.0), scipy.special.roots_jacobi(3, 0.5, 1.5)[0], rtol=1e-14)
