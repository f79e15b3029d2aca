"""A tree as one flat array, and back: under every transform, with every dtype, and what is refused."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import functad
from functad.errors import InputError, StructureError
from functad.testing import check_grads


class Point(NamedTuple):
    x: Any
    y: Any


TREE = {"w": np.arange(6.0).reshape(2, 3), "b": [0.5, np.array(7.0)], "p": Point(np.float32(1.5), None), "e": np.zeros((0, 2))}


def assert_same(found, expected):
    leaves, structure = functad.tree_flatten(found)
    wanted, same = functad.tree_flatten(expected)
    assert structure == same
    for a, b in zip(leaves, wanted, strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        assert np.array_equal(a, b)
        assert isinstance(a, np.ndarray) == isinstance(b, np.ndarray)


@pytest.mark.parametrize(
    ("tree", "dtype"),
    [
        (TREE, np.float64),
        (np.float32([[1, 2]]), np.float32),
        ([np.float32([1, 2]), np.float32(3)], np.float32),
        ({"a": np.array([1, 2]), "b": np.array([True, False]), "c": np.float32([0.5])}, np.float64),
        ([1, True, np.uint8(3)], np.int64),
        ((1 + 2j, [2.5], np.array([3])), np.complex128),
        (np.float16([1.5]), np.float16),
        (2.0, np.float64),
        ([], np.float64),
        (None, np.float64),
        ({"a": np.zeros((3, 0))}, np.float64),
        (np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.float64),
        (np.arange(10.0)[::-2], np.float64),
    ],
    ids=lambda v: type(v).__name__,
)
def test_there_and_back(tree, dtype):
    flat, unravel = functad.ravel(tree)
    assert isinstance(flat, np.ndarray)
    assert (flat.dtype, flat.ndim) == (dtype, 1)
    assert_same(unravel(flat), tree)


def test_python_number_keeps_its_precision_beside_float32():
    flat, unravel = functad.ravel([np.float32([1.0]), 0.1])
    assert flat.dtype == np.float64
    assert unravel(flat)[1] == 0.1


@pytest.mark.parametrize("tree", [[2**63], [2**64 - 1, np.uint8(3)], [2**63, 1.5]])
def test_python_integers_beyond_int64_are_uint64_as_in_numpy(tree):
    flat, unravel = functad.ravel(tree)
    assert_same(flat, np.concatenate([np.ravel(leaf) for leaf in tree]))
    assert_same(unravel(flat), [np.asarray(leaf)[()] for leaf in tree])


def test_leaves_follow_each_other_in_c_order():
    flat, _ = functad.ravel({"b": np.array([[1, 2], [3, 4]]).T, "a": 0})
    assert flat.tolist() == [0, 1, 3, 2, 4]


def test_result_shares_no_memory_with_the_argument():
    flat, unravel = functad.ravel(x := np.ones(3))
    tree = unravel(flat)
    tree[0] = 5.0
    assert flat[0] == x[0] == 1.0
    flat[1] = 7.0
    assert tree[1] == x[1] == 1.0


def test_unravel_takes_lists_and_other_dtypes():
    _, unravel = functad.ravel({"n": 3, "x": np.zeros(2, np.float32)})
    assert_same(unravel([1, 2, 3]), {"n": np.int64(1), "x": np.float32([2, 3])})
    assert unravel(np.array([1.0, 2.0, 3.0], np.float32))["x"].dtype == np.float32


@pytest.mark.parametrize("wrong", [np.zeros(2), np.zeros(4), np.zeros((3, 1)), 1.0])
def test_array_of_another_size_is_refused(wrong):
    _, unravel = functad.ravel([1.0, np.zeros(2)])
    with pytest.raises(StructureError, match=r"unravel, called at .*test_ravel.py:\d+, needs float64\[3\], not float64\["):
        unravel(wrong)


def test_complex_array_for_a_real_tree_is_refused():
    with pytest.raises(StructureError, match=r"got complex128\[1\] for a tree of float64"):
        functad.ravel(1.0)[1](np.array([1j]))


@pytest.mark.parametrize(
    ("leaf", "message"),
    [
        ("text", "is a str"),
        (np.array(["a"]), "is a ndarray of dtype <U1"),
        (np.array([None]), "is a ndarray of dtype object"),
        (object(), "is a object"),
        (2**64, "is an integer beyond int64 and uint64"),
        (-(2**63) - 1, "is an integer beyond int64 and uint64"),
        (2**63 + 1, "holds an integer too large for float64"),
        (2**60 + 1, "holds an integer too large for float64"),
        (np.array([2**63 - 1]), "holds an integer too large for float64"),
    ],
)
def test_leaf_that_is_refused_is_named(leaf, message):
    with pytest.raises(InputError, match=rf"ravel, called at .*test_ravel.py:\d+: tree\['w'\]\[1\] {message}"):
        functad.ravel({"a": 1.0, "w": [1.0, leaf]})


def test_variables_are_read():
    flat, unravel = functad.ravel({"v": functad.Variable(np.array([1.0, 2.0])), "c": functad.constant(3.0)})
    assert flat.tolist() == [3.0, 1.0, 2.0]
    assert_same(unravel(flat), {"v": np.array([1.0, 2.0]), "c": np.float64(3.0)})


# Under transforms


def weighted(tree):
    flat, _ = functad.ravel(tree)
    return np.sum(np.sin(flat) * np.arange(1.0, flat.shape[0] + 1))


def of_flat(flat):
    tree = functad.ravel({"b": 0.0, "w": np.zeros((2, 2), np.float64)})[1](flat)
    return np.sum(tree["w"] @ tree["w"] * tree["b"]) + tree["b"] ** 3


X = np.array([0.7, 0.3, -0.2, 0.9, 1.1])


def test_derivatives_of_ravel():
    check_grads(weighted, ({"b": 0.4, "w": np.array([[0.1, 0.2], [0.3, -0.4]])},), order=2)


def test_derivatives_of_unravel():
    check_grads(of_flat, (X,), order=2)


def test_derivatives_keep_the_dtypes_of_the_leaves():
    tree = {"a": np.float32([0.25, 0.5]), "b": np.array([0.75]), "c": np.array([0.5 + 0.25j])}
    gradient = functad.grad(lambda t: np.sum(np.abs(functad.ravel(t)[0]) ** 2))(tree)
    assert [gradient[k].dtype for k in "abc"] == [np.float32, np.float64, np.complex128]
    for k in "abc":  # that of |z|^2 is twice the conjugate
        np.testing.assert_allclose(gradient[k], 2 * np.conj(tree[k]), rtol=1e-6)


def test_ravel_and_unravel_inside_one_function():
    def f(tree):
        flat, unravel = functad.ravel(tree)
        back = unravel(flat * flat)
        return np.sum(back["w"]) * back["b"]

    tree = {"b": 2.0, "w": np.array([1.0, 3.0])}
    gradient = functad.grad(f)(tree)
    assert_same(gradient, {"b": np.float64(40.0), "w": np.array([8.0, 24.0])})


def test_jacobian_of_unravel_is_the_identity():
    _, unravel = functad.ravel({"b": 0.0, "w": np.zeros((2, 2))})
    rows = functad.jacobian(unravel)(X)
    assert np.array_equal(np.concatenate([rows["b"][None], rows["w"].reshape(4, 5)]), np.eye(5))


def test_abstract_trace():
    expressions = functad.make_expressions(of_flat)(X)
    assert expressions(X) == of_flat(X)
    shapes = functad.eval_shape(lambda t: functad.ravel(t)[0], {"b": 0.0, "w": np.zeros((2, 2), np.float32)})
    assert str(shapes) == "float64[5]"


def test_integers_in_an_abstract_trace():
    shapes = functad.eval_shape(lambda n, x: functad.ravel([n, x])[0], np.array([1, 2]), 0.5)
    assert str(shapes) == "float64[3]"


def test_on_a_tape():
    v = functad.Variable(np.array([1.0, 2.0]))
    with functad.GradientTape() as tape:
        flat, unravel = functad.ravel([v, 3.0])
        y = np.sum(unravel(flat**2)[0])
    assert tape.gradient(y, v).numpy().tolist() == [2.0, 4.0]


def test_per_example_gradients():
    """The flat gradient of each example is the row that the example alone gives, and so is that by `unravel`."""
    rng = np.random.default_rng(0)
    examples = {"b": rng.normal(size=4), "w": rng.normal(size=(4, 2, 2)).astype(np.float32)}
    flat = functad.vmap(lambda tree: functad.ravel(functad.grad(weighted)(tree))[0])(examples)
    rows = rng.normal(size=(4, 5))
    gradients, products = functad.vmap(functad.grad(of_flat))(rows), functad.vmap(functad.hessian(of_flat))(rows)
    for i in range(4):
        alone = functad.grad(weighted)({"b": examples["b"][i], "w": examples["w"][i]})
        np.testing.assert_array_equal(flat[i], functad.ravel(alone)[0])
        np.testing.assert_allclose(gradients[i], functad.grad(of_flat)(rows[i]), rtol=1e-12)
        np.testing.assert_allclose(products[i], functad.hessian(of_flat)(rows[i]), rtol=1e-12)
