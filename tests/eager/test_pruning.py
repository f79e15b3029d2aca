"""What an open tape lets go of: records whose results are dead, and nothing that can still be asked for."""

import gc
import itertools
import sys
import threading
import tracemalloc
import weakref

import numpy as np
import pytest

import functad
from functad.eager.tape import pruning
from functad.eager.tape.tape import GradientTape

tapes = pytest.mark.parametrize("persistent", [False, True])


# Memory


@tapes
def test_a_loop_whose_results_are_dead_takes_no_memory(persistent):
    x = functad.constant(1.0)
    with GradientTape(persistent=persistent) as tape:
        tape.watch(x)
        y = x * x
        most = 0
        for i in range(250_000):
            np.sin(x)
            if i % 1000 == 0:
                most = max(most, len(tape.recorder.equations))
        assert most < 200_000
        assert len(tape.recorder.equations) < 200_000
    assert float(tape.gradient(y, x)) == 2


def test_large_arrays_of_dead_results_are_freed(always):
    always(32)  # by the clock, how much is held depends on the machine
    x = functad.constant(np.ones(50_000))
    tracemalloc.start()
    with GradientTape() as tape:
        tape.watch(x)
        for _ in range(1500):
            y = np.sum(np.sin(x * 2.0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * x.nbytes  # everything would be more than 1500 times
    assert np.allclose(tape.gradient(y, x), 2 * np.cos(2.0))


@tapes
@pytest.mark.filterwarnings("ignore:the Variable:functad.errors.UnconnectedWarning")  # the outer tape follows what is assigned
def test_a_tape_open_over_a_training_loop(always, persistent):
    always(32)
    w, b = functad.Variable(np.ones(3)), functad.Variable(0.0)
    data = np.arange(12.0).reshape(4, 3)
    sizes = []
    with GradientTape(persistent=persistent) as outer:
        for _ in range(200):
            with GradientTape() as tape:
                loss = np.mean((data @ w + b - 1.0) ** 2)
            for g, variable in zip(tape.gradient(loss, [w, b]), [w, b], strict=True):
                variable.assign_sub(0.001 * g)
            sizes.append(len(outer.recorder.equations))
        blocks = len(gc.get_referrers(outer.recorder))
    assert max(sizes) < 150
    assert blocks < 50
    assert len(outer.recorder.variables[id(w)][1]) <= 2
    assert len(outer._slots) < 10
    assert outer.gradient(loss, w) is not None


def test_closure_of_an_operation_dies_with_its_result(always):
    class Held:
        pass

    def step(x):
        held = Held()

        @functad.custom_gradient
        def f(x):
            return x * 2.0, lambda dy, held=held: dy * 2.0

        return f(x), weakref.ref(held)

    x = functad.constant(3.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, held = step(x)
        y, _ = step(y)
        y, _ = step(y)
        np.sin(x)
        assert held() is not None  # the others depend on it
        del y
        for _ in range(3):
            np.sin(x)
        assert held() is None


def test_short_tapes_are_not_looked_at(monkeypatch):
    now = 0.0
    monkeypatch.setattr(pruning, "perf_counter", lambda: now)
    monkeypatch.setattr(pruning, "_prune", lambda recorder: looked.append(recorder))
    looked = []
    x = functad.constant(3.0)
    with GradientTape() as tape:
        tape.watch(x)
        for now in np.linspace(0.0, 0.025, 1000):  # noqa: B007 - the clock
            np.sin(x)
        assert not looked
        now = 0.1
        for _ in range(pruning.STEP + 1):
            np.sin(x)
        assert looked


def test_looking_takes_a_small_part_of_the_time(monkeypatch):
    """By a clock of the test's own: the next look comes many times as long after one as that took, whatever it took."""
    now = [100.0]
    monkeypatch.setattr(pruning, "perf_counter", lambda: now[0])
    monkeypatch.setattr(pruning, "thread_time", lambda: now[0])
    looked = []

    def taking_two_seconds(recorder):
        looked.append(now[0])
        now[0] += 2.0

    monkeypatch.setattr(pruning, "_prune", taking_two_seconds)
    schedule = pruning.Schedule()
    x = functad.constant(1.0)
    with GradientTape() as tape:
        tape.watch(x)
        for _ in range(400):
            schedule.prune(tape.recorder)
            now[0] += 1.0
    assert len(looked) > 2
    assert min(later - earlier for earlier, later in itertools.pairwise(looked)) >= pruning.SHARE * 2.0


def test_frozen_objects_hide_so_nothing_is_dropped(prune_every):
    prune_every(1)
    x = functad.constant(3.0)
    with GradientTape() as tape:
        tape.watch(x)
        y = x * x
        gc.freeze()
        try:
            for _ in range(10):
                np.sin(x)
            assert tape.stats()["records"] >= 11
        finally:
            gc.unfreeze()
        np.sin(x)
        assert tape.stats()["records"] <= 2
    assert float(tape.gradient(y, x)) == 6


# Gradients are what they were


def random_program(rng, x, w):
    """Run random operations on a pool of Tensors, most of which are forgotten, and return what is left."""
    pool = [x, x * w]
    for _ in range(40):
        a, b = (pool[rng.integers(len(pool))] for _ in range(2))
        kind = rng.integers(9)
        if kind == 0:
            new = np.sin(a) * 0.5
        elif kind == 1:
            new = a + b * 0.3
        elif kind == 2:
            new = np.where(np.arange(4) > 1, a, b)
        elif kind == 3:
            new = np.concatenate(np.split(a, 2)[::-1])
        elif kind == 4:
            new = np.stack([v * 0.9 for v in a])
        elif kind == 5:
            new = a * 1.0
            part = new[1:3]
            new[0] = b[1]
            new = new + np.sum(part) * 0.1
        elif kind == 6:
            new = np.tanh(np.sum(a)) + np.cumsum(b) * 0.1
        elif kind == 7:
            new = functad.recompute_grad(lambda v: np.cos(v) * 0.7)(a)
        else:
            new = np.outer(a, b)[1] * 0.2
        if rng.random() < 0.5 and len(pool) > 1:
            pool[rng.integers(len(pool))] = new
        else:
            pool.append(new)
        if len(pool) > 5:
            del pool[rng.integers(len(pool))]
    return pool


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("step", [1, 7])
def test_gradients_of_random_programs_do_not_change(always, monkeypatch, seed, step):
    def found():
        rng = np.random.default_rng(seed)
        x, w = functad.constant(np.linspace(-1, 1, 4)), functad.Variable(0.8)
        with GradientTape(persistent=True) as tape:
            tape.watch(x)
            pool = random_program(rng, x, w)
        records = tape.stats()["records"]
        sources = [x, w, *pool[:-1]]
        return [None if g is None else g.numpy() for y in pool for g in tape.gradient(y, sources)], records

    always(step)
    pruned, few = found()
    monkeypatch.setattr(pruning, "_prune", lambda recorder: None)
    whole, many = found()
    assert few < many
    assert len(pruned) == len(whole)
    for a, b in zip(pruned, whole, strict=True):
        assert (a is None) == (b is None)
        assert a is None or np.array_equal(a, b)


def test_higher_order_while_tapes_are_pruned(always, monkeypatch):
    monkeypatch.setattr(GradientTape, "_warned", True)
    x = functad.constant(2.0)
    with GradientTape() as outer:
        outer.watch(x)
        with GradientTape(persistent=True) as inner:
            inner.watch(x)
            for _ in range(3):
                np.cos(x) * x
            y = x**4
            g = inner.gradient(y, x)
            h = inner.gradient(g, x)
        np.exp(x)
    assert float(g) == 32
    assert float(h) == 48
    assert float(outer.gradient(h, x)) == 48


def test_functional_transforms_in_and_around(always):
    x = functad.constant(0.7)
    with GradientTape() as tape:
        tape.watch(x)
        for _ in range(5):
            y = functad.grad(lambda v: np.sin(v * v) * x)(x * 1.0)
    assert float(tape.gradient(y, x)) == pytest.approx(
        functad.grad(lambda x: functad.grad(lambda v: np.sin(v * v) * x)(x * 1.0))(0.7), rel=1e-14
    )

    def inside(x):
        with GradientTape() as tape:
            tape.watch(x := functad.constant(x))
            for _ in range(5):
                y = np.sin(x) ** 3
        return tape.gradient(y, x)

    assert functad.grad(inside)(0.7) == pytest.approx(functad.grad(functad.grad(lambda x: np.sin(x) ** 3))(0.7), rel=1e-14)


def test_graph(always):
    with functad.graph():
        x = functad.constant(3.0)
        for k in range(1, 21):
            y = x * x * float(k)
        (g,) = functad.gradients(y, x)
        (h,) = functad.gradients(g, x)
        assert len(x.recorder.equations) < 40
    assert float(g) == 120
    assert float(h) == 40


def test_tapes_that_are_left_entered_again_and_stopped(always):
    x = functad.constant(2.0)
    tape = GradientTape(persistent=True)
    with tape:
        tape.watch(x)
        np.sin(x)
        a = x * x
        with tape.stop_recording():
            b = x * a
        np.sin(x)
        c = a * b
    with GradientTape(persistent=True) as other:
        other.watch(a)
        np.sin(a)
        d = a * a * x
    with tape:
        np.sin(c)
        e = c * x
        np.sin(e)
    assert float(tape.gradient(c, x)) == 4 * 8
    assert float(tape.gradient(e, x)) == 32 + 4 * 2 * 8
    assert float(other.gradient(d, a)) == 16
    assert other.gradient(d, x) is None


def test_what_explain_says(always):
    x, v = functad.constant(2.0), functad.Variable(1.0, name="v")
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        v * 2.0
        v.assign(3.0)
        y = float((x * 3.0).numpy()) * functad.constant(1.0)  # leaves
        for _ in range(3):
            np.sin(x)
        assert "left the tape by numpy()" in tape.explain(y, x)
        assert "the results that did are gone" in tape.explain(x * 1.0, v)
        assert tape.watched_variables() == (v,)


def test_other_threads_and_their_tapes(always):
    always(4)
    x = functad.constant(2.0)
    wrong = []

    def work(k):
        for _ in range(30):
            with GradientTape() as tape:
                tape.watch(x)
                y = x * float(k)
                for _ in range(10):
                    np.sin(x) * y
                y = y * x
            if float(tape.gradient(y, x)) != 4.0 * k:
                wrong.append(k)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong
