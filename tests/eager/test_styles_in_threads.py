"""Eight threads, or eight coroutines, use every style of differentiation at once, and each gets its own derivative."""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import functad

THREADS = 8
X = np.array([0.5, 1.0, 2.0])


def value(x, factor):
    return np.sum(np.sin(x * factor) * x)


def differences(factor, step=1e-6):
    """The gradient at `X`, by central differences of plain NumPy."""
    return [(value(X + step * e, factor) - value(X - step * e, factor)) / (2 * step) for e in np.eye(len(X))]


def by_grad(factor):
    return functad.grad(value)(X, factor)


def by_tape(factor):
    x = functad.constant(X)
    with functad.GradientTape() as tape:
        tape.watch(x)
        y = value(x, factor)
    return tape.gradient(y, x).numpy()


def by_gradients_function(factor):
    return functad.gradients_function(lambda x: value(x, factor))(X)[0]


def by_implicit_gradients(factor):
    v = functad.Variable(X)
    ((gradient, variable),) = functad.implicit_gradients(lambda: value(v, factor))()
    assert variable is v
    return gradient


def by_vmap(factor):
    rows = functad.vmap(functad.grad(value), (0, None))(np.stack([X, 2 * X]), factor)
    return rows[0]


def by_jvp(factor):
    return [functad.jvp(lambda x: value(x, factor), (X,), (e,))[1] for e in np.eye(len(X))]


def by_jit_numpy(factor):
    return functad.jit(functad.grad(value), backend="numpy")(X, factor)


def by_jit_llvm(factor):
    return functad.jit(functad.grad(value), backend="llvm")(X, factor)


SHARED = {name: functad.jit(functad.grad(value), backend=name) for name in ("numpy", "llvm")}
"""Compiled once, by whichever thread comes first, and called by all."""

STYLES = [
    by_grad,
    by_tape,
    by_gradients_function,
    by_implicit_gradients,
    by_vmap,
    by_jvp,
    by_jit_numpy,
    by_jit_llvm,
    lambda factor: SHARED["numpy"](X, factor),
    lambda factor: SHARED["llvm"](X, factor),
]


def test_threads_use_every_style_at_once():
    """Each thread begins with another style, so that all styles meet each other; the interpreter switches all the time."""

    def work(number):
        factor = 1.0 + number / 10
        found = []
        for turn in range(len(STYLES)):
            style = STYLES[(turn + number) % len(STYLES)]
            found.append(np.asarray(style(factor)))
        return found

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            results = list(pool.map(work, range(THREADS)))
    finally:
        sys.setswitchinterval(interval)
    for number, found in enumerate(results):
        for gradient in found:
            np.testing.assert_allclose(gradient, differences(1.0 + number / 10), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("style", STYLES[:8], ids=lambda style: style.__name__)
def test_coroutines_with_open_tapes_use_every_style(style):
    """A tape stays open across each `await`, and what other coroutines do meanwhile is not on it."""
    order = []

    async def work(number):
        factor = 1.0 + number / 10
        x = functad.constant(X)
        with functad.GradientTape() as tape:
            tape.watch(x)
            y = x * factor
            await asyncio.sleep(0)
            own = style(factor)
            order.append(number)
            await asyncio.sleep(0)
            z = np.sum(np.sin(y) * x)
        return own, tape.gradient(z, x).numpy(), number

    async def main():
        return await asyncio.gather(*map(work, range(THREADS)))

    for own, taped, number in asyncio.run(main()):
        expected = differences(1.0 + number / 10)
        np.testing.assert_allclose(own, expected, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(taped, expected, rtol=1e-7, atol=1e-8)
    assert sorted(order) == list(range(THREADS))


def test_coroutines_interleave_in_a_trace():
    """A function below two tapes lets the other coroutines go on between its operations."""
    order = []

    async def traced(x, number):
        y = x * (number + 1.0)
        for _ in range(3):
            await asyncio.sleep(0)
            order.append(number)
            y = y * x
        return np.sum(y)

    async def work(number):
        x = functad.constant(X)
        with functad.GradientTape() as outer:
            outer.watch(x)
            with functad.GradientTape() as inner:
                inner.watch(x)
                y = await traced(x, number)
            first = inner.gradient(y, x)
        return first.numpy(), outer.gradient(first, x).numpy()

    async def main():
        return await asyncio.gather(*map(work, range(THREADS)))

    def by_complex_step(x, number, step=1e-30):
        y = x + 1j * step
        return (y * (number + 1.0) * y * y * y).imag / step

    for number, (first, second) in enumerate(asyncio.run(main())):
        np.testing.assert_allclose(first, by_complex_step(X, number), rtol=1e-14)
        slope = (by_complex_step(X + 1e-6, number) - by_complex_step(X - 1e-6, number)) / 2e-6
        np.testing.assert_allclose(second, slope, rtol=1e-8)
    assert order == [*range(THREADS)] * 3
