"""The table of features: every tick of functad has a test, every other answer a probe, and the page says the same."""

import ast
import re
import subprocess
import sys

import pytest

from tests.benchmarks.feature_probes import NO, YES
from tests.benchmarks.feature_table import LIBRARIES, MARKS, PAGE, ROOT, ROWS, answers, page, table

TESTS = sorted({test for row in ROWS for test in row.tests.split()})


def _probes(library):
    """Return answer and note of each probe in a script, without importing it (or its library)."""
    tree = ast.parse((ROOT / "tests" / "benchmarks" / f"feature_probes_{library}.py").read_text())
    constants = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Constant)
    }

    def text(node):
        return constants[node.id] if isinstance(node, ast.Name) else node.value

    found = {}
    for node in tree.body:
        for decorator in getattr(node, "decorator_list", []):
            if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", None) == "probe":
                answer, *notes = decorator.args
                found[node.name] = {"answer": answer.id.lower(), "note": text(notes[0]) if notes else ""}
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "probe.absent":
            rows = node.value.args[1]
            for key, row in zip(rows.keys, rows.values, strict=True):
                found[key.value] = {"answer": NO, "note": text(row.elts[0])}
    return found


def test_page_is_up_to_date():
    assert PAGE.read_text() == page(), "write it anew: python -m tests.benchmarks.feature_table"


def test_every_line_is_a_row_with_as_many_cells():
    lines = [line for line in table().splitlines() if line.startswith("| ")][1:]
    assert len(lines) == len(ROWS) == len({row.key for row in ROWS}) == len({row.text for row in ROWS})
    for line, row in zip(lines, ROWS, strict=True):
        text, own, *others = line.strip("| ").split(" | ")
        assert (text, own) == (row.text, MARKS[row.answer])
        assert len(others) == len(LIBRARIES)
        assert set(others) <= set(MARKS.values())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
def test_tick_names_a_test_and_no_tick_a_reason(row):
    assert row.tests if row.answer == YES else row.note
    assert bool(row.tests) == (row.answer != NO)


@pytest.mark.parametrize("library", LIBRARIES)
def test_answers_are_those_of_the_probes(library):
    """The probes need their library, so they run beside the benchmarks; what is stored here is what they last proved."""
    stored = answers()[library]
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", stored["version"])
    assert stored["answers"] == _probes(library), f"run python -m tests.benchmarks.feature_probes_{library}"
    assert set(stored["answers"]) == {row.key for row in ROWS}
    assert all(answer["note"] for answer in stored["answers"].values() if answer["answer"] != YES)


@pytest.mark.parametrize("test", TESTS)
def test_named_test_exists_and_is_not_skipped(test):
    file, *names = test.split("::")
    place = ast.parse((ROOT / "tests" / file).read_text())
    for name in names:  # perhaps a class, then a function
        (place,) = [node for node in place.body if getattr(node, "name", None) == name]
        assert not [mark for mark in place.decorator_list if "skip" in ast.unparse(mark) or "xfail" in ast.unparse(mark)]
    assert isinstance(place, ast.FunctionDef)


@pytest.mark.slow
def test_named_tests_are_collected(request):
    collected = {item.nodeid for item in request.session.items}
    collected |= {name.partition("[")[0] for name in collected}
    names = [name for name in (f"tests/{test}" for test in TESTS) if name not in collected]
    if not names:  # as where the whole suite runs
        return
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *names]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    for name in names:
        assert name in found.stdout
