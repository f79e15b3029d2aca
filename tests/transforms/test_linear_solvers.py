"""The iterative linear solvers: against NumPy's own, and where there is no solution."""

import sys

import numpy as np
import pytest

import functad
from functad.errors import ImplicitError, MissingPackageError
from functad.implicit.linear_solvers import SOLVERS, check_regular


def system(rng, n, *, definite):
    root = rng.normal(size=(n, n))
    matrix = root @ root.T / n + np.eye(n) if definite else np.eye(n) * 2 + root / np.sqrt(n)
    return matrix, rng.normal(size=n)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("n", [1, 2, 7, 60, 300])
def test_solution_is_that_of_numpy(name, n, rng):
    matrix, b = system(rng, n, definite=name == "cg")
    given = b.copy()
    x = SOLVERS[name](lambda v: matrix @ v, b, rtol=1e-12)
    np.testing.assert_allclose(x, np.linalg.solve(matrix, b), rtol=1e-8, atol=1e-10)
    assert np.array_equal(b, given)


@pytest.mark.parametrize("name", SOLVERS)
def test_zero_gives_zero(name):
    assert np.array_equal(SOLVERS[name](lambda v: 2 * v, np.zeros(3)), np.zeros(3))


@pytest.mark.parametrize("name", SOLVERS)
def test_too_few_products_raise(name, rng):
    matrix, b = system(rng, 80, definite=True)
    with pytest.raises(ImplicitError, match=f"{name} .* stopped with a residual"):
        SOLVERS[name](lambda v: matrix @ v, b, rtol=1e-12, maxiter=3, **({"restart": 3} if name == "gmres" else {}))


@pytest.mark.parametrize("name", SOLVERS)
def test_singular_systems_without_a_solution_raise(name):
    matrix = np.diag([1.0, 2.0, 0.0])
    with pytest.raises(ImplicitError):
        SOLVERS[name](lambda v: matrix @ v, np.ones(3))


def test_gmres_restarts(rng):
    matrix, b = system(rng, 60, definite=False)
    x = SOLVERS["gmres"](lambda v: matrix @ v, b, restart=10, maxiter=2000)
    np.testing.assert_allclose(matrix @ x, b, atol=1e-8)


def test_gmres_solves_what_the_others_do_not():
    rotation = np.array([[0.0, 1.0], [-1.0, 0.0]])
    b = np.array([1.0, 2.0])
    np.testing.assert_allclose(SOLVERS["gmres"](lambda v: rotation @ v, b), np.linalg.solve(rotation, b), atol=1e-14)
    for other in ("cg", "bicgstab"):
        with pytest.raises(ImplicitError):
            SOLVERS[other](lambda v: rotation @ v, b)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_the_size_of_the_right_hand_side_does_not_matter(name, size, rng):
    matrix, b = system(rng, 20, definite=True)
    x = SOLVERS[name](lambda v: matrix @ v, size * b)
    np.testing.assert_allclose(x / size, np.linalg.solve(matrix, b), rtol=1e-8, atol=1e-9)


def test_without_scipy_there_are_conjugate_gradients_and_dense_matrices(monkeypatch, rng):
    monkeypatch.setitem(sys.modules, "scipy.sparse.linalg", None)
    matrix, b = system(rng, 300, definite=True)
    for solve in ("cg", "dense"):
        x = functad.custom_linear_solve(lambda v: matrix @ v, b, solve)
        np.testing.assert_allclose(x, np.linalg.solve(matrix, b), atol=1e-8)
    for solve in (None, "gmres", "bicgstab"):
        with pytest.raises(MissingPackageError, match=r"linear solver .* at .*test_linear_solvers.py:.*pip install 'functad"):
            functad.custom_linear_solve(lambda v: matrix @ v, b, solve)


def test_singular_matrices_are_told_from_badly_scaled_ones():
    check_regular(np.diag([1e-8, 1.0]))
    check_regular(1e-200 * np.eye(2))
    for matrix in (np.ones((2, 2)), np.zeros((1, 1)), np.array([[np.nan]]), np.array([[1.0, 1.0], [1.0, 1.0 + 1e-16]])):
        with pytest.raises(ImplicitError):
            check_regular(matrix)
