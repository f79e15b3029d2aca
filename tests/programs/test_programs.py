"""Programs of others, unchanged, against central differences, in both modes.

Those whose package is not installed are skipped: `pip install -e '.[programs]'` installs all of them. What a package needs is
held exactly: one that begins to work without its line, or ceases to with it, fails.
"""

from __future__ import annotations

import importlib
import tomllib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functad

from . import catalogue

for path in sorted(Path(__file__).parent.glob("*_programs.py")):
    if path != Path(__file__):
        importlib.import_module(f"{__package__}.{path.stem}")  # which enters its programs

DISTRIBUTIONS = {
    "cirq": "cirq-core",
    "colour": "colour-science",
    "empyrical": "empyrical-reloaded",
    "ot": "POT",
    "skfem": "scikit-fem",
    "skimage": "scikit-image",
    "skrf": "scikit-rf",
    "sklearn": "scikit-learn",
    "spatialmath": "spatialmath-python",
}
"""What packages are installed as, where that is not what they are imported as."""


def _value(out: Any) -> float:
    return float(np.asarray(functad.stop_gradient(out)))


def _differences(f: Any, x: Any) -> Any:
    gradient = np.zeros_like(x)
    for i in range(x.size):
        step = np.zeros_like(x)
        step[i] = 1e-5 * max(1.0, abs(x[i]))
        gradient[i] = (_value(f(x + step)) - _value(f(x - step))) / (2 * step[i])
    return gradient


def _check(f: Any, x: Any, expected: Any) -> None:
    scale = max(1.0, float(np.max(np.abs(expected))))
    np.testing.assert_allclose(functad.grad(f)(x.copy()), expected, rtol=1e-4, atol=1e-6 * scale)
    direction = np.linspace(0.5, 1.5, x.size)
    np.testing.assert_allclose(functad.jvp(f, (x,), (direction,))[1], expected @ direction, rtol=1e-4, atol=1e-6 * scale)


@pytest.mark.parametrize("program", catalogue.PROGRAMS, ids=lambda program: program.name)
def test_program_is_differentiated(program: catalogue.Program) -> None:
    pytest.importorskip(program.package)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        f, x = program.make()
        value, expected = f(x), _differences(f, x)
        assert np.all(np.isfinite(expected))
        if program.lines == 0:
            _check(f, x, expected)
            return
        with pytest.raises((functad.errors.FunctadError, TypeError, ValueError, AttributeError)):
            functad.grad(f)(x.copy())
        with functad.adopt(program.package, *program.besides):
            assert _value(f(x)) == _value(value)
            _check(f, x, expected)


def test_packages_are_many() -> None:
    assert len(catalogue.PROGRAMS) >= 200
    assert len({program.package for program in catalogue.PROGRAMS}) >= 80


def test_packages_are_those_of_the_extra() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    extra = tomllib.loads(text)["project"]["optional-dependencies"]["programs"]
    named = {DISTRIBUTIONS.get(name, name) for program in catalogue.PROGRAMS for name in (program.package,)}
    assert {name.lower().replace("_", "-") for name in named} <= {name.lower().replace("_", "-") for name in extra}


def test_the_table_of_the_page_is_that_of_the_catalogue() -> None:
    assert catalogue.table() in (Path(__file__).parents[2] / "notebooks/other_peoples_code.md").read_text()
