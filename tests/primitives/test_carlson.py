"""Carlson's integrals at equal and nearly equal arguments, where closed forms of their derivatives are 0 / 0."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy import special

import functad

THREE = [
    (1.0, 1.0, 1.0), (1.0, 2.0, 1.0), (2.0, 1.0, 1.0), (0.3, 1.0, 1.0 + 1e-7), (0.3, 5.0, 0.3), (1e-4, 1.0, 1e-4),
    (3.0, 3.0, 1e3), (1e-6, 2.0, 3.0), (1.5, 2.0, 2.5),
]  # fmt: skip
FOUR = [
    (1.0, 1.0, 1.0, 1.0), (1.0, 2.0, 3.0, 1.0), (1.0, 2.0, 3.0, 2.0), (1.0, 2.0, 3.0, 3.0 + 1e-7), (1.0, 1.0, 1.0, 2.0),
    (0.2, 0.9, 1.5, 2.5), (1e-3, 1.0, 1.0, 5.0), (1.0, 2.0, 3.0, -1.5), (1.0, 2.0, 3.0, 0.01),
]  # fmt: skip
CASES = [(special.elliprd, mpmath.elliprd, p) for p in THREE] + [(special.elliprj, mpmath.elliprj, p) for p in FOUR]


def along(exact, point, direction, order):
    """Return a derivative in a direction, of order 1 or 2, by central differences in 40 digits."""
    with mpmath.workdps(40):
        h = mpmath.mpf(10) ** -13
        at = lambda k: exact(*[mpmath.mpmathify(x) + k * h * d for x, d in zip(point, direction, strict=True)])  # noqa: E731
        change = at(1) - at(-1) if order == 1 else at(1) - 2 * at(0) + at(-1)
        return complex(change / (2 * h if order == 1 else h * h))


@pytest.mark.parametrize(("function", "exact", "point"), CASES, ids=lambda v: str(v) if isinstance(v, tuple) else "")
def test_first_and_second_derivatives(function, exact, point):
    x, n = np.array(point), len(point)
    f = lambda x: function(*x)  # noqa: E731
    first = [along(exact, point, row, 1).real for row in np.eye(n)]
    assert np.allclose(functad.grad(f)(x), first, rtol=1e-11, atol=0)
    assert np.allclose(functad.jacfwd(f)(x), first, rtol=1e-11, atol=0)
    direction = np.array([0.75, -0.5, 1.0, 0.25][:n])
    second = along(exact, point, direction, 2).real
    assert direction @ functad.hessian(f)(x) @ direction == pytest.approx(second, rel=1e-7)


@pytest.mark.parametrize(
    ("function", "exact", "point"),
    [
        (special.elliprd, mpmath.elliprd, (1 + 0.5j, 1 + 0.5j, 1 + 0.5j)),
        (special.elliprd, mpmath.elliprd, (0.2 + 1j, 2.0, 1 + 3j)),
        (special.elliprj, mpmath.elliprj, (1 + 0.5j, 2 - 1j, 1 + 0.5j, 1 + 0.5j)),
        (special.elliprj, mpmath.elliprj, (0.2 + 1j, 2.0, 1 + 3j, 2 + 0.1j)),
    ],
)
def test_complex_arguments(function, exact, point):
    for i, z in enumerate(point):
        found = functad.grad(lambda z, i=i: function(*point[:i], z, *point[i + 1 :]), holomorphic=True)(complex(z))
        assert found == pytest.approx(along(exact, point, np.eye(len(point))[i], 1), rel=1e-11)


def test_argument_zero():
    """By the others the derivative exists where the first is zero."""
    point = (0.0, 1.0, 1.0)
    found = functad.grad(special.elliprd, argnums=(1, 2))(*point)
    assert np.allclose(found, [along(mpmath.elliprd, point, np.eye(3)[i], 1).real for i in (1, 2)], rtol=1e-11)
