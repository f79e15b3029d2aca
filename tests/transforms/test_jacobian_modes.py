"""The forms of the Jacobian: modes, chunks, complex numbers, values; against differences and each other."""

import tracemalloc

import numpy as np
import pytest

import functad
from functad.testing import check_grads
from tests.differences import numerical_jacobian

RNG = np.random.default_rng(7)
A = RNG.normal(size=(5, 3))


FUNCTIONS = {
    "tall": (lambda x: np.tanh(A @ x), RNG.normal(size=3)),
    "wide": (lambda x: np.sin(x @ A)[:2], RNG.normal(size=5)),
    "matrix": (lambda x: np.linalg.inv(x) @ np.exp(x), RNG.normal(size=(3, 3)) + 3 * np.eye(3)),
    "branches and masks": (lambda x: x[x > 0] ** 2 if np.sum(x) > -100 else x, np.array([1.0, -2.0, 3.0])),
    "loop that writes": (lambda x: _cumulated(x), RNG.normal(size=4)),
    "sorted": (lambda x: np.sort(x)[::-1] * np.arange(4.0), RNG.normal(size=4)),
    "decomposition": (lambda x: np.linalg.svd(x)[1], RNG.normal(size=(3, 2))),
}


def _cumulated(x):
    out = np.zeros_like(x)
    total = 0.0
    for i in range(len(x)):
        total = total * 0.5 + x[i] ** 2
        out[i] = total
    return out


@pytest.mark.parametrize("chunk_size", [None, 1, 2])
@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_modes_agree_with_differences(name, mode, chunk_size):
    f, x = FUNCTIONS[name]
    found = functad.jacobian(f, mode=mode, chunk_size=chunk_size)(x)
    np.testing.assert_allclose(found, numerical_jacobian(f, x), rtol=1e-6, atol=1e-8)
    assert found.flags.writeable


@pytest.mark.parametrize("transform", [functad.jacfwd, functad.jacrev, functad.jacobian])
def test_trees_and_several_arguments(transform):
    def f(p, y):
        return {"a": p["w"] * y, "b": [np.sum(p["w"]) * p["c"]]}

    p, y = {"w": np.array([1.0, 2.0]), "c": 3.0}, np.array([4.0, 5.0])
    by_p, by_y = transform(f, argnums=(0, 1))(p, y)["a"]
    np.testing.assert_array_equal(by_p["w"], np.diag(y))
    np.testing.assert_array_equal(by_p["c"], [0.0, 0.0])
    np.testing.assert_array_equal(by_y, np.diag(p["w"]))
    by_p, by_y = transform(f, argnums=(0, 1))(p, y)["b"][0]
    np.testing.assert_array_equal(by_p["w"], [3.0, 3.0])
    assert by_p["c"] == 3.0
    np.testing.assert_array_equal(by_y, [0.0, 0.0])
    by_name = transform(f, argnames=["y"])(p, y=y)["a"]["y"]
    np.testing.assert_array_equal(by_name, np.diag(p["w"]))


@pytest.mark.parametrize("transform", [functad.jacfwd, functad.jacrev, functad.jacobian])
def test_aux_integers_and_single_precision(transform):
    found, aux = transform(lambda x: (x * 2, "text"), has_aux=True)(np.ones(2, np.float32))
    assert (found.dtype, aux) == (np.float32, "text")
    with pytest.raises(functad.errors.InputError, match="Integers have no derivative"):
        transform(lambda x: x * 2.0)(np.arange(3))
    found = transform(lambda x: x * 2.0, allow_int=True)(np.arange(3))
    np.testing.assert_array_equal(found, np.zeros((3, 3)))
    assert transform(lambda x: x[:0])(np.ones(3)).shape == (0, 3)
    assert transform(lambda x: np.ones(2) * np.sum(x))(np.ones(0)).shape == (2, 0)
    assert transform(lambda x: np.ones(2))(np.ones(3)).shape == (2, 3)


def test_value_and_jacobian_run_the_function_once():
    calls = []

    def f(x):
        calls.append(x)
        return np.stack([x[0] * x[1], x[0], x[1], x[0] ** 2, x[1] ** 3])

    value, found = functad.value_and_jacobian(f)(np.array([2.0, 3.0]))
    assert len(calls) == 1
    np.testing.assert_array_equal(value, [6.0, 2.0, 3.0, 4.0, 27.0])
    np.testing.assert_array_equal(found, [[3.0, 2.0], [1.0, 0.0], [0.0, 1.0], [4.0, 0.0], [0.0, 27.0]])
    (value, aux), found = functad.value_and_jacobian(lambda x: (x**2, 5), has_aux=True)(3.0)
    assert (value, aux, found) == (9.0, 5, 6.0)


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_complex_results_of_real_arguments(mode):
    def f(x):
        return np.exp(1j * x) * np.sum(x)

    x = np.array([0.3, -0.2])
    found = functad.jacobian(f, mode=mode)(x)
    assert found.dtype == np.complex128
    np.testing.assert_allclose(found, numerical_jacobian(f, x), rtol=1e-7)
    assert functad.jacobian(lambda x: x * np.complex64(1j), mode=mode)(np.float32(1.0)).dtype == np.complex64


def test_complex_arguments():
    z = np.array([1.0 + 2j, -0.5j])
    for mode in ("auto", "forward", "reverse"):
        found = functad.jacobian(lambda z: z**2 * z[0], holomorphic=True, mode=mode)(z)
        np.testing.assert_allclose(found, np.diag(2 * z * z[0]) + np.outer(z**2, [1, 0]))
    real = functad.jacobian(lambda z: np.abs(z) ** 2)(z)  # as grad: du/dx - i du/dy
    np.testing.assert_allclose(real, np.diag(2 * np.conj(z)))
    with pytest.raises(functad.errors.InputError, match="holomorphic=True if f is holomorphic"):
        functad.jacobian(lambda z: z * np.conj(z))(z)
    with pytest.raises(functad.errors.InputError, match="columns are asked for"):
        functad.jacfwd(lambda z: np.abs(z))(z)


def test_nests():
    def f(x):
        return np.sum(np.sin(x) * x[::-1] ** 2)

    x = np.array([0.3, -1.2, 2.0])
    expected = functad.jacrev(functad.jacrev(functad.jacrev(f, chunk_size=1), chunk_size=1), chunk_size=1)(x)
    for outer in (functad.jacfwd, functad.jacrev):
        for middle in (functad.jacfwd, functad.jacrev):
            for inner in (functad.jacfwd, functad.jacrev):
                np.testing.assert_allclose(outer(middle(inner(f)))(x), expected, atol=1e-12)
    check_grads(lambda x: functad.jacobian(f)(x) @ x, (x,))


def test_other_traces_around_and_inside():
    x = np.array([0.3, -1.2, 2.0])

    def outer(w):
        return np.sum(functad.jacobian(lambda x: np.tanh(w * x) * w)(x) ** 2)

    check_grads(outer, (x,))
    listed = functad.make_expressions(functad.jacfwd(lambda x: np.tanh(A @ x)))(x)
    np.testing.assert_allclose(listed(x), functad.jacobian(lambda x: np.tanh(A @ x))(x), atol=1e-15)
    with functad.GradientTape() as tape:
        v = functad.Variable(x)
        total = np.sum(functad.jacfwd(lambda x: np.tanh(x) * v)(x))
    np.testing.assert_allclose(tape.gradient(total, v).numpy(), functad.elementwise_grad(np.tanh)(x), atol=1e-12)


def test_chunks_bound_the_memory():
    weights = RNG.normal(size=(400, 400))

    def f(x):
        for _ in range(3):
            x = np.tanh(weights @ x)
        return x

    def peak(chunk_size):
        tracemalloc.start()
        functad.jacrev(f, chunk_size=chunk_size)(np.ones(400))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    whole, small = peak(400), peak(20)
    assert small < 0.75 * whole  # the result itself is 1.3 MB


def test_refuses_what_it_does_not_know():
    with pytest.raises(functad.errors.InputError, match="mode is 'sideways'"):
        functad.jacobian(np.sin, mode="sideways")
    with pytest.raises(functad.errors.InputError, match="chunk_size is 0"):
        functad.jacrev(np.sin, chunk_size=0)
    with pytest.raises(functad.errors.InputError, match="jacfwd needs a function"):
        functad.jacfwd("f")


def test_debug_nans_looks_into_it():
    with np.errstate(all="ignore"), functad.debug_nans(), pytest.raises(functad.errors.NotFiniteError, match="log"):
        functad.jacfwd(lambda x: np.log(x))(np.array([1.0, -1.0]))
