"""`jacobian`: shapes, trees, nesting."""

import numpy as np
import pytest

import functad
from tests.differences import numerical_jacobian


def test_shapes_and_values():
    a = np.arange(6.0).reshape(2, 3)
    x = np.array([0.1, 0.2, 0.3])
    np.testing.assert_allclose(functad.jacobian(lambda x: a @ x)(x), a)
    matrix = np.arange(4.0).reshape(2, 2)
    found = functad.jacobian(lambda m: np.sin(m) @ m)(matrix)
    assert found.shape == (2, 2, 2, 2)
    np.testing.assert_allclose(found, numerical_jacobian(lambda m: np.sin(m) @ m, matrix), rtol=1e-7, atol=1e-8)


def test_trees_in_and_out():
    found = functad.jacobian(lambda p: {"s": p["a"] * p["b"], "t": [p["a"]]})({"a": np.array([1.0, 2.0]), "b": 3.0})
    np.testing.assert_array_equal(found["s"]["a"], [[3.0, 0.0], [0.0, 3.0]])
    np.testing.assert_array_equal(found["s"]["b"], [1.0, 2.0])
    np.testing.assert_array_equal(found["t"][0]["a"], np.eye(2))
    np.testing.assert_array_equal(found["t"][0]["b"], [0.0, 0.0])


def test_argnums_aux_and_scalars():
    by_x, by_y = functad.jacobian(lambda x, y: x * y, argnums=(0, 1))(np.ones(2), 3.0)
    assert (by_x.shape, by_y.shape) == ((2, 2), (2,))
    assert functad.jacobian(lambda x: x**2)(3.0) == 6.0
    found, aux = functad.jacobian(lambda x: (x * 2, "text"), has_aux=True)(np.ones(2))
    np.testing.assert_array_equal(found, 2 * np.eye(2))
    assert aux == "text"


def test_empty_result_and_empty_input():
    assert functad.jacobian(lambda x: x[:0])(np.ones(3)).shape == (0, 3)
    assert functad.jacobian(lambda x: np.ones(2) * np.sum(x))(np.ones(0)).shape == (2, 0)


def test_boolean_masks_and_branches_work_inside():
    def f(x):
        return x[x > 0] * 2 if np.sum(x) > 0 else x

    np.testing.assert_array_equal(functad.jacobian(f)(np.array([1.0, -1.0, 3.0])), [[2.0, 0, 0], [0, 0, 2.0]])


def test_hessian_is_symmetric_and_right():
    def f(x):
        return np.sum(np.sin(x) * x[::-1] ** 2)

    x = np.array([0.3, -1.2, 2.0])
    hessian = functad.jacobian(functad.grad(f))(x)
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-12)
    np.testing.assert_allclose(hessian, numerical_jacobian(functad.grad(f), x), rtol=1e-6, atol=1e-8)
    assert functad.jacobian(functad.jacobian(functad.jacobian(f)))(x).shape == (3, 3, 3)


def test_complex():
    z = np.array([1.0 + 2j, -0.5j])
    np.testing.assert_allclose(functad.jacobian(lambda z: z**2, holomorphic=True)(z), np.diag(2 * z))


def test_needs_a_function():
    with pytest.raises(functad.errors.InputError, match="jacobian needs a function"):
        functad.jacobian("f")


def test_results_of_several_leaves_share_no_memory():
    x = np.arange(5.0)
    f = lambda x: (x, x[:3], {"y": 2.0 * x, "z": x})  # noqa: E731 - the function is one expression
    for transform in (functad.jacfwd, functad.jacrev, functad.jacobian):
        found = functad.tree_leaves(transform(f)(x))
        assert not any(np.shares_memory(a, b) for i, a in enumerate(found) for b in found[:i])
        for block, slope in zip(found, (1.0, 1.0, 2.0, 1.0), strict=True):
            np.testing.assert_array_equal(block, slope * np.eye(5)[: len(block)])
            block[...] = np.nan
