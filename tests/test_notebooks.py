"""The notebooks: every cell runs and gives what is shown, and they are kept in one form."""

import json
import re
import sys

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

import functad
from tests.execute_notebooks import METADATA, NOTEBOOKS, executed, in_form, printed

NUMBER = re.compile(r"-?(?<![\w.])\d+(?:\.\d*)?(?:e[+-]?\d+)?")
LARGEST = 600_000  # bytes; pictures are most of them
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_all_are_found():
    assert {path.stem for path in NOTEBOOKS} >= {"01_from_function_to_expression_list", "02_four_styles", "05_compiled"}


@pytest.mark.slow
@each_notebook
def test_every_cell_gives_what_is_shown(path):
    shown = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    given = [cell for cell in executed(path).cells if cell.cell_type == "code"]
    for before, now in zip(shown, given, strict=True):
        kinds = [(output.output_type, output.get("name")) for output in now.outputs]
        assert ("stream", "stderr") not in kinds, printed(now)
        assert kinds == [(output.output_type, output.get("name")) for output in before.outputs], now.source
        if "varies" not in now.metadata.get("tags", ()):
            _assert_same_but_for_rounding(printed(now), printed(before))


def _assert_same_but_for_rounding(text, expected):
    """Libraries of other processors round the last digit otherwise."""
    assert NUMBER.sub("#", text) == NUMBER.sub("#", expected)
    found, wanted = ([float(number) for number in NUMBER.findall(part)] for part in (text, expected))
    assert found == pytest.approx(wanted, rel=1e-9, abs=1e-12), text


@each_notebook
def test_is_kept_in_its_form(path):
    text = path.read_text()
    notebook = nbformat.reads(text, as_version=4)
    assert notebook.metadata == METADATA
    assert nbformat.writes(in_form(nbformat.reads(text, as_version=4))) + "\n" == text
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert {tag for cell in code for tag in cell.metadata.get("tags", ())} <= {"varies"}
    assert len(text) < LARGEST


@each_notebook
def test_names_no_machine(path):
    for cell in json.loads(path.read_text())["cells"]:
        texts = ["".join(cell["source"]), *_texts(cell.get("outputs", []))]
        for text in texts:
            assert not re.search(r"(?<![\w.])/(?:home|root|Users|tmp|work|opt|usr|mnt)/\w|\b[A-Z]:\\\w|ipykernel", text)


def _texts(outputs):
    for output in outputs:
        yield "".join(output.get("text", []))
        yield "".join(output.get("data", {}).get("text/plain", []))


RAISING = """import sys, functad
print(sys.executable, functad.__file__)
functad.grad(lambda x: float(x))(1.0)"""


def test_a_cell_that_raises_fails_and_is_named(tmp_path):
    path = tmp_path / "raising.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(RAISING)]), path)
    with pytest.raises(CellExecutionError) as raised:
        executed(path)
    assert raised.value.ename == "ConversionError"
    assert "`float(x)` at In[1]:3, would lose its derivative" in raised.value.evalue
    assert f"{sys.executable} {functad.__file__}" in str(raised.value)


def test_rounding_is_all_that_may_differ():
    _assert_same_but_for_rounding("a1 0.30000000000000004 [-2. 1e-16]", "a1 0.3 [-2. 0.0]")
    for other in ("a2 0.3 [-2. 0.0]", "a1 0.31 [-2. 0.0]", "a1 0.3 [2. 0.0]", "a1 0.3 [-2. 0.0] more"):
        with pytest.raises(AssertionError):
            _assert_same_but_for_rounding(other, "a1 0.3 [-2. 0.0]")
