"""The page on `vmap`: its examples run."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "notebooks" / "vmap.md"


def test_examples_of_the_page():
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert failed == 0
    assert tried >= 10
