"""The tables on the pages on transforms: they are true."""

import re
from pathlib import Path

import functad

PAGES = Path(__file__).parents[2] / "notebooks"


def test_solvers_of_the_table_are_public():
    rows = re.findall(r"^\| .+? \| `(\w+)\(", (PAGES / "implicit.md").read_text(), re.MULTILINE)
    assert len(rows) == 5
    assert set(rows) <= set(functad.__all__)
