"""How `functad.scipy` is imported, and that rules can be loaded without adopting SciPy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

IMPORTS = {
    "the part": "from functad.scipy import linalg; f = linalg.cholesky; other = linalg.block_diag",
    "the package": "import functad.scipy; f = functad.scipy.linalg.cholesky; other = functad.scipy.linalg.block_diag",
    "the module": "import functad.scipy.linalg as linalg; f = linalg.cholesky; other = linalg.block_diag",
    "names": "from functad.scipy.linalg import block_diag as other, cholesky as f",
}


def _run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()


@pytest.mark.parametrize("how", IMPORTS)
def test_functions_take_tensors_however_they_are_imported(how: str) -> None:
    code = f"""
import functad, numpy as np
{IMPORTS[how]}
print(functad.grad(lambda s: np.sum(f(np.eye(2) * s)))(4.0), functad.grad(lambda s: np.sum(other([[s]], np.eye(2))))(4.0))
"""
    assert _run(code) == "0.5 1.0"


@pytest.mark.parametrize("within", [False, True], ids=["at the top", "in the function"])
def test_a_name_of_a_module_that_is_imported_first_is_adopted(within: bool) -> None:
    names = "from functad.scipy.integrate import solve_ivp; from functad.scipy.interpolate import pchip_interpolate"
    code = f"""
import functad, numpy as np
{names if not within else ""}
def f(x):
    {names if within else "pass"}
    y = solve_ivp(lambda t, y: -y * x[1], (0, 1), [1.0], rtol=1e-8, atol=1e-10).y[0, -1]
    return y + pchip_interpolate(np.arange(3.0), x[[0, 1, 0]], 1.0)
print(np.round(functad.grad(f)(np.array([0.3, 1.0])), 5))
"""
    assert _run(code) == "[0.      0.63212]"


MODULES = ("cluster.vq", "constants", "linalg.blas", "signal.windows", "sparse.linalg", "spatial.transform", "stats.qmc")


def test_modules_within_modules_are_imported_by_their_names() -> None:
    code = f"""
from functad.scipy.spatial.transform import Rotation
from importlib import import_module
import functad, numpy as np
import functad.scipy.signal.windows as windows
print(functad.grad(lambda a: Rotation.from_rotvec(np.stack([0.0, 0.0, a])).apply(np.eye(3))[0, 1])(0.0))
print(functad.grad(lambda s: np.sum(windows.gaussian(3, s)))(1.0) > 0)
for name in {MODULES}:
    ours, original = import_module("functad.scipy." + name), import_module("scipy." + name)
    assert {{public for public in original.__all__ if not hasattr(ours, public)}} == set(), name
    assert ours.__name__ == original.__name__ and ours is not original
for wrong in ("spatial.nothing", "nothing", "linalg.nothing.more"):
    try:
        import_module("functad.scipy." + wrong)
    except ModuleNotFoundError as error:
        print(error)
"""
    lines = _run(code).splitlines()
    assert lines[:2] == ["1.0", "True"]
    assert [line.startswith("No module named 'functad.scipy.") for line in lines[2:]] == [True] * 3


@pytest.mark.parametrize("part", ["stats", "sparse", "optimize"])
def test_a_part_may_be_the_first_that_is_imported(part: str) -> None:
    assert _run(f"from functad.scipy import {part}; print({part}.__name__)") == f"scipy.{part}"


def test_what_scipy_imports_when_it_is_asked_for_stands_in() -> None:
    code = """
from functad.scipy import sparse
import functad, numpy as np
solve = sparse.linalg.spsolve
print(functad.grad(lambda b: np.sum(solve(sparse.diags_array([2.0, 4.0]).tocsc(), b)))(np.ones(2)))
"""
    assert _run(code) == "[0.5  0.25]"


def test_a_block_leaves_scipy_as_it_was() -> None:
    code = """
import scipy.linalg, scipy.linalg._special_matrices as module, numpy as np, statistics, functad
linalg = statistics.linalg = scipy.linalg
before = dict(vars(module))
with functad.adopt("statistics"):
    assert "scipy" in functad.adopted() and module.np is not np
    assert statistics.linalg is not linalg
assert dict(vars(module)) == before and statistics.linalg is linalg is scipy.linalg and functad.adopted() == []
"""
    _run(code)


def test_rules_for_compiled_functions_hold_where_scipy_is_adopted_before_it_is_imported() -> None:
    code = """
import functad, numpy as np
from functad.scipy import interpolate
x = np.arange(4.0)
f = lambda v: np.sum(interpolate.RegularGridInterpolator((x, x), v)([[0.4, 0.5]]))
print(np.sum(functad.grad(f)(np.outer(x, x))))
"""
    assert _run(code) == "1.0"


@pytest.mark.parametrize("method", ["evaluate", "logpdf"])
def test_compiled_functions_that_python_modules_import(method: str) -> None:
    """The module of `gaussian_kde` is adopted before the rule of what it imports is registered."""
    code = f"""
import functad, numpy as np
from functad.scipy import stats
f = lambda x: np.sum(stats.gaussian_kde(np.array([1.0, 2.0, 4.0])).{method}(x))
print(abs(functad.grad(f)(1.3) - (f(1.3 + 1e-6) - f(1.3 - 1e-6)) / 2e-6) < 1e-8)
"""
    assert _run(code) == "True"
