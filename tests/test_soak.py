"""Gradients of ever changing shapes, one after the other, leave no memory behind.

`FUNCTAD_SOAK=100000 pytest tests/test_soak.py` runs as many; without the variable some two thousand run.
"""

import gc
import os
import tracemalloc

import numpy as np

import functad

COUNT = int(os.environ.get("FUNCTAD_SOAK", "2000"))
SHAPES = 97
"""A prime number of shapes, so that each shape meets each style."""


def value(x):
    y = np.sin(x) * x
    y[..., 0] = 2.0
    return np.sum(np.where(y > 0, y, 0.5 * y))


def by_tape(x):
    t = functad.constant(x)
    with functad.GradientTape() as tape:
        tape.watch(t)
        y = value(t)
    return tape.gradient(y, t).numpy()


def by_variable(x):
    v = functad.Variable(x)
    ((gradient, _),) = functad.implicit_gradients(lambda: value(v * 1.0))()
    return gradient


STYLES = [
    lambda x: functad.grad(value)(x),
    by_tape,
    lambda x: functad.gradients_function(value)(x)[0],
    by_variable,
    lambda x: functad.vmap(functad.grad(value))(x[None])[0],
    lambda x: functad.make_expressions(functad.grad(value))(x)(x),
]


def gradients(first, last):
    """Compute these gradients, each in the next style and at the next shape."""
    for number in range(first, last):
        n = number % SHAPES
        x = np.linspace(0.1, 1.0, (n % 9 + 1) * (n // 9 + 1)).reshape(n % 9 + 1, n // 9 + 1)
        found = STYLES[number % len(STYLES)](x)
        assert found.shape == x.shape
        assert not found[:, 0].any()  # it was overwritten


def held():
    gc.collect()
    return tracemalloc.get_traced_memory()[0], len(gc.get_objects())


def test_memory_stays_flat():
    """What is held after the second half is what was held after the first, but for caches of fixed size."""
    warm = SHAPES * len(STYLES)
    gradients(0, warm)
    tracemalloc.start()
    try:
        gradients(0, warm)
        bytes_before, objects_before = held()
        gradients(warm, max(COUNT, 2 * warm))
        bytes_after, objects_after = held()
    finally:
        tracemalloc.stop()
    assert bytes_after - bytes_before < 50_000
    assert objects_after - objects_before < 100
