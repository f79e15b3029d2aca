"""The pytest plugin: in this process, by name; and from a wheel, found by its entry point."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TESTS = """
import sys
import numpy as np

def test_functad_is_not_imported_at_the_start():
    assert "functad" not in sys.modules

def test_right(check_grads):
    check_grads(np.sin, [np.ones(3)])
    check_grads(lambda w: np.sum(w["a"] ** 3), [{"a": np.array([1.0, 2.0])}], order=3, modes=["rev"])

def test_wrong(check_grads):
    import functad
    check_grads(lambda w: np.sum(w["a"] * functad.stop_gradient(w["a"])), [{"a": np.array([1.0, 2.0])}])

def test_nothing(check_grads):
    check_grads(np.abs, [np.zeros(2)])
"""


def run_pytest(folder: Path, *options: str, path: Path) -> str:
    (folder / "test_sample.py").write_text(TESTS)
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHON", "COV_"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "test_sample.py"]
    done = subprocess.run(
        command, cwd=folder, env=variables | {"PYTHONPATH": str(path)}, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def check_output(output: str) -> None:
    assert "FAILED test_sample.py::test_wrong" in output
    assert "FAILED test_sample.py::test_nothing" in output
    assert (
        "test_sample.py::test_wrong: the derivative of test_wrong.<lambda> by args[0]['a'][0] (float64[2]) is wrong" in output
    )
    assert "\n    functad gives 1\n    differences 2 (off by" in output
    assert "could be compared" in output
    assert "site-packages/functad" not in output  # no traceback through functad
    assert "gradients.py" not in output


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the contents of the wheel of this tree, which Python sees as an installed distribution."""
    builders = pytest.importorskip("hatchling.builders.wheel", reason="hatchling, which `build` installs, makes the wheel")
    folder = tmp_path_factory.mktemp("wheel")
    made = next(iter(builders.WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])))
    zipfile.ZipFile(made).extractall(folder / "installed")
    return folder / "installed"


def test_wheel_has_the_plugin(wheel):
    assert (wheel / "functad_pytest_plugin.py").exists()
    [entry_points] = wheel.glob("*.dist-info/entry_points.txt")
    assert "[pytest11]\nfunctad = functad_pytest_plugin" in entry_points.read_text()


def test_installed_wheel_gives_the_fixture(wheel, tmp_path):
    output = run_pytest(tmp_path, path=wheel)
    check_output(output)
    assert "2 failed, 2 passed" in output


def test_plugin_by_name(tmp_path):
    output = run_pytest(tmp_path, "-p", "functad.testing.pytest_plugin", "-p", "no:functad", path=ROOT)
    check_output(output)
    assert "3 failed, 1 passed" in output  # by this name the package is imported at the start
