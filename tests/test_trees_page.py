"""The page on trees: its code prints what it says."""

import doctest
import re
from pathlib import Path

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

PAGE = Path(__file__).parents[1] / "notebooks" / "trees.md"


def test_code_prints_what_it_says():
    sybil = Sybil(parsers=[PythonCodeBlockParser(doctest_optionflags=doctest.REPORT_NDIFF)])
    examples = list(sybil.parse(PAGE).examples())
    assert len(examples) == len(re.findall(r"^>>> ", PAGE.read_text(), re.MULTILINE)) > 0
    for example in examples:  # they share their names, so the order counts
        example.evaluate()
