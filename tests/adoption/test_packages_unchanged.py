"""Tests that packages carry give the same results before and inside `adopt`, with the tests themselves adopted too."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import pytest

PACKAGES = {
    "transforms3d": "transforms3d.tests.test_affines transforms3d.tests.test_axangles transforms3d.tests.test_zooms_shears",
    "pymap3d": "pymap3d.tests.test_aer pymap3d.tests.test_eci pymap3d.tests.test_enu pymap3d.tests.test_geodetic",
    "opt_einsum": "opt_einsum.tests.test_blas opt_einsum.tests.test_input opt_einsum.tests.test_paths",
    "einops": "einops.tests.test_parsing",
    "networkx": "networkx.linalg",
}
"""By package the tests in its wheel that run: those that need no network and no further package, and take few seconds."""

if os.environ.get("FUNCTAD_EVERY_ENTRY"):  # these take two minutes
    PACKAGES |= {
        "transforms3d": "transforms3d",
        "pymap3d": "pymap3d.tests",
        "statsmodels": "statsmodels.tools.tests.test_numdiff",
        "xarray": "xarray.tests.test_computation",
    }

RUN = """
import importlib, random, sys, functad, numpy, pytest

unseeded = numpy.random.default_rng
numpy.random.default_rng = lambda seed=None: unseeded(0 if seed is None else seed)  # some tests fail for some numbers

class Outcomes:
    def __init__(self):
        self.found = {}

    def pytest_collection_modifyitems(self, items):
        # It draws numbers without a seed, and fails for some of them.
        items[:] = [item for item in items if item.name != "test_aff2sadn"]

    def pytest_runtest_setup(self, item):
        random.seed(0)
        numpy.random.seed(0)

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            self.found[report.nodeid, report.when] = report.outcome

package, tests, adopts = sys.argv[1:]
outcomes = Outcomes()
arguments = ["--pyargs", *tests.split(), "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "-W", "ignore"]
arguments.append("--import-mode=importlib")
module = importlib.import_module(package)
if adopts == "adopted":
    adoption = functad.adopt(package)  # modules imported later, such as the tests, are adopted too
    assert package in functad.adopted()
pytest.main(arguments, plugins=[outcomes])
print("OUTCOMES", sorted(outcomes.found.items()))
"""


def _outcomes(package: str, tests: str, adopts: str) -> list[tuple[tuple[str, str], str]]:
    # Options for this run, such as those of pytest-xdist, are no options of a run without plugins.
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "0",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "",
        "MPLBACKEND": "Agg",
    }
    done = subprocess.run(
        [sys.executable, "-c", RUN, package, tests, adopts], capture_output=True, text=True, check=False, env=environment
    )
    found = [line for line in done.stdout.splitlines() if line.startswith("OUTCOMES ")]
    assert found, done.stdout[-2000:] + done.stderr[-2000:]
    return eval(found[-1].removeprefix("OUTCOMES "))  # type: ignore[no-any-return]


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_tests_of_a_package_give_the_same_inside_adopt(package: str) -> None:
    pytest.importorskip(package, reason="the extra `test` installs it")
    importlib.import_module("functad")
    before = _outcomes(package, PACKAGES[package], "plain")
    assert sum(outcome == "passed" for _, outcome in before) >= 4
    assert _outcomes(package, PACKAGES[package], "adopted") == before
