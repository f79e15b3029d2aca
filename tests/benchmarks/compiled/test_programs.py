"""The programs of the comparison of compiled functions: eager, compiled by each backend and by hand they agree."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import functad
from tests.benchmarks.compare import difference
from tests.benchmarks.programs import leaves

from .rows import ROWS, Row
from .with_functad import backends

DIFFERENT = {(row.program, repr({**row.sizes, **row.small})): row for row in ROWS.values()}
"""Rows that differ by their size alone are one when they are small."""

each_row = pytest.mark.parametrize("row", DIFFERENT.values(), ids=lambda row: row.name)


def program(folder: str, row: Row) -> Any:
    module, name = row.program.split(".")
    return import_module(f"tests.benchmarks.compiled.{folder}.{module}").PROGRAMS[name]


def arrays(tree: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(leaf) for leaf in leaves(tree)]


@each_row
def test_eager_agrees_with_what_is_written_by_hand(row: Row) -> None:
    arguments = row.made(small=True)
    found, expected = [arrays(program(folder, row)(*arguments)) for folder in ("with_functad", "by_hand")]
    assert difference(expected, found) <= row.rtol


@pytest.mark.parametrize("backend", backends())
@each_row
def test_compiled_agrees_with_what_is_written_by_hand(row: Row, backend: str) -> None:
    arguments = row.made(small=True)
    lengths = tuple(i for i, a in enumerate(arguments) if type(a) is int)
    compiled = functad.jit(program("with_functad", row), static_argnums=lengths, backend=backend)
    expected = arrays(program("by_hand", row)(*arguments))
    assert difference(expected, arrays(compiled(*arguments))) <= row.rtol
