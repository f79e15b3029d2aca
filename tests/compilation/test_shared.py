"""Programs that compiled functions share."""

import numpy as np
import pytest

import functad
from functad.compilation import shared


def sharing(f):
    """Return a function that shares its programs as if it had been unpickled."""
    f.compiler.shares = True
    return f


@pytest.fixture
def nothing_shared():
    functad.clear_cache()
    yield
    functad.clear_cache()


def test_clear_cache_drops_shared_programs(nothing_shared):
    assert sharing(functad.jit(lambda x: x + 1.0, backend="numpy"))(1.0) == 2.0
    assert len(shared._PROGRAMS) == 1
    functad.clear_cache()
    assert len(shared._PROGRAMS) == 0


def test_large_constants_are_not_kept_for_other_functions(nothing_shared):
    table = np.ones(20_000)
    sharing(functad.jit(lambda x: np.sum(table * x)))(2.0)
    assert len(shared._PROGRAMS) == 0


def test_few_programs_are_shared(nothing_shared, monkeypatch):
    monkeypatch.setattr(shared, "MOST_SHARED", 3)
    for n in range(5):
        assert sharing(functad.jit(lambda x, n=n: x + n, backend="numpy"))(1.0) == 1.0 + n
    assert len(shared._PROGRAMS) == 3
