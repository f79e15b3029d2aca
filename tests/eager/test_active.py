"""The stack of open tapes: a tape that was dropped is not in it."""

import gc
import tracemalloc

import numpy as np
import pytest

from functad import ForwardAccumulator, GradientTape, constant
from functad.eager.variable import ACTIVE


@pytest.fixture(autouse=True)
def without_collector(small_heap):
    """Dropped objects are freed at once, without the cycle collector."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    "make",
    [
        lambda x: GradientTape(),
        lambda x: GradientTape(persistent=True),
        lambda x: ForwardAccumulator(x, np.ones(1000)),
    ],
    ids=["tape", "persistent tape", "accumulator"],
)
def test_what_is_entered_and_dropped_goes_with_its_records(make):
    """A block that is never left, as where a generator is dropped in the middle of it."""

    def step():
        x = constant(np.ones(1000))
        context = make(x)
        context.__enter__()
        if isinstance(context, GradientTape):
            context.watch(x)
        assert (np.sin(x) * x).shape == (1000,)

    step()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(100):
        step()
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 100_000  # the values of the records alone would be 1.6 MB
    assert not ACTIVE.get()
