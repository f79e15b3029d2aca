"""`functad.explain`, shown: the way of each input, and the cut on it."""

import numpy as np
import pytest

import functad

from .structure import fits, structure


def names(way):
    """Return the operations of a way without their lines."""
    return [text.partition(" at ")[0] for text in way.steps]


def way_in(f, *args):
    return functad.explain(f, *args).findings[0].way


def test_way_to_the_result():
    way = way_in(lambda x: np.sum(np.sin(x) * 2.0), np.ones(3))
    assert names(way) == ["np.sin", "np.multiply", "np.sum"]
    assert (way.cut, way.arrives) == (None, True)


def test_way_of_fewest_operations_is_taken():
    assert names(way_in(lambda x: np.exp(np.exp(np.exp(x))) + x, np.float64(0.1))) == ["np.add"]


def test_way_past_a_cut():
    way = way_in(lambda x: np.sum(np.exp(np.sign(x * x))), np.ones(3))
    assert names(way) == ["np.multiply", "np.sign", "np.exp", "np.sum"]
    assert (way.cut, way.arrives) == (1, True)


def test_way_to_where_the_derivative_is_zero_at_these_values():
    way = way_in(lambda x: 3.0 * np.sum(np.maximum(x, 0.0)), -np.ones(3))
    assert names(way)[way.cut] == "np.maximum"
    assert names(way)[-1] == "np.multiply"


def test_way_that_leads_nowhere():
    def f(x):
        np.cos(np.sin(x))
        return 1.0

    way = way_in(f, np.ones(3))
    assert names(way) == ["np.sin", "np.cos"]
    assert (way.cut, way.arrives) == (None, False)
    assert way_in(lambda x: 1.0, np.ones(3)).steps == ()


def test_way_through_an_operation_with_several_results():
    way = way_in(lambda a: np.sum(np.floor(np.linalg.eigh(a)[1])), np.array([[2.0, 1.0], [1.0, 3.0]]))
    assert "np.linalg.eigh" in names(way)
    assert names(way)[way.cut] == "np.floor"


def loss(w, x):
    """Return a number on which some of the parameters have an influence."""
    steps = np.tanh(x @ w["scale"])
    for _ in range(30):
        steps = steps * 1.01
    np.exp(w["<idle>"])
    return np.sum(steps) + np.sum(np.round(w["cut"]) * 2.0)


W = {"scale": np.ones(3), "<idle>": 2.0, "cut": np.ones(2), "unused": 1.0, "number": 3}


@pytest.fixture(scope="module")
def found():
    return functad.explain(loss, W, np.ones((4, 3)))


def test_display_names_every_input_and_marks_cuts(found):
    shown = structure(found)
    assert shown.text.startswith("Gradient of loss · 1 connected · 1 zero · 2 missing · 1 refused")
    assert "args[0]['<idle>'] missing" in shown.text
    assert shown.text.count("the derivative ends here") == 1
    cut = shown.text.partition(": the derivative ends here")[0].rpartition("✕ ")[2]
    assert cut.startswith(("np.rint at", "np.round at"))
    assert "args[0]['unused'] missing · it is not used" in shown.text


def test_inputs_with_a_cut_are_opened_and_others_folded(found):
    shown = structure(found)
    opened = ["open" in given for given, name in zip(shown.attributes, shown.tags, strict=True) if name == "details"]
    assert dict(zip(shown.summaries, opened, strict=True)) == {
        "args[0]['<idle>'] missing": True,
        "args[0]['cut'] zero": True,
        "args[0]['scale'] connected": False,
    }


def test_long_ways_are_cut_in_the_middle(found):
    assert "... 26 more" in structure(found).text or "... 27 more" in structure(found).text


def test_text_fits_and_marks_the_cut(found):
    text = repr(found)
    assert fits(text)
    lines = text.splitlines()
    assert lines[0] == "gradient of loss:"
    assert "  args[0]['unused']: missing, it is not used" in lines
    at = lines.index("    > args[0]['cut']")
    assert lines[at + 1].startswith("    x np.r")
    assert lines[at + 2].startswith("    . np.multiply at ")
