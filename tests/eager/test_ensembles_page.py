"""The page on models in batches: its examples run, and print what they say."""

import doctest
import re
from pathlib import Path

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

PAGE = Path(__file__).parents[2] / "notebooks" / "ensembles.md"


def test_code_blocks_print_what_they_say():
    sybil = Sybil(parsers=[PythonCodeBlockParser(doctest_optionflags=doctest.REPORT_NDIFF | doctest.ELLIPSIS)])
    examples = list(sybil.parse(PAGE).examples())
    assert len(examples) == len(re.findall(r"^>>> ", PAGE.read_text(), re.MULTILINE)) > 10
    for example in examples:  # they share their names, so the order counts
        example.evaluate()
