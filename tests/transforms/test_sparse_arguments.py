"""Sparse derivatives by arguments that are chosen by name, and of functions that return something beside their result."""

import numpy as np
import pytest

import functad
from functad.errors import InputError, OutputError
from tests.differences import numerical_jacobian

pytest.importorskip("scipy.sparse", reason="these tests read SciPy's matrices")
X, Y = np.array([0.4, 1.2, -0.3, 0.8]), np.array([1.0, 2.0, 3.0, -1.0])


def f(x, scale, y):
    return np.sin(x) * scale * y**2 + np.append(x[1:], 0.0)


def test_names():
    by_y = functad.sparse_jacobian(f, argnames="y")(X, 2.0, y=Y)
    np.testing.assert_allclose(by_y.toarray(), numerical_jacobian(lambda y: f(X, 2.0, y), Y), atol=1e-8)
    assert by_y.nnz == 4
    assert functad.jacobian_sparsity(f, X, 2.0, Y, argnames="y").nnz == 4
    both = functad.sparse_jacobian(f, argnums=(0,), argnames=("scale",))(X, 2.0, Y)
    expected = np.concatenate([numerical_jacobian(lambda x: f(x, 2.0, Y), X), (np.sin(X) * Y**2)[:, None]], axis=1)
    np.testing.assert_allclose(both.toarray(), expected, atol=1e-8)
    with pytest.raises(InputError, match="'z'"):
        functad.sparse_jacobian(f, argnames="z")(X, 2.0, Y)
    with pytest.raises(InputError, match=r": kwargs\['scale'\] is no array of real floats"):
        functad.sparse_jacobian(f, argnames="scale")(X, scale=2, y=Y)


def test_names_in_hessians():
    total = lambda x, y: np.sum(f(x, 2.0, y) ** 2)  # noqa: E731
    found = functad.sparse_hessian(total, argnames="y", check=True)(X, y=Y)
    np.testing.assert_allclose(found.toarray(), numerical_jacobian(lambda y: functad.grad(total, 1)(X, y), Y), atol=1e-6)
    assert functad.hessian_sparsity(total, X, Y, argnames=("y",)) == functad.SparsityPattern.of(np.eye(4))


@pytest.mark.parametrize("mode", ["column", "row", "bidirectional"])
def test_what_is_returned_beside_the_result(mode):
    def with_aux(x):
        return f(x, 2.0, Y), {"squares": x * x, "name": "aux"}

    matrix, aux = functad.sparse_jacobian(with_aux, mode=mode, has_aux=True, check=True)(X)
    np.testing.assert_allclose(matrix.toarray(), numerical_jacobian(lambda x: f(x, 2.0, Y), X), atol=1e-8)
    assert aux["name"] == "aux"
    assert type(aux["squares"]) is np.ndarray
    np.testing.assert_array_equal(aux["squares"], X * X)
    assert functad.jacobian_sparsity(with_aux, X, has_aux=True) == functad.jacobian_sparsity(lambda x: f(x, 2.0, Y), X)


def test_what_is_returned_beside_a_number():
    @functad.sparse_hessian(has_aux=True)
    def total(x):
        y = f(x, 2.0, Y)
        return np.sum(y**3), y

    matrix, aux = total(X)
    expected = numerical_jacobian(functad.grad(lambda x: np.sum(f(x, 2.0, Y) ** 3)), X)
    np.testing.assert_allclose(matrix.toarray(), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(aux, f(X, 2.0, Y))
    with pytest.raises(OutputError, match="pair"):
        functad.sparse_jacobian(lambda x: x, has_aux=True)(X)


def test_inside_another_transform():
    def entries(s):
        matrix, aux = functad.sparse_jacobian(lambda x: (s * x**2, s * x), has_aux=True)(X)
        return np.sum(matrix.values) + np.sum(aux)

    assert functad.grad(entries)(3.0) == pytest.approx(np.sum(2 * X) + np.sum(X))
