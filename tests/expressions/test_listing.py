"""What people see of expression lists: the display for notebooks, and the table for terminals."""

import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import functad
from functad.expressions.listing import MOST


def layer(w, x):
    return np.tanh(x @ w)


def network(ws, x):
    for w in ws:
        x = layer(w, x)
    return x


def loss(ws, x):
    return np.mean(network(ws, x) ** 2)


def chain(x):
    for _ in range(300):
        x = np.sin(x) * 0.9
    return x


def rows(x, w):
    def step(h, v):
        h = np.tanh(w * h + v)
        return h, h

    return functad.scan(step, 0.0, x)[1]


WEIGHTS = [np.ones((3, 4)), np.ones((4, 2))]
X = np.ones((5, 3))


def tree_of(display):
    """Return a display as a tree, which it is only if all tags are closed and all text is escaped."""
    return ET.fromstring(display.replace("<details open>", "<details>"))


def parsed(expressions):
    return tree_of(expressions._repr_html_())


def text_of(element):
    return "".join(element.itertext())


def equations(tree):
    """Return the cells of all rows."""
    return [[text_of(cell) for cell in row] for row in tree.iter("tr") if row[0].tag == "td"]


@pytest.fixture(scope="module")
def gradient():
    return functad.make_expressions(functad.grad(loss))(WEIGHTS, X)


def test_each_equation_has_types_bytes_line_and_source():
    def f(x):
        y = np.sin(x)
        return np.sum(y * x)

    line = f.__code__.co_firstlineno
    shown = equations(parsed(functad.make_expressions(f)(np.zeros(3, np.float32))))
    assert shown == [
        ["a = sin x", "float32[3]", "12 B", f"test_listing.py:{line + 1}", "y = np.sin(x)"],
        ["b = multiply a x", "float32[3]", "12 B", f"test_listing.py:{line + 2}", "return np.sum(y * x)"],
        ["c = sum b", "float32[]", "4 B", f"test_listing.py:{line + 2}", "return np.sum(y * x)"],
    ]


def test_equations_are_rows_of_one_table(gradient):
    tree = parsed(gradient)
    assert len(equations(tree)) == len(gradient.equations)
    assert len(list(tree.iter("table"))) == 1
    assert not list(tree.iter("details"))


def test_forward_and_backward_are_told_apart(gradient):
    tree = parsed(gradient)
    colored = [text_of(span) for span in tree.iter("span") if span.get("class") == "ftd-orange"]
    backward = [e for e in gradient.equations if e.place.phase == "backward"]
    assert f"{len(backward)} backward" in colored
    assert len([text for text in colored if " = " in text]) == len(backward)


def test_lists_that_equations_hold_are_folded_below_them():
    tree = parsed(functad.make_expressions(rows)(np.ones(4), 0.5))
    summaries = [text_of(fold.find("summary")) for fold in tree.iter("details")]
    assert summaries[0].startswith("body · 3 equations · 24 B each time")
    assert [cells[4] for cells in equations(tree)].count("h = np.tanh(w * h + v)") == 3


def test_totals_are_at_the_foot(gradient):
    total = sum(spec.size * spec.dtype.itemsize for spec in gradient.specs[len(gradient.inputs) :])
    foot = text_of(list(parsed(gradient))[-1])
    assert foot.startswith(f"{len(gradient.equations)} equations: results {total / 1000:.3g} kB, inputs ")


def test_constants_show_type_and_shape_and_are_counted():
    table = np.ones((2, 3))
    tree = parsed(functad.make_expressions(lambda x: x + table)(np.zeros((2, 3))))
    assert equations(tree)[0][0] == "a = add x <float64[2,3]>"
    assert text_of(list(tree)[-1]).endswith("constants 48 B")


def test_displays_of_huge_lists_are_cut_with_a_count():
    listed = functad.make_expressions(chain)(1.0)
    shown = listed._repr_html_()
    tree = tree_of(shown)
    more = [int(found) for found in re.findall(r"\.\.\. ([\d,]+) equations more", text_of(tree))]
    assert len(equations(tree)) + sum(more) == len(listed.equations) == 600
    assert len(equations(tree)) <= MOST
    assert len(shown) < 100_000


def test_displays_of_many_inner_lists_are_cut_with_a_count():
    def many(x, w):
        for _ in range(150):
            x = rows(x, w)
        return x

    shown = functad.make_expressions(many)(np.ones(4), 0.5)._repr_html_()
    tree = tree_of(shown)
    more = [int(found.replace(",", "")) for found in re.findall(r"\.\.\. ([\d,]+) equations? more", text_of(tree))]
    assert len(equations(tree)) + sum(more) == 150 * 4
    assert len(equations(tree)) == MOST
    assert len(shown) < 400_000


def test_names_and_sources_are_escaped():
    inner = lambda y: np.sin(y) * np.where(y < 1, y, 2)  # noqa: E731 - a function whose name is to be escaped
    tree = parsed(functad.make_expressions(lambda x: inner(x) + 1)(np.ones(2)))
    assert any("y < 1" in cells[4] for cells in equations(tree))


def test_lists_without_places_show_the_rest():
    bare = functad.make_expressions(chain)(1.0)
    bare = bare.replace(equations=tuple([type(e)(e.primitive, e.inputs, e.params, e.outputs) for e in bare.equations[:2]]))
    assert [cells[3:] for cells in equations(parsed(bare.replace(outputs=(2,))))] == [["", ""], ["", ""]]


def test_a_list_without_equations_shows_its_inputs():
    tree = parsed(functad.make_expressions(lambda x: x)(1.0))
    assert "inputs x: float[]" in text_of(tree)
    assert equations(tree) == []


@pytest.mark.parametrize(
    "made", [lambda: functad.make_expressions(chain)(1.0), lambda: functad.make_expressions(rows)(np.ones(4), 0.5)]
)
def test_tables_fit_in_80_columns(made):
    lines = made().table().splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["equation", "result", "bytes", "line"]


def test_tables_are_cut_with_a_count():
    listed = functad.make_expressions(chain)(1.0)
    lines = listed.table().splitlines()
    assert lines[-2] == "... 200 equations more"
    assert len(lines) == 403
    assert len(listed.table(most=None).splitlines()) == 602
    assert "h = np.tanh" not in listed.table(most=3)


def test_tables_hold_the_rows_of_inner_lists():
    lines = functad.make_expressions(rows)(np.ones(4), 0.5).table().splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith("body: ")] == ["body"] * 3
