"""The iterative linear solvers: against NumPy's own, and where there is no solution."""

import numpy as np
import pytest

from functad.errors import ImplicitError
from functad.implicit.linear_solvers import SOLVERS, bicgstab, check_regular, conjugate_gradients, gmres


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
    with pytest.raises(ImplicitError, match=f"{name} .* stopped after .* products"):
        SOLVERS[name](lambda v: matrix @ v, b, rtol=1e-12, maxiter=3)


@pytest.mark.parametrize("solve", [gmres, bicgstab, conjugate_gradients])
def test_singular_systems_without_a_solution_raise(solve):
    matrix = np.diag([1.0, 2.0, 0.0])
    with pytest.raises(ImplicitError):
        solve(lambda v: matrix @ v, np.ones(3))


def test_gmres_restarts(rng):
    matrix, b = system(rng, 60, definite=False)
    x = gmres(lambda v: matrix @ v, b, restart=10, maxiter=2000)
    np.testing.assert_allclose(matrix @ x, b, atol=1e-8)


def test_gmres_solves_what_the_others_do_not():
    rotation = np.array([[0.0, 1.0], [-1.0, 0.0]])
    b = np.array([1.0, 2.0])
    np.testing.assert_allclose(gmres(lambda v: rotation @ v, b), np.linalg.solve(rotation, b), atol=1e-14)
    for other in (conjugate_gradients, bicgstab):
        with pytest.raises(ImplicitError):
            other(lambda v: rotation @ v, b)


def test_singular_matrices_are_told_from_badly_scaled_ones():
    check_regular(np.diag([1e-8, 1.0]))
    check_regular(1e-200 * np.eye(2))
    for matrix in (np.ones((2, 2)), np.zeros((1, 1)), np.array([[np.nan]]), np.array([[1.0, 1.0], [1.0, 1.0 + 1e-16]])):
        with pytest.raises(ImplicitError):
            check_regular(matrix)
