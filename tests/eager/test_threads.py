"""Tapes are a matter of one thread, coroutine and context."""

import asyncio
import contextvars
import os
import pathlib
import signal
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import functad
from functad import ForwardAccumulator, GradientTape


def in_thread(f):
    """Run a function in a thread of its own, and return its result."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(f).result()


def test_other_threads_do_not_see_the_tape():
    x = functad.constant(3.0)
    v = functad.Variable(2.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = in_thread(lambda: x * x * v)
        assert tape.watched_variables() == ()
        before = tape.stats()["records"]
        z = y * x
    assert before == 0
    assert tape.gradient(y, x) is None
    assert float(tape.gradient(z, x)) == 18
    assert float(y) == 18


def test_values_are_plain_in_other_threads():
    x = functad.constant([1.0, 2.0])
    with GradientTape() as tape:
        tape.watch(x)
        y = x * x
        assert in_thread(lambda: float(np.asarray(y).sum() + y[1] + y.numpy()[0])) == 10
    assert np.array_equal(tape.gradient(y, x).numpy(), [2, 4])


def test_tape_in_a_thread_of_its_own():
    x = functad.constant(3.0)

    def slope():
        with GradientTape() as tape:
            tape.watch(x)
            y = x**3
        return float(tape.gradient(y, x))

    with GradientTape() as tape:
        v = functad.Variable(3.0)
        y = v * v
        assert in_thread(slope) == 27
    assert float(tape.gradient(y, v)) == 6


def test_many_threads_share_variables(rng):
    v = functad.Variable(rng.normal(size=5))
    barrier = threading.Barrier(4)
    slopes = {}

    def work(number):
        barrier.wait()
        for _ in range(50):
            with GradientTape() as tape:
                y = np.sum(v**2 * number)
            slopes[number] = tape.gradient(y, v).numpy()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.allclose(slopes[n], 2 * n * v.numpy()) for n in range(4))


def test_many_threads_watch_one_tensor():
    x = functad.constant([1.0, 2.0])
    barrier = threading.Barrier(4)
    slopes = []

    def work(power):
        barrier.wait()
        for _ in range(100):
            with GradientTape() as tape:
                tape.watch(x)
                y = np.sum(x**power)
            slopes.append((power, tape.gradient(y, x).numpy()))

    threads = [threading.Thread(target=work, args=(n,)) for n in (2, 3, 4, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(slopes) == 400
    assert all(np.array_equal(g, [n, n * 2 ** (n - 1)]) for n, g in slopes)
    assert np.array_equal((x * 1).numpy(), [1, 2])


def test_thread_watches_what_another_follows_at_higher_order():
    x = functad.constant(3.0)

    def curvature():
        with GradientTape() as outer:
            outer.watch(x)
            with GradientTape() as inner:
                inner.watch([x, x])
                y = x**3
            g = inner.gradient(y, x)
        return float(g), float(outer.gradient(g, x))

    with GradientTape() as tape:
        tape.watch(x)
        y = x * x
        assert in_thread(curvature) == (27, 18)
        z = y * x
    assert float(tape.gradient(z, x)) == 27


def test_tape_can_be_asked_in_another_thread():
    x = functad.constant(3.0)
    with GradientTape() as tape:
        tape.watch(x)
        y = x * x
    assert float(in_thread(lambda: tape.gradient(y, x))) == 6


def test_accumulators_and_scopes_are_of_one_thread_too():
    x = functad.constant(3.0)
    with ForwardAccumulator(x, 1.0) as accumulator:
        y = in_thread(lambda: x * x)
        z = x * x
    assert accumulator.jvp(y) is None
    assert float(accumulator.jvp(z)) == 6
    with functad.graph():
        a = in_thread(lambda: functad.constant(2.0) * 3.0)
        b = a * a
        (g,) = functad.gradients(b, a)
        assert g.numpy() == 12


def test_coroutines_do_not_meet():
    x = functad.constant(2.0)
    order = []

    async def slope(power, pause):
        with GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(power - 1):
                await asyncio.sleep(pause)
                order.append(power)
                y = y * x
            assert tape.stats()["records"] == power - 1
        return tape.gradient(y, x).numpy()

    async def main():
        return await asyncio.gather(slope(2, 0.002), slope(3, 0.001), slope(4, 0.001))

    assert asyncio.run(main()) == [4, 12, 32]
    assert order != sorted(order)


def test_coroutines_inherit_the_tape_that_is_open():
    x = functad.constant(2.0)

    async def squared():
        await asyncio.sleep(0)
        return x * x

    async def main():
        with GradientTape() as tape:
            tape.watch(x)
            y = await squared()
        return float(tape.gradient(y, x))

    assert asyncio.run(main()) == 4


def test_variables_in_coroutines():
    v = functad.Variable(3.0)

    async def slope(factor):
        with GradientTape() as tape:
            await asyncio.sleep(0)
            y = v * factor
            await asyncio.sleep(0)
            y = y * v
        return float(tape.gradient(y, v))

    async def main():
        return await asyncio.gather(*[slope(float(n)) for n in range(4)])

    assert asyncio.run(main()) == [0, 6, 12, 18]


def test_copied_contexts():
    x = functad.constant(3.0)
    with GradientTape() as tape:
        tape.watch(x)
        y = contextvars.copy_context().run(lambda: x * x)
    assert float(tape.gradient(y, x)) == 6


def test_generators():
    x = functad.constant(3.0)

    def steps():
        with GradientTape() as tape:
            tape.watch(x)
            y = x * x
            yield
            y = y * x
        yield tape.gradient(y, x).numpy()

    first, second = steps(), steps()
    next(first)
    next(second)
    assert next(first) == 27
    assert next(second) == 27


@pytest.mark.parametrize("count", [2, 8])
def test_transforms_in_threads_beside_tapes(count):
    def work(n):
        if n % 2:
            return functad.grad(lambda x: x**3)(float(n))
        x = functad.constant(float(n))
        with GradientTape() as tape:
            tape.watch(x)
            y = x**3
        return float(tape.gradient(y, x))

    with ThreadPoolExecutor(count) as pool:
        assert list(pool.map(work, range(20))) == [3 * n**2 for n in range(20)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_is_forked_beside_threads_with_tapes_goes_on():
    """The threads stand in the middle of `watch` at times, with a lock that nobody gives back in the new process."""
    stop = threading.Event()

    def work():
        while not stop.is_set():
            x = [functad.constant(float(i)) for i in range(50)]
            with GradientTape() as tape:
                tape.watch(x)

    threads = [threading.Thread(target=work) for _ in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for _ in range(20):
            child = os.fork()
            if not child:
                signal.alarm(20)  # ends the process if it hangs
                x = functad.constant(3.0)
                with GradientTape() as tape:
                    tape.watch(x)
                    y = x * x
                os._exit(int(float(tape.gradient(y, x)) != 6.0))
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()


def test_threads_that_share_variables_functions_and_constants():
    """Each has its own tapes, models and files; Variables that are read, functions and constants belong to all."""
    shared, given = functad.Variable([1.0, 2.0]), functad.constant([3.0, 4.0])
    slope = functad.grad(lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0) * x))
    expected = slope(np.array([1.0, 4.0])).tolist()

    def work(number):
        model = functad.nn.Dense(1, inputs=2, rng=number)
        optimizer = functad.optimizers.Adam(0.01)
        for step in range(15):
            with GradientTape() as tape:
                tape.watch(given)
                y = np.sum(shared * shared * given) + np.sum(model(given[None]) * shared)
            at_shared, at_given, *own = tape.gradient(y, [shared, given, *model.variables])
            kernel = model.kernel.numpy()[:, 0]
            np.testing.assert_allclose(at_given.numpy(), [1.0, 4.0] + kernel * 3.0, err_msg=f"{step}")
            assert at_shared.numpy().shape == (2,)
            optimizer.apply_gradients(zip(own, model.variables, strict=True))
            assert slope(np.array([1.0, 4.0])).tolist() == expected
            with functad.graph():
                a = functad.constant(2.0)
                (g,) = functad.gradients(a * a * shared[0], a)
            assert float(g) == 4.0
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder, "model.npz")
                functad.save([model, optimizer], file)
                functad.restore([model, optimizer], file)
        return optimizer.iterations

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(work, range(8))) == [15] * 8
    finally:
        sys.setswitchinterval(interval)
