"""The table of functions with its field, and as text."""

import html

import pytest

import functad

from .structure import fits, structure


@pytest.fixture(scope="module")
def table():
    return functad.coverage(module="numpy.linalg")


def test_table_has_a_row_for_each_function_with_all_its_cells(table):
    found = structure(table)
    assert found.rows[0] == ["function", "status", "reverse", "forward", "batch", "order", "jit", "xla", "note"]
    assert found.rows[1:] == [list(row.cells) for row in table]
    assert f"{len(table)} of {len(table)} functions" in found.text


def test_field_searches_without_anything_from_elsewhere(table):
    markup = table._repr_html_()
    found = structure(markup)
    field = found.attributes[found.tags.index("input")]
    assert field["oninput"]
    assert html.escape(field["oninput"]) in markup
    assert "script" not in found.tags
    assert "http" not in markup
    # What the script asks for is there.
    classes = {given.get("class") for given in found.attributes}
    assert {"ftd-view", "ftd-count"} <= classes
    assert "tbody" in found.tags


def test_text_fits_in_a_terminal(table):
    assert fits(str(table))
    assert fits(str(functad.coverage()))
    assert "np.linalg.inv" in str(table)


def test_notes_are_shown_where_there_are_few_rows():
    few = str(functad.coverage(search="arctan2"))
    assert "np.arctan2: d arctan2(x, y)" in few
    assert fits(few)
    assert str(functad.coverage(search="no such function")).splitlines()[-1] == "0 functions: none is like that"
