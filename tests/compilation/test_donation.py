"""`jit(donate_argnums=)`: results are the same, memory is reused, and no other array changes."""

from __future__ import annotations

import importlib.util
import pickle

import numpy as np
import pytest

import functad
from functad.errors import InputError

N = 40_000
BACKENDS = [
    pytest.param(
        name, marks=pytest.mark.skipif(package is not None and importlib.util.find_spec(package) is None, reason="optional")
    )
    for name, package in [("numpy", None), ("llvm", "llvmlite"), ("xla", "jax")]
]
llvm = pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="optional")


def numbers(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def loss(w, x):
    return np.mean(np.tanh(x @ w) ** 2)


def descended(w, x):
    value, slope = functad.value_and_grad(loss)(w, x)
    return w - 0.1 * slope, value


def adam(state, g):
    w, m, v = state
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    return (w - 0.01 * m / (np.sqrt(v) + 1e-8), m, v), np.sum(w * g)


def table(a, row):
    return a * row + np.sum(a, 0), row + a[0], a[::2, 1:].copy()


CASES = [
    ("update", lambda x, g: x - 0.1 * g, lambda: (numbers(N), numbers(N, 1)), 1),
    ("elementary", lambda x, g: np.exp(-x * x) + np.sin(g), lambda: (numbers(N), numbers(N, 1)), 1),
    ("shifted", lambda x, g: np.roll(x, 1) + x[::-1] * g, lambda: (numbers(N), numbers(N, 1)), 1),
    ("transposed", lambda x, g: x * 2.0 + g.T, lambda: (numbers((200, 200)), numbers((200, 200), 1)), 1),
    ("own transpose", lambda x, g: x + x.T + g, lambda: (numbers((200, 200)), numbers((200, 200), 1)), 1),
    ("descent", descended, lambda: (numbers((200, 300)), numbers((20, 200), 1)), 1),
    ("adam", adam, lambda: (tuple([numbers(N, i) ** 2 for i in range(3)]), numbers(N, 3)), 3),
    ("rows", table, lambda: (numbers((3, N)), numbers(N, 1)), 1),
    ("single precision", lambda x, g: x + g, lambda: (numbers(2 * N).astype("f4"), numbers(2 * N, 1).astype("f4")), 1),
    ("product", lambda x, g: (x @ g, x + 1), lambda: (numbers((200, 200)), numbers((200, 200), 1)), 1),
    ("same", lambda x, g: (x, x + g), lambda: (numbers(N), numbers(N, 1)), 1),
    ("twice", lambda x, g: (x + g,) * 2, lambda: (numbers(N), numbers(N, 1)), 0),
    ("no result", lambda x, g: np.sum(x * g), lambda: (numbers(N), numbers(N, 1)), 0),
    ("integers", lambda x, n: x * n, lambda: (np.arange(N), 3), 1),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("name", "f", "arguments", "reused"), CASES, ids=[case[0] for case in CASES])
def test_results_are_the_same_and_memory_is_reused(backend, name, f, arguments, reused):
    compiled = functad.jit(f, donate_argnums=0, backend=backend)
    for _ in range(2):
        given = arguments()
        donated = functad.trees.flatten(given[0])[0]
        outs = functad.trees.flatten(compiled(*given))[0]
        for out, expected in zip(outs, functad.trees.flatten(f(*arguments()))[0], strict=True):
            np.testing.assert_allclose(out, expected, rtol=2e-6 if np.asarray(out).dtype == np.float32 else 1e-9, atol=1e-12)
        np.testing.assert_array_equal(given[1], arguments()[1])
        if backend == "llvm":
            assert sum([np.shares_memory(out, a) for out in outs for a in donated]) == reused


@llvm
def test_arrays_that_must_not_change_are_copied():
    f = functad.jit(lambda x, g: (x * 2.0 + g, np.sum(x)), donate_argnums=0, backend="llvm")
    whole = numbers(2 * N)
    x = numbers(N)
    locked = numbers(N)
    locked.setflags(write=False)
    for given in [
        (whole[:N], numbers(N, 1)),
        (whole[::2], numbers(N, 1)),
        (x, x),
        (x, x[::-1]),
        (locked, numbers(N, 1)),
    ]:
        before = [a.copy() for a in given]
        out, total = f(*given)
        np.testing.assert_array_equal(out, before[0] * 2.0 + before[1])
        np.testing.assert_allclose(total, before[0].sum())
        for a, copy in zip(given, before, strict=True):
            np.testing.assert_array_equal(a, copy)
            assert not np.shares_memory(a, out)


@llvm
def test_constants_and_variables_are_not_overwritten():
    constant, variable = numbers(N), functad.Variable(numbers(N, 1))
    f = functad.jit(lambda x: x * 2.0 + constant + variable, donate_argnums=0, backend="llvm")
    before = constant.copy()
    for given in (constant, before.copy()):  # the list has a copy of the constant
        np.testing.assert_array_equal(f(given).numpy(), before * 2.0 + before + variable.numpy())
    value = variable.numpy().copy()
    functad.jit(lambda v: v * 2.0, donate_argnums=0, backend="llvm")(variable)
    np.testing.assert_array_equal(variable.numpy(), value)


@llvm
def test_a_running_tape_keeps_its_residuals():
    step = functad.jit(lambda x: x * 3.0, donate_argnums=0, backend="llvm")
    x, w = numbers(N), functad.Variable(numbers(N, 1))
    before = x.copy()
    with functad.GradientTape() as tape:
        y = np.sum(w * x)
        step(x)
    np.testing.assert_array_equal(tape.gradient(y, w), before)


@llvm
def test_the_arguments_are_whole_when_a_nan_is_computed_again():
    def f(x, g):
        return x - functad.grad(lambda x: np.sum(np.where(x > 0, np.sqrt(np.where(x > 0, x, 0.0)), 0.0) * g))(x)

    compiled = functad.jit(f, donate_argnums=0, backend="llvm")
    for x in (np.abs(numbers(N)), numbers(N)):
        expected = f(x.copy(), numbers(N, 1))
        np.testing.assert_allclose(compiled(x.copy(), numbers(N, 1)), expected)


@llvm
def test_the_arguments_are_whole_after_an_error():
    compiled = functad.jit(lambda x, i: (x * 2.0, x[i]), donate_argnums=0, backend="llvm")
    x = numbers(N)
    with pytest.raises(IndexError):
        compiled(x, np.array([N]))
    np.testing.assert_array_equal(x, numbers(N))
    assert np.shares_memory(compiled(x, np.array([3]))[0], x)


@llvm
def test_names_branches_derivatives_and_pickles():
    def f(x, y, flip=1.0):
        return x + y if np.sum(y) > 0 else x - y

    by_name = functad.jit(lambda x, y: x * y, donate_argnames="y", backend="llvm")
    x, y = numbers(N), numbers(N, 1)
    assert np.shares_memory(by_name(x, y), y)
    y = numbers(N, 1)
    assert np.shares_memory(by_name(x, y=y), y)
    y = numbers(N, 1)
    assert np.shares_memory(functad.jit(np.multiply, donate_argnums=1, backend="llvm")(x, y), y)
    branching = functad.jit(f, donate_argnums=0, backend="llvm")
    for sign in (1.0, -1.0, 1.0, -1.0):
        np.testing.assert_array_equal(branching(x.copy(), sign * abs(y)), f(x, sign * abs(y)))
    before = x.copy()
    np.testing.assert_array_equal(functad.grad(lambda x: np.sum(by_name(x, x)))(x), 2 * before)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(functad.vmap(by_name)(x, x), before**2)
    again = pickle.loads(pickle.dumps(functad.jit(np.multiply, donate_argnums=0, backend="llvm")))
    assert np.shares_memory(again(x, y), x)


def test_an_argument_is_not_static_and_donated():
    with pytest.raises(InputError, match="static and donated"):
        functad.jit(lambda x, n: x * n, static_argnums=1, donate_argnames="n")
    with pytest.raises(InputError, match="donate_argnums has 2"):
        functad.jit(lambda x, n: x * n, donate_argnums=2)


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="optional")
def test_xla_takes_the_memory_of_arrays_of_jax():
    import jax

    x = jax.numpy.ones(N)
    out = functad.jit(lambda x: x + 1.0, donate_argnums=0, backend="xla")(x)
    assert x.is_deleted()
    np.testing.assert_array_equal(out, np.full(N, 2.0))
