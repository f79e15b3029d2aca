"""What the forward list of a compiled function keeps for its derivative."""

import numpy as np
import pytest

import functad

X = np.random.default_rng(0).normal(size=(120, 50))
W = np.random.default_rng(1).normal(size=(50, 40))


def kept(f, *args):
    """Return how many bytes the forward list of the gradient by the first argument returns beside the value."""
    jitted = functad.jit(f, backend="numpy")
    functad.grad(jitted)(*args)
    [entry] = jitted.compiler.entries.values()
    program = entry.program
    [(first, _, _, _)] = program._splits.values()
    specs = first.expressions.results[len(program.expressions.outputs) :]
    return sum(spec.size * spec.dtype.itemsize for spec in specs)


SIZE = X.size * 8
KEPT = {
    "arithmetic is computed again": (lambda x: np.sum((2 * x + 1) * (x * x)), 0),
    "one array for two": (lambda x: np.sum(np.tanh(x)), SIZE),
    "masks": (lambda x: np.sum(np.where(x > 0, x * 2, x)), 0),
    "broadcasts": (lambda x: np.sum(np.sin(x) * np.exp(np.sum(x, axis=1, keepdims=True))), 2 * SIZE + 120 * 8),
    "views": (lambda x: np.sum(np.exp(x).T[3:] @ np.ones((120, 2))), SIZE),
    "functions are not": (lambda x: np.sum(np.sin(x) * np.exp(x)), 3 * SIZE),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_cheap_is_computed_again(name):
    f, most = KEPT[name]
    assert kept(f, X) <= most
    assert np.allclose(functad.grad(functad.jit(f))(X), functad.grad(f)(X), rtol=1e-12, atol=1e-13)


def test_a_network_keeps_one_array_for_each_layer():
    def network(w, x):
        return np.mean(np.tanh(np.tanh(x @ w) @ w.T) ** 2)

    assert kept(network, W, X) <= 120 * (40 + 50) * 8
    assert np.allclose(functad.grad(functad.jit(network))(W, X), functad.grad(network)(W, X), rtol=1e-12, atol=1e-15)


def test_small_values_are_kept():
    assert kept(lambda x: np.sum((2 * x + 1) * np.sin(x)), np.ones(3)) >= 24


def test_exact_results_stay_exact():
    def f(x):
        return np.sum(np.tanh(x / 3.0) * (x * x + 1) ** 2)

    assert functad.grad(functad.jit(f, exact=True))(X).tobytes() == functad.grad(f)(X).tobytes()
