"""Products of a Tensor with a constant sparse matrix of SciPy: values, derivatives, batches, patterns, and what is refused."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import functad
from functad.errors import ConversionError, UnsupportedError
from functad.primitives.linalg import sparse_products
from functad.testing import check_grads

sparse = pytest.importorskip("scipy.sparse", reason="SciPy is an extra")

DENSE = np.array([[1.0, 0.0, 2.0, 0.0], [0.0, 3.0, 0.0, -1.0], [0.0, 0.0, 0.5, 0.0]])
X = np.array([0.3, -1.2, 0.8, 2.0])
XS = np.random.default_rng(0).normal(size=(4, 2))
FORMATS = [
    "csr_array",
    "csc_array",
    "coo_array",
    "bsr_array",
    "dia_array",
    "dok_array",
    "lil_array",
    "csr_matrix",
    "coo_matrix",
]
each_format = pytest.mark.parametrize("name", FORMATS)


def sparse_matrix(name: str, dense: Any = DENSE) -> Any:
    return getattr(sparse, name)(dense)


def both_sides(a: Any) -> Any:
    """Return a function of NumPy code with products from both sides, of vectors and matrices."""

    def f(x: Any, xs: Any) -> Any:
        y = a @ (x**2)
        z = (y * y) @ a
        return np.sum(np.sin(z)) + np.sum((xs.T @ a.T) ** 3) + np.sum(np.tanh(a @ xs))

    return f


@each_format
def test_derivatives_are_those_of_the_dense_matrix(name: str) -> None:
    f, g = both_sides(sparse_matrix(name)), both_sides(DENSE)
    np.testing.assert_allclose(f(X, XS), g(X, XS), rtol=1e-14)
    check_grads(f, (X, XS), order=2)
    for found, expected in zip(functad.grad(f, (0, 1))(X, XS), functad.grad(g, (0, 1))(X, XS), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13)
    np.testing.assert_allclose(functad.hessian(f)(X, XS), functad.hessian(g)(X, XS), rtol=1e-12, atol=1e-12)
    tangents = functad.jvp(f, (X, XS), (np.ones(4), np.ones((4, 2))))[1]
    np.testing.assert_allclose(tangents, functad.jvp(g, (X, XS), (np.ones(4), np.ones((4, 2))))[1], rtol=1e-13)


@each_format
def test_other_spellings(name: str) -> None:
    a = sparse_matrix(name)
    np.testing.assert_array_equal(functad.jacobian(lambda x: np.matmul(a, x))(X), DENSE)
    np.testing.assert_array_equal(functad.jacobian(lambda x: np.matmul(x, a.T))(X), DENSE)
    variable = functad.Variable(X)
    with functad.GradientTape() as tape:
        y = np.sum((a @ variable) ** 2) + np.sum(variable @ a.T)
    np.testing.assert_allclose(tape.gradient(y, variable).numpy(), 2 * DENSE.T @ (DENSE @ X) + DENSE.sum(0), rtol=1e-14)


def test_batches() -> None:
    a = sparse_matrix("csr_array")
    rows, blocks = np.stack([X, 2 * X, -X]), np.stack([XS, XS**2])
    np.testing.assert_allclose(functad.vmap(lambda x: a @ x)(rows), rows @ DENSE.T, rtol=1e-14)
    np.testing.assert_allclose(functad.vmap(lambda x: x @ a.T)(rows), rows @ DENSE.T, rtol=1e-14)
    np.testing.assert_allclose(functad.vmap(lambda x: a @ x)(blocks), DENSE @ blocks, rtol=1e-14)
    found = functad.vmap(functad.hessian(lambda x: np.sum((a @ x) ** 3)))(rows)
    expected = [functad.hessian(lambda x: np.sum((DENSE @ x) ** 3))(row) for row in rows]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_lists_and_patterns() -> None:
    a = sparse_matrix("csr_array")
    listed = functad.make_expressions(lambda x: a @ x)(X)
    assert "sparse_matmul[matrix=csr_array(float64[3, 4], nnz=5)] x" in str(listed)
    np.testing.assert_array_equal(listed(X), DENSE @ X)
    for f in (lambda x: a @ x, listed):
        assert np.array_equal(functad.jacobian_sparsity(f, X).toarray(), DENSE != 0)
    pattern = functad.jacobian_sparsity(lambda xs: a @ xs, XS).toarray()
    assert np.array_equal(pattern, np.kron(DENSE != 0, np.eye(2, dtype=bool)))
    hessian = functad.hessian_sparsity(lambda x: np.sum((a @ x) ** 2), X).toarray()
    assert np.array_equal(hessian, (DENSE.T @ DENSE) != 0)
    np.testing.assert_array_equal(functad.sparse_jacobian(lambda x: a @ x)(X).toarray(), DENSE)


def test_float32_and_integers() -> None:
    single = sparse.csr_array(DENSE.astype(np.float32))
    found = functad.grad(lambda x: np.sum(single @ x))(X.astype(np.float32))
    assert found.dtype == np.float32
    counts = sparse.csr_array(np.array([[1, 0], [2, 3]]))
    np.testing.assert_array_equal(functad.jacobian(lambda x: counts @ x)(np.ones(2)), [[1.0, 0.0], [2.0, 3.0]])


def test_complex() -> None:
    a = sparse.csr_array(DENSE * (1 + 2j))
    f = lambda x: np.sum(np.abs(a @ x) ** 2)  # noqa: E731
    np.testing.assert_allclose(functad.grad(f)(X), functad.grad(lambda x: np.sum(np.abs(a.toarray() @ x) ** 2))(X), rtol=1e-13)


def test_a_matrix_that_is_overwritten_later() -> None:
    """A record keeps what the matrix was; one that stays the same is kept once."""
    a = sparse_matrix("csr_array")

    def f(x: Any) -> Any:
        y = np.sum((a @ x) ** 2)
        a.data[:] = 0.0
        return y

    np.testing.assert_allclose(functad.grad(f)(X), 2 * DENSE.T @ (DENSE @ X), rtol=1e-14)
    b = sparse_matrix("csr_array")
    assert sparse_products.kept_apart(b) is sparse_products.kept_apart(b)
    key = id(b)
    assert key in sparse_products._KEPT
    del b
    gc.collect()
    assert key not in sparse_products._KEPT


@each_format
def test_what_is_refused(name: str) -> None:
    a = sparse_matrix(name)
    for f in (lambda x: a + x, lambda x: x / a, lambda x: a.multiply(x)):
        with pytest.raises((UnsupportedError, ConversionError), match="A @ t"):
            functad.grad(lambda x, f=f: np.sum(f(x)))(X)
    with pytest.raises((UnsupportedError, ConversionError), match="A @ t"):
        functad.grad(lambda x: np.sum(np.dot(a, x)))(X)
    with pytest.raises(ValueError, match=r"matmul of shapes \(3, 4\) and \(3,\).*: 4 and 3 differ"):
        functad.grad(lambda x: np.sum(a @ x[:3]))(X)
    with pytest.raises(ValueError, match=r"matmul of shapes \(4,\) and \(3, 4\).*: 4 and 3 differ"):
        functad.grad(lambda x: np.sum(x @ a))(X)
    with pytest.raises(UnsupportedError, match="Reshape"):
        functad.grad(lambda x: np.sum(a @ x))(np.ones((2, 4, 2)))
