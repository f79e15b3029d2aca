"""The rows of a displayed tape."""

import pytest

from functad.eager.shown import holdings
from tests.display.test_tapes import recorded


@pytest.mark.parametrize("lists", [False, True])
def test_bytes_are_those_of_stats(lists):
    tape, *_ = recorded(lists=lists)
    assert sum(row.bytes for row in holdings(tape)) == tape.stats()["bytes"] > 0
    assert sum(row.records for row in holdings(tape)) == tape.stats()["records"] == 5
