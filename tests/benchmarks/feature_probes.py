"""What other libraries can do: small programs that check each answer in the table of features.

`feature_probes_jax.py` and its neighbours hold one function for each row of the table, named by the row's key. It states an
answer in its decorator and proves it: for *yes* and *partly* by running the feature and comparing numbers, for *no* by what
comes of the attempt. Where there is no public name for a thing, its key stands in the table at the end of the file. To run
those of one library, with an interpreter that has it, from a checkout:

    python -m tests.benchmarks.feature_probes_jax

This writes the answers, if all of them held, to `features/jax.json` with the library's version; `feature_table.py` makes the
table from these.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

ANSWERS = Path(__file__).with_name("features")
YES, PARTLY, NO = "yes", "partly", "no"


class Probes:
    """The probes of one library.

    Args:
        library: the name of its file of answers.
        package: the distribution whose version is noted.
    """

    def __init__(self, library: str, package: str) -> None:
        self.library, self.package = library, package
        self.found: dict[str, tuple[str, str, Callable[[], object]]] = {}

    def __call__(self, answer: str, note: str = "") -> Callable[[Callable[[], object]], Callable[[], object]]:
        """Return a decorator that enters a function as the proof of an answer; anything but *yes* needs a note."""
        assert answer in (YES, PARTLY, NO)
        assert answer == YES or note

        def enter(function: Callable[[], object]) -> Callable[[], object]:
            assert function.__name__ not in self.found, function.__name__
            self.found[function.__name__] = (answer, note, function)
            return function

        return enter

    def absent(self, spaces: tuple[ModuleType | type, ...], rows: dict[str, tuple[str, str]]) -> None:
        """Enter *no* for several keys, with a note, and words that must not occur in any public name of these modules."""
        for name, (note, words) in rows.items():
            assert name not in self.found, name
            self.found[name] = (NO, note, partial(nothing_named, *words.split(), among=spaces))

    def main(self) -> None:
        """Run all probes; write the answers if every one of them held."""
        wrong = 0
        for name, (_, _, function) in self.found.items():
            try:
                function()
            except Exception:  # noqa: BLE001 - whatever a library raises, the answer did not hold
                wrong += 1
                print(f"--- {name}\n{traceback.format_exc(limit=-3)}", file=sys.stderr)
        if wrong:
            raise SystemExit(f"{wrong} of {len(self.found)} answers did not hold: nothing was written")
        answers = {name: {"answer": answer, "note": note} for name, (answer, note, _) in sorted(self.found.items())}
        content = {"version": importlib.metadata.version(self.package).split("+")[0], "answers": answers}
        ANSWERS.mkdir(exist_ok=True)
        (ANSWERS / f"{self.library}.json").write_text(json.dumps(content, indent=1) + "\n")
        print(f"{len(answers)} answers held")


OVERSIGHTS = (AssertionError, AttributeError, ImportError, NameError, SyntaxError)


@contextmanager
def refused(*kinds: type[BaseException], saying: str = "") -> Iterator[None]:
    """Assert that the body raises one of these exceptions (by default any that is no oversight of ours), with a text in it."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, kinds or Exception) or (not kinds and isinstance(error, OVERSIGHTS)):
            raise
        if saying.lower() not in str(error).lower():
            raise AssertionError(f"it was refused otherwise: {error}") from error
    else:
        raise AssertionError("it was not refused")


def nothing_named(*words: str, among: tuple[ModuleType | type, ...]) -> None:
    """Assert that no public name of these modules contains any of the words."""
    for space in among:
        names = [name for name in dir(space) if not name.startswith("_")]
        found = [name for name in names for word in words if word in name.lower()]
        assert not found, f"{space.__name__} has {found}"


def has_parameter(function: Callable[..., Any], name: str) -> bool:
    """Return whether a function's signature has a parameter."""
    import inspect

    return name in inspect.signature(function).parameters


def close(found: Any, expected: Any, rtol: float = 1e-6) -> None:
    """Assert that numbers agree."""
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=rtol, atol=1e-7)


def requirements(package: str) -> set[str]:
    """Return the names of the distributions that one requires without extras."""
    import re

    lines = importlib.metadata.requires(package) or []
    return {re.split(r"[^\w.-]", line)[0].lower().replace("_", "-") for line in lines if "extra ==" not in line}


def compiled_files(package: str) -> list[str]:
    """Return the machine code that a distribution brings."""
    return [str(file) for file in importlib.metadata.files(package) or [] if file.suffix in (".so", ".pyd", ".dylib")]
