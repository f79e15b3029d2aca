"""The page on sparse derivatives: its code prints what it says."""

import doctest
import re
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

PAGE = Path(__file__).parents[1] / "notebooks" / "sparse.md"


@pytest.mark.filterwarnings("ignore::functad.errors.LoopWarning")  # the page is about other things
def test_code_blocks_print_what_they_say():
    pytest.importorskip("scipy.sparse", reason="the page shows SciPy's matrices")
    options = doctest.REPORT_NDIFF | doctest.ELLIPSIS
    sybil = Sybil(parsers=[PythonCodeBlockParser(doctest_optionflags=options)])
    examples = list(sybil.parse(PAGE).examples())
    assert len(examples) == len(re.findall(r"^>>> ", PAGE.read_text(), re.MULTILINE)) > 0
    for example in examples:  # they share their names, so the order counts
        example.evaluate()
