"""The page on control flow: its examples run, and print what it says."""

import doctest
import re
from pathlib import Path

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

PAGE = Path(__file__).parents[1] / "notebooks" / "control_flow.md"


def test_code_blocks_print_what_they_say():
    sybil = Sybil(parsers=[PythonCodeBlockParser(doctest_optionflags=doctest.REPORT_NDIFF | doctest.ELLIPSIS)])
    examples = list(sybil.parse(PAGE).examples())
    assert len(examples) == len(re.findall(r"^>>> ", PAGE.read_text(), re.MULTILINE)) > 10
    for example in examples:  # they share their names, so the order counts
        example.evaluate()
