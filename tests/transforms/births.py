"""What the tests of `debug_nans` ask of its messages: which operation a NaN was born in, and on which line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import functad
from functad.errors import NotFiniteError


def message(call: Callable[..., Any], *args: Any, infinities: bool = False) -> str:
    """Return the message that a call raises under `debug_nans`."""
    with functad.debug_nans(infinities=infinities), pytest.raises(NotFiniteError) as raised:
        call(*args)
    return str(raised.value)


def line(file: str, mark: str) -> int:
    """Return the number of the line of a file that carries a mark."""
    rows = Path(file).read_text().splitlines()
    return next(number for number, text in enumerate(rows, 1) if text.endswith(f"# {mark}"))


def assert_born(file: str, text: str, operation: str, mark: str) -> None:
    """Check that a message names the operation in which a NaN was born, and the line of a file that carries a mark."""
    found = re.search(r"was born in (.*?) at ([^ ]*?):(\d+): ", text)
    assert found, text
    assert found[1] == operation, text
    assert Path(found[2]) == Path(file)
    assert int(found[3]) == line(file, mark), text
