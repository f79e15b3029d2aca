"""Processes that are forked while other threads hold locks: the children compile, and every child ends."""

import os
import subprocess
import sys
import threading
import warnings

import pytest

from functad import process
from functad.tracing import foreign

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no os.fork"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),  # Python 3.12, at each fork
]

COMPILE = """
import itertools, os, signal, sys, threading, time
import numpy as np, functad

numbers = itertools.count()
X = np.linspace(0.1, 1.0, 5)


def compile_one():
    c = 1.0 + next(numbers) * 1e-3  # no other compilation has this constant
    gradient = functad.grad(lambda x: np.sum(np.sin(x * c) * x))
    assert np.allclose(functad.jit(gradient, backend={backend!r})(X), gradient(X), rtol=1e-12)


def child():
    signal.alarm(60)  # ends a child that hangs
    status = 1
    try:
        compile_one()
        status = 0
    finally:
        os._exit(status)


stop, errors = threading.Event(), []


def work():
    try:
        while not stop.is_set():
            compile_one()
    except BaseException as error:
        errors.append(error)


if {warm}:
    compile_one()
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
statuses = []
for _ in range({forks}):
    pid = os.fork() or child()
    statuses.append(os.waitpid(pid, 0)[1])
stop.set()
for thread in threads:
    thread.join()
print(statuses, errors)
"""


def run(script):
    """Run a script in a new process and return its output."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script]  # Python 3.12 warns of threads at each fork
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=500).stdout


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("warm", [True, False], ids=["compiled before", "first compilation"])
def test_children_compile_while_threads_of_the_parent_compile(backend, warm):
    if backend == "llvm":
        pytest.importorskip("llvmlite", reason="the llvm backend needs llvmlite, of the extra `jit`")
    assert run(COMPILE.format(backend=backend, warm=warm, forks=4)) == "[0, 0, 0, 0] []\n"


def held_in_another_thread(lock, inside):
    """Call a function while another thread holds a lock, and return its result."""
    taken, done = threading.Event(), threading.Event()

    def hold():
        with lock:
            taken.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    try:
        return inside()
    finally:
        done.set()
        thread.join()


def in_child(check):
    """Fork, and return whether a function gave `True` in the child."""
    pid = os.fork()
    if not pid:
        os._exit(0 if check() else 1)
    return os.waitpid(pid, 0)[1] == 0


def locks():
    """Return the locks that the modules of the package hold, by name."""
    for name in ("chunks.tasks", "backends.native.threads", "backends.native.called", "adoption.adopt", "eager.tape.recorder"):
        __import__(f"functad.{name}")
    kinds = type(threading.Lock()), type(threading.RLock())
    return {
        f"{module}.{name}": value
        for module in sorted(sys.modules)
        if module.partition(".")[0] == "functad"
        for name, value in vars(sys.modules[module]).items()
        if isinstance(value, kinds)
    }


def test_each_lock_of_the_package_is_free_in_a_child():
    found = locks()
    assert len(found) >= 5
    for name, lock in found.items():
        if lock in process._HELD:  # `os.fork` waits for these
            continue
        assert held_in_another_thread(lock, lambda: in_child(lambda: lock.acquire(timeout=10))), name  # noqa: B023


def test_a_lock_that_the_forking_thread_holds_is_released_in_the_child():
    lock = process.renewed(threading.RLock())

    def release():
        lock.release()
        return True

    with lock:
        assert in_child(release)


def test_a_fork_waits_for_a_lock_that_is_held(monkeypatch):
    monkeypatch.setattr(process, "_HELD", [])
    lock, events = threading.RLock(), []
    process.held(lock)
    taken, done = threading.Event(), threading.Event()

    def hold():
        with lock:
            taken.set()
            done.wait()
            events.append("released")

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    threading.Timer(0.2, done.set).start()
    assert in_child(lambda: events == ["released"] and lock.acquire(timeout=10))
    thread.join()
    assert lock.acquire(blocking=False)
    lock.release()


def test_a_fork_waits_for_imports_within_the_package(tmp_path, monkeypatch):
    """The module lock of an import in another thread stays locked in the child."""
    (tmp_path / "imported_slowly.py").write_text("import time\ntime.sleep(0.5)\nvalue = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    from functad import process

    thread = threading.Thread(target=process.imported, args=("imported_slowly", "value"))
    thread.start()
    while "imported_slowly" not in sys.modules:
        pass
    assert in_child(lambda: sys.modules["imported_slowly"].value == 3)
    thread.join()


def test_filters_of_warnings_of_another_thread_are_not_left_in_a_child():
    before = list(warnings.filters)

    def hold():
        with foreign.lacking(str, list):
            taken.set()
            done.wait()

    taken, done = threading.Event(), threading.Event()
    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    try:
        assert len(warnings.filters) == len(before) + 1
        assert in_child(
            lambda: len([each for each in warnings.filters if getattr(each[1], "pattern", "") == foreign._CONVERTS]) == 0
        )
    finally:
        done.set()
        thread.join()
