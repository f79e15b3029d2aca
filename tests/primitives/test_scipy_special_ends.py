"""Derivatives of `scipy.special` at ends of ranges, for whole numbers, and for parameters near 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special

import functad
from functad.scipy import special


def _both_modes(f: Callable[[Any], Any], x: float) -> list[Any]:
    return [functad.grad(f)(x), functad.jvp(f, (x,), (1.0,))[1]]


@pytest.mark.parametrize("m", [-5.0, 0.0, 0.5, 1 - 1e-13, 1.0])
@pytest.mark.parametrize("phi", [0.0, 1e-5, -0.3, 1.2, -7.5])
def test_incomplete_elliptic_integrals_by_the_parameter(phi: float, m: float) -> None:
    if abs(phi) > 1.5 and m > 0.99:
        return  # the integral passes a pole, or nearly so
    with mpmath.workdps(30):
        points = mpmath.linspace(0, mpmath.mpf(phi), 5)
        first = mpmath.quad(lambda t: mpmath.sin(t) ** 2 * (1 - m * mpmath.sin(t) ** 2) ** mpmath.mpf(-1.5) / 2, points)
        second = -mpmath.quad(lambda t: mpmath.sin(t) ** 2 / mpmath.sqrt(1 - m * mpmath.sin(t) ** 2) / 2, points)
    for slope in _both_modes(lambda m: special.ellipkinc(phi, m), m):
        np.testing.assert_allclose(slope, float(first), rtol=1e-13)
    for slope in _both_modes(lambda m: special.ellipeinc(phi, m), m):
        np.testing.assert_allclose(slope, float(second), rtol=1e-13)


def test_jacobi_functions_at_parameter_one() -> None:
    for u in (0.4, -1.3, 2.4):
        for i, name in enumerate(("sn", "cn", "dn")):
            with mpmath.workdps(40):
                step = mpmath.mpf(10) ** -12
                value = [mpmath.ellipfun(name, u, m=1 - k * step) for k in range(3)]
                expected = (3 * value[0] - 4 * value[1] + value[2]) / (2 * step)
            for slope in _both_modes(lambda m, u=u, i=i: special.ellipj(u, m)[i], 1.0):
                np.testing.assert_allclose(slope, float(expected), rtol=1e-10)


@pytest.mark.parametrize(
    ("n", "k"),
    [(1.0, 30.0), (2.0, 5.0), (4.0, 7.0), (5.0, -2.0), (-2.5, 1.5), (1e-12, 30.0), (4.5, 6.5), (6.0, 2.0), (2.5, -1.5)],
)
def test_binomial_coefficients_above_n(n: float, k: float) -> None:
    with mpmath.workdps(30):
        by_n = mpmath.diff(lambda x: mpmath.binomial(x, mpmath.mpf(k)), mpmath.mpf(n))
        by_k = mpmath.diff(lambda x: mpmath.binomial(mpmath.mpf(n), x), mpmath.mpf(k))
    for slope in _both_modes(lambda n: special.binom(n, k), n):
        np.testing.assert_allclose(slope, float(by_n), rtol=1e-10)
    for slope in _both_modes(lambda k: special.binom(n, k), k):
        np.testing.assert_allclose(slope, float(by_k), rtol=1e-10)


@pytest.mark.parametrize("name", ["eval_legendre", "eval_chebyu", "eval_chebys", "eval_sh_legendre", "eval_sh_chebyu"])
@pytest.mark.parametrize("n", [-1, -2, -3, -5, -1.0, -3.0, -2.5, -0.7])
def test_polynomials_of_negative_degree(name: str, n: float) -> None:
    original = getattr(scipy.special, name)
    for x in (0.3, 0.8):
        differences = (original(n, x + 1e-5) - original(n, x - 1e-5)) / 2e-5
        for slope in _both_modes(lambda x: getattr(special, name)(n, x), x):
            np.testing.assert_allclose(slope, differences, rtol=1e-7, atol=1e-9)


def test_ends_of_ranges() -> None:
    """Where a function is constant, or the quotient in its derivative has a limit."""
    for x in (-2.0, -0.5, 0.0, 1e-200, 0.01):
        assert _both_modes(special.kolmogorov, x) == [0.0, 0.0]
        assert functad.grad(functad.grad(special.kolmogorov))(x) == 0.0
    for slope in _both_modes(special.it2struve0, 0.0):
        np.testing.assert_allclose(slope, -2 / np.pi, rtol=1e-15)
    for f in (special.fdtr, special.fdtrc):
        for dfn in (0.5, 1.0, 2.0):
            assert _both_modes(lambda dfn, f=f: f(dfn, 2.5, 0.0), dfn) == [0.0, 0.0]
            assert _both_modes(lambda dfd, f=f, dfn=dfn: f(dfn, dfd, 0.0), 2.5) == [0.0, 0.0]
    for f in (special.gdtr, special.gdtrc):
        assert _both_modes(lambda a, f=f: f(a, 0.5, 0.0), 2.0) == [0.0, 0.0]
    assert _both_modes(lambda z: special.hyp2f1(0.0, 2.0, 1.5, z), 2.0) == [0.0, 0.0]
    assert _both_modes(lambda x: special.lpmv(-1, 1, x), 0.0) == [0.0, 0.0]
