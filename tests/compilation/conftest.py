"""The lists of all programs that these tests compile are checked after each pass, and so are the functions of the loop IR."""

import pytest

from functad.backends.native.module_text import after_each_function
from functad.compilation.passes import after_each_pass
from functad.loops.ir import check


@pytest.fixture(autouse=True)
def programs_are_checked():
    with after_each_pass(lambda _, own: own.check()), after_each_function(check):
        yield
