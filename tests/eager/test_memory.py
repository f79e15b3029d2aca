"""What tapes keep alive, and when they let go: seen through weak references and `tracemalloc`."""

import gc
import sys
import tracemalloc
import weakref

import numpy as np
import pytest

import functad
from functad import ForwardAccumulator, GradientTape


class Array(np.ndarray):
    """An array that can be referred to weakly, so that its end can be seen."""


@pytest.fixture(autouse=True)
def without_collector(small_heap):
    """Dropped objects are freed at once, without the cycle collector."""
    gc.disable()
    yield
    gc.enable()


def closure():
    """Return a function with a rule that holds an object, and a weak reference to what the rule holds."""

    class Held:
        pass

    held = Held()

    @functad.custom_gradient
    def f(x):
        def rule(dy, held=held):
            return dy * 2.0

        return x * 2.0, rule

    return f, weakref.ref(held)


def test_gradient_frees_the_records_at_once():
    f, held = closure()
    x = functad.constant(3.0)
    tape = GradientTape()
    with tape:
        tape.watch(x)
        y = f(x) * x
    del f
    assert held() is not None
    tape.gradient(y, x)
    assert held() is None


def test_persistent_tape_holds_them_until_it_is_collected():
    f, held = closure()
    x = functad.constant(3.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x) * x
    del f
    tape.gradient(y, x)
    assert held() is not None
    del tape
    assert held() is None
    assert float(y) == 18


def test_persistent_tape_that_is_reset():
    f, held = closure()
    x = functad.constant(3.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        f(x)
        del f
        assert held() is not None
        tape.reset()
        assert held() is None


def test_tape_that_was_never_asked():
    f, held = closure()
    x = functad.constant(3.0)
    with GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    del f, tape
    assert held() is None
    assert float(y) == 6


def test_tape_that_is_entered_again_after_its_gradient():
    f, held = closure()
    x = functad.constant(3.0)
    tape = GradientTape()
    with tape:
        tape.watch(x)
        y = f(x)
    del f
    tape.gradient(y, x)
    with tape:
        assert held() is None


def test_nothing_is_kept_when_nothing_is_watched():
    f, held = closure()
    x = functad.constant(3.0)
    with GradientTape(persistent=True) as tape:
        y = f(x) * x
        del f
        assert held() is None
        assert tape.stats() == {"records": 0, "bytes": 0}
        a = functad.constant(np.ones(10))
        dead = weakref.ref(np.sin(a) * 2.0)
        assert dead() is None
    assert tape.gradient(y, x) is None


def test_work_before_a_watch_is_not_kept():
    x, z = functad.constant(np.ones(100)), functad.constant(np.ones(100))
    with GradientTape(persistent=True) as tape:
        tape.watch(z)
        for _ in range(10):
            x = np.sin(x) * x
        assert tape.stats() == {"records": 0, "bytes": 0}
        y = np.sin(z)
    assert tape.stats()["records"] == 1
    assert tape.gradient(y, x) is None


def test_tensors_die_with_their_last_name():
    x = functad.constant(np.ones(3))
    tensors = []
    with GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(5):
            y = np.sin(y)
            tensors.append(weakref.ref(y))
        assert [ref() is None for ref in tensors] == [True] * 4 + [False]
    tape.gradient(y, x)
    del y
    assert tensors[-1]() is None


def test_sources_and_variables_are_let_go():
    v, x = functad.Variable(np.ones(3)), functad.constant(np.ones(3))
    with GradientTape() as tape:
        tape.watch(x)
        y = np.sum(v * x)
    tape.gradient(y, [v, x])
    refs = weakref.ref(v), weakref.ref(x)
    del x, y
    assert refs[1]() is None
    del v, tape
    assert refs[0]() is None


def test_tape_itself_is_let_go():
    x = functad.constant(3.0)
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    ref = weakref.ref(tape)
    del tape
    assert ref() is None
    assert float(x * y) == 27


def test_value_of_a_result_does_not_hold_the_list():
    f, held = closure()
    x = functad.constant(3.0)
    with GradientTape() as tape:
        tape.watch(x)
        y = f(x)
        z = y * y
    del f, y
    g = tape.gradient(z, x)
    assert held() is None
    assert float(g) == 24
    assert float(z) == 36


# Tapes that share a list


def test_inner_tape_drops_what_the_outer_does_not_own():
    f, held = closure()
    x, z = functad.constant(3.0), functad.constant(2.0)
    with GradientTape() as outer:
        outer.watch(z)
        with GradientTape() as inner:
            inner.watch(x)
            y = f(x) * z
        del f
        assert held() is not None
        g = inner.gradient(y, x)
        assert held() is None
    assert float(outer.gradient(g, z)) == 2


def test_inner_tape_leaves_what_the_outer_owns():
    f, held = closure()
    x = functad.constant(3.0)
    with GradientTape() as outer:
        outer.watch(x)
        with GradientTape() as inner:
            inner.watch(x)
            y = f(x)
        del f
        inner.gradient(y, x)
        assert held() is not None
        z = y * x
    assert float(outer.gradient(z, x)) == 12
    assert held() is None


def test_many_inner_tapes_in_one_outer_tape():
    v = functad.Variable(np.ones(1000))
    with GradientTape(watch_accessed_variables=False) as outer:
        outer.watch(functad.constant(1.0))
        for _ in range(20):
            with GradientTape() as inner:
                y = np.sum(np.sin(v) * v)
            inner.gradient(y, v)
        assert outer.stats()["bytes"] == 0


# Growth


def grown(step, count):
    """Return how many blocks of memory more are in use when a step has been repeated."""
    for _ in range(100):
        step()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(count):
        step()
    gc.collect()
    return sys.getallocatedblocks() - before


def shortest_step(x=functad.constant(2.0)):  # noqa: B008 - the same in all steps
    with GradientTape() as tape:
        tape.watch(x)
        y = x * x
    tape.gradient(y, x)


def plain_step(v=functad.Variable(np.ones(4)), x=functad.constant(np.ones(4))):  # noqa: B008 - the same in all steps
    with GradientTape() as tape:
        tape.watch(x)
        y = np.sum(np.sin(x) * v)
    tape.gradient(y, [v, x])


def unasked_step(v=functad.Variable(np.ones(4))):  # noqa: B008
    with GradientTape() as tape:
        np.sum(np.sin(v) * v)
    assert tape.stats()["records"]


def persistent_step(v=functad.Variable(np.ones(4))):  # noqa: B008
    with GradientTape(persistent=True) as tape:
        y = np.sum(np.sin(v) * v)
    tape.gradient(y, v)
    tape.gradient(y, v)


def nested_step(v=functad.Variable(np.ones(4))):  # noqa: B008
    with GradientTape() as outer:
        with GradientTape() as inner:
            y = np.sum(np.sin(v) * v)
        g = inner.gradient(y, v)
    outer.gradient(g, v)


def reset_step(tape=GradientTape(persistent=True), v=functad.Variable(np.ones(4))):  # noqa: B008
    with tape:
        tape.reset()
        y = np.sum(v * v)
    tape.gradient(y, v)


def assigning_step(v=functad.Variable(np.ones(4))):  # noqa: B008
    with GradientTape() as tape:
        y = np.sum(v * v)
    v.assign_sub(0.0 * tape.gradient(y, v))


def forward_step(x=functad.constant(np.ones(4))):  # noqa: B008
    with ForwardAccumulator(x, np.ones(4)) as accumulator:
        y = np.sin(x) * x
    accumulator.jvp(y)


def graph_step(x=functad.constant(np.ones(4))):  # noqa: B008
    with functad.graph():
        y = np.sum(np.sin(x) * x)
        functad.gradients(y, x)


def implicit_step(v=functad.Variable(np.ones(4))):  # noqa: B008
    functad.implicit_gradients(lambda: np.sum(v * v))()
    functad.gradients_function(lambda x: np.sum(x * v))(np.ones(4))


def custom_step(x=functad.constant(np.ones(4))):  # noqa: B008
    with GradientTape() as tape:
        tape.watch(x)
        y = functad.recompute_grad(np.sin)(x)
    tape.gradient(y, x)


@pytest.mark.parametrize(
    "step",
    [
        shortest_step,
        plain_step,
        unasked_step,
        persistent_step,
        nested_step,
        reset_step,
        assigning_step,
        forward_step,
        graph_step,
        implicit_step,
        custom_step,
    ],
    ids=lambda step: step.__name__,
)
def test_short_tapes_leak_nothing(step):
    gc.enable()  # what forms a cycle must go too, only later
    count = 100_000 if step is shortest_step else 1000
    assert grown(step, count) < min(count // 4, 1000)  # one object left by each tape would be `count`


@pytest.mark.parametrize("step", [plain_step, unasked_step, persistent_step, nested_step, assigning_step, implicit_step])
def test_tapes_make_no_cycles(step):
    step()
    gc.collect()
    for _ in range(20):
        step()
    assert gc.collect() == 0


def test_watching_one_tensor_by_many_tapes_builds_no_chain():
    x = functad.constant(np.ones(3))
    for _ in range(50):
        with GradientTape() as tape:
            tape.watch(x)
            y = x * x
        tape.gradient(y, x)
    depth, value = 0, x
    while isinstance(value, functad.Tensor):
        depth, value = depth + 1, value.below
    assert depth == 1


# Peak


STEPS = [
    lambda y, x: np.sin(y),
    lambda y, x: y + x,
    lambda y, x: np.maximum(y, 0.1),
    lambda y, x: y - 0.5,
    lambda y, x: 2.0 - y,
]


def test_peak_memory_of_a_chain():
    size, count = 100_000, 60
    x = functad.constant(np.linspace(0.0, 1.0, size))
    tracemalloc.start()
    with GradientTape() as tape:
        tape.watch(x)
        y = x
        for i in range(count):
            y = STEPS[i % 5](y, x)
        loss = np.sum(y)
    tape.gradient(loss, x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 18 * size * 8  # sines keep their argument, maxima a mask: 12 arrays and 12 eighths


def test_sums_keep_nothing():
    x = functad.constant(np.ones(1000))
    with GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(20):
            y = y + x - 1.0
        y = np.sum(y)
    assert tape.stats() == {"records": 41, "bytes": 0}
    assert tape.gradient(y, x).numpy()[0] == 21
