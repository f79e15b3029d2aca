"""The table of all places that raise `AbstractValueError`, on the page for contributors: what `jit` does there."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functad
from functad import errors

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "notebooks" / "contributing.md"


def raising(path: Path) -> set[str]:
    """Return the names of the functions of a file that make an `AbstractValueError`."""
    found = set()

    def visit(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = name
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                inner = f"{name}.{child.name}" if name else child.name
            if isinstance(child, ast.Call) and getattr(child.func, "id", "") == "AbstractValueError":
                found.add(f"{path.relative_to(ROOT).with_suffix('').as_posix().replace('/', '.')}.{name}")
            visit(child, inner)

    visit(ast.parse(path.read_text()), "")
    return found


def test_every_place_that_raises_has_a_row() -> None:
    rows = re.findall(r"^\| `(functad\.[\w.]+)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    places = set().union(*[raising(path) for path in (ROOT / "functad").rglob("*.py")])
    assert {name for name, _ in rows} == places
    assert all(text.startswith(("guarded", "raises")) for _, text in rows)


SLOPES: dict[str, Any] = {
    "guarded: truth values": lambda x: x if x[0] > 0 else -x,
    "guarded: integers": lambda x: x * int(np.argmax(x)),
    "guarded: sizes": lambda x: np.cumsum(x[x > 0]),
    "guarded: slices": lambda x: x[np.argmax(x) :],
    "guarded: lengths": lambda x: np.zeros(np.count_nonzero(x > 0)) + x[0],
    "raises: floats": lambda x: x * float(x[0]),
    "raises: arrays of floats": lambda x: np.unique(x),
    "raises: roots": lambda x: np.roots(x),
}


@pytest.mark.parametrize("name", SLOPES)
def test_examples_of_the_table(name: str) -> None:
    f, x = SLOPES[name], np.array([1.0, 2.0, -1.0])
    compiled = functad.jit(f)
    if name.startswith("guarded"):
        np.testing.assert_allclose(compiled(x), f(x))
        assert compiled.cache_info().paths
    else:
        with pytest.raises(errors.AbstractValueError, match="test_unguarded"):
            compiled(x)


def test_places_within_batches_and_bodies_raise() -> None:
    inner = functad.jit(lambda x: x if x > 0 else -x)
    for f in (lambda x: functad.vmap(inner)(x), lambda x: functad.scan(lambda c, v: (inner(c), v), x[0], x)[0]):
        with pytest.raises(errors.AbstractValueError):
            functad.jit(f)(np.ones(2))
    variable = functad.Variable(1.0)
    with pytest.raises(errors.AbstractValueError):
        functad.vmap(lambda x: variable.assign(x))(np.ones(2))
