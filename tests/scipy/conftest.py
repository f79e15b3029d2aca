"""SciPy is adopted while the tests of a file run, as it is for good in a program that takes a name from `functad.scipy`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import functad


@pytest.fixture(autouse=True, scope="module")
def adopted_scipy() -> Iterator[None]:
    """Adopt SciPy for the tests of a file."""
    with functad.adopt("scipy"):
        yield
