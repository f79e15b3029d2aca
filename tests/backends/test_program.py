"""Programs in machine code: the fallback to the NumPy backend."""

from typing import Any

import numpy as np
import pytest

import functad

pytest.importorskip("llvmlite")

from functad.backends.native import program


def test_the_numpy_program_of_a_fallback_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    original = program.NumpyProgram

    def counted(*args: Any, **kwargs: Any) -> Any:
        made.append(args)
        return original(*args, **kwargs)

    compiled = functad.jit(np.linalg.det, backend="llvm")
    singular = np.ones((3, 3))
    compiled(np.eye(3))
    monkeypatch.setattr(program, "NumpyProgram", counted)
    for _ in range(3):
        assert compiled(singular) == 0.0
    assert len(made) == 1
