"""Taylor coefficients against mpmath, and against nested derivatives along the path."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import special

import functad

ORDER = 7

SCALAR = {
    "exp": (np.exp, mpmath.exp, 0.3),
    "log": (np.log, mpmath.log, 1.3),
    "sin": (np.sin, mpmath.sin, 0.3),
    "tan": (np.tan, mpmath.tan, 0.3),
    "arcsin": (np.arcsin, mpmath.asin, 0.3),
    "arctan": (np.arctan, mpmath.atan, 0.3),
    "tanh": (np.tanh, mpmath.tanh, 0.3),
    "sqrt": (np.sqrt, mpmath.sqrt, 1.3),
    "power": (lambda x: x**2.5, lambda x: x ** mpmath.mpf(2.5), 1.3),
    "power of both": (lambda x: x**x, lambda x: x**x, 1.3),
    "whole power": (lambda x: (x - 1) ** 3, lambda x: (x - 1) ** 3, 1.3),
    "quotient": (lambda x: np.sin(x) / (1 + x * x), lambda x: mpmath.sin(x) / (1 + x * x), 0.3),
    "reciprocal": (lambda x: 2.0 / x, lambda x: 2 / x, 1.3),
    "composition": (lambda x: np.exp(np.sin(x) * np.tanh(x)), lambda x: mpmath.exp(mpmath.sin(x) * mpmath.tanh(x)), 0.3),
    "logaddexp": (lambda x: np.logaddexp(x, 0.5), lambda x: mpmath.log(mpmath.exp(x) + mpmath.exp(0.5)), 0.3),
    "hypot": (lambda x: np.hypot(x, 2.0), lambda x: mpmath.sqrt(x * x + 4), 0.3),
    "erf": (special.erf, mpmath.erf, 0.3),
    "gammaln": (special.gammaln, mpmath.loggamma, 2.3),
    "branch": (lambda x: np.sin(x) if x > 0 else x, mpmath.sin, 0.3),
}


@pytest.mark.parametrize("name", SCALAR)
def test_scalar_functions(name):
    f, exact, x = SCALAR[name]
    with mpmath.workdps(40):
        expected = [float(c) for c in mpmath.taylor(exact, mpmath.mpf(x), ORDER)]
    found = functad.taylor(f, (x,), ([1.0],), order=ORDER)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
    for n in range(4):
        np.testing.assert_allclose(functad.deriv(f, n)(x), math.factorial(n) * expected[n], rtol=1e-12, atol=1e-12)


RNG = np.random.default_rng(1)
A = RNG.normal(size=(3, 3))
MATRICES = {
    "solve": lambda x: np.linalg.solve(A + np.diag(x), x),
    "determinant": lambda x: np.linalg.det(A + np.outer(x, x)),
    "eigenvalues": lambda x: np.linalg.eigvalsh(A + A.T + np.diag(x)),
    "decomposition": lambda x: np.linalg.qr(A + np.diag(x))[1],
    "einsum": lambda x: np.einsum("i,ij,j->i", x, np.outer(x, x), np.sin(x)),
    "reductions": lambda x: np.stack([np.max(x), np.prod(x), np.var(x), np.linalg.norm(x)]),
    "indices": lambda x: np.concatenate([x[::-1], x[np.array([0, 0])] ** 2, np.sort(x), np.where(x > 0, x**2, x)]),
    "writes": lambda x: _written(x),
    "loop": lambda x: _looped(x),
    "safe": lambda x: np.where(x > 0, np.sqrt(np.where(x > 0, x, 1.0)), 0.0) * np.sqrt(np.sum(x * x)),
}


def _written(x):
    out = np.zeros_like(x)
    out[0] = x[1] ** 2
    out[1:] += np.sin(x[1:]) * out[0]
    view = out[1:]
    view *= x[:2]
    return out


def _looped(x):
    for _ in range(3):
        x = np.tanh(A @ x) + 0.1 * x
    return x


@pytest.mark.parametrize("name", MATRICES)
def test_against_nested_derivatives_along_a_curve(name):
    f = MATRICES[name]
    x0, x1, x2 = np.array([0.4, -0.3, 0.9]), np.array([1.0, -0.5, 0.3]), np.array([0.2, 0.1, -0.4])
    found = functad.taylor(f, (x0,), ([x1, x2],), order=4)

    def along(t):
        return f(x0 + x1 * t + x2 * t**2)

    nested = along
    for n, coefficient in enumerate(found):
        np.testing.assert_allclose(coefficient, nested(0.0) / math.factorial(n), rtol=1e-8, atol=1e-9)
        nested = _slope(nested)


def _slope(f):
    return lambda t: functad.jvp(f, (t,), (1.0,))[1]


def test_several_arguments_trees_and_constants():
    def f(p, y):
        return {"z": p["a"] * p["b"] + y, "c": np.ones(2)}

    found = functad.taylor(f, ({"a": np.array([1.0, 2.0]), "b": 3.0}, 1.0), ([{"a": np.ones(2), "b": 1.0}], []), order=3)
    np.testing.assert_allclose([c["z"] for c in found], [[4.0, 7.0], [4.0, 5.0], [1.0, 1.0], [0.0, 0.0]])
    np.testing.assert_allclose([c["c"] for c in found], [[1.0, 1.0], [0, 0], [0, 0], [0, 0]])


def test_single_precision_stays():
    found = functad.taylor(np.sin, (np.float32(0.3),), ([np.float32(1.0)],), order=3)
    assert {c.dtype for c in found} == {np.dtype(np.float32)}


def test_in_other_transforms():
    def third(x):
        return functad.taylor(lambda x: np.sin(x) * x, (x,), ([1.0],), order=3)[3] * 6

    expected = functad.grad(functad.grad(functad.grad(lambda x: np.sin(x) * x)))
    np.testing.assert_allclose(third(0.4), expected(0.4))
    np.testing.assert_allclose(functad.grad(third)(0.4), functad.grad(expected)(0.4))
    np.testing.assert_allclose(functad.deriv(functad.deriv(np.sin, 2), 2)(0.4), np.sin(0.4))
    points = np.linspace(0.1, 1.0, 5)
    np.testing.assert_allclose(functad.vmap(functad.deriv(np.exp, 3))(points), np.exp(points))


def test_factorials_beyond_the_dtype_do_not_overflow():
    """The references are exact: `(1 / x)^(n) = (-1)^n n! / x^(n + 1)`, and `exp` is its own derivative."""
    for n in (150, 170, 171, 250):
        exact = Fraction((-1) ** n * math.factorial(n), 20 ** (n + 1))
        np.testing.assert_allclose(functad.deriv(lambda x: 1 / x, n)(20.0), float(exact), rtol=1e-12)
    assert functad.deriv(lambda x: 1 / x, 160)(1.0) == math.factorial(160)
    for n in (20, 36, 40):
        found = functad.deriv(np.exp, n)(np.float32(0.5))
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, np.exp(0.5), rtol=1e-5)


def test_deriv_of_functions_with_array_results():
    found = functad.deriv(lambda t, w: np.stack([np.cos(w * t), np.sin(w * t)]), 2)(0.0, w=3.0)
    np.testing.assert_allclose(found, [-9.0, 0.0], atol=1e-15)


def test_refusals():
    with pytest.raises(functad.errors.InputError, match="elementwise_grad"):
        functad.deriv(np.sin)(np.ones(3))
    with pytest.raises(functad.errors.InputError, match="not negative"):
        functad.deriv(np.sin, -1)
    with pytest.raises(functad.errors.InputError, match="the order is 0"):
        functad.taylor(np.sin, (1.0,), ([],))
    with pytest.raises(functad.errors.InputError, match="taylor\\(f, \\(x,\\)"):
        functad.taylor(np.sin, 1.0, [1.0])
    with pytest.raises(functad.errors.StructureError, match=r"series\[0\]\[1\] is float64\[2\]"):
        functad.taylor(np.sin, (1.0,), ([1.0, np.ones(2)],))
    with pytest.raises(functad.errors.InputError, match="Integers have no derivative"):
        functad.taylor(np.sin, (1,), ([1.0],), order=2)
