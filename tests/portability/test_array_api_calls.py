"""SciPy and scikit-learn with their array API switched on: Tensors go through, beside plain arrays.

The calls are listed in `scipy_calls.txt` and `sklearn_calls.txt`, each under what it needs: nothing, or `functad.adopt`. What
is refused raises; nothing loses its derivative. Both modes are compared with central differences.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
WRITTEN_FOR = {"scipy": (1, 17), "sklearn": (1, 9)}
"""Versions that have the array API in what is listed; of others it is only asked that nothing is wrong."""

AS_IT_IS, ADOPTED, NOT_ADOPTED, REFUSED = "as it is", "adopted", "as it is, but not adopted", "refused"


def tables(library: str) -> dict[str, list[str]]:
    """Return the calls of a library by what they need."""
    found: dict[str, list[str]] = {}
    for line in (Path(__file__).parent / f"{library}_calls.txt").read_text().splitlines()[1:]:
        if line.startswith("["):
            found[line[1:-1]] = calls = []
        elif line:
            calls.append(line)
    return found


@pytest.mark.parametrize("library", WRITTEN_FOR)
def test_tensors_go_through(library):
    module = pytest.importorskip(library)
    command = [sys.executable, str(Path(__file__).with_name("array_api_calls.py")), library]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    as_they_are, adopted = json.loads(done.stdout)
    for outcomes in (as_they_are, adopted):
        assert not {call: found for call, found in outcomes.items() if found.startswith("wrong")}
    for package, version in ((np, (2, 1)), (module, WRITTEN_FOR[library])):
        if tuple(map(int, package.__version__.split(".")[:2])) < version:
            pytest.skip(f"{package.__name__} {package.__version__} has the array API in less than is listed")
    for outcomes, other in ((as_they_are, NOT_ADOPTED), (adopted, ADOPTED)):
        wanted = {call for name, calls in tables(library).items() if name in (AS_IT_IS, other) for call in calls}
        assert {call: outcomes[call] for call in wanted if outcomes[call] != "works"} == {}


def environment() -> dict[str, str]:
    """Return the environment of a process that finds this functad, with SciPy's array API switched on."""
    return os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "SCIPY_ARRAY_API": "1"}


@pytest.mark.parametrize("library", WRITTEN_FOR)
def test_no_call_is_listed_twice(library):
    calls = [call for listed in tables(library).values() for call in listed]
    assert len(calls) == len(set(calls))
    assert set(tables(library)) == {AS_IT_IS, ADOPTED, NOT_ADOPTED, REFUSED}


COPIES = [
    "array_api_compat",
    "scipy._lib.array_api_compat",
    "scipy._external.array_api_compat",  # since SciPy 1.18
    "sklearn.externals.array_api_compat",
]


@pytest.mark.parametrize("name", COPIES)
def test_every_copy_of_array_api_compat_has_one_namespace_for_tensors_and_arrays(name):
    helpers = pytest.importorskip(f"{name}.common._helpers")
    if not hasattr(helpers, "_cls_to_namespace"):
        pytest.skip("a copy of array-api-compat before 1.13")
    code = f"""
import numpy as np, functad, functad.numpy, {name} as compat

def f(t):
    p = np.ones(2)
    for given in ((t,), (t, p), (p, t), (t, 1.0), (np.float64(2.0), t), (p, p, t, p)):
        for use_compat in (None, False):
            assert compat.array_namespace(*given, use_compat=use_compat) is functad.numpy
    assert compat.array_namespace(p).__name__ == "{name}.numpy"
    assert compat.is_array_api_obj(t) and compat.device(t) == "cpu" and compat.size(t) == 2
    xp = compat.array_namespace(t, p)
    out = xp.asarray(t) * xp.asarray(p) + xp.sum(xp.concat([t, p])) + xp.asarray([t[0], 1.0])
    with functad.adopt("{name}"):
        xp = compat.array_namespace(p, t)
        out = out + xp.asarray(t) * xp.asarray(p)
        assert compat.array_namespace(t, use_compat=False) is functad.numpy
    return np.sum(out)

assert functad.grad(f)(np.ones(2)).tolist() == [5.0, 4.0]
try:
    functad.grad(lambda t: compat.array_namespace(t, api_version="1900.01") and t)(1.0)
except ValueError as error:
    assert "1900.01" in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env=environment())
