"""The catalogue of errors: every class has a code, and a section of the page that is true."""

from __future__ import annotations

import copy
import doctest
import pickle
import re
import statistics
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functad
from functad import errors

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "notebooks" / "errors.md"
CATALOGUE = errors.catalogue()
HEADING = "## "


def sections() -> dict[str, str]:
    """Return the sections of the page by heading."""
    parts = re.split(rf"^{HEADING}", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return {part.partition("\n")[0].strip(): part.partition("\n")[2] for part in parts}


def skeleton(cls: type[Any]) -> str:
    """Return the text that the section of an error begins with."""
    builtin = next(base for base in cls.__mro__ if base.__module__ == "builtins")
    article = "an" if builtin.__name__[0] in "AEI" else "a"
    return f"{HEADING}{cls.code}\n\n`{cls.__name__}`, {article} `{builtin.__name__}`"


def examples(text: str) -> list[list[doctest.Example]]:
    """Return the examples in each block of code."""
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [doctest.DocTestParser().get_examples(block) for block in blocks]


def run(given: list[doctest.Example], names: dict[str, Any]) -> None:
    """Run the examples of a block, and check what they print."""
    test = doctest.DocTest(given, {}, "errors.md", str(PAGE), 0, None)
    test.globs = names
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=said.append, clear_globs=False)
    assert not runner.failures, "".join(said)


@pytest.fixture
def names():
    with warnings.catch_warnings():
        yield {"np": np, "functad": functad}


# The classes


@pytest.mark.parametrize("cls", CATALOGUE.values(), ids=CATALOGUE)
def test_class_has_its_own_code_and_docstring(cls):
    assert {"code", "__doc__"} <= set(vars(cls))
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", cls.code)
    assert cls.__module__ == "functad.errors"


def test_catalogue_has_every_class():
    found = [v for v in vars(errors).values() if isinstance(v, type) and issubclass(v, (errors.FunctadError, Warning))]
    assert set(found) - {errors.FunctadError} == set(CATALOGUE.values())
    assert len(CATALOGUE) == len(found) - 1


@pytest.mark.parametrize("cls", CATALOGUE.values(), ids=CATALOGUE)
def test_message_ends_with_the_code_also_after_pickling(cls):
    error = cls("What happened.")
    assert str(error) == f"What happened. [{cls.code}]"
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is cls
        assert str(other) == str(error)


# The page


def test_page_has_a_section_for_each_code_and_no_other():
    missing = "\n\n".join(skeleton(cls) for code, cls in CATALOGUE.items() if code not in sections())
    assert set(sections()) == set(CATALOGUE), (
        f"add to {PAGE.name}, with an example that raises it and one that does not:\n{missing}"
    )


@pytest.mark.parametrize("code", CATALOGUE)
def test_section_names_the_class_and_has_a_cause_and_a_cure(code):
    section = f"{HEADING}{code}\n{sections()[code]}"
    assert section.startswith(skeleton(CATALOGUE[code]))
    assert re.search(r"\n\n\*\*Cause\.\*\* .*?\n\n\*\*Cure\.\*\* ", section, re.DOTALL)


def test_beginning_of_the_page_prints_what_it_says(names):
    blocks = examples(PAGE.read_text().partition(f"\n{HEADING}")[0])
    assert blocks
    assert any(example.want for block in blocks for example in block)
    for block in blocks:
        run(block, names)


@pytest.mark.parametrize("code", CATALOGUE)
def test_first_example_raises_the_error_and_the_second_is_the_cure(code, names):
    failing, cured = examples(sections()[code])
    run(failing, names)
    run(cured, names)
    assert [example.exc_msg is not None for example in failing] == [False] * (len(failing) - 1) + [True]
    assert failing[-1].exc_msg.startswith(f"functad.errors.{CATALOGUE[code].__name__}: ")
    assert failing[-1].exc_msg.endswith(f"[{code}]\n")
    assert cured[-1].want
    assert all(example.exc_msg is None for example in cured)


@pytest.mark.parametrize("code", CATALOGUE)
def test_first_example_raises_exactly_this_error(code, names):
    failing, _ = examples(sections()[code])
    *before, last = failing
    for example in before:
        exec(compile(example.source, "<page>", "single"), names)
    with pytest.raises((errors.FunctadError, Warning)) as caught:
        exec(compile(last.source, "<page>", "single"), names)
    assert type(caught.value) is CATALOGUE[code]
    if not issubclass(CATALOGUE[code], AssertionError):  # these come from a call that the user made for the purpose
        assert re.search(r" at (<page>:\d+|an unknown line)|, at ", str(caught.value))


# Whose line is named


def test_line_is_that_of_the_user_even_within_numpy_and_python():
    def f(x: Any) -> Any:
        return statistics.fmean(x)

    with pytest.raises(errors.ConversionError, match=rf"{re.escape(__file__)}:{f.__code__.co_firstlineno + 1}\b"):
        functad.grad(f)(np.ones(3))
