"""Signals end native loops that would take minutes, and are handled in loops that go on."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functad

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers that send signals")


class LateError(Exception):
    """What the handler of a signal raises."""


@contextlib.contextmanager
def alarms(handler: Callable[..., Any], first: float, interval: float = 0.0) -> Iterator[None]:
    """Send a signal after so many seconds, and then again in intervals."""
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, first, interval)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def late(*_: Any) -> None:
    raise LateError("late")


def endless(x: Any) -> Any:
    return functad.while_loop(lambda c: c[0] < 1e18, lambda c: (c[0] + 1, np.sin(c[1]) * x), (0.0, x))[1]


LOOPS: dict[str, Callable[[Any], Any]] = {
    "while_loop": endless,
    "gradient": functad.grad(lambda x: functad.while_loop(lambda c: c < 1e18, lambda c: c + x * 1e-3, 0.0)),
    "scan": lambda x: functad.scan(lambda c, _: (np.sin(c) * x, None), x, None, length=10**12)[0],
    "arrays": lambda x: functad.fori_loop(0, 10**10, lambda i, c: np.sin(c) + x, np.ones(100)),
    "while_loop in scan": lambda x: functad.scan(
        lambda c, _: (functad.while_loop(lambda d: d < 1e9, lambda d: d + x, c) - 1e9, None), x, None, length=10**6
    )[0],
    "scan in while_loop": lambda x: functad.while_loop(
        lambda c: c < 1e18, lambda c: functad.scan(lambda d, _: (d + x, None), c, None, length=1000)[0] - 1.0, x
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_what_a_handler_raises_ends_the_loop(name: str) -> None:
    compiled = functad.jit(LOOPS[name], backend="llvm")
    compiled.lower(1.5).compile()
    for _ in range(2):
        with alarms(late, 0.05), pytest.raises(LateError, match=r"^late$"):
            compiled(1.5)


def test_ctrl_c_ends_the_loop() -> None:
    compiled = functad.jit(endless, backend="llvm")
    compiled.lower(1.5).compile()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process that a shell starts behind it ignores Ctrl-C
    try:
        threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            compiled(1.5)
    finally:
        signal.signal(signal.SIGINT, before)


def test_loops_go_on_after_handlers_that_raise_nothing() -> None:
    def counted(x: Any) -> Any:
        return functad.while_loop(lambda c: c[0] < 3e6, lambda c: (c[0] + 1, c[1] * 0.5 + x), (0.0, x))

    compiled = functad.jit(counted, backend="llvm")
    expected, met = compiled(1.5), []
    with alarms(lambda *_: met.append(1), 0.01, 0.01):
        for _ in range(10):
            assert compiled(1.5) == expected
    assert met
    assert expected == (3e6, 3.0)


def test_loops_of_other_threads_go_on() -> None:
    compiled = functad.jit(lambda x: functad.fori_loop(0, 10**8, lambda i, c: c * 0.5 + x, x), backend="llvm")
    found: list[float] = []
    compiled.lower(1.0).compile()
    thread = threading.Thread(target=lambda: found.append(compiled(1.0)))
    thread.start()
    with alarms(late, 0.01), pytest.raises(LateError):
        time.sleep(60)
    thread.join()
    assert found == [2.0]
