"""Hessians, their products and traces, against differences of gradients."""

import numpy as np
import pytest

import functad
from functad.testing import check_grads
from tests.differences import numerical_jacobian

RNG = np.random.default_rng(3)
B = RNG.normal(size=(4, 4))


def f(x):
    return np.sum(np.sin(B @ x) * np.exp(x * 0.3)) + np.prod(x)


X = RNG.normal(size=4)


HESSIAN = numerical_jacobian(functad.grad(f), X)


def test_hessian():
    found = functad.hessian(f)(X)
    np.testing.assert_allclose(found, HESSIAN, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(found, found.T, atol=1e-13)
    np.testing.assert_allclose(functad.hessian(f, chunk_size=3)(X), found, atol=1e-14)
    np.testing.assert_allclose(functad.jacrev(functad.jacrev(f))(X), found, atol=1e-13)
    found, aux = functad.hessian(lambda x: (np.sum(x**3), "aux"), has_aux=True)(X)
    assert aux == "aux"
    np.testing.assert_allclose(found, np.diag(6 * X))


def test_hessian_of_trees_and_several_arguments():
    def g(p, s):
        return np.sum(p["a"] ** 2 * s) * p["b"]

    blocks = functad.hessian(g, argnums=(0, 1))({"a": np.array([1.0, 2.0]), "b": 3.0}, 5.0)
    np.testing.assert_allclose(blocks[0]["a"][0]["a"], 30 * np.eye(2))
    np.testing.assert_allclose(blocks[0]["a"][0]["b"], [10.0, 20.0])
    np.testing.assert_allclose(blocks[0]["a"][1], [6.0, 12.0])
    np.testing.assert_allclose(blocks[1][0]["b"], 5.0)
    assert blocks[1][1] == 0.0


def test_hessian_of_a_holomorphic_function():
    z = np.array([1.0 + 1j, 2.0])
    np.testing.assert_allclose(functad.hessian(lambda z: np.sum(z**3), holomorphic=True)(z), np.diag(6 * z))


def test_value_grad_and_hessian_run_the_function_once():
    calls = []

    def counted(x):
        calls.append(0)
        return f(x)

    value, gradient, found = functad.value_grad_and_hessian(counted)(X)
    assert len(calls) == 1
    assert value == f(X)
    np.testing.assert_allclose(gradient, functad.grad(f)(X))
    np.testing.assert_allclose(found, functad.hessian(f)(X), atol=1e-14)


def test_hvp():
    t = RNG.normal(size=4)
    np.testing.assert_allclose(functad.hvp(f, (X,), (t,)), HESSIAN @ t, rtol=1e-7, atol=1e-8)
    by_x, by_y = functad.hvp(lambda x, y: np.sum(x**2 * y), (X, X), (t, 0 * t))
    np.testing.assert_allclose(by_x, 2 * X * t)
    np.testing.assert_allclose(by_y, 2 * X * t)
    rows = functad.vmap(lambda t: functad.hvp(f, (X,), (t,)))(np.eye(4))
    np.testing.assert_allclose(rows, HESSIAN, rtol=1e-7, atol=1e-8)
    with pytest.raises(functad.errors.InputError, match="hvp\\(f, \\(x,\\), \\(t,\\)\\)"):
        functad.hvp(f, X, t)


def test_gauss_newton_product():
    def model(x):
        return np.tanh(B @ x)

    def loss(y):
        return np.sum(np.cosh(y))

    t = RNG.normal(size=4)
    jacobian = functad.jacobian(model)(X)
    np.testing.assert_allclose(functad.gauss_newton_product(model, (X,), (t,)), jacobian.T @ (jacobian @ t))
    inner = numerical_jacobian(functad.grad(loss), model(X))
    found = functad.gauss_newton_product(model, (X,), (t,), loss)
    np.testing.assert_allclose(found, jacobian.T @ (inner @ (jacobian @ t)), rtol=1e-7)
    by_a, by_b = functad.gauss_newton_product(lambda a, b: a * b, (X, 2.0), (t, 1.0))
    np.testing.assert_allclose(by_a, 2.0 * (2.0 * t + X))
    np.testing.assert_allclose(by_b, X @ (2.0 * t + X))


@pytest.mark.parametrize("chunk_size", [None, 1, 3])
def test_diagonal_laplacian_and_divergence(chunk_size):
    diagonal = functad.hessian_diagonal(f, chunk_size=chunk_size)(X)
    np.testing.assert_allclose(diagonal, np.diag(HESSIAN), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(functad.laplacian(f, chunk_size=chunk_size)(X), np.trace(HESSIAN), rtol=1e-7)
    field = functad.grad(f)
    np.testing.assert_allclose(functad.divergence(field, chunk_size=chunk_size)(X), np.trace(HESSIAN), rtol=1e-7)


def test_diagonals_of_trees_and_of_what_is_constant():
    found = functad.hessian_diagonal(lambda p: np.sum(p["a"] ** 3) + p["b"] ** 2)({"a": np.array([[1.0, 2.0]]), "b": 1.0})
    np.testing.assert_allclose(found["a"], [[6.0, 12.0]])
    assert found["b"] == 2.0
    assert functad.laplacian(lambda x: np.sum(x))(np.ones(3)) == 0.0
    np.testing.assert_array_equal(functad.hessian_diagonal(lambda x: 1.0)(np.ones(3)), np.zeros(3))
    assert functad.divergence(lambda x: np.ones(3))(np.ones(3)) == 0.0
    with pytest.raises(functad.errors.InputError, match="has not the shapes"):
        functad.divergence(lambda x: x[:2])(np.ones(3))


def test_harmonic_functions_have_no_laplacian():
    points = RNG.normal(size=(6, 3)) + 2
    found = functad.vmap(functad.laplacian(lambda x: 1 / np.sqrt(np.sum(x * x))))(points)
    np.testing.assert_allclose(found, np.zeros(6), atol=1e-14)


def test_are_differentiated_further():
    check_grads(functad.laplacian(f), (X,))
    check_grads(lambda x: np.sum(functad.hessian(f)(x) ** 2), (X,))
    check_grads(lambda x: functad.hvp(f, (x,), (X,)), (X,))
    check_grads(functad.divergence(lambda x: np.sin(x) * x[::-1]), (X,))


def test_elementwise_grad():
    np.testing.assert_allclose(functad.elementwise_grad(np.sin)(X), np.cos(X))
    by_second = functad.elementwise_grad(lambda x, y: x * y**2, argnums=1)(X, 2 * X)
    np.testing.assert_allclose(by_second, 4 * X**2)
    assert functad.elementwise_grad(np.exp)(1.0) == np.exp(1.0)
    with pytest.raises(functad.errors.OutputError, match="one array"):
        functad.elementwise_grad(lambda x: (x, x))(X)
    with pytest.raises(functad.errors.OutputError, match="should be real"):
        functad.elementwise_grad(lambda x: x * 1j)(X)


@pytest.mark.parametrize("loss", [None, lambda y: np.sum(np.exp(y))])
def test_gauss_newton_product_runs_the_function_once(loss):
    runs = []

    def model(x):
        runs.append(x)
        return np.sin(x) * x[::-1]

    x, t = np.array([0.3, -0.7, 1.2]), np.array([1.0, 0.5, -2.0])
    product = functad.gauss_newton_product(model, (x,), (t,), loss)
    assert len(runs) == 1
    jacobian = np.stack([(model(x + 1e-6 * e) - model(x - 1e-6 * e)) / 2e-6 for e in np.eye(3)], axis=1)
    middle = np.eye(3) if loss is None else np.diag(np.exp(model(x)))
    np.testing.assert_allclose(product, jacobian.T @ middle @ jacobian @ t, rtol=1e-7)
