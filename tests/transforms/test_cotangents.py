"""Chunks of cotangents and tangents for Jacobians: the limit of their memory."""

import numpy as np
import pytest

import functad
from functad import constant, sparse_hessian, sparse_jacobian
from functad.transforms import jacobian
from tests.eager.taped import counting, taped


def test_memory_bounds_the_chunks(monkeypatch):
    monkeypatch.setattr(jacobian, "MEMORY", 1000)
    calls = []
    square = counting(calls)
    tape, y, (x,) = taped(square, np.ones(100))
    assert np.array_equal(tape.jacobian(y, x).numpy(), 2 * np.eye(100))
    assert len(calls) == 10  # of 10 rows, of 100 numbers each


def test_examples_around_the_tape_count_for_the_chunks(monkeypatch):
    monkeypatch.setattr(jacobian, "MEMORY", 1000)
    sizes = []
    chunks = jacobian.chunks
    monkeypatch.setattr(
        "functad.transforms.jacobian.chunks",
        lambda *given: [sizes.append(part.stop - part.start) or part for part in chunks(*given)],
    )

    def rows(x):
        tape, y, (t,) = taped(lambda t: np.tanh(t) * t, x)
        return tape.jacobian(y, t)

    x = np.linspace(-1.0, 1.0, 80).reshape(4, 20)
    found = functad.vmap(rows)(x)
    assert sizes == [12, 8]  # 1000 / (4 * 20)
    np.testing.assert_allclose(found, np.stack([rows(constant(row)).numpy() for row in x]), rtol=1e-13)


@pytest.mark.filterwarnings("ignore::functad.errors.LoopWarning")
def test_many_colors_are_computed_at_once():
    """More colours than are pushed one by one: a band of 21, in both directions, and with several chunks."""

    def f(x):
        padded = np.concatenate([x[-10:], x, x[:10]])
        return sum(np.sin(padded[i : i + len(x)]) * (i + 1) for i in range(21)) * x

    x = np.random.default_rng(0).normal(size=42)
    expected = functad.jacobian(f)(x)
    for memory in (jacobian.MEMORY, 42 * 32 * 8):
        old, jacobian.MEMORY = jacobian.MEMORY, memory
        try:
            for mode in ("column", "row"):
                np.testing.assert_allclose(sparse_jacobian(f, mode=mode, check=True)(x).toarray(), expected, atol=1e-12)
            energy = sparse_hessian(lambda x: np.sum(f(x) ** 2), check=True)(x)
        finally:
            jacobian.MEMORY = old
        second = functad.jacobian(functad.grad(lambda x: np.sum(f(x) ** 2)))(x)
        np.testing.assert_allclose(energy.toarray(), second, rtol=1e-9, atol=1e-9)
