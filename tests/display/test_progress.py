"""Runs of many steps, shown while they go on: a curve in a notebook, a bar in a terminal."""

import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import functad
from functad.display import progress as shown
from functad.optimize import Progress

from .structure import structure


@pytest.fixture
def kernel(monkeypatch):
    """Let the program look as if it ran in a kernel, and return what that was told to show, as markup."""
    told = []
    handle = SimpleNamespace(update=lambda found: told.append(found._repr_html_()))

    def display(found, display_id):
        assert display_id is True
        handle.update(found)
        return handle

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object())))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    monkeypatch.setattr(shown, "_PAUSE", 0.0)
    return told


def points_of(markup):
    """Return the points of the curve in a display."""
    path = re.findall(r'd="(M[^"VH]+)"', markup)[0]
    return [tuple(map(float, point.split())) for point in re.split("[ML]", path) if point]


def test_curve_grows_in_a_notebook(kernel, capsys):
    with Progress(10, "fit <a>") as progress:
        for value in (4.0, 3.0, 1.0):
            progress.report(value)
    assert len(kernel) >= 4
    found = structure(kernel[-1])
    assert found.text.startswith("fit <a> · 3 of 10 steps · value 1")
    (x0, y0), (x1, y1), (x2, y2) = points_of(kernel[-1])
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert (y2 - y0) / (y1 - y0) == pytest.approx(3.0, rel=0.02)  # downwards is less
    assert capsys.readouterr().err == ""


def test_minimize_shows_a_curve_in_a_notebook(kernel):
    pytest.importorskip("scipy")  # the extra `scipy`
    functad.optimize.minimize(lambda x: np.sum((x - 1.0) ** 4), np.zeros(3), progress=True)
    assert structure(kernel[-1]).text.startswith("minimize · ")
    assert "svg" in structure(kernel[-1]).tags


def test_last_state_is_shown_when_a_run_fails(kernel):
    def run():
        with Progress() as progress:
            progress.report(2.0)
            raise KeyError

    with pytest.raises(KeyError):
        run()
    assert "1 step · value 2" in structure(kernel[-1]).text


def test_long_runs_keep_few_points_and_the_last(kernel, monkeypatch):
    monkeypatch.setattr(shown, "_PAUSE", 1e9)
    with Progress() as progress:
        for step in range(20_000):
            progress.report(20_000 - step)
    assert len(points_of(kernel[-1])) <= shown._POINTS + 1
    assert "20,000 steps · value 1" in structure(kernel[-1]).text
    assert len(kernel) == 2


def test_values_that_are_not_finite_leave_gaps(kernel):
    with Progress() as progress:
        for value in (3.0, 2.0, float("nan"), 1.0, float("inf")):
            progress.report(value)
    assert "The value is not finite at step 3." in structure(kernel[-1]).text
    assert len(points_of(kernel[-1])) == 3


def test_great_falls_are_drawn_by_factors(kernel):
    with Progress() as progress:
        for value in (1e4, 1e2, 1e0):
            progress.report(value)
    heights = [y for _, y in points_of(kernel[-1])]
    assert heights[2] - heights[1] == pytest.approx(heights[1] - heights[0], abs=0.2)
    assert "Equal heights are equal factors." in structure(kernel[-1]).text


def test_bar_in_a_terminal(capsys):
    pytest.importorskip("tqdm")  # the extra `examples`
    w, optimizer = functad.Variable(4.0), functad.optimizers.SGD(0.1)
    with Progress(20, "fit") as progress:
        for _ in range(20):
            progress.report(optimizer.minimize(lambda: (w - 1.0) ** 2))
    assert "fit: 100%" in capsys.readouterr().err
    assert repr(progress).startswith("fit: 20 of 20 steps, value 0.00")


def test_missing_bar_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(
        ImportError, match=r"functad\.optimize\.Progress, at .*test_progress.py:\d+, needs tqdm: pip install tqdm"
    ):
        Progress().__enter__()


@pytest.mark.parametrize("values", [[], [1.0], [float("nan")], [2.0, 2.0], [-1.0, 0.0]])
def test_short_and_flat_runs(values, kernel):
    with Progress() as progress:
        for value in values:
            progress.report(value)
    assert structure(kernel[-1]).text.startswith(f"training · {len(values)} step")
