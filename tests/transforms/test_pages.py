"""The pages on transforms: their examples run, and print what they say."""

import doctest
import re
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

PAGES = Path(__file__).parents[2] / "notebooks"


@pytest.mark.parametrize("name", ["derivatives"])
def test_code_blocks_print_what_they_say(name):
    page = PAGES / f"{name}.md"
    sybil = Sybil(parsers=[PythonCodeBlockParser(doctest_optionflags=doctest.REPORT_NDIFF | doctest.ELLIPSIS)])
    examples = list(sybil.parse(page).examples())
    assert len(examples) == len(re.findall(r"^>>> ", page.read_text(), re.MULTILINE)) > 10
    for example in examples:  # they share their names, so the order counts
        example.evaluate()
