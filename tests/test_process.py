"""Settings of a thread: they hold inside a block, and no other thread has them."""

import contextvars
import functools
from concurrent.futures import ThreadPoolExecutor

from functad.process import ThreadVariable, setting


def in_thread(f):
    """Run a function in a thread of its own, and return its result."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(f).result()


def test_values_that_a_thread_inherits_with_its_context_are_those_of_another():
    variable = ThreadVariable("held", default=0)
    with setting(variable, 1):
        here, inherited = contextvars.copy_context(), contextvars.copy_context()
        assert here.run(variable.get) == 1
        assert in_thread(lambda: inherited.run(variable.get)) == 0
        assert in_thread(lambda: inherited.run(within, variable)) == (2, 0)
        assert variable.get() == 1
    assert variable.get() == 0
    token = variable.set(3)
    variable.reset(token)
    assert variable.get() == 0


def within(variable):
    with setting(variable, 2):
        held = variable.get()
    return held, variable.get()


def test_a_number_of_a_thread_that_ended_stands_for_no_other():
    variable = ThreadVariable("held", default=0)

    def started():
        variable.set(1)
        return contextvars.copy_context()

    for _ in range(20):  # threads that follow one another have the same number
        inherited = in_thread(started)
        assert in_thread(functools.partial(inherited.run, variable.get)) == 0
