"""Debugging of compiled functions: `disable_jit`, and the log of compilations."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import functad


def counted(calls: list[Any]) -> Any:
    """Return a compiled function that appends the type of its argument to `calls` when Python runs it."""

    @functad.jit
    def f(x: Any) -> Any:
        calls.append(type(x).__name__)
        return np.sum(x * 2)

    return f


def test_compiled_functions_run_eagerly_inside() -> None:
    calls: list[str] = []
    f = counted(calls)
    with functad.disable_jit():
        assert f(np.ones(3)) == f(np.ones(3)) == 6.0
    assert calls == ["ndarray", "ndarray"]
    assert f.cache_info().misses == 0
    assert f(np.ones(3)) == f(np.ones(3)) == 6.0
    with functad.disable_jit():
        f(np.ones(3))
    assert len(calls) == 4


def test_branches_on_values_work_inside() -> None:
    f = functad.jit(lambda x: x if x > 0 else -x)
    with functad.disable_jit():
        assert (f(-2.0), functad.grad(f)(-2.0)) == (2.0, -1.0)
        assert functad.vmap(functad.jit(np.sin))(np.ones(2)).shape == (2,)


def test_results_are_no_views_of_arguments() -> None:
    x = np.arange(6.0)
    with functad.disable_jit():
        found = functad.jit(lambda a: a[::2])(x)
    assert not np.shares_memory(found, x)


def test_disable_nests_and_decorates() -> None:
    calls: list[str] = []
    f = counted(calls)
    with functad.disable_jit(), functad.disable_jit(disable=False):
        f(np.ones(3))
    assert f.cache_info().misses == 1
    functad.disable_jit()(lambda: f(np.ones(4)))()
    assert f.cache_info().misses == 1


def test_other_threads_compile() -> None:
    f = counted([])
    with functad.disable_jit():
        thread = threading.Thread(target=lambda: f(np.ones(3)))
        thread.start()
        thread.join()
    assert f.cache_info().misses == 1


def test_lowered_functions_run_eagerly_inside() -> None:
    calls: list[str] = []
    f = counted(calls)
    compiled = f.lower(np.ones(3)).compile()
    with functad.disable_jit():
        assert compiled(np.ones(3)) == 6.0
    assert calls[-1] == "ndarray"


def test_training_steps_run_eagerly_inside() -> None:
    weight = functad.Variable(2.0)

    @functad.jit
    def step(x: Any) -> Any:
        weight.assign(weight - 0.5 * x)
        return weight * x

    with functad.disable_jit():
        assert float(step(1.0)) == 1.5
    assert float(step(1.0)) == 1.0
    assert float(weight) == 1.0


# The log


def test_log_gives_the_reason_of_each_compilation(caplog: pytest.LogCaptureFixture) -> None:
    f = functad.jit(lambda x: np.sum(np.sin(x)))
    with caplog.at_level(logging.INFO, "functad"):
        f(np.ones(3))
        f(np.ones(3))
        f(np.ones(4))
    texts = [record.getMessage() for record in caplog.records]
    traced, built = [t for t in texts if "traced 2 operations in" in t], [t for t in texts if "compiled 2 operations in" in t]
    assert [len(traced), len(built), len(texts)] == [2, 2, 4]
    assert traced[0].endswith("was compiled at its first call.")
    assert "x was float64[3] and is float64[4]" in traced[1]
    assert "test_disable_jit.py:" in traced[0]


def test_nothing_is_logged_by_default(caplog: pytest.LogCaptureFixture) -> None:
    functad.jit(np.sin)(1.0)
    assert not caplog.records


SCRIPT = """
import sys, numpy as np, functad
functad.jit(lambda x: x * 2)(1.0)
print("logging" in sys.modules)
"""


def printed(**environment: str) -> tuple[str, str]:
    known = {name: value for name, value in os.environ.items() if name != "FUNCTAD_LOG"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True, env=known | environment)
    return done.stdout.strip(), done.stderr


def test_environment_prints_the_log() -> None:
    shown, errors = printed(FUNCTAD_LOG="compile")
    assert shown == "True"
    assert errors.startswith("functad.compile: jit of <lambda>, called at <string>:3: traced 1 operations in ")
    assert "was compiled at its first call." in errors
    assert printed()[1] == ""


def test_environment_does_not_print_twice(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("FUNCTAD_LOG", "compile")
    logger = logging.getLogger("functad.compile")
    try:
        with warnings.catch_warnings():
            functad.jit(np.cos, backend="numpy")(1.0)
        assert len(caplog.records) == 2
        assert logger.handlers == []  # the program has handlers, those of pytest
    finally:
        logger.setLevel(logging.NOTSET)
