"""The lists of all programs that these tests compile are checked after each pass."""

import pytest

from functad.compilation.passes import after_each_pass


@pytest.fixture(autouse=True)
def lists_are_checked():
    with after_each_pass(lambda _, own: own.check()):
        yield
