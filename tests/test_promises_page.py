"""The page on promises: each names tests, and these exist; `test_pages.py` runs its examples."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "notebooks" / "promises.md").read_text()
PROMISES = re.findall(r"^\*\*.*?(?=^\*\*|^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`([\w/]*test_\w+\.py)(?:::(\w+))?`")


def test_there_are_promises():
    assert len(PROMISES) > 15


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.split("**")[1])
def test_every_promise_names_tests_that_exist(promise):
    named = NAMED.findall(promise)
    assert named
    for file, function in named:
        text = (TESTS / file).read_text()
        assert not function or re.search(rf"^def {function}\(", text, re.MULTILINE), function
