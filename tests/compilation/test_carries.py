"""Carries of scans that a step computes from others, and final carries in place of the last rows of stacked results."""

import numpy as np
import pytest

import functad


def smoothed(a, b):
    a, b = a.copy(), b.copy()
    for _ in range(60):
        b[1:-1] = 0.3 * (a[:-2] + a[1:-1] + a[2:])
        a[1:-1] = 0.3 * (b[:-2] + b[1:-1] + b[2:])
    return a, b


def smoothed_2d(a, b):
    a, b = a.copy(), b.copy()
    for _ in range(60):
        b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])
        a[1:-1, 1:-1] = 0.2 * (b[1:-1, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:] + b[2:, 1:-1] + b[:-2, 1:-1])
    return a, b


def exchanged(a, b):
    c = a * b
    for _ in range(90):
        a[2:-3] = a[2:-3] * 0.5 + b[1:-4]
        c[:5] = c[:5] - a[:5] * 0.1
        a, b, c = b, c, a
    return a, b, c


def overlapping(a, b):
    for _ in range(90):
        a[1:] = 0.5 * a[:-1] + b[1:] * 0.1  # reads other elements than it writes
        b[::2] = b[::2] - 0.1 * a[::2]
        b[3:] = b[3:] * 0.9 + np.sum(a) * 0.01
    return a, b


@pytest.mark.parametrize("f", [smoothed, smoothed_2d, exchanged, overlapping], ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_time_loops_equal_eager(f, backend):
    shape = (9, 11) if f is smoothed_2d else (23,)
    rng = np.random.default_rng(0)
    a, b = rng.random(shape), rng.random(shape)

    def run(a, b):
        return f(a.copy(), b.copy())

    def loss(a, b):
        return sum(np.sum(x**2) for x in run(a, b))

    for found, expected in zip(functad.jit(run, backend=backend)(a, b), run(a, b), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    g = functad.grad(loss, argnums=(0, 1))
    found, expected = functad.jit(g, backend=backend)(a, b), g(a, b)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_a_time_loop_has_two_carries_and_no_stack():
    a = np.ones(300)
    text = functad.jit(smoothed, backend="llvm").lower(a, a).dump("passes")
    last = text[text.rindex("\n-- ") :]
    assert "scan[carries=2 rows=0" in last
    assert ",300]" not in last


def test_a_time_loop_moves_no_array():
    """Each half step is one loop over the elements: the new elements are written into the older array."""
    a = np.ones(300)
    text = functad.jit(smoothed, backend="llvm").lower(a, a).dump("loops")
    main = text[text.index("native_1(") :]
    steps = main[main.index("  for ") :].splitlines()[1:]
    body = [line for line in steps if line.startswith("    ")]
    assert sum("part" in line for line in body) == 1


def test_rows_before_the_last_ones_stay():
    def f(x):
        def step(c, _):
            new = np.tanh(c[0] + 1.0)
            return (new, c[0]), new

        (last, before), rows = functad.scan(step, (x, x * 2), None, length=7)
        return last, before, rows[6], rows[5], rows[4]

    def g(x):
        def step(c, _):
            new = np.tanh(c[0] + 1.0)
            return (new, c[0]), new

        (last, before), rows = functad.scan(step, (x, x * 2), None, length=7)
        return last + before, rows[6] * rows[5]

    x = np.linspace(0, 1, 9)
    for h in (f, g):
        for backend in ("llvm", "numpy"):
            for found, expected in zip(functad.jit(h, backend=backend)(x), h(x), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_a_carry_that_is_computed_from_another():
    def f(x):
        def step(c, _):
            a, b = c
            a = np.sin(a) + b
            return (a, a[::-1] * 2.0), None

        return functad.scan(step, (x, x[::-1] * 2.0), None, length=5)[0]

    x = np.linspace(0, 1, 9)
    text = functad.jit(f, backend="llvm").lower(x).dump("passes")
    for backend in ("llvm", "numpy"):
        for found, expected in zip(functad.jit(f, backend=backend)(x), f(x), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-13)
    assert "scan[carries=1" in text[text.rindex("\n-- ") :]


def test_a_value_that_is_written_into_two_arrays():
    def f(x, y):
        a, b = x.copy(), y.copy()
        c = np.exp(x[1:-1]) + y[:-2]
        a[1:-1] = c
        b[2:] = c
        a[0] = np.sum(b)
        b[1:-1] += a[2:] * c
        a[2:] = a[2:] * a[2:] + x[2:]
        return a, b, c

    x, y = np.linspace(0, 1, 40), np.linspace(1, 2, 40)
    for found, expected in zip(functad.jit(f, backend="llvm")(x, y), f(x, y), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13)
