"""Places of the user's code in messages."""

import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functad
from functad import errors, places
from functad.places import name_of


def test_names_of_functions_in_functions():
    make = lambda: lambda x: x  # noqa: E731

    assert name_of(make()) == "test_names_of_functions_in_functions.<lambda>"


def user_line(call: Any) -> str:
    """Return the line that `here` names when something calls back into functad."""
    found: list[str] = []
    call(lambda *args: found.append(places.here()) or 1.0)
    return found[0]


@pytest.mark.parametrize(
    "through",
    [
        lambda note: np.vectorize(note)(np.ones(1)),
        lambda note: np.apply_along_axis(note, 0, np.ones(2)),
        lambda note: np.fromfunction(note, (2,)),
        lambda note: np.piecewise(np.ones(1), [True], [note]),
        lambda note: list(map(note, [1.0])),
        lambda note: sorted([1.0], key=note),
    ],
)
def test_callback_is_code_of_the_user(through):
    assert user_line(through) == f"{__file__}:{user_line.__code__.co_firstlineno + 3}"


def test_installed_packages_are_code_of_the_user(tmp_path):
    standard = Path(statistics.__file__).parent
    assert places._looks_internal(statistics.__file__)
    assert places._looks_internal(np.__file__)
    assert places._looks_internal(functad.__file__)
    assert not places._looks_internal(str(standard / "site-packages" / "somebody" / "model.py"))
    assert not places._looks_internal(pytest.__file__)
    assert not places._looks_internal(str(tmp_path / "model.py"))
    assert not places._looks_internal(functad.__file__.replace("__init__", "tour"))


def test_expression_that_runs_is_known():
    def ask(*args: Any) -> str:
        return running.__globals__["errors"].running()

    def running() -> Any:
        return [places.running(), 1 + len(places.running())]

    assert running() == ["places.running()", 17]
    source = "value = ask(\n    1,\n)"
    names = {"ask": lambda *args: places.running(), "__name__": "no_source"}
    exec(compile(source, "<nowhere>", "exec"), names)
    assert "places.running()" in names["value"]  # the lambda stands in this file


def test_line_of_a_warning_is_that_of_the_user():
    with pytest.warns(errors.UnconnectedWarning) as caught:
        places.warn(errors.UnconnectedWarning("Nothing."))
    assert (caught[0].filename, caught[0].lineno) == (__file__, sys._getframe().f_lineno - 1)
