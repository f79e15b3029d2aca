"""What tapes hold and watch, shown; showing them changes nothing."""

import numpy as np
import pytest

import functad
from functad import GradientTape, Variable

from .structure import fits, structure


def recorded(**options):
    """Return a tape and its target: two lines, of which the first makes three arrays of 800 bytes that are kept."""
    w = Variable(np.ones(100), name="<w>")
    x = functad.constant(np.arange(100.0))
    with GradientTape(persistent=True, **options) as tape:
        tape.watch(x)
        y = np.sin(w) * np.cos(x)
        loss = np.sum(y * 2.0)
    return tape, loss, w, x


def test_tape_with_lists_is_shown_by_line():
    tape, *_ = recorded(lists=True)
    found = structure(tape)
    assert found.text.startswith("GradientTape · left · persistent · 5 records · ")
    assert found.rows[0] == ["line", "code", "operations", "records", "bytes"]
    first, second = found.rows[1:]
    assert "test_tapes.py:" in first[0]
    assert first[1:4] == ["y = np.sin(w) * np.cos(x)", "sin, cos, multiply", "3"]
    assert second[1:4] == ["loss = np.sum(y * 2.0)", "multiply, sum", "2"]


def test_other_tapes_are_shown_by_operation():
    tape, *_ = recorded()
    found = structure(tape)
    assert found.rows[0] == ["operation", "records", "bytes"]
    assert [row[:2] for row in found.rows[1:]] == [["sin", "1"], ["cos", "1"], ["multiply", "2"], ["sum", "1"]]
    assert "GradientTape(lists=True)" in found.text


def test_what_is_watched_is_named_and_escaped():
    tape, *kept = recorded()
    assert kept
    assert "It watches <w> (100,), a Tensor (100,)." in structure(tape).text
    assert "&lt;w&gt;" in tape._repr_html_()


def test_showing_a_tape_changes_nothing():
    tape, loss, w, x = recorded(lists=True)
    before = tape.stats(), repr(tape)
    structure(tape)
    assert fits(str(tape))
    assert (tape.stats(), repr(tape)) == before
    assert np.allclose(tape.gradient(loss, w).numpy(), 2 * np.cos(1.0) * np.cos(x.numpy()), rtol=1e-14)
    with GradientTape() as outer:
        outer.watch(x)
        y = np.exp(x)
        count = outer.stats()["records"]
        structure(outer)
        str(outer)
        assert outer.stats()["records"] == count
    assert outer.gradient(y, x) is not None


def test_tapes_that_share_a_list_show_their_own():
    x = functad.constant(2.0)
    with GradientTape(persistent=True, lists=True) as first:
        first.watch(x)
        y = x * x
        with GradientTape(persistent=True, lists=True) as second:
            second.watch(y)
            z = np.sin(y)
    assert z is not None
    assert [row[2] for row in structure(first).rows[1:]] == ["multiply", "sin"]
    assert [row[2] for row in structure(second).rows[1:]] == ["sin"]


def test_states_of_a_tape():
    assert (
        structure(GradientTape()).text
        == "GradientTape · not entered · gives one gradient · 0 records · 0 B It watches nothing."
    )
    x = Variable(1.0)
    with GradientTape() as tape:
        y = x * x
        assert "· recording ·" in structure(tape).text
    tape.gradient(y, x)
    assert "· spent ·" in structure(tape).text
    assert str(tape).startswith("GradientTape(spent, 0 records)")


def test_lazy_arrays_are_not_computed():
    da = pytest.importorskip("dask.array")  # the extra `dask`

    def refuse(block):
        raise AssertionError("computed")

    x = functad.constant(da.ones(4, chunks=2).map_blocks(refuse, dtype=float, meta=np.zeros(0)))
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = np.exp(x) * 2.0
    assert y is not None
    assert "a Tensor (4,)" in structure(tape).text
    assert "a Tensor (4,)" in str(tape)
