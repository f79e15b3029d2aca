"""Unrolled Python loops with slices that grow, shrink and move: native code runs them as block loops."""

import math

import numpy as np
import pytest

import functad
from tests.compilation.nested_loops import Writer

ALL = (0, 1, 2, 3)


def program(seed, of=lambda f: f):
    """Return a random program, a function of it, and arguments."""
    writer = Writer(seed)
    f = writer.program()
    return f, of(f), writer.arguments()


def leaves(tree):
    return [leaf for part in tree for leaf in leaves(part)] if isinstance(tree, tuple) else [tree]


def agree(f, args, backend="llvm"):
    expected, found = leaves(f(*args)), leaves(functad.jit(f, backend=backend)(*args))
    assert len(expected) == len(found)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


def loops_of(f, *args):
    return functad.jit(f, backend="llvm").lower(*args).source().count("= block_loop")


@pytest.mark.parametrize("seed", range(16))
def test_a_random_nest_has_its_value_and_gradient(seed):
    _, own, args = program(seed, lambda f: functad.value_and_grad(f, argnums=ALL))
    agree(own, args)


@pytest.mark.parametrize("seed", range(30, 34))
def test_a_random_nest_has_its_tangent(seed):
    f, _, args = program(seed)
    ts = tuple([np.cos(np.arange(a.size)).reshape(a.shape) for a in args])
    agree(lambda *own: functad.jvp(f, own, ts), args)


@pytest.mark.parametrize("seed", [36])
def test_a_random_nest_has_its_second_derivative(seed):
    f, _, args = program(seed)
    ts = tuple([np.cos(np.arange(a.size)).reshape(a.shape) for a in args])
    agree(lambda *own: functad.jvp(functad.grad(f, argnums=ALL), own, ts)[1], args)


@pytest.mark.parametrize("seed", [40])
def test_a_random_nest_has_a_batch_of_gradients(seed):
    f, _, args = program(seed)
    agree(functad.vmap(functad.grad(f, argnums=ALL)), [np.stack([a, 0.5 * a, -a]) for a in args])


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("seed", [44])
def test_a_compiled_nest_has_a_gradient(seed, backend):
    f, _, args = program(seed)
    expected = functad.grad(f, argnums=ALL)(*args)
    for a, b in zip(functad.grad(functad.jit(f, backend=backend), argnums=ALL)(*args), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


def triangular(L, b):
    x = np.zeros_like(b)
    for i in range(len(b)):
        x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]
    return np.sum(x * x)


def product(A, B):
    B = B.copy()
    for i in range(B.shape[0]):
        for j in range(B.shape[1]):
            B[i, j] += np.dot(A[i + 1 :, i], B[i + 1 :, j])
    return np.sum(B * B)


def cholesky(A):
    A = A.copy()
    for i in range(len(A)):
        for j in range(i):
            A[i, j] = (A[i, j] - A[i, :j] @ A[j, :j]) / A[j, j]
        A[i, i] = np.sqrt(A[i, i] - A[i, :i] @ A[i, :i])
    return np.sum(np.tril(A) ** 3)


def orthogonal(A):
    A, Q, R = A.copy(), np.zeros_like(A), np.zeros((A.shape[1], A.shape[1]), like=A)
    for k in range(A.shape[1]):
        R[k, k] = np.sqrt(A[:, k] @ A[:, k])
        Q[:, k] = A[:, k] / R[k, k]
        for j in range(k + 1, A.shape[1]):
            R[k, j] = Q[:, k] @ A[:, j]
            A[:, j] -= Q[:, k] * R[k, j]
    return np.sum(Q * np.cos(Q)) + np.sum(R * R)


def covariances(data):
    n = data.shape[1]
    data = data - np.mean(data, axis=0)
    found = np.zeros((n, n), like=data)
    for i in range(n):
        found[i:, i] = found[i, i:] = data[:, i] @ data[:, i:] / (len(data) - 1.0)
    return np.sum(found * found)


def convolution(images, weights):
    k = len(weights)
    n = images.shape[1] - k + 1
    out = np.zeros((len(images), n, n, weights.shape[-1]), like=images)
    for i in range(n):
        for j in range(n):
            out[:, i, j, :] = np.sum(images[:, i : i + k, j : j + k, :, np.newaxis] * weights, axis=(1, 2, 3))
    return np.sum(out * out)


def levinson(r):
    y = np.empty_like(r)
    y[0], alpha, beta = -r[0], -r[0], 1.0
    for k in range(1, len(r)):
        beta = beta * (1.0 - alpha * alpha)
        alpha = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / beta
        y[:k] += alpha * np.flip(y[:k])
        y[k] = alpha
    return np.sum(y * y)


def draws(*shapes):
    own = np.random.default_rng(0)
    return [own.uniform(0.1, 1.0, shape) for shape in shapes]


def definite(n):
    [a] = draws((n, n))
    return a @ a.T / n + 3 * np.eye(n)


KERNELS = {
    "triangular": (triangular, [definite(50), *draws(50)]),
    "product": (product, draws((9, 9), (9, 10))),
    "cholesky": (cholesky, [definite(14)]),
    "orthogonal": (orthogonal, draws((12, 12))),
    "covariances": (covariances, draws((20, 60))),
    "convolution": (convolution, draws((2, 11, 11, 2), (2, 2, 2, 3))),
    "levinson": (levinson, [draws(50)[0] / 20]),
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_a_few_block_loops_with_the_same_derivatives(name):
    f, args = KERNELS[name]
    g = functad.value_and_grad(f, argnums=tuple(range(len(args))))
    agree(g, args)
    assert 1 <= loops_of(f, *args) <= 2
    assert 2 <= loops_of(g, *args) <= 4


def test_a_triangular_loop_is_one_native_function(tmp_path):
    f, args = KERNELS["triangular"]
    lowered = functad.jit(functad.value_and_grad(f, argnums=(0, 1)), backend="llvm").lower(*args)
    assert "matmul" not in lowered.source()
    assert "native_2" not in lowered.source()
    code, header = lowered.object_file(tmp_path / "triangular")
    assert code.exists()
    assert header.exists()


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_write_of_no_elements_returns_an_array_of_its_own(count):
    def f(x, y):
        for i in range(count):
            x[:i] = y[:i]
        return x, y[:0], y[:0] @ x[:0], y[:0] @ np.outer(x[:0], y)

    x, y = np.arange(4.0), np.ones(4)
    for _ in range(2):
        found, expected = functad.jit(f, backend="llvm")(x, y), f(x.copy(), y)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)
        assert not np.may_share_memory(found[0], x)
        found[0][:] = found[3][:] = 7.0
    np.testing.assert_array_equal(x, np.arange(4.0))


def test_a_root_that_where_does_not_select_gives_no_nan():
    def f(x):
        x = x.copy()
        with np.errstate(invalid="ignore"):
            for i in range(1, 60):
                x[i] = np.where(x[i] > 0, np.sqrt(x[i]), 0.1 * x[i]) + 0.01 * np.sum(x[:i])
        return np.sum(x)

    [x] = draws(60)
    agree(functad.value_and_grad(f), (x - 0.5,))
    assert loops_of(functad.grad(f), x)


def test_a_state_of_an_array_that_is_read_later_is_kept():
    def f(x):
        y = np.zeros_like(x)
        for i in range(1, 40):
            before = y + 0.0
            y[i] = np.tanh(x[i] + np.sum(y[:i]))
            y[:i] -= 0.1 * before[:i]
        return np.sum(y * y)

    args = draws(40)
    agree(functad.value_and_grad(f), args)
    assert loops_of(f, *args)


def test_values_of_arrays_of_changing_size_are_blocks():
    def f(x):
        total = np.zeros_like(x)
        for i in range(2, 60):
            part = np.zeros(i, like=x)
            part[1:] = x[: i - 1] * x[1:i]
            part[0] = np.sum(part)
            total[:i] += 0.1 * np.sin(part)
        return np.sum(total * total)

    agree(functad.value_and_grad(f), draws(60))


def test_single_precision_and_integers_are_blocks():
    def f(x):
        n = np.zeros(60, np.int64, like=x)
        for i in range(1, 60):
            x[i] = np.float32(0.5) * x[i] + np.sum(x[:i]) * np.float32(0.01)
            n[i] = n[i - 1] + (x[i] > 0.3)
        return x, n

    [x] = draws(60)
    x = x.astype(np.float32)
    found, expected = functad.jit(f)(x), f(x.copy())
    assert [a.dtype for a in found] == [np.float32, np.int64]
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    np.testing.assert_array_equal(found[1], expected[1])


def test_a_long_sum_is_compensated():
    def f(x):
        y = np.zeros_like(x)
        for i in range(1, 40):
            y[i] = np.sum(x[i:])
        return y

    x = np.random.default_rng(0).uniform(size=16_000)
    found = functad.jit(f)(x)
    np.testing.assert_allclose(found[1:40], [math.fsum(x[i:]) for i in range(1, 40)], rtol=2e-16)


def test_short_loops_stay_in_the_list():
    def f(x):
        for i in range(1, 8):
            x[i] = x[i] + np.sum(x[:i])
        return x

    assert not loops_of(f, np.ones(8))
