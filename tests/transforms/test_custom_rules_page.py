"""The page on rules of one's own and on checkpoints: its code prints what it says, and its table of steps is true."""

import doctest
import re
from pathlib import Path

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

from functad.transforms.checkpoint_sequence import fewest_steps, first_part

PAGE = Path(__file__).parents[2] / "notebooks" / "custom_rules.md"
N = 1000


def test_code_prints_what_it_says():
    sybil = Sybil(parsers=[PythonCodeBlockParser(doctest_optionflags=doctest.REPORT_NDIFF | doctest.ELLIPSIS)])
    examples = list(sybil.parse(PAGE).examples())
    assert len(examples) == len(re.findall(r"^>>> ", PAGE.read_text(), re.MULTILINE)) > 0
    for example in examples:  # they share their names, so the order counts
        example.evaluate()


def test_steps_computed_again_are_those_of_the_table():
    rows = re.findall(r"^\| (\d+) \| (\d+) \| ([\d.]+) \|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == 3
    for snapshots, held, again in rows:
        last = 0  # the place of the last state that is kept in the first pass
        for free in range(int(snapshots), 1, -1):
            last += first_part(N - last, free)
        assert held == snapshots
        assert f"{(fewest_steps(N, int(snapshots)) - last) / N:.1f}" == again
