"""The tables on the pages on transforms: they are true."""

import re
from pathlib import Path

import functad
from functad.rules.checkpoint import fewest_steps, first_part

PAGES = Path(__file__).parents[2] / "notebooks"


def test_steps_computed_again_are_those_of_the_table():
    rows = re.findall(r"^\| (\d+) \| (\d+) \| ([\d.]+) \|$", (PAGES / "custom_rules.md").read_text(), re.MULTILINE)
    count = 1000
    assert len(rows) == 4
    for snapshots, held, again in rows:
        last = 0  # the place of the last state that is kept in the first pass
        for free in range(int(snapshots), 1, -1):
            last += first_part(count - last, free)
        assert held == snapshots
        assert f"{(fewest_steps(count, int(snapshots)) - last) / count:.1f}" == again


def test_solvers_of_the_table_are_public():
    rows = re.findall(r"^\| .+? \| `(\w+)\(", (PAGES / "implicit.md").read_text(), re.MULTILINE)
    assert len(rows) == 5
    assert set(rows) <= set(functad.__all__)
