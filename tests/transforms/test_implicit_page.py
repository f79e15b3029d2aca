"""The page on solvers: its code prints what it says, and each of its functions is public."""

import doctest
import re
from pathlib import Path

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

import functad

PAGE = Path(__file__).parents[2] / "notebooks" / "implicit.md"


def test_code_prints_what_it_says():
    sybil = Sybil(parsers=[PythonCodeBlockParser(doctest_optionflags=doctest.REPORT_NDIFF | doctest.ELLIPSIS)])
    examples = list(sybil.parse(PAGE).examples())
    assert len(examples) == len(re.findall(r"^>>> ", PAGE.read_text(), re.MULTILINE)) > 0
    for example in examples:  # they share their names, so the order counts
        example.evaluate()


def test_functions_of_the_table_are_public():
    rows = re.findall(r"^\| .+? \| `(\w+)\(", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == 5
    assert set(rows) <= set(functad.__all__)
